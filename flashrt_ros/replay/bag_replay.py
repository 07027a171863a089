"""`flashrt replay BAG`: what a policy would have decided on a recording, against what was done. A table for a person, figures as JSON.

The figures are a function of bag, contract, weights and engine; nothing of the machine's speed is in them, so two runs write equal files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator, Mapping

from rich.console import Console
from rich.progress import track
from rich.table import Table

from flashrt_ros.contract.load import load
from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.decode.joints import JointSelector
from flashrt_ros.errors import FlashRTError
from flashrt_ros.replay.bag import Bag
from flashrt_ros.replay.metrics import Metrics, Truth
from flashrt_ros.replay.redecide import Message, Redecider


def replay_bag(path: Path, contract: Path, remap: Mapping[str, str], distribution: str, task: str, device: str, threads: int,
               figures: Path | None) -> int:
    """Returns 0 if there was at least one chunk. task: the instruction, where the bag has none. figures: a JSON file, or None. Raises BagError,
    ContractError."""
    console = Console()
    with Bag(path, remap, distribution) as bag:
        redecider = Redecider(load(contract), device, threads)
        try:
            found = _figures(bag, redecider, task, console)
        finally:
            redecider.close()
    console.print(table(found))
    if figures is not None:
        figures.parent.mkdir(parents=True, exist_ok=True)
        figures.write_text(json.dumps(found, indent=1, sort_keys=True, allow_nan=False) + "\n")
        console.print(f"figures: {figures}")
    return 0 if found["chunks"] else 1


def _figures(bag: Bag, redecider: Redecider, task: str, console: Console) -> dict[str, Any]:
    pipeline = redecider.pipeline
    source = _measured(pipeline)
    metrics = Metrics(pipeline.spec.joints, source.columns, pipeline.contract.outputs[0].step_ns)
    count = sum(topic.count for topic in bag.topics if topic.name in redecider.topics)
    messages = source.listen(track(bag.messages(redecider.topics), "deciding again", count, console=console, transient=True))
    for step in redecider.run(messages, task):
        metrics.add(step)
    return {
        "bag": bag.path.name, "contract_digest": redecider.digests.contract, "engine_digest": redecider.digests.engine,
        "faults": redecider.faults, "unread": bag.unread, "broken_off": bag.broken, **metrics.figures(source.truth),
    }


class _Source:
    """Where the joints' real motion is found: an input of the contract. columns: of the chunk's joints in the truth; None: not measured."""

    def __init__(self, topic: str, select: JointSelector | None, columns: tuple[int | None, ...], by_header: bool) -> None:
        self.topic, self.columns, self.truth = topic, columns, Truth()
        self._select, self._by_header = select, by_header

    def listen(self, messages: Iterator[Message]) -> Iterator[Message]:
        """The same messages; those of the joints are noted on their way."""
        for message in messages:
            if message.topic == self.topic and self._select is not None:
                stamp_ns = message.stamp_ns if self._by_header and message.stamp_ns is not None else message.receive_ns
                try:
                    self.truth.add(stamp_ns, self._select(message.content))
                except FlashRTError:
                    pass  # the intake counts what is wrong with it
            yield message


def _measured(pipeline: Pipeline) -> _Source:
    found = [pipeline.contract.measured([joint]) for joint in pipeline.spec.joints]
    name = next((name for name, _ in filter(None, found)), None)
    if name is None:
        return _Source("", None, (None,) * len(found), True)
    declared = pipeline.input[name]
    columns = tuple(place[1][0] if place is not None and place[0] == name else None for place in found)
    return _Source(declared.channel.topic, JointSelector(declared.select, declared.apply, name), columns, declared.align.timeline == "header")


def table(found: Mapping[str, Any]) -> Table:
    """For a person. found: what the JSON file holds."""
    rows = Table(title=f"{found['bag']}: {found['chunks']} chunks at {found['moments']} moments of the grid", show_header=False, title_justify="left")
    rows.add_row("without a task", str(found["without_task"]))
    rows.add_row("refused", _counts(found["refused"]))
    rows.add_row("guards that tripped", _counts(found["trips"]) + (f"; {found['faults']} faults" if found["faults"] else ""))
    rows.add_row("runs", _counts(found["runs"]))
    for stage, age in found["age_ms"].items():
        rows.add_row(f"age of what {stage} knows, ms", f"p50 {age['p50']:.0f}, p99 {age['p99']:.0f}, largest {age['p100']:.0f}")
    if found["jump"]["p50"] is not None:
        rows.add_row("jump to the chunk before, rad or m", f"p50 {found['jump']['p50']:.3f}, p99 {found['jump']['p99']:.3f}, "
                                                           f"largest {found['jump']['p100']:.3f}")
    for joint, errors in found["error"].items():
        known = [f"{value:.3f} at {at} s" for at, value in errors.items() if value is not None]
        rows.add_row(f"{joint}: |decided - done|", ", ".join(known) or "not measured")
    if found["unread"]:
        rows.add_row("could not be read", _counts(found["unread"]))
    if found["broken_off"]:
        rows.add_row("the bag breaks off", found["broken_off"])
    return rows


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {n}" for name, n in counts.items()) or "none"
