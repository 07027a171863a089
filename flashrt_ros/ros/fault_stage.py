"""Episodes on the demo's robot whose policy is a FaultNode, with and without faults, and what an observer of it all records."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType

from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from std_msgs.msg import String

from flashrt_ros.contract.load import load
from flashrt_ros.contract.schema import Contract
from flashrt_ros.msg import PipelineEvent
from flashrt_ros.ros.drill_recorder import EVERY_ONE, CommandRecorder
from flashrt_ros.ros.drill_stage import QUIET_NS
from flashrt_ros.ros.fault_plan import Found, Planted
from flashrt_ros.ros.fault_trial import Episode, judge
from flashrt_ros.ros.processes import NodeProcesses
from flashrt_ros.ros.stage import KINDS, START_S, Stage, StageError, managed

EPISODE_S = 20.0  # of simulated time
PATIENCE_S = 30.0  # of real time, for the robot to do what it should
NO_FAULTS = -1


class FaultRecorder(CommandRecorder):
    """planted, found: faults and trips, as they were told."""

    def __init__(self, contract: Contract) -> None:
        super().__init__(contract)
        self.planted: list[Planted] = []
        self.found: list[Found] = []
        self.create_subscription(String, "policy/planted", self._on_planted, EVERY_ONE)
        self.create_subscription(PipelineEvent, "policy/events", self._on_event, EVERY_ONE)

    def trips(self) -> dict[str, int]:
        """Of each guard, as the policy's status counts."""
        return {name: trips for name, trips in zip(self.status.guard_names, self.status.guard_trips) if trips}

    def _on_planted(self, message: String) -> None:
        with self.changed:
            self.planted.append(Planted.from_text(message.data))
            self.changed.notify_all()

    def _on_event(self, message: PipelineEvent) -> None:
        if message.kind != "trip":
            return
        with self.changed:
            self.found.append(Found(message.cause, message.session, message.epoch, message.decision, message.attempt, message.detail))
            self.changed.notify_all()


class FaultStage(Stage):
    """seed: of the plan of faults. speed: of the simulation, as a share of real time."""

    recorder: FaultRecorder

    def __init__(self, nodes: NodeProcesses, contract: Path, seed: int, speed: float) -> None:
        parameters = {"sim": {"speed": speed}, "policy": managed(contract) | {"seed": seed}, "player": managed(contract)}
        super().__init__(nodes, parameters, lambda: FaultRecorder(load(contract)), PATIENCE_S, MappingProxyType({"policy": "fault_node"}))
        self._set = self.recorder.create_client(SetParameters, "policy/set_parameters")

    def episode(self, scene: int, index: int, faults: bool) -> Episode:
        """One episode in the scene of that seed, to the arm's rest after it. index: of the pair."""
        recorder, episode = self.recorder, index if faults else NO_FAULTS

        def begin(task: str, start_ns: int) -> None:
            recorder.forget()  # what was commanded before the scene, which put the arm elsewhere, is not this episode's
            self._begin(episode)

        task, start_ns = self.new_scene(scene, KINDS[index % len(KINDS)], self._rested, begin)

        def done() -> bool:
            score = recorder.score
            return score.get("task") == task and score["time_ns"] > start_ns and score["success"]

        self.expect(lambda: done() or recorder.joints_ns - start_ns > EPISODE_S * 1e9, 10 * EPISODE_S, "the episode to end")
        success, seconds = done(), (recorder.joints_ns - start_ns) * 1e-9
        self.give_task("")
        self.expect(lambda: self._idle() and self._rested(), PATIENCE_S, "the arm to come to rest")
        with recorder.changed:
            windows, missed = recorder.windows(), recorder.missed
        return Episode(index, scene, task, faults, success, seconds, sum(map(len, windows.values())),
                       sum(len(window.times_ns) for of_output in windows.values() for window in of_output), missed,
                       tuple(judge(windows, recorder.columns, recorder.limits)))

    def counted(self) -> dict[str, int]:
        """The trips of each guard by the policy's status, once a new one agrees with all that was told, or after a while."""
        recorder, before = self.recorder, self.recorder.status
        self.wait(lambda: recorder.status is not before and sum(recorder.trips().values()) == len(recorder.found) >= len(recorder.planted),
                  PATIENCE_S)
        return recorder.trips()

    def _begin(self, episode: int) -> None:
        if not self._set.wait_for_service(START_S):
            raise StageError(f"waited {START_S:.0f} s for the policy's parameter service")
        value = ParameterValue(type=ParameterType.PARAMETER_INTEGER, integer_value=episode)
        future = self._set.call_async(SetParameters.Request(parameters=[Parameter(name="episode", value=value)]))
        self.expect(future.done, PATIENCE_S, "the policy to take the plan")
        (result,) = future.result().results
        if not result.successful:
            raise StageError(f"the policy refused the plan: {result.reason}")

    def _rested(self) -> bool:
        since = self.recorder.rest_ns
        return since is not None and self.recorder.joints_ns - since >= QUIET_NS
