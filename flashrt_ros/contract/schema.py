"""What a contract file says: frozen records, one per block of the YAML. Values are checked at construction by load.py.

Times keep the unit that their key names (ms, hz); `*_ns` properties convert.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class Channel:
    """Where a message comes from or goes to. qos: `sensor_data`, `reliable` or `latched`."""

    topic: str
    type: str
    qos: str = "sensor_data"


@dataclass(frozen=True, slots=True)
class Image:
    """size: (height, width) in pixels that the policy sees. resize: `pad` (keep the aspect, black border),
    `stretch`, or `exact` (refuse any other size)."""

    size: tuple[int, int]
    resize: str = "pad"


@dataclass(frozen=True, slots=True)
class Align:
    """strategy: `hold` (newest) or `asof` (newest not after `now`). timeline: which stamp counts, `header` or
    `receive`. tolerance_ms: how far this input's stamp may lie from the newest stamp of the observation; None: any."""

    strategy: str = "hold"
    timeline: str = "header"
    tolerance_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Input:
    name: str
    channel: Channel
    image: Image | None = None
    select: tuple[str, ...] = ()  # `position.<joint>`, `velocity.<joint>` or `effort.<joint>`, in buffer order
    apply: tuple[str, ...] = ()  # unit conversions at the edge: `deg2rad`, `rad2deg`
    align: Align = Align()
    max_age_ms: float | None = None
    default: str | None = None  # text inputs only: the value before the first message

    @property
    def max_age_ns(self) -> int | None:
        return None if self.max_age_ms is None else round(self.max_age_ms * 1e6)


@dataclass(frozen=True, slots=True)
class Refresh:
    """When a stage runs. every: decisions between runs. commit_after: None = foreground; c = launched at decision d in
    the background and committed at exactly d + c."""

    stage: str
    every: int | None = None
    on_change: tuple[str, ...] = ()
    max_age_ms: float | None = None
    commit_after: int | None = None

    @property
    def max_age_ns(self) -> int | None:
        return None if self.max_age_ms is None else round(self.max_age_ms * 1e6)


@dataclass(frozen=True, slots=True)
class Gripper:
    """A gripper with two positions, closed and open (rad or m), and the policy's values, in its own unit, from which on it
    is told to take them. Between open_at and close_at it stays as it is; the greater of the two is met by values of at
    least as much, the lesser by values of at most as much."""

    close_at: float
    open_at: float
    closed: float
    open: float


@dataclass(frozen=True, slots=True)
class Output:
    """A controller that takes part of the chunk. select: joint names. representation: what the policy's numbers are,
    `joint` (positions), `joint_delta` (from the measured positions in the observation), `ee_delta` or `ee_pose`. gripper: what
    the numbers of its one joint become instead. Step i of the chunk is meant for decision time + offset_ms + i * step_ms."""

    name: str
    channel: Channel
    select: tuple[str, ...]
    representation: str = "joint"
    step_ms: float = 20.0
    offset_ms: float = 0.0
    gripper: Gripper | None = None

    @property
    def step_ns(self) -> int:
        return round(self.step_ms * 1e6)

    @property
    def offset_ns(self) -> int:
        return round(self.offset_ms * 1e6)


@dataclass(frozen=True, slots=True)
class Limits:
    """Per joint, SI units (rad or m, and their rates). boundary_jump: how far from where the arm is a new
    chunk may begin. tracking_error: how far a joint may be from its command."""

    position: Mapping[str, tuple[float, float]] = field(default_factory=lambda: MappingProxyType({}))
    velocity: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    acceleration: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    jerk: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    boundary_jump: float | None = None
    tracking_error: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Rollback:
    depth: int = 8
    guards: tuple[str, ...] = ("nonfinite", "position", "velocity", "jump", "age", "deadline")
    max_consecutive: int = 3
    black_box: str = "~/.ros/flashrt"


@dataclass(frozen=True, slots=True)
class Fork:
    """Several candidates of each decision, which differ in their noise only. select: one of SELECTS."""

    candidates: int
    select: str


CLOSEST, MEDOID = SELECTS = ("closest_to_previous", "medoid")

GUIDED = "guided"  # drawn towards the plan at every flow step
FUTURE_STATE = "future_state"  # decided for where the settled part of the plan ends
CONTINUES = (FUTURE_STATE, GUIDED)


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """type: a name in policies/; checkpoint: `builtin` or a path; allow_stale: run a policy that was not trained for
    stale vision below 1:1 all the same (a published warning). continues: how the action continues what the player is about
    to do (real-time chunking), one of CONTINUES; empty: it plans anew."""

    type: str
    checkpoint: str = "builtin"
    precision: str = "fp32"
    allow_stale: bool = False
    continues: str = ""


@dataclass(frozen=True, slots=True)
class Contract:
    """A validated contract file. `source` and `lines` (dotted key -> line number) serve error messages only; `text` and
    `overrides` are what it was loaded from: they take no part in equality or in the digest."""

    policy: PolicyChoice
    rate_hz: float
    deadline_ms: float
    inputs: tuple[Input, ...]
    refresh: tuple[Refresh, ...]
    outputs: tuple[Output, ...]
    limits: Limits
    rollback: Rollback
    fork: Fork | None = None
    version: int = 1
    source: str = field(default="<contract>", compare=False)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    text: str = field(default="", compare=False, repr=False)
    overrides: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def line(self, key: str) -> int:
        """Line of a dotted key (`stages.vision.every`, `outputs[0].select[2]`), or of the nearest block around it."""
        while key and key not in self.lines:
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return self.lines.get(key, 1)

    def measured(self, joints: Sequence[str]) -> tuple[str, list[int]] | None:
        """The input that holds the measured positions of these joints, in rad or m, and their columns in it; or None."""
        wanted = [f"position.{joint}" for joint in joints]
        for given in self.inputs:
            if set(wanted) <= set(given.select) and "rad2deg" not in given.apply:
                return given.name, [given.select.index(name) for name in wanted]
        return None

    @property
    def period_ns(self) -> int:
        return round(1e9 / self.rate_hz)

    @property
    def deadline_ns(self) -> int:
        return round(self.deadline_ms * 1e6)
