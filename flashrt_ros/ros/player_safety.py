"""What stops the player's arm from outside, and who may end it: the e-stop's topic and services, a person's take-over, and a
look at who else commands the controllers. Owns the names on the graph; what a stop is, the player knows.

It lives as long as the node: an e-stop is heard, and stays latched, in every lifecycle state.
"""

from __future__ import annotations

import time
from typing import Callable, Iterable

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.lifecycle import LifecycleNode
from std_msgs.msg import Bool
from std_srvs.srv import Trigger

from flashrt_ros.player.command import State
from flashrt_ros.player.holds import Holds
from flashrt_ros.player.player import Player, PlayerError
from flashrt_ros.player.verdict import Reason
from flashrt_ros.ros.qos import LATCHED, RELIABLE

# Of real time: what the middleware may take to find a latched e-stop.
LISTEN_S = 0.5


class Safety:
    """player(): the present one, or None. blind(): why a run cannot begin now, or empty. known: full names of nodes that may
    have publishers on the command topics."""

    def __init__(self, node: LifecycleNode, known: Iterable[str], player: Callable[[], Player | None],
                 blind: Callable[[], str]) -> None:
        self.holds = Holds()
        self._node, self._known, self._player, self._blind = node, frozenset(known), player, blind
        self._pressed = False
        self._born_s = time.monotonic()
        # Latched, for a button that was pressed before we came; and volatile, because a subscription that asks for latched
        # messages hears no others, and `ros2 topic pub` sends others. The complaint about them would be misleading.
        quiet = SubscriptionEventCallbacks(use_default_callbacks=False)
        latched = node.create_subscription(Bool, "~/estop", self._on_estop, LATCHED, event_callbacks=quiet)
        node.create_subscription(Bool, "~/estop", self._on_estop, RELIABLE)
        self._topic = latched.topic_name
        services = {name: node.create_service(Trigger, f"~/{name}", handler).service_name for name, handler in {
            "estop": self._serve_estop, "estop_reset": self._serve_reset, "take_over": self._serve_take_over,
            "give_back": self._serve_give_back}.items()}
        self._way_out = {name: f"call {services[name]} when it is safe" for name in ("estop_reset", "give_back")}
        self._policy_reset = node.create_client(Trigger, "policy/reset")

    @property
    def listening(self) -> bool:
        """Whether an e-stop that was pressed before we came may not have been heard yet: nothing should move."""
        return time.monotonic() - self._born_s < LISTEN_S

    def look(self, topics: Iterable[str], now_ns: int) -> None:
        """Hold the player while anybody else has a publisher on one of these topics."""
        self._player().contended(next(filter(None, map(self._others, topics)), ""), now_ns)

    def ask_for_new_epoch(self, announced: tuple[int, int] | None, now_ns: int) -> None:
        """A run has begun: what the policy has seen and planned before is to be forgotten. One that offers no reset is not
        waited for; the player refuses by itself what was decided before."""
        if self._policy_reset.service_is_ready():
            self._policy_reset.call_async(Trigger.Request())
            if announced is not None:
                session, epoch = announced
                self._player().epoch(session, epoch + 1, now_ns)

    def _others(self, topic: str) -> str:
        """Who beside us publishes there; empty: nobody."""
        ours = self._node.get_fully_qualified_name()
        names = [f"{info.node_namespace.rstrip('/')}/{info.node_name}"
                 for info in self._node.get_publishers_info_by_topic(topic)]
        if ours in names:
            names.remove(ours)  # once: a second node of our name is another player
        others = sorted(set(names) - self._known)
        return f"{', '.join(others)} publishes on {topic}, too: stop that, or list it in known_publishers" if others else ""

    def _on_estop(self, message: Bool) -> None:
        self._pressed = message.data
        if message.data:
            self._estop(f"true on {self._topic}")

    def _estop(self, cause: str) -> None:
        cause = f"{cause}; {self._way_out['estop_reset']}"
        if (player := self._player()) is None:
            self.holds.add(Reason.ESTOP, f"e-stop: {cause}")
        else:
            player.estop(cause, self._now_ns())
        self._node.get_logger().error(self.holds.said(Reason.ESTOP), throttle_duration_sec=1.0)

    def _serve_estop(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        self._estop("service called")
        response.success, response.message = True, self.holds.said(Reason.ESTOP)
        return response

    def _serve_reset(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        if self._pressed and self._node.count_publishers(self._topic):
            response.message = f"{self._topic} still says true: release the button first"
            return response
        return self._release(Reason.ESTOP, Player.estop_reset, response)

    def _serve_take_over(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        said = f"a person has taken over; {self._way_out['give_back']}"
        if (player := self._player()) is None:
            self.holds.add(Reason.TAKEN_OVER, said)
        else:
            player.take_over(self._now_ns(), said)
        response.success, response.message = True, self.holds.said(self.holds.first)
        return response

    def _serve_give_back(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        return self._release(Reason.TAKEN_OVER, Player.give_back, response)

    def _release(self, reason: Reason, release: Callable[[Player], None], response: Trigger.Response) -> Trigger.Response:
        if reason not in self.holds:
            response.success, response.message = True, f"there was no {reason.value} to end"
            return response
        player = self._player()
        if player is None:
            self.holds.remove(reason)
        else:
            if player.state is not State.IDLE and (fault := self._blind()):
                response.message = fault
                return response
            try:
                release(player)
            except PlayerError as error:
                response.message = str(error)
                return response
        left = self.holds.first
        response.success, response.message = True, "" if left is None else f"still held: {self.holds.said(left)}"
        return response

    def _now_ns(self) -> int:
        return self._node.get_clock().now().nanoseconds
