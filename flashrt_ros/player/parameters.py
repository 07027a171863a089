"""How the player behaves, in numbers, and the error for numbers that make no sense."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flashrt_ros.chunk.blend import MIN_S
from flashrt_ros.chunk.splice import STRATEGIES, Ensemble, SpliceError
from flashrt_ros.errors import FlashRTError


class PlayerError(FlashRTError):
    """The player was configured or used in a way that cannot work."""


@dataclass(frozen=True, slots=True)
class PlayerParameters:
    """Times in ms. Raises PlayerError.

    expiry: a chunk plays no longer than this after its step 0; a session that was silent for longer may be succeeded.
    blend: the shortest time in which the difference to a new chunk fades.
    window: how far a window follows the chunk before it stops.
    lead: a window keeps to the one before for so long, whatever happens. No less than its way to the controller and two
        of the controller's periods, else each change of plan is a small jump there; 0, by which the next command
        changes at once, is for a controller that gets one command at a time.
    clock_back: a clock that goes back further has jumped.
    clamp_tolerance: rad or m by which a target may exceed a position limit before its clamping is counted.
    tracking: a joint may be farther from its command than limits.tracking_error for no longer.
    start_distance: rad or m. At the start of a run, a chunk that is farther from some joint than this is approached
        slowly, and so is the next, until one is entered near. Near: at any of its steps up to the one where it is entered.
    approach_speed: the share of the velocity limits that this may use.
    strategy: what is followed when a new chunk comes, a name in chunk/splice.py. ensemble_decay: of `ensemble`.
    """

    expiry_ms: float = 500.0
    blend_ms: float = 1e3 * MIN_S
    window_ms: float = 300.0
    lead_ms: float = 20.0
    clock_back_ms: float = 50.0
    clamp_tolerance: float = 1e-3
    tracking_ms: float = 100.0
    start_distance: float = 0.05
    approach_speed: float = 0.25
    strategy: str = "latest"
    ensemble_decay: float = 0.01

    def __post_init__(self) -> None:
        for name in ("expiry_ms", "blend_ms", "window_ms", "clock_back_ms", "tracking_ms", "start_distance"):
            if not 0 < getattr(self, name) < np.inf:
                raise PlayerError(f"player parameter {name} is {getattr(self, name)}; it must be positive and finite")
        if not 0 <= self.clamp_tolerance < np.inf:
            raise PlayerError(f"player parameter clamp_tolerance is {self.clamp_tolerance}; it must be 0 or more")
        if not 0 <= self.lead_ms <= self.window_ms:
            raise PlayerError(f"player parameter lead_ms is {self.lead_ms}; it must be from 0 to window_ms, "
                              f"{self.window_ms}")
        if not 0 < self.approach_speed <= 1:
            raise PlayerError(f"player parameter approach_speed is {self.approach_speed}; it must be over 0 and at most 1")
        if self.strategy not in STRATEGIES:
            raise PlayerError(f"player parameter strategy is '{self.strategy}'; allowed: {', '.join(STRATEGIES)}")
        try:
            Ensemble(self.ensemble_decay)
        except SpliceError as error:
            raise PlayerError(f"player parameter ensemble_decay: {error}") from error
