"""How nodes spin: on a thread of their own beside a main thread that does something else; and until they are interrupted."""

import threading
from contextlib import contextmanager
from typing import Iterator

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node


@contextmanager
def spinning(*nodes: Node) -> Iterator[None]:
    """Spin `nodes` while the context lasts."""
    executor = SingleThreadedExecutor()
    for node in nodes:
        executor.add_node(node)

    stopping = threading.Event()

    def spin() -> None:
        try:
            while not stopping.is_set():
                executor.spin_once(timeout_sec=0.1)
        except ExternalShutdownException:
            pass  # rclpy was shut down first: the context is left all the same

    thread = threading.Thread(target=spin, name="executor", daemon=True)
    thread.start()
    try:
        yield
    finally:
        # The thread first: an executor that is shut down under a running callback raises in it.
        stopping.set()
        thread.join()
        executor.shutdown()


@contextmanager
def until_interrupted() -> Iterator[None]:
    """The default context of rclpy, for a process that has nothing to bring to rest: Ctrl-C or a shutdown ends it in silence."""
    rclpy.init()
    try:
        yield
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        rclpy.try_shutdown()
