"""Where the boxes and wires of a pipeline's picture lie: columns by depth, lanes for wires that pass a column.

Owns the geometry in pixels; what stands in a box is picture.py's. Pure Python; imports nothing of the package outside
contract/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, NamedTuple

from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.contract.refresh import own_state

CURVE, ROW_GAP, LANE = 72, 28, 14  # width between columns, height between boxes, height of a lane
PORT_GAP, ARROW_GAP = 42, 18  # between buffers that leave a box, and between wires that enter one


@dataclass(eq=False)
class Box:
    """An input, stage (kind stage, overlapped or action) or output; or a lane, where a wire crosses a column.

    (x, y): left edge and vertical centre. outs: the buffers that leave on the right, from top to bottom.
    """

    kind: str
    name: str
    column: int
    outs: tuple[str, ...] = ()
    width: float = 0.0
    height: float = LANE
    x: float = 0.0
    y: float = 0.0

    def port(self, buffer: str) -> float:
        """Height at which a buffer leaves."""
        return self.y + (self.outs.index(buffer) - (len(self.outs) - 1) / 2) * PORT_GAP


class Link(NamedTuple):
    """A buffer's way from one column to the next."""

    origin: Box
    buffer: str
    target: Box


class Wire(NamedTuple):
    """A curve from (x0, y0) to (x1, y1)."""

    x0: float
    y0: float
    x1: float
    y1: float
    arrow: bool


class Label(NamedTuple):
    """The straight piece at the height y on which a buffer's name stands; buffer None: a lane, without a name."""

    buffer: str | None
    left: float
    right: float
    y: float


@dataclass(frozen=True, slots=True)
class Layout:
    boxes: tuple[Box, ...]
    labels: tuple[Label, ...]
    wires: tuple[Wire, ...]
    bottom: float


def layout(
    pipeline: Pipeline,
    box_size: Callable[[str, str], tuple[float, float]],
    label_width: Callable[[str], float],
    left: float,
    top: float,
) -> Layout:
    """box_size: (kind, name) -> width and height that its text needs. (left, top): the corner of the whole."""
    stages, inputs, outputs = _boxes(pipeline)
    boxes = [*stages.values(), *inputs.values(), *outputs.values()]
    links = _links(pipeline, stages, inputs, outputs)
    into: dict[Box, list[Link]] = {}
    for link in links:
        into.setdefault(link.target, []).append(link)
    for box in boxes:
        box.width, height = box_size(box.kind, box.name)
        box.height = max(height, PORT_GAP * len(box.outs), ARROW_GAP * len(into.get(box, ())) + 10)
    lanes = [box for box in into if box.kind == "lane"]
    columns = [[b for b in (*boxes, *lanes) if b.column == c] for c in range(1 + max(b.column for b in boxes))]
    for column in columns:
        _stack(column, into)

    x, shift = left, top - min(b.y - b.height / 2 for b in (*boxes, *lanes))
    label_end = []
    for column in columns:
        width = max(b.width for b in column)
        for box in column:
            box.x, box.width, box.y = x, width, box.y + shift
        label_end.append(x + width + max((label_width(b) for box in column for b in box.outs), default=0))
        x = label_end[-1] + CURVE
    wires = []
    for box, arriving in into.items():
        arriving.sort(key=lambda link: link.origin.port(link.buffer))
        for i, (origin, buffer, _) in enumerate(arriving):
            entry = box.y + (i - (len(arriving) - 1) / 2) * ARROW_GAP
            wires.append(Wire(label_end[origin.column], origin.port(buffer), box.x, entry, box.kind != "lane"))
    labels = [Label(b, box.x + box.width, label_end[box.column], box.port(b)) for box in boxes for b in box.outs]
    labels += [Label(None, lane.x, label_end[lane.column], lane.y) for lane in lanes]
    return Layout(tuple(boxes), tuple(labels), tuple(wires), max(b.y + b.height / 2 for b in (*boxes, *lanes)))


def _boxes(pipeline: Pipeline) -> tuple[dict[str, Box], dict[str, Box], dict[str, Box]]:
    """Stages, inputs, outputs by name. A stage lies right of what it reads, an input just left of its first reader."""
    depth: dict[str, int] = {}
    stages = {}
    for stage in pipeline.stages:
        writers = [depth[pipeline.writer[b]] for b in stage.reads if b in pipeline.writer and b not in own_state(stage)]
        depth[stage.name] = 1 + max(writers, default=0)
        kind = (
            "action" if stage.name == pipeline.spec.action else "stage" if stage.commit_after is None else "overlapped"
        )
        outs = tuple(b for b in stage.writes if b not in own_state(stage))
        stages[stage.name] = Box(kind, stage.name, depth[stage.name], outs)
    inputs = {}
    for buffer in pipeline.spec.buffers:
        if buffer.kind == "input":
            first = min(depth[s.name] for s in pipeline.stages if buffer.name in s.reads)
            inputs[buffer.name] = Box("input", buffer.name, first - 1, (buffer.name,))
    outputs = {o.name: Box("output", o.name, depth[pipeline.spec.action] + 1) for o in pipeline.contract.outputs}
    return stages, inputs, outputs


def _links(pipeline: Pipeline, stages: dict[str, Box], inputs: dict[str, Box], outputs: dict[str, Box]) -> list[Link]:
    """Every buffer to every reader, column by column, through a lane in each column on the way."""
    links = []
    for box in (*inputs.values(), *stages.values()):
        for buffer in box.outs:
            readers = [stages[s.name] for s in pipeline.stages if buffer in s.reads]
            if buffer == pipeline.spec.chunk:
                readers = list(outputs.values())
            last, furthest = box, max(r.column for r in readers)
            for column in range(box.column + 1, furthest + 1):
                links += [Link(last, buffer, r) for r in readers if r.column == column]
                if column < furthest:
                    lane = Box("lane", buffer, column, (buffer,))
                    links.append(Link(last, buffer, lane))
                    last = lane
    return links


def _stack(column: list[Box], into: dict[Box, list[Link]]) -> None:
    """Give the boxes of a column their heights: in the order of where their wires come from, inputs last, centred about
    y = 0."""

    def wish(box: Box) -> tuple[bool, float]:
        origins = [link.origin.port(link.buffer) for link in into.get(box, ())]
        return box.kind == "input", sum(origins) / len(origins) if origins else 0.0

    column.sort(key=wish)
    y = -(sum(b.height for b in column) + ROW_GAP * (len(column) - 1)) / 2
    for box in column:
        box.y = y + box.height / 2
        y += box.height + ROW_GAP
