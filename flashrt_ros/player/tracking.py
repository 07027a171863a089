"""Whether the arm follows its commands. Owns how long a joint may be off; time is an argument. numpy only."""

from __future__ import annotations

import numpy as np

from flashrt_ros.player.limits import Limits


class Tracking:
    """patience_ns: a joint may be farther from its command than limits.tracking_error for no longer. Samples that do not
    come say nothing; one that is not a number is off."""

    def __init__(self, limits: Limits, patience_ns: int) -> None:
        self._limits, self._patience_ns = limits, patience_ns
        self._since_ns: int | None = None  # when the present row of samples began in which some joint was off
        self.lost = False

    def look(self, now_ns: int, missed: np.ndarray) -> bool:
        """Whether each joint is near its command; missed [N]: the distances. Sets `lost`: off for too long."""
        near = bool((missed <= self._limits.tracking_error).all())
        if near:
            self.forget()
        elif self._since_ns is None:
            self._since_ns = now_ns
        self.lost = not near and now_ns - self._since_ns > self._patience_ns
        return near

    def forget(self) -> None:
        self._since_ns, self.lost = None, False

    def describe(self, missed: np.ndarray) -> str:
        """Which joints are how far off, for people."""
        limits = self._limits
        off = [f"{name} is {m:.3g} from its command, allowed {allowed:g}"
               for name, m, allowed in zip(limits.names, missed, limits.tracking_error) if not m <= allowed]
        return f"{'; '.join(off)} (limits.tracking_error), for over {self._patience_ns * 1e-6:.0f} ms"
