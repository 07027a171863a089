"""The engine: one pipeline and its policy on one device, making one decision at a time.

Joins buffers, refresh rules, executor and overlap. It has no clock and no random numbers: time, index and noise come
with the observation (a performance counter serves reported durations only). Must not import ROS or capsules. One thread
calls it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from types import MappingProxyType
from typing import Callable, Collection, Mapping

import torch

from flashrt_ros.contract.pipeline import Pipeline, Stage
from flashrt_ros.contract.refresh import AGE, Due, Ledger, derived_stamp, due, over_age
from flashrt_ros.engine.boundary import Boundary
from flashrt_ros.engine.buffers import TORCH_DTYPE, Arena, Buffers, InputError
from flashrt_ros.engine.decision import Decision, EngineError, StageRun, StageState, said
from flashrt_ros.engine.digest import digest_of, engine_facts
from flashrt_ros.engine.executor import Run, make_executor
from flashrt_ros.engine.fork import Forked, fork_specs
from flashrt_ros.engine.observation import Observation
from flashrt_ros.engine.overlap import Overlap
from flashrt_ros.engine.plan import Copies, foreground_call
from flashrt_ros.engine.slab import Slab
from flashrt_ros.policies.base import Policy

WARM_UP_ROUNDS = 9


@dataclass(slots=True)
class Counters:
    """Since the engine was made. refused: decisions without a chunk. errors: decisions that raised a stage error.
    superseded: background runs discarded because their stage had to run in the foreground."""

    decisions: int = 0
    refused: int = 0
    errors: int = 0
    superseded: int = 0


class Engine:
    """pipeline: from verify. policy: whose spec the pipeline was made for; its `run` may be called from two threads at
    once on different tensors. device: `cpu` or `cuda[:i]`. threads: torch's intra-op CPU threads, set for the process.
    background: `thread` runs overlapped stages beside the decisions; `synchronous` runs them at their launch (replay
    and tests: never a miss). stage_ms: what each stage takes in the foreground, in ms; warm_up measures it where it is
    not given, and a replay gives the recorded figures. forks: candidates that the action stage makes of each decision, from
    noises of their own; the noise of an observation is then [forks, ...].

    Raises EngineError for an unknown device or mode, or a policy of another spec.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        policy: Policy,
        device: str = "cpu",
        threads: int = 1,
        background: str = "synchronous",
        stage_ms: Mapping[str, float] | None = None,
        forks: int = 1,
    ) -> None:
        if policy.spec != pipeline.spec:
            raise EngineError(
                f"the policy '{policy.spec.type}' does not declare the buffers and stages that this pipeline (policy "
                f"'{pipeline.spec.type}') was verified for; verify the contract against this policy"
            )
        if threads < 1:
            raise EngineError(f"threads is {threads}; it must be at least 1")
        torch.set_num_threads(threads)
        self._thread = threading.get_ident()
        self.pipeline = pipeline
        self.policy = policy
        self.forks = forks
        self.device = _device(device)
        self.threads = threads
        self.stage_ms = stage_ms
        self.counters = Counters()
        self.ledger = Ledger()
        self._arena = Arena(self.device)
        specs = fork_specs(pipeline, forks)
        self.slab = Slab(pipeline, self._arena)
        self.buffers = Buffers(specs.values(), self._arena, dict(pipeline.spec.ages), self.slab.tensors)
        self._calls = {s.name: foreground_call(s, self.buffers, self._arena) for s in pipeline.stages}
        runner = Forked(policy, forks) if forks > 1 else policy
        self._executor = make_executor(runner, self._arena, specs[pipeline.spec.chunk], threads, background)
        self._overlap = Overlap(pipeline, self.buffers, self.slab, self.ledger, self._executor, self._arena)
        self._last: tuple[int, int] | None = None  # decision, now_ns

    @property
    def allocations(self) -> int:
        """Tensors that the engine has allocated. It rises after construction only where room for a boundary is asked for."""
        return self._arena.allocations

    @property
    def misses(self) -> Mapping[str, int]:
        """Overlapped stage -> background runs that were unfinished at their commit."""
        return MappingProxyType(self._overlap.misses)

    @property
    def late(self) -> tuple[str, ...]:
        """Decision.late of the last decision, of one that raised a stage error too."""
        return self._overlap.late

    def engine_digest(self) -> str:
        """SHA-256 (hex) over versions, device, threads and precision: bit-for-bit promises hold within one."""
        return digest_of(engine_facts(self.device, self.threads, self.pipeline.contract.policy.precision))

    def warm_up(self) -> Mapping[str, float]:
        """Run every stage a few times on zero inputs (and the default instruction); stage -> ms of its fastest run: what it
        takes when nothing disturbs it, for a robot's other processes start at the same time.

        Leaves the engine as reset() does, whatever happens. Raises EngineError for a stage that fails.
        """
        self.reset()
        times: dict[str, float] = {}
        try:
            with self._executor.scope():
                self._fill_plausible_inputs()
                for stage in self.pipeline.stages:
                    times[stage.name] = self._measure(stage)
        finally:
            self.reset()
        self.stage_ms = self.stage_ms or times
        return times

    def decide(self, observation: Observation, withheld: Collection[str] = (), fresh: bool = False) -> Decision:
        """Make one decision: commit, write inputs, refresh what is due, copy the chunk out.

        withheld: a recorded Decision.late, when a replay is to follow the misses of the original. fresh: run every stage, in the
        foreground, and discard what is in flight. Indices rise and time does not fall from one decision to the next, skipped ones
        aside; after a jump back, call reset() first.
        Raises InputError (nothing has changed) for an observation that does not fit, and EngineError for a stage that
        raised: the decision is lost, the stage is due again.
        """
        self._check(observation)
        if threading.get_ident() != self._thread:  # OpenMP keeps the count per thread
            torch.set_num_threads(self.threads)
            self._thread = threading.get_ident()
        index, now_ns = self._last = observation.decision, observation.now_ns
        self.counters.decisions += 1
        if fresh:
            self.ledger.clear()
        with self._executor.scope():
            try:
                commits, late = self._overlap.commit(index, withheld)
                self.buffers.write_inputs(observation.inputs)
                plan, warnings = self._plan(index, now_ns)
                runs = [(d, self._run(d, index, now_ns)) for d in plan]
            except EngineError:
                self.counters.errors += 1
                raise
            candidates = self._executor.read(self.buffers.tensors[self.pipeline.spec.chunk])
        refused = self._refusal(now_ns)
        self.counters.refused += refused is not None
        return Decision(
            index=index,
            now_ns=now_ns,
            candidates=None if refused is not None else candidates if self.forks > 1 else candidates[None],
            refused=refused,
            runs=tuple(StageRun(d.stage, d.reason, d.background, r.duration_ns if r.done else None) for d, r in runs),
            commits=tuple(commits),
            late=tuple(late),
            stages=tuple(self._state(s, now_ns) for s in self.pipeline.stages),
            warnings=self.pipeline.warnings + warnings,
        )

    def reset(self) -> None:
        """Forget everything but versions and counters: buffers are zero, every stage is due, runs in flight are
        discarded, and the next decision may have any index and time."""
        self.ledger.clear()
        with self._executor.scope():
            self.buffers.clear()
        self._last = None

    def memory(self, host: bool = False) -> torch.Tensor:
        """Room for all that is live at a boundary, uint8 [nbytes], in the layout of `slab`: on the device or its host."""
        return self._arena.memory(self.slab.memory.numel(), host)

    def outputs_like(self) -> dict[str, torch.Tensor]:
        """Page-locked host room for every buffer that a stage writes, by name."""
        room = {name: self._arena.memory(self.buffers.specs[name].nbytes, host=True) for name in self.pipeline.writer}
        return {name: memory.view(TORCH_DTYPE[self.buffers.specs[name].dtype]).reshape(self.buffers.specs[name].shape)
                for name, memory in room.items()}

    def save(self, to: torch.Tensor) -> Boundary:
        """Copy all that is live at this boundary into a `memory`, in order with the decisions' work on the device."""
        self._copy(to, self.slab.memory)
        decision, now_ns = self._last or (None, None)
        buffers = self.buffers
        return Boundary(decision, now_ns, dict(buffers.versions), dict(buffers.stamps), buffers.idents, self.ledger.copy())

    def load(self, source: torch.Tensor, boundary: Boundary) -> None:
        """Go to a saved boundary exactly: inputs, versions and time too; what was in flight there is launched again."""
        self.drain()  # what a run reads is about to change
        self._copy(self.slab.memory, source)
        self.buffers.become(boundary.versions, boundary.stamps, boundary.idents)
        self.ledger.become(boundary.ledger)
        self._last = None if boundary.decision is None else (boundary.decision, boundary.now_ns)
        with self._executor.scope():
            self._overlap.relaunch()

    def rewind(self, source: torch.Tensor, boundary: Boundary) -> None:
        """Take the belief of a saved boundary, and nothing else: inputs stay as they are, each restored buffer counts as written
        anew, what is in flight is discarded, and a stage that was in flight there is due. The next decision may have any
        index and time; where indices do not count on from the boundary's (another grid), it is to be a fresh one."""
        nbytes = self.slab.belief_nbytes
        self._copy(self.slab.memory[:nbytes], source[:nbytes])
        versions = {b: self.buffers.versions[b] + 1 for b in self.slab.buffers}
        filled = dict.fromkeys(self.pipeline.spec.engine_filled & self.buffers.idents.keys())  # one decision may be made twice
        self.buffers.become(versions, {b: boundary.stamps[b] for b in versions}, filled)
        self.ledger.become(boundary.ledger)
        for stage in tuple(self.ledger.in_flight):
            self.ledger.forget(stage)
        self.ledger.renumber(boundary.versions, self.buffers.versions, self.pipeline.writer)
        self._last = None

    def fetch(self, pairs: Copies) -> Callable[[], None]:
        """Copy (to, from) pairs in order with the decisions' work, to host memory too; returns a function that blocks until
        they are done, which any thread may call."""
        with self._executor.scope():
            self._executor.copy(pairs)
            return self._executor.fence()

    def _copy(self, to: torch.Tensor, source: torch.Tensor) -> None:
        with self._executor.scope():
            self._executor.copy(((to, source),))

    def drain(self) -> None:
        """Wait until no background run is executing. Their commits still happen at their decisions."""
        self._overlap.drain()

    def close(self) -> None:
        """Stop the background worker. The engine cannot be used afterwards."""
        self._executor.close()

    def _check(self, observation: Observation) -> None:
        last = self._last
        if last is not None and observation.decision <= last[0]:
            raise InputError(f"decision {observation.decision} does not follow decision {last[0]}: indices rise")
        if last is not None and observation.now_ns < last[1]:
            raise InputError(
                f"decision {observation.decision} is at {observation.now_ns} ns, before the last one's {last[1]}; "
                "after a clock jump call reset()"
            )
        self.buffers.check(observation.inputs)

    def _plan(self, index: int, now_ns: int) -> tuple[tuple[Due, ...], tuple[str, ...]]:
        """What is due. Over age, an overlapped stage runs in the foreground only if the plan fits the deadline."""
        ask = (self.pipeline, self.ledger, self.buffers.versions, self.buffers.stamps, now_ns, index)
        plan = due(*ask)
        stage = self.pipeline.stage
        old = [d.stage for d in plan if d.reason == AGE and stage[d.stage].commit_after is not None]
        deadline_ms = self.pipeline.contract.deadline_ms
        takes_ms = sum(self.stage_ms[d.stage] for d in plan if not d.background) if old and self.stage_ms else 0.0
        if takes_ms <= deadline_ms:
            return plan, ()
        warning = (
            f"over age: {', '.join(old)}; running in the foreground would take {takes_ms:.1f} ms of a deadline of "
            f"{deadline_ms:g} ms, so it stays in the background"
        )
        return due(*ask, deferred=old), (warning,)

    def _run(self, d: Due, index: int, now_ns: int) -> Run:
        stage = self.pipeline.stage[d.stage]
        if d.background:
            return self._overlap.launch(stage, index)
        if stage.name == self.pipeline.spec.action:
            self._write_ages(now_ns)
        call = self._calls[stage.name]
        self.counters.superseded += stage.name in self.ledger.in_flight
        run = self._executor.run(call)
        if run.error is not None:
            self._executor.copy(call.undo)
            self.ledger.forget(stage.name)
            raise _stage_error(stage, f"at decision {index}", run.error) from run.error
        self.ledger.ran(stage, index, self.buffers.versions)
        self.buffers.wrote(stage.writes, derived_stamp(stage, self.buffers.stamps))
        return run

    def _write_ages(self, now_ns: int) -> None:
        """Here and not with the inputs: only what this decision has committed and run says how old the sources are."""
        for name, source in self.pipeline.spec.ages:
            stamp = self.buffers.stamps[source]
            if stamp is None:
                raise EngineError(
                    f"the age '{name}' has no value: nothing stamped has reached its source '{source}'; verify refuses "
                    "such a pipeline",
                    stage=self.pipeline.spec.action,
                )
            self.buffers.write_age(name, now_ns - stamp)

    def _refusal(self, now_ns: int) -> str | None:
        for stage in self.pipeline.stages:
            age = over_age(stage, self.buffers.stamps, now_ns)
            if age is not None:
                return (
                    f"the output of stage '{stage.name}' is {age / 1e6:.1f} ms old; its max_age_ms is "
                    f"{stage.max_age_ns / 1e6:g}"
                )
        return None

    def _state(self, stage: Stage, now_ns: int) -> StageState:
        output = stage.writes[0]  # a stage writes all its outputs together
        stamp = self.buffers.stamps[output]
        return StageState(
            name=stage.name,
            version=self.buffers.versions[output],
            stamp_ns=stamp,
            age_ns=None if stamp is None else now_ns - stamp,
            last_run=self.ledger.last_run.get(stage.name),
            misses=self._overlap.misses.get(stage.name, 0),
        )

    def _fill_plausible_inputs(self) -> None:
        for declared in self.pipeline.contract.inputs:
            if declared.default:  # "" means that there is no instruction yet
                self.buffers.fill(declared.name, self.policy.encode_text(declared.default))

    def _measure(self, stage: Stage) -> float:
        times = []
        for _ in range(WARM_UP_ROUNDS):
            runs = [self._executor.run(self._calls[stage.name])]
            if stage.commit_after is not None:
                runs.append(self._overlap.start(stage))
            for run in runs:
                run.wait()
                if run.error is not None:
                    raise _stage_error(stage, "in warm-up", run.error) from run.error
            times.append(runs[0].duration_ns / 1e6)
        return min(times)


def _stage_error(stage: Stage, when: str, error: Exception) -> EngineError:
    return EngineError(f"stage '{stage.name}' failed {when}: {said(error)}", stage=stage.name)


def _device(name: str) -> torch.device:
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise EngineError(f"device '{name}' is unknown; allowed: cpu, cuda, cuda:<index>") from error
    if device.type not in ("cpu", "cuda"):
        raise EngineError(f"device '{name}' is not supported; allowed: cpu, cuda, cuda:<index>")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise EngineError(f"device '{name}': torch finds no CUDA device here; use device: cpu")
    return device
