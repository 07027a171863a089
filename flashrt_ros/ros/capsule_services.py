"""The policy node's services around capsules: keep one, list them, go back to one.

Owns what a request means and how it is answered. What it leads to happens on the decider's thread, between two decisions: see
capsule/shelf.py and decider.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Callable

from rclpy.node import Node
from std_srvs.srv import Trigger

from flashrt_ros.capsule.checks import GONE, CapsuleRefused
from flashrt_ros.capsule.file import load
from flashrt_ros.capsule.ring import Capsule
from flashrt_ros.capsule.shelf import Shelf, find
from flashrt_ros.capsule.stored import Stored
from flashrt_ros.errors import FlashRTError
from flashrt_ros.ros.convert import to_time
from flashrt_ros.ros.decider import Decider, Event
from flashrt_ros.srv import ListCapsules, RestoreCapsule, SnapshotCapsule

INACTIVE = "the node is not active: activate it first"
RING, KEPT = "ring", "kept"  # the tiers, as messages name them


class CapsuleServices:
    """decider(): None while the node is not active. shelf(): None while it is not configured."""

    def __init__(self, node: Node, decider: Callable[[], Decider | None], shelf: Callable[[], Shelf | None]) -> None:
        self._decider, self._shelf = decider, shelf
        node.create_service(SnapshotCapsule, "~/snapshot", self._on_snapshot)
        node.create_service(RestoreCapsule, "~/restore", self._on_restore)
        node.create_service(Trigger, "~/rollback", self._on_rollback)
        node.create_service(ListCapsules, "~/list_capsules", self._on_list)

    def _on_snapshot(self, request: SnapshotCapsule.Request, response: SnapshotCapsule.Response) -> SnapshotCapsule.Response:
        decider, shelf = self._decider(), self._shelf()
        if decider is None:
            response.message = INACTIVE
            return response
        ring = decider.maker.ring
        try:
            capsule = _back(ring.capsules, 0)
        except CapsuleRefused as refused:
            response.message = str(refused)
            return response
        path = shelf.path(capsule.record) if request.to_disk else None
        decider.at_boundary(lambda: shelf.keep(ring, capsule, path, lambda problem: _tell(decider, capsule, path, problem)))
        response.accepted, response.id, response.path = True, capsule.record.id, "" if path is None else str(path)
        return response

    def _on_restore(self, request: RestoreCapsule.Request, response: RestoreCapsule.Response) -> RestoreCapsule.Response:
        decider = self._decider()
        if decider is None:
            response.message = INACTIVE
            return response
        try:
            capsule = self._asked(request, decider)
            decider.restore(capsule)
        except FlashRTError as error:
            response.message = str(error)
        else:
            response.accepted, response.id = True, capsule.record.id
        response.epoch = decider.session.epoch
        return response

    def _on_rollback(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        answer = self._on_restore(RestoreCapsule.Request(), RestoreCapsule.Response())
        response.success = answer.accepted
        response.message = f"epoch {answer.epoch}, from capsule {answer.id}" if answer.accepted else answer.message
        return response

    def _on_list(self, request: ListCapsules.Request, response: ListCapsules.Response) -> ListCapsules.Response:
        for tier, capsule in self._all(self._decider()):
            record = capsule.record
            response.ids.append(record.id)
            response.parents.append(record.parent)
            response.tiers.append(tier)
            response.sessions.append(record.place.session)
            response.epochs.append(record.place.epoch)
            response.seqs.append(record.place.seq)
            response.decisions.append(record.boundary.decision)
            response.stamps.append(to_time(record.boundary.now_ns))
            response.tasks.append(record.outside.task)
        return response

    def _all(self, decider: Decider | None) -> list[tuple[str, Capsule | Stored]]:
        """With their tiers; kept ones last."""
        shelf = self._shelf()
        return ([(RING, capsule) for capsule in (() if decider is None else decider.maker.ring.capsules)]
                + [(KEPT, stored) for stored in (() if shelf is None else shelf.capsules)])

    def _asked(self, request: RestoreCapsule.Request, decider: Decider) -> Capsule | Stored:
        """Raises CapsuleRefused if there is no such capsule, or more than one is asked for."""
        asked = {"id": request.id, "steps_back": request.steps_back, "file": request.file}
        if len(given := [f"{name} {value!r}" for name, value in asked.items() if value]) > 1:
            raise CapsuleRefused(GONE, f"{' and '.join(given)} ask for more than one capsule: give one of id, steps_back and file")
        if request.file:
            return load(Path(request.file))[0]
        if request.id:
            return find(request.id, [capsule for _, capsule in self._all(decider)])
        return _back(decider.maker.ring.capsules, request.steps_back)


def _back(ring: tuple[Capsule, ...], steps: int) -> Capsule:
    """So many good decisions before the newest. Raises CapsuleRefused if the ring does not reach so far back."""
    if not ring:
        raise CapsuleRefused(GONE, "the ring is empty: no decision has been good since the node was activated")
    if steps >= len(ring):
        raise CapsuleRefused(GONE, f"steps_back is {steps}; with {len(ring)} good decisions in the ring it is at most {len(ring) - 1}")
    return ring[-1 - steps]


def _tell(decider: Decider, capsule: Capsule, path: Path | None, problem: str) -> None:
    """What became of a snapshot."""
    written = path is not None and not problem
    decider.tell(Event("snapshot", decider.session.epoch, problem or ("kept and written" if written else "kept in memory"),
                       capsule_id=capsule.record.id, path=str(path) if written else ""))
