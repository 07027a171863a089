"""What keeps the player from moving the arm, whatever chunks say. Owns which of these reasons hold and which comes first;
must not know chunks or motion."""

from __future__ import annotations

from flashrt_ros.player.verdict import Reason

# In order of precedence; each with the cause under which the stop that it brings is counted.
CAUSES = {Reason.ESTOP: "emergency_stop", Reason.TAKEN_OVER: "take_over", Reason.FOREIGN_PUBLISHER: "contended",
          Reason.TRACKING: "tracking_error"}
LATCHED = (Reason.ESTOP, Reason.TAKEN_OVER)


class Holds:
    """Reason -> what is said of it, for people.

    An e-stop and a take-over stay until they are released, also while the player is idle. A caller that makes one player
    after another gives all of them the same holds. fenced: whether there was ever one; since then only chunks play whose
    base is a place in the present run of the player.
    """

    def __init__(self) -> None:
        self._said: dict[Reason, str] = {}
        self.fenced = False

    def add(self, reason: Reason, said: str) -> bool:
        """False if it held already; then the first word stays."""
        if reason in self._said:
            return False
        self._said[reason] = said
        self.fenced = True
        return True

    def remove(self, *reasons: Reason) -> None:
        for reason in reasons:
            self._said.pop(reason, None)

    @property
    def first(self) -> Reason | None:
        """The one that counts; None: the arm may move."""
        return next((reason for reason in CAUSES if reason in self._said), None)

    def said(self, reason: Reason) -> str:
        return self._said[reason]

    def __contains__(self, reason: Reason) -> bool:
        return reason in self._said

    def __len__(self) -> int:
        return len(self._said)
