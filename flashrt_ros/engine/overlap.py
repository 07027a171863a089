"""Background runs of overlapped stages: their shadows, launches and scheduled commits.

Owns the run handles and the count of misses; what was launched when is in the ledger. Must not import the engine.
"""

from __future__ import annotations

from typing import Collection

from flashrt_ros.contract.pipeline import Pipeline, Stage
from flashrt_ros.contract.refresh import Ledger, derived_stamp
from flashrt_ros.engine.buffers import Arena, Buffers
from flashrt_ros.engine.decision import Commit, EngineError, said
from flashrt_ros.engine.executor import Executor, Run
from flashrt_ros.engine.plan import background_call
from flashrt_ros.engine.slab import Slab


class Overlap:
    """misses: stage -> background runs that were unfinished at their commit, each counted once. late: the stages that the last
    commit found unfinished."""

    def __init__(
        self, pipeline: Pipeline, buffers: Buffers, slab: Slab, ledger: Ledger, executor: Executor, arena: Arena
    ) -> None:
        self._buffers = buffers
        self._ledger = ledger
        self._executor = executor
        self._stages = [s for s in pipeline.stages if s.commit_after is not None]
        self._shadows = {s.name: background_call(s, buffers, slab.frozen(s), arena) for s in self._stages}
        self._again = {name: call.again for name, (call, _) in self._shadows.items()}
        self._runs: dict[str, Run] = {}  # the last run of each shadow, committed, superseded or in flight
        self._missed: set[str] = set()  # stages whose run in flight has been counted as a miss
        self.misses = {s.name: 0 for s in self._stages}
        self.late: tuple[str, ...] = ()

    def launch(self, stage: Stage, decision: int) -> Run:
        """Freeze the stage's reads into its shadow and start it in the background.

        A superseded run that still holds the shadow is waited for. That is rare: it was launched before the foreground
        run that superseded it.
        """
        run = self.start(stage)
        self._ledger.launched(stage, decision, self._buffers.versions, self._buffers.stamps)
        self._missed.discard(stage.name)
        return run

    def start(self, stage: Stage) -> Run:
        """The run alone, without a record of it (warm-up measures with it)."""
        if stage.name in self._runs:
            self._runs[stage.name].wait()
        call, _ = self._shadows[stage.name]
        self._runs[stage.name] = run = self._executor.launch(call)
        return run

    def relaunch(self) -> None:
        """Start the runs that the ledger says are in flight, on frozen reads that are in place already."""
        for stage in self._ledger.in_flight:
            self._runs[stage] = self._executor.launch(self._again[stage])
        self._missed.clear()

    def commit(self, decision: int, withheld: Collection[str]) -> tuple[list[Commit], list[str]]:
        """Make the results of every run whose time has come visible; returns those, and the stages that were late.

        withheld: stages whose run counts as unfinished here. Raises EngineError for a run that failed, after all the
        others are committed; its stage is then forgotten, and so due again.
        """
        commits: list[Commit] = []
        late: list[str] = []
        failed: list[tuple[str, int, Exception]] = []
        for stage in self._stages:
            launch = self._ledger.in_flight.get(stage.name)
            if launch is None or launch.decision + stage.commit_after > decision:
                continue
            run = self._runs[stage.name]
            if stage.name in withheld or not run.done:
                late.append(stage.name)
                if stage.name not in self._missed:
                    self._missed.add(stage.name)
                    self.misses[stage.name] += 1
            elif run.error is not None:
                self._ledger.forget(stage.name)
                failed.append((stage.name, launch.decision, run.error))
            else:
                _, copies = self._shadows[stage.name]
                self._executor.copy(copies)
                self._buffers.wrote(stage.writes, derived_stamp(stage, launch.stamps))
                del self._ledger.in_flight[stage.name]
                commits.append(Commit(stage.name, launch.decision, run.duration_ns))
        self.late = tuple(late)
        if failed:
            name, launched, error = failed[0]
            raise EngineError(
                f"stage '{name}', launched in the background at decision {launched}, failed: {said(error)}",
                stage=name,
            ) from error
        return commits, late

    def drain(self) -> None:
        """Wait for every run that has been launched. Commits nothing."""
        for run in self._runs.values():
            run.wait()
