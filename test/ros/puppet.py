"""A policy of a few lines and an arm that obeys, for tests of the player node alone: every tenth of a simulated second a chunk
from where the arm is, at constant speed."""

import numpy as np
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rig import MS
from std_srvs.srv import Trigger

from flashrt_ros.chunk.chunk import Chunk, Cursor
from flashrt_ros.msg import ExecutionState
from flashrt_ros.policies.tabletop_arm import JOINTS
from flashrt_ros.resources import find
from flashrt_ros.ros.convert import chunk_message, to_ns

SPEED = np.array([0.8, 0, 0, 0, 0, 0, 0])
FORWARD = {"topic: arm_controller/joint_trajectory": "topic: arm_controller/commands",
           "topic: gripper_controller/joint_trajectory": "topic: gripper_controller/commands",
           "type: trajectory_msgs/msg/JointTrajectory": "type: std_msgs/msg/Float64MultiArray"}


def contract(path, changes):
    """The demo's contract with some text replaced; returns where it was written."""
    text = find("config/color_servo.contract.yaml").read_text()
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    return path


class Puppet:
    """based: chunks say where the player was. goal [7]: chunks stay there, instead of moving."""

    def __init__(self, rig, session=5):
        self.rig, self.session = rig, session
        self.seq, self.steps, self.epoch = 0, 0, 1
        self.obeys, self.thinks, self.goal = True, True, None

    def step(self):
        """20 ms of simulated time."""
        rig = self.rig
        rig.advance()
        rig.until(self._heard, "the joint states")
        if self.obeys and rig.states and len(rig.states[-1].position):
            rig.joints = np.array(rig.states[-1].position)
        self.steps += 1
        if self.thinks and self.steps % 5 == 0:
            rig.chunk_topic.publish(self.chunk())

    def _heard(self):
        """Simulated time must not run away from a player that is still reading what came before."""
        node = self.rig.nodes["player"]
        return node._player is None or node._joint_fault or node._joints_ns >= self.rig.now_ns - 20 * MS

    def chunk(self, **order):
        self.seq += 1
        state, now_ns = self.rig.states[-1] if self.rig.states else ExecutionState(), self.rig.now_ns
        base = Cursor(state.player, state.tick, state.session, state.epoch, state.seq, state.step,
                      now_ns - to_ns(state.header.stamp)) if state.player else Cursor()
        times = 0.02 * np.arange(40)[:, None]
        positions = self.rig.joints + times * SPEED if self.goal is None else np.tile(self.goal, (40, 1))
        return chunk_message(Chunk(tuple(JOINTS), positions, now_ns, 20 * MS, base=base, **{
            "session": self.session, "epoch": self.epoch, "seq": self.seq} | order))

    def until(self, predicate, what):
        self.rig.until(predicate, what, step=self.step)

    def until_state(self, *names):
        wanted = [getattr(ExecutionState, name) for name in names]
        self.until(lambda: self.rig.states and self.rig.states[-1].state in wanted, " or ".join(names))

    def until_moving(self):
        self.until(lambda: self.rig.states and self.rig.states[-1].state == ExecutionState.PLAYING
                   and abs(self.rig.states[-1].velocity[0]) > 0.6, "motion")

    def steps_of(self, count):
        """So many steps, and what they caused."""
        for _ in range(count):
            self.step()
        heard = self.rig.now_ns - 20 * MS
        self.until(lambda: self.rig.states and to_ns(self.rig.states[-1].header.stamp) >= heard, "the states of these steps")

    def call(self, service):
        """An answer of player/<service>, while time goes on."""
        return self._answer(Trigger, service, Trigger.Request())

    def change(self, transition):
        return self._answer(ChangeState, "change_state", ChangeState.Request(transition=Transition(id=transition))).success

    def _answer(self, kind, service, request):
        future = self.rig.client(kind, f"player/{service}").call_async(request)
        self.until(future.done, f"an answer of {service}")
        return future.result()

    def counts(self):
        state = self.rig.states[-1]
        return dict(zip(state.refusal_causes, state.refusal_counts))
