"""tabletop_vla: a small trained vision-language-action policy for the tabletop arm. Its declaration is in
tabletop_vla_spec.py, its network in tabletop_vla_net.py, its training in flashrt_ros/train/."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Mapping

import numpy as np
import torch
from safetensors.torch import load_file

from flashrt_ros.contract.schema import PolicyChoice
from flashrt_ros.policies import PolicyChoiceError, tabletop_vla_spec
from flashrt_ros.policies.base import Policy, TaskError
from flashrt_ros.policies.instruction import InstructionError
from flashrt_ros.policies.tabletop_vla_net import TabletopVLA
from flashrt_ros.policies.tabletop_vla_words import encode


class TabletopVLAPolicy(Policy):
    def __init__(self, choice: PolicyChoice, device: str = "cpu") -> None:
        self.spec = tabletop_vla_spec.spec(choice)
        path = tabletop_vla_spec.weights_file(choice)
        self._net = load_net(path).to(device)
        self._digest = sha256(path.read_bytes()).hexdigest()

    def run(self, stage: str, reads: Mapping[str, torch.Tensor], writes: Mapping[str, torch.Tensor]) -> None:
        net = self._net
        if stage == "vision":
            scene, wrist = net.features(torch.stack([reads["scene"], reads["wrist"]]))[:, None]
            writes["vision_tokens"].copy_(net.tokens(scene, wrist, reads["joints"][None])[0])
        elif stage == "prefix":
            writes["prefix_kv"].copy_(net.prefix(reads["vision_tokens"][None], reads["task"][None])[0][0])
        else:
            given = (reads[name][None] for name in ("prefix_kv", "joints", "vision_age", "noise"))
            writes["chunk"].copy_(net.chunk(*given)[0])

    def encode_text(self, text: str) -> np.ndarray:
        """int32 [8], see tabletop_vla_words. Raises TaskError for a text that is no instruction."""
        try:
            return encode(text)
        except InstructionError as error:
            raise TaskError(str(error)) from error

    def weights_digest(self) -> str:
        return self._digest


def load(choice: PolicyChoice, device: str = "cpu") -> TabletopVLAPolicy:
    """The policy that a contract chose. Raises PolicyChoiceError."""
    return TabletopVLAPolicy(choice, device)


def load_net(path: Path) -> TabletopVLA:
    """The network in float32, in evaluation mode. Raises PolicyChoiceError for weights that do not fit it."""
    net = TabletopVLA()
    try:
        net.load_state_dict({name: tensor.float() for name, tensor in load_file(path).items()})
    except RuntimeError as error:
        raise PolicyChoiceError(f"policy.checkpoint {path} does not fit tabletop_vla: {str(error).splitlines()[1].strip()}") from error
    return net.eval().requires_grad_(False)
