"""Recorded messages, read with the `rosbags` library: rosbag2 directories (SQLite and MCAP, compressed too) and ROS 1 bags. No ROS is needed.

Owns opening, time order and what could not be read. Must not import rclpy. What the messages mean is the contract's and decode/'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Collection, Iterator, Mapping

from flashrt_ros.errors import FlashRTError
from flashrt_ros.replay.redecide import Message

try:
    from rosbags.highlevel import AnyReader, AnyReaderError
    from rosbags.typesys import Stores, get_typestore
except ImportError as error:
    raise FlashRTError(f"reading bags needs the package 'rosbags' ({error}): pip install 'flashrt_ros[bags]'") from error

DISTRIBUTIONS = {name.removeprefix("ROS2_").lower(): store for name, store in Stores.__members__.items() if name.startswith("ROS2_")}


class BagError(FlashRTError):
    """A recording cannot be read, or lacks what it is read for."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of a recording. kind: its message type, or empty where several were recorded under one name."""

    name: str
    kind: str
    count: int


class Bag:
    """path: a rosbag2 directory, or a ROS 1 .bag file. remap: recorded topic -> the name that the contract has for it. distribution: whose
    message definitions are used for a recording that has none inside, one of DISTRIBUTIONS.

    Use as a context manager. Raises BagError. unread: topic -> messages that did not fit their type's definition, so far. broken:
    why the recording broke off, where it did.
    """

    def __init__(self, path: Path, remap: Mapping[str, str] = MappingProxyType({}), distribution: str = "jazzy") -> None:
        if distribution not in DISTRIBUTIONS:
            raise BagError(f"distribution {distribution!r}; allowed: {', '.join(DISTRIBUTIONS)}")
        if not path.exists():
            raise BagError(f"{path}: there is no such bag; give a rosbag2 directory (with metadata.yaml) or a ROS 1 .bag file")
        if path.is_file() and path.suffix in (".mcap", ".db3"):
            raise BagError(f"{path}: give the directory in which it lies; its metadata.yaml says how the files belong together "
                           f"(ros2 bag reindex {path.parent} makes one)")
        self.path, self._remap = path, {_relative(old): _relative(new) for old, new in remap.items()}
        self.unread: dict[str, int] = {}
        self.broken = ""
        try:
            self._reader = AnyReader([path], default_typestore=get_typestore(DISTRIBUTIONS[distribution]))
        except Exception as error:  # the library raises what its parsers raise
            raise BagError(f"{path}: {_said(error)}") from error

    def __enter__(self) -> Bag:
        try:
            self._reader.open()
        except Exception as error:
            raise BagError(f"{self.path}: {_said(error)}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Under the contract's names, without a leading slash; by name."""
        return tuple(Topic(self._name(name), info.msgtype or "", info.msgcount) for name, info in sorted(self._reader.topics.items()))

    def messages(self, topics: Collection[str]) -> Iterator[Message]:
        """Those of these topics, in the order of their receipt. A message that cannot be read is counted and left out; a recording that
        breaks off gives all that comes before. Raises BagError for one that has none of the topics."""
        wanted = {_relative(topic) for topic in topics}
        connections = [c for c in self._reader.connections if self._name(c.topic) in wanted]
        if not connections:
            raise BagError(f"{self.path} has none of the topics {', '.join(sorted(wanted))}; it has "
                           f"{', '.join(t.name for t in self.topics) or 'none at all'}. Name them with --remap RECORDED:=CONTRACT")
        try:
            for connection, receive_ns, raw in self._reader.messages(connections):
                name = self._name(connection.topic)
                try:
                    content = self._reader.deserialize(raw, connection.msgtype)
                except Exception:  # one broken message must not cost those after it
                    self.unread[name] = self.unread.get(name, 0) + 1
                    continue
                yield Message(name, receive_ns, _stamp_ns(content), content)
        except AnyReaderError as error:
            self.broken = _said(error)

    def _name(self, topic: str) -> str:
        name = _relative(topic)
        return self._remap.get(name, name)


def _relative(topic: str) -> str:
    """Contracts name topics without the leading slash."""
    return topic.removeprefix("/")


def _stamp_ns(content: object) -> int | None:
    header = getattr(content, "header", None)
    if header is None:
        return None
    return header.stamp.sec * 1_000_000_000 + header.stamp.nanosec or None


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__
