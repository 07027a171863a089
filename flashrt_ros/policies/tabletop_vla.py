"""tabletop_vla: a small trained vision-language-action policy for the tabletop arm. Its declaration is in
tabletop_vla_spec.py, its network in tabletop_vla_net.py, its training in flashrt_ros/train/."""

from __future__ import annotations

import warnings
from hashlib import sha256
from pathlib import Path
from typing import Callable, Mapping

import numpy as np
import torch
from safetensors.torch import load_file

from flashrt_ros.contract.schema import FUTURE_STATE, GUIDED, PolicyChoice
from flashrt_ros.policies import PolicyChoiceError, tabletop_vla_spec
from flashrt_ros.policies.base import Policy, TaskError
from flashrt_ros.policies.instruction import InstructionError
from flashrt_ros.policies.tabletop_vla_net import TabletopVLA
from flashrt_ros.policies.tabletop_vla_words import encode


class TabletopVLAPolicy(Policy):
    """On a CPU its stages are traced: a few thousand small operations are then one call that holds no interpreter lock. As
    eager code they would take the lock again after each, and wait for it whenever a callback is running (in the demo on
    2 cores: 89 ms a decision, instead of 60 ms). The operations stay the same, and so do the bits. Candidates of one decision are
    a batch, whose trace is made when it first runs, in warm-up."""

    batches_forks = True

    def __init__(self, choice: PolicyChoice, device: str = "cpu") -> None:
        self.spec = tabletop_vla_spec.spec(choice)
        path = tabletop_vla_spec.weights_file(choice)
        self._reads = {stage.name: stage.reads for stage in self.spec.stages}
        self._stages = _stages(load_net(path).to(device), choice.continues, self._reads["action"].index("noise"))
        self._batches: dict[int, Callable[..., torch.Tensor]] = {}  # the action stage for so many candidates
        on_cpu = torch.device(device).type == "cpu"
        self._traces_action = on_cpu and choice.continues != GUIDED
        if choice.continues == GUIDED:
            self._stages["action"] = _with_gradients(self._stages["action"])
        self._action = self._stages["action"]
        for name, reads in self._reads.items():
            if self._traces_action if name == "action" else on_cpu:
                self._stages[name] = _traced(self._stages[name], self._examples(reads))
        self._digest = sha256(path.read_bytes()).hexdigest()

    def run(self, stage: str, reads: Mapping[str, torch.Tensor], writes: Mapping[str, torch.Tensor]) -> None:
        (out,) = writes.values()
        run = self._stages[stage] if stage != "action" or out.ndim == 2 else self._batch(len(out))
        out.copy_(run(*(reads[name] for name in self._reads[stage])))

    def _batch(self, forks: int) -> Callable[..., torch.Tensor]:
        if forks not in self._batches:
            examples = self._examples(self._reads["action"], forks)
            self._batches[forks] = _traced(self._action, examples) if self._traces_action else self._action
        return self._batches[forks]

    def _examples(self, reads: tuple[str, ...], forks: int = 0) -> tuple[torch.Tensor, ...]:
        """Zeros for these reads; with forks, of that many candidates."""
        specs = [self.spec.by_name[name] for name in reads]
        return tuple(torch.zeros((forks, *s.shape) if forks and s.name == self.spec.noise else s.shape, dtype=getattr(torch, s.dtype))
                     for s in specs)

    def encode_text(self, text: str) -> np.ndarray:
        """int32 [8], see tabletop_vla_words. Raises TaskError for a text that is no instruction."""
        try:
            return encode(text)
        except InstructionError as error:
            raise TaskError(str(error)) from error

    def weights_digest(self) -> str:
        return self._digest


def _stages(net: TabletopVLA, continues: str, noise: int) -> dict[str, Callable[..., torch.Tensor]]:
    """The stages over tensors without a batch axis, in the order in which the declaration reads them; but the action's noise, its
    read of that index, may have one."""

    def vision(scene: torch.Tensor, wrist: torch.Tensor, joints: torch.Tensor) -> torch.Tensor:
        seen = net.features(torch.stack([scene, wrist]))
        return net.tokens(seen[:1], seen[1:], joints[None])[0]

    def prefix(tokens: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        return net.prefix(tokens[None], words[None])[0][0]

    def action(*given: torch.Tensor) -> torch.Tensor:
        chunk = net.chunk_ahead if continues == FUTURE_STATE else net.chunk
        if given[noise].ndim == 2:
            return chunk(*(tensor[None] for tensor in given))[0]
        return chunk(*(t if i == noise else t.expand(len(given[noise]), *t.shape) for i, t in enumerate(given)))

    return {"vision": vision, "prefix": prefix, "action": action}


def _with_gradients(stage: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """For the guided action: inference tensors take no part in gradients, so it gets copies. A trace would hold none."""

    def run(*given: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode(False), torch.no_grad():
            return stage(*(tensor.clone() for tensor in given))

    return run


def _traced(stage: Callable[..., torch.Tensor], examples: tuple[torch.Tensor, ...]) -> Callable[..., torch.Tensor]:
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # shapes are fixed here, which is what the tracer warns about
        return torch.jit.trace(stage, examples, check_trace=False)


def load(choice: PolicyChoice, device: str = "cpu") -> TabletopVLAPolicy:
    """The policy that a contract chose. Raises PolicyChoiceError."""
    return TabletopVLAPolicy(choice, device)


def load_net(path: Path) -> TabletopVLA:
    """The network in float32, in evaluation mode. Raises PolicyChoiceError for weights that do not fit it."""
    net, found = TabletopVLA(), load_file(path)
    wanted = net.state_dict()
    for name in sorted(wanted.keys() | found.keys()):
        shape, fits = (tuple(tensors[name].shape) if name in tensors else "absent" for tensors in (found, wanted))
        if shape != fits:
            raise PolicyChoiceError(f"policy.checkpoint {path} does not fit tabletop_vla: tensor {name} is {shape}, and should be {fits}; "
                                    "give weights that `flashrt train tabletop_vla` of this version wrote")
    net.load_state_dict({name: tensor.float() for name, tensor in found.items()})
    return net.eval().requires_grad_(False)
