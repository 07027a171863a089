"""A lifecycle node that survives bad transitions and says why one failed.

rclpy lets an invalid transition request raise out of `spin()` on Jazzy, and on Jazzy and Kilted an exception inside a
transition callback ends silently in `unconfigured`. Here both are caught, logged, kept in `reason`, and answered with
FAILURE. Subclasses implement `configure`, `activate`, `deactivate` and `cleanup`, which raise to refuse.
"""

from __future__ import annotations

import signal
import sys
import threading
import traceback

import rclpy
from rcl_interfaces.msg import ParameterDescriptor
from rclpy.clock import Clock
from rclpy.executors import Executor, ExternalShutdownException, SingleThreadedExecutor
from rclpy.lifecycle import LifecycleNode, TransitionCallbackReturn
from rclpy.signals import SignalHandlerOptions

from flashrt_ros.errors import FlashRTError


def read_only(description: str) -> ParameterDescriptor:
    return ParameterDescriptor(description=description, read_only=True)


class ManagedNode(LifecycleNode):
    """Parameter `autostart` (bool): configure and activate as soon as the node spins. interruptible: SIGINT and SIGTERM may
    cut a callback short (a long warm-up); else they wait for its end."""

    interruptible = True
    driven = False  # whether `run` spins it

    def __init__(self, name: str, **arguments) -> None:
        super().__init__(name, **arguments)
        self._transition_ran = False
        self.reason = ""  # why the last transition failed; empty after one that succeeded
        self.declare_parameter("autostart", False, read_only("Configure and activate as soon as the node spins"))
        self._autostart = None
        if self.get_parameter("autostart").value:
            # From the executor, so that subscriptions and services exist when the transitions run.
            self._autostart = self.create_timer(0.01, self._start, clock=Clock())

    def configure(self) -> None: ...

    def activate(self) -> None: ...

    def deactivate(self) -> None: ...

    def cleanup(self) -> None: ...

    def spin_once(self, executor: Executor) -> None:
        """Run what is ready, or wait for it a moment: called by `run` again and again."""
        executor.spin_once(timeout_sec=0.1)

    def reason_changed(self) -> None:
        """Called after `reason` changed, so that a node can publish it."""

    def on_configure(self, state):
        return self._transition("configure", self.configure)

    def on_activate(self, state):
        result = self._transition("activate", self.activate)
        return super().on_activate(state) if result == TransitionCallbackReturn.SUCCESS else result

    def on_deactivate(self, state):
        result = self._transition("deactivate", self.deactivate)
        super().on_deactivate(state)
        return result

    def on_cleanup(self, state):
        return self._transition("clean up", self.cleanup)

    def on_shutdown(self, state):
        return self._transition("shut down", self.stop)

    def on_error(self, state):
        return self._transition("recover from an error", self.stop)

    def stop(self) -> None:
        """To rest from any state: also at process exit. Safe to call twice."""
        self.deactivate()
        self.cleanup()

    def _transition(self, verb, action) -> TransitionCallbackReturn:
        self._transition_ran = True
        try:
            action()
        except FlashRTError as error:
            return self._failed(f"could not {verb}: {error}")
        except Exception as error:  # a bug of ours or of a library: the node must say so and live on
            self.get_logger().error(traceback.format_exc())
            return self._failed(f"could not {verb}: {type(error).__name__}: {error}")
        self.reason = ""
        self.reason_changed()
        return TransitionCallbackReturn.SUCCESS

    def _failed(self, reason: str) -> TransitionCallbackReturn:
        self.reason = reason
        self.get_logger().error(reason)
        self.reason_changed()
        return TransitionCallbackReturn.FAILURE

    def _start(self) -> None:
        self._autostart.cancel()
        if self.trigger_configure() == TransitionCallbackReturn.SUCCESS:
            self.trigger_activate()

    # rclpy registers this private method as the change_state service's callback; there is no public hook.
    def _LifecycleNodeMixin__on_change_state(self, request, response):
        self._transition_ran = False
        try:
            response = super()._LifecycleNodeMixin__on_change_state(request, response)
        except Exception:  # Jazzy; the RCLError is private. Kilted logs and answers
            response.success = False
        if not response.success and not self._transition_ran:
            self._failed(f"refused transition '{request.transition.label or request.transition.id}': it does not lead out of "
                         f"the state '{self._state_machine.current_state[1]}'")
        return response


# Seconds. The executor and the worker share the interpreter; with Python's default of 5 ms a worker of many short
# operations waits that long again and again while callbacks run.
SWITCH_INTERVAL_S = 5e-4


def run(make_node) -> None:
    """Spin make_node() until SIGINT or SIGTERM, then stop it: `deactivate` and `cleanup` run before the context goes."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    class Stop(Exception):
        pass

    asked = threading.Event()

    def stop(signum, frame):
        asked.set()
        if interruptible:
            raise Stop

    interruptible = True
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, stop)
    node = make_node()
    interruptible, node.driven = node.interruptible, True
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        while rclpy.ok() and not asked.is_set():
            node.spin_once(executor)
    except (Stop, ExternalShutdownException):
        pass
    finally:
        for signum in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signum, signal.SIG_IGN)
        node.stop()
        executor.shutdown(timeout_sec=1.0)
        node.destroy_node()
        rclpy.try_shutdown()
