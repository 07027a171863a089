"""The layers of which VLA policies are made, batch first: tabletop_vla and pi0.5 share them. torch only."""
