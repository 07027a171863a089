"""From a contract to the engine that runs it, and what that engine is: the one way for nodes, evaluation and replay."""

from __future__ import annotations

from typing import Mapping

from flashrt_ros import policies
from flashrt_ros.capsule.record import Digests
from flashrt_ros.contract.digest import digest
from flashrt_ros.contract.schema import Contract
from flashrt_ros.contract.verify import verify
from flashrt_ros.engine.engine import Engine


def assemble(contract: Contract, device: str = "cpu", threads: int = 1, background: str = "synchronous",
             stage_ms: Mapping[str, float] | None = None) -> tuple[Engine, Digests]:
    """The engine of the contract's policy, not warmed up, and its digests. device, threads, background, stage_ms: see Engine. Raises
    ContractError, PolicyChoiceError and EngineError."""
    pipeline = verify(contract, policies.spec(contract.policy))
    policy = policies.load(contract.policy, device)
    forks = 1 if contract.fork is None else contract.fork.candidates
    engine = Engine(pipeline, policy, device, threads, background, stage_ms, forks)
    weights = policy.weights_digest()
    return engine, Digests(digest(contract, pipeline.spec, weights), weights, engine.engine_digest())
