"""A node whose callbacks run on a thread of their own, beside a main thread that does something else."""

import threading
from contextlib import contextmanager
from typing import Iterator

from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node


@contextmanager
def spinning(node: Node) -> Iterator[None]:
    """Spin `node` while the context lasts."""
    executor = SingleThreadedExecutor()
    executor.add_node(node)

    def spin() -> None:
        try:
            executor.spin()
        except ExternalShutdownException:
            pass  # rclpy was shut down first: the context is left all the same

    thread = threading.Thread(target=spin, name="executor", daemon=True)
    thread.start()
    try:
        yield
    finally:
        executor.shutdown(timeout_sec=1.0)
        thread.join(timeout=2.0)
