"""How tabletop_vla's weights are made: demonstrations from the built-in world, flow matching, and DAgger."""
