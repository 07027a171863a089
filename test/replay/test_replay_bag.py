"""A recording in a bag, read without ROS and decided on again: the storage makes no difference, twice gives equal files, and what is wrong
with a bag is said in one line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from recorded import recording
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from flashrt_ros.cli import main
from flashrt_ros.replay.bag import Bag, BagError

STORE = get_typestore(Stores.ROS2_JAZZY)
TYPES = {"task": "std_msgs/msg/String", "joint_states": "sensor_msgs/msg/JointState", "scene_camera/image_raw": "sensor_msgs/msg/Image",
         "wrist_camera/image_raw": "sensor_msgs/msg/Image"}


def as_ros(message):
    """The same message as the rosbags library has it."""
    types, content = STORE.types, message.content
    stamp_ns = message.stamp_ns or 0
    header = types["std_msgs/msg/Header"](types["builtin_interfaces/msg/Time"](stamp_ns // 10**9, stamp_ns % 10**9), "")
    kind = TYPES[message.topic]
    if kind == "std_msgs/msg/String":
        return types[kind](content.data)
    if kind == "sensor_msgs/msg/JointState":
        return types[kind](header, content.name, np.array(content.position), np.zeros(0), np.zeros(0))
    return types[kind](header, content.height, content.width, content.encoding, 0, content.step, np.frombuffer(content.data, np.uint8))


def write(path: Path, messages, storage=StoragePlugin.MCAP, compression=None, prefix="/") -> Path:
    writer = Writer(path, version=9, storage_plugin=storage)
    if compression is not None:
        writer.set_compression(*compression)
    with writer:
        connections = {topic: writer.add_connection(prefix + topic, kind, typestore=STORE) for topic, kind in TYPES.items()}
        for message in messages:
            kind = TYPES[message.topic]
            writer.write(connections[message.topic], message.receive_ns, STORE.serialize_cdr(as_ros(message), kind))
    return path


@pytest.mark.parametrize("storage, compression", [
    (StoragePlugin.SQLITE3, None), (StoragePlugin.MCAP, None),
    (StoragePlugin.MCAP, (CompressionMode.STORAGE, CompressionFormat.ZSTD)),
    (StoragePlugin.SQLITE3, (CompressionMode.MESSAGE, CompressionFormat.ZSTD)),
], ids=["sqlite3", "mcap", "mcap, zstd chunks", "sqlite3, zstd messages"])
def test_a_bag_gives_back_what_was_recorded_in_its_order(tmp_path, storage, compression):
    messages = recording(0.3)
    with Bag(write(tmp_path / "bag", messages, storage, compression)) as bag:
        read = list(bag.messages(TYPES))
        assert {t.name: t.kind for t in bag.topics} == TYPES
    assert sorted((m.topic, m.receive_ns, m.stamp_ns) for m in read) == sorted((m.topic, m.receive_ns, m.stamp_ns) for m in messages)
    assert [m.receive_ns for m in read] == sorted(m.receive_ns for m in read)
    images = [m for m in read if "camera" in m.topic]
    wanted = {(m.topic, m.stamp_ns): m.content.data for m in messages if "camera" in m.topic}
    assert all(bytes(m.content.data) == wanted[m.topic, m.stamp_ns] for m in images)


def test_two_replays_write_equal_files(tmp_path, capsys):
    """Through the command, for another storage as well: a figure that depends on the run, or on how the bag was written, is none."""
    messages = recording(1.0)
    bags = [write(tmp_path / name / "bag", messages, storage) for name, storage in (("a", StoragePlugin.MCAP), ("b", StoragePlugin.SQLITE3))]
    files = []
    for i, bag in enumerate([bags[0], bags[0], bags[1]]):
        assert main(["replay", str(bag), "--json", str(tmp_path / f"{i}.json")]) == 0
        files.append((tmp_path / f"{i}.json").read_bytes())
    assert files[0] == files[1] == files[2]
    out = capsys.readouterr().out
    assert "elbow: |decided - done|" in out and "refused" in out


def test_topics_of_another_name_are_remapped_or_named(tmp_path, capsys):
    """The first thing that goes wrong with somebody's bag."""
    bag = write(tmp_path / "bag", recording(0.3), prefix="/robot/")
    assert main(["replay", str(bag)]) == 1
    said = capsys.readouterr().err
    assert "none of the topics joint_states, scene_camera/image_raw" in said and "robot/joint_states" in said and "--remap" in said
    remap = [text for topic in TYPES for text in ("--remap", f"/robot/{topic}:={topic}")]
    assert main(["replay", str(bag), *remap]) == 0


@pytest.mark.parametrize("spoil, said", [
    (lambda bag: (bag / "metadata.yaml").unlink(), "metadata"),
    (lambda bag: (bag / "metadata.yaml").write_text("rosbag2_bagfile_information: 3"), ""),
    (lambda bag: next(bag.glob("*.mcap")).write_bytes(b"no mcap"), ""),
], ids=["no metadata", "broken metadata", "no mcap"])
def test_a_broken_bag_is_one_line(tmp_path, capsys, spoil, said):
    """Not a traceback of a library that the user has never heard of."""
    bag = write(tmp_path / "bag", recording(0.2))
    spoil(bag)
    assert main(["replay", str(bag)]) == 1
    err = capsys.readouterr().err
    assert str(bag) in err and said in err and err.count("\n") <= 2 and "Traceback" not in err


def test_what_is_no_bag_is_refused(tmp_path):
    with pytest.raises(BagError, match="no such bag"):
        Bag(tmp_path / "nothing")
    (tmp_path / "a.mcap").touch()
    with pytest.raises(BagError, match="directory in which it lies"):
        Bag(tmp_path / "a.mcap")
    with pytest.raises(BagError, match="allowed: .*jazzy"):
        Bag(tmp_path, distribution="jazy")
