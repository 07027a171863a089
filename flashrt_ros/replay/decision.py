"""`flashrt replay --capsule FILE`: make a decision again that a guard stopped, from the file alone, and say whether it comes out the same.

The contract is in the file; the weights are loaded as it says, and must be those that were used.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from flashrt_ros.capsule.assembly import assemble
from flashrt_ros.capsule.checks import FILE, CapsuleRefused
from flashrt_ros.capsule.evidence import Evidence
from flashrt_ros.capsule.file import load as load_file
from flashrt_ros.capsule.record import Digests
from flashrt_ros.capsule.stored import Stored, restore
from flashrt_ros.contract.load import load, loads
from flashrt_ros.contract.pipeline import Stage
from flashrt_ros.engine.decision import Decision, EngineError
from flashrt_ros.engine.engine import Engine

SAME, OTHER, BROKEN = 0, 2, 1  # exit codes: equal; different elsewhere; different where it must be equal


@dataclass(frozen=True, slots=True)
class Verdict:
    """code: one of SAME, OTHER, BROKEN. text: one line for a person."""

    code: int
    text: str


def replay(path: Path, device: str = "", contract: Path | None = None) -> Verdict:
    """device: another one than the recorded. contract: a file in place of the recorded text. Raises CapsuleRefused for a file that is damaged,
    holds no evidence, or belongs to other weights or another contract."""
    stored, evidence = load_file(path)
    if evidence is None:
        raise CapsuleRefused(FILE, f"{path}: it holds a capsule but no decision to make again: that is what a black box writes on a trip")
    engine, here = engine_of(stored, evidence, device, contract)
    try:
        return repeat(stored, evidence, engine, here)
    finally:
        engine.close()


def engine_of(stored: Stored, evidence: Evidence, device: str = "", contract: Path | None = None) -> tuple[Engine, Digests]:
    """A synchronous engine as the recorded one was, and what it is; the caller closes it. device, contract: see replay. Raises ContractError."""
    setup = evidence.setup
    loaded = load(contract) if contract is not None else loads(setup.contract, "the recorded contract", setup.overrides)
    where = device or setup.device
    if not device and where.startswith("cuda") and not torch.cuda.is_available():
        where = "cpu"
    return assemble(loaded, where, setup.threads, stage_ms=stored.record.stage_ms)


def repeat(stored: Stored, evidence: Evidence, engine: Engine, here: Digests) -> Verdict:
    """Make the decision again on a synchronous engine of the same pipeline. Raises CapsuleRefused for a capsule of another, and EngineError
    for an observation that does not fit."""
    restore(stored, engine, here, live=False, other_engine=True)
    try:
        decision = engine.decide(evidence.observation, withheld=evidence.withheld, fresh=evidence.fresh)
    except EngineError as error:
        if error.stage is None:
            raise
        return _verdict(stored, evidence, here, None, str(error), engine)
    return _verdict(stored, evidence, here, decision, decision.refused or "", engine)


def _verdict(stored: Stored, evidence: Evidence, here: Digests, decision: Decision | None, without: str, engine: Engine) -> Verdict:
    place = stored.record.place
    what = (f"decision {evidence.observation.decision}, attempt {evidence.attempt}, of session {place.session}, epoch {place.epoch}, "
            f"stopped by the guard '{evidence.guard}'")
    difference = _difference(evidence, decision, without, engine)
    same_engine = stored.record.digests.engine == here.engine
    whose = "the same engine" if same_engine else f"another engine ({here.engine[:12]}; recorded {stored.record.digests.engine[:12]})"
    if difference is None:
        count = 0 if decision is None or decision.candidates is None else decision.candidates.size
        came = f"{count} values" if count else f"no chunk: {without}"
        return Verdict(SAME, f"{what}: reproduced bit for bit on {whose} ({came})")
    return Verdict(BROKEN if same_engine else OTHER, f"{what}: differs on {whose}: {difference}")


def _difference(evidence: Evidence, decision: Decision | None, without: str, engine: Engine) -> str | None:
    """The first stage, in the order of execution, that wrote something else; None: nothing differs in any bit."""
    if without != evidence.without:
        return f"recorded was {evidence.without or 'a chunk'!r}, now it is {without or 'a chunk'!r}"
    for stage in engine.pipeline.stages if decision is not None else ():
        for name in _comparable(stage, decision, engine):
            ours, theirs = engine.buffers.tensors[name].cpu(), evidence.outputs[name]
            if not _same(ours, theirs):
                return f"stage '{stage.name}' is the first: its output '{name}' by up to {_apart(ours, theirs):.3g}" + _chunk(evidence, decision)
    recorded, found = evidence.candidates, None if decision is None else decision.candidates
    if recorded is not None and (found is None or not _same(torch.from_numpy(found), torch.from_numpy(recorded))):
        return "the chunk" + _chunk(evidence, decision)
    return None


def _comparable(stage: Stage, decision: Decision, engine: Engine) -> list[str]:
    """What of the stage's output is told by the capsule or was written since: the rest is left over from a decision that is not made again, and
    nobody reads it."""
    wrote = {r.stage for r in decision.runs if not r.background} | {c.stage for c in decision.commits}
    return [name for name in stage.writes if stage.name in wrote or name in engine.slab.buffers]


def _chunk(evidence: Evidence, decision: Decision) -> str:
    if evidence.candidates is None or decision.candidates is None:
        return ""
    return f"; the chunk by up to {_apart(torch.from_numpy(decision.candidates), torch.from_numpy(evidence.candidates)):.3g}"


def _same(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    return torch.equal(*(t.contiguous().view(-1).view(torch.uint8) for t in (ours, theirs)))


def _apart(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    """The largest absolute difference; infinite where only one of two is a number."""
    if ours.shape != theirs.shape:
        return float("inf")
    equal = (ours == theirs) | (ours.isnan() & theirs.isnan())
    return float((ours.double() - theirs.double()).abs().masked_fill(equal, 0.0).nan_to_num(torch.inf, torch.inf).max())
