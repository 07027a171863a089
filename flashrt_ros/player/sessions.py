"""Who may move the arm: the order of chunks, sessions and epochs. Pure bookkeeping; time is an argument.

Must not know joints, motion or what a chunk contains.
"""

from __future__ import annotations

from flashrt_ros.player.verdict import Reason


class Sessions:
    """One session is followed at a time. Another is taken only when the followed one has been silent for longer than
    expiry_ns. A session once left is never followed again: it was killed, or is a second policy on the same topic.

    A conflict begins when the followed session speaks after a foreign one did, both within the expiry (a mere restart
    has no such interleaving), and lasts until one of them has been silent for the expiry.
    """

    def __init__(self, expiry_ns: int) -> None:
        self._expiry_ns = expiry_ns
        self._heard_ns: dict[int, int] = {}  # session -> when it last offered a chunk
        self._announced: dict[int, int] = {}  # session -> lowest epoch that may still play
        self._left: set[int] = set()
        self._newest = (0, -1, -1)  # (epoch, seq, attempt) of the newest accepted chunk
        self._conflict = False
        self.followed: int | None = None

    def refusal(self, order: tuple[int, int, int, int], now_ns: int) -> Reason | None:
        """Note that order's session is alive, and say why its chunk may not play (None: it may)."""
        session, epoch, seq, attempt = order
        if session == 0:
            return Reason.NO_SESSION
        rivals = self._alive(now_ns) - {session}
        self._heard_ns[session] = now_ns
        if session == self.followed or self.followed not in rivals:
            # The followed one speaks, or is silent: nobody else may be alive now.
            self._conflict = bool(rivals)
        if self._conflict:
            return Reason.TWO_SESSIONS
        if rivals:
            return Reason.FOREIGN_SESSION
        if session in self._left:
            return Reason.OLD_SESSION
        if epoch < self._lowest_epoch(session):
            return Reason.OLD_EPOCH
        if session == self.followed and (epoch, seq, attempt) <= self._newest:
            return Reason.STALE_ORDER
        return None

    def accept(self, order: tuple[int, int, int, int]) -> bool:
        """Follow a chunk that was not refused. True if that is a change of session."""
        session, *newest = order
        succeeded = self.followed is not None and session != self.followed
        if succeeded:
            self._left.add(self.followed)
        self.followed, self._newest = session, tuple(newest)
        return succeeded

    def describe(self) -> str:
        """What a refusal was judged against, for people."""
        if self.followed is None:
            return f"no session is followed; alive are {sorted(self._heard_ns)}"
        return (f"session {self.followed} is followed, newest (epoch, seq, attempt) {self._newest}, lowest epoch "
                f"{self._lowest_epoch(self.followed)}; alive are {sorted(self._heard_ns)}")

    def announce(self, session: int, epoch: int) -> None:
        """From now on chunks of `session` below `epoch` are refused. Says nothing about the session being alive."""
        self._announced[session] = max(epoch, self._announced.get(session, 0))

    def outdated(self, order: tuple[int, int, int, int]) -> bool:
        """Whether a chunk that was accepted before belongs to an epoch that has been left since."""
        return order[1] < self._lowest_epoch(order[0])

    def in_conflict(self, now_ns: int) -> bool:
        self._conflict = self._conflict and len(self._alive(now_ns)) > 1
        return self._conflict

    def rebase(self, now_ns: int) -> None:
        """The clock jumped back to now_ns: whoever was heard counts as heard now."""
        self._heard_ns = dict.fromkeys(self._heard_ns, now_ns)

    def _lowest_epoch(self, session: int) -> int:
        played = self._newest[0] if session == self.followed else 0
        return max(played, self._announced.get(session, 0))

    def _alive(self, now_ns: int) -> set[int]:
        self._heard_ns = {s: t for s, t in self._heard_ns.items() if now_ns - t <= self._expiry_ns}
        return set(self._heard_ns)
