"""Where the boxes and wires of a pipeline's picture lie: columns by depth, lanes for wires that pass a column.

Owns the geometry in pixels; what stands in a box is picture.py's. Pure Python; imports nothing of the package outside
contract/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable

from flashrt_ros.contract.pipeline import Pipeline
from flashrt_ros.contract.refresh import own_state

CURVE, ROW_GAP, LANE = 72, 28, 14
PORT_GAP, ARROW_GAP = 42, 18  # between buffers that leave a box, and between wires that enter one


@dataclass
class Box:
    """An input, stage or output; or a lane, where a wire crosses a column. (x, y): left edge and vertical centre.
    outs: the buffers that leave it on the right, from top to bottom."""

    kind: str
    name: str
    column: int
    width: float = 0.0
    height: float = LANE
    outs: tuple[str, ...] = ()
    x: float = 0.0
    y: float = 0.0

    def port(self, buffer: str) -> float:
        """Height at which a buffer leaves the box."""
        return self.y + (self.outs.index(buffer) - (len(self.outs) - 1) / 2) * PORT_GAP


@dataclass(frozen=True, slots=True)
class Wire:
    """(x0, y0) to (x1, y1), a curve; ends in an arrow unless it goes on through a lane."""

    x0: float
    y0: float
    x1: float
    y1: float
    arrow: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """labels: buffer -> left end, right end and height of the straight line on which its name stands."""

    boxes: tuple[Box, ...]
    labels: dict[str, tuple[float, float, float]]
    wires: tuple[Wire, ...]
    lanes: tuple[tuple[float, float, float], ...]  # straight pieces: left, right, height
    right: float
    bottom: float


def layout(pipeline: Pipeline, size: Callable[[str, str], tuple[float, float]], label: Callable[[str], float],
           left: float, top: float) -> Layout:
    """size: (kind, name) -> width and height of a box; label: buffer -> width of its label."""
    boxes = _boxes(pipeline)
    readers = _readers(pipeline)
    source = {b: box for box in boxes.values() for b in box.outs}
    chains = {b: _lanes(source[b], [boxes[r] for r in readers[b]]) for b in source}
    columns: list[list[Box]] = [[] for _ in range(1 + max(b.column for b in boxes.values()))]
    for box in (*boxes.values(), *(lane for chain in chains.values() for lane in chain)):
        columns[box.column].append(box)
        if box.kind != "lane":
            box.width, box.height = size(box.kind, box.name)
            entering = sum(key == f"{_FAMILY[box.kind]}/{box.name}" for keys in readers.values() for key in keys)
            box.height = max(box.height, PORT_GAP * len(box.outs), ARROW_GAP * entering + 10)
    comes_from = {id(lane): (chain[i - 1] if i else source[b], b) for b, chain in chains.items() for i, lane in enumerate(chain)}
    _stack(columns, boxes, readers, source, chains, comes_from)

    x = left
    shift = top - min(box.y - box.height / 2 for column in columns for box in column)
    label_end = []
    for column in columns:
        width = max(box.width for box in column)
        for box in column:
            box.x, box.width, box.y = x, width, box.y + shift
        label_end.append(x + width + max((label(b) for box in column for b in box.outs), default=0))
        x = label_end[-1] + CURVE
    labels = {b: (box.x + box.width, label_end[box.column], box.port(b)) for b, box in source.items()}
    every = [box for column in columns for box in column]
    return Layout(
        boxes=tuple(boxes.values()), labels=labels,
        wires=tuple(_wires(boxes, readers, source, chains, label_end)),
        lanes=tuple((lane.x, label_end[lane.column], lane.y) for chain in chains.values() for lane in chain),
        right=max(box.x + box.width for box in every), bottom=max(box.y + box.height / 2 for box in every))


def _boxes(pipeline: Pipeline) -> dict[str, Box]:
    """By key: `input/scene`, `stage/vision`, `output/arm`. A stage lies right of what it reads, an input just left of
    its first reader."""
    depth: dict[str, int] = {}
    for stage in pipeline.stages:
        writers = [depth[pipeline.writer[b]] for b in stage.reads if b in pipeline.writer and b not in own_state(stage)]
        depth[stage.name] = 1 + max(writers, default=0)
    boxes = {}
    for stage in pipeline.stages:
        kind = "action" if stage.name == pipeline.spec.action else "stage" if stage.commit_after is None else "overlapped"
        outs = tuple(b for b in stage.writes if b not in own_state(stage))
        boxes[f"stage/{stage.name}"] = Box(kind, stage.name, depth[stage.name], outs=outs)
    for buffer in pipeline.spec.buffers:
        if buffer.kind == "input":
            first = min(depth[s.name] for s in pipeline.stages if buffer.name in s.reads)
            boxes[f"input/{buffer.name}"] = Box("input", buffer.name, first - 1, outs=(buffer.name,))
    for output in pipeline.contract.outputs:
        boxes[f"output/{output.name}"] = Box("output", output.name, depth[pipeline.spec.action] + 1)
    return boxes


def _readers(pipeline: Pipeline) -> dict[str, list[str]]:
    """Buffer -> keys of the boxes that it goes to."""
    readers = {b.name: [f"stage/{s.name}" for s in pipeline.stages if b.name in s.reads] for b in pipeline.spec.buffers}
    readers[pipeline.spec.chunk] = [f"output/{o.name}" for o in pipeline.contract.outputs]
    return readers


def _lanes(source: Box, readers: list[Box]) -> list[Box]:
    """A lane in every column between a buffer's source and its furthest reader."""
    return [Box("lane", source.name, c) for c in range(source.column + 1, max(r.column for r in readers))]


def _stack(columns, boxes, readers, source, chains, comes_from) -> None:
    """Give every box its height: each column in the order of where its wires come from, centred about y = 0."""
    incoming: dict[int, list[tuple[Box, str]]] = {}
    for buffer, keys in readers.items():
        if buffer in source:
            for key in keys:
                incoming.setdefault(id(boxes[key]), []).append((_before(buffer, boxes[key], source, chains), buffer))
    for column in columns:
        def wish(box: Box) -> tuple[int, float]:
            origins = [comes_from[id(box)]] if box.kind == "lane" else incoming.get(id(box), [])
            heights = [o.y if o.kind == "lane" else o.port(b) for o, b in origins]
            return (1, 0.0) if box.kind == "input" else (0, sum(heights) / len(heights) if heights else 0.0)

        column.sort(key=wish)
        y = -(sum(b.height for b in column) + ROW_GAP * (len(column) - 1)) / 2
        for box in column:
            box.y = y + box.height / 2
            y += box.height + ROW_GAP


def _before(buffer: str, reader: Box, source: dict[str, Box], chains: dict[str, list[Box]]) -> Box:
    """What the wire of a buffer leaves last on its way to a reader: a lane, or its source."""
    lanes = [lane for lane in chains[buffer] if lane.column < reader.column]
    return lanes[-1] if lanes else source[buffer]


def _wires(boxes, readers, source, chains, label_end) -> list[Wire]:
    wires = []
    arrivals: dict[str, list[tuple[float, float]]] = {}
    for buffer, box in source.items():
        last = box
        for lane in chains[buffer]:
            wires.append(Wire(label_end[last.column], _height(last, buffer), lane.x, lane.y, False))
            last = lane
        for key in readers[buffer]:
            origin = _before(buffer, boxes[key], source, chains)
            arrivals.setdefault(key, []).append((label_end[origin.column], _height(origin, buffer)))
    for key, origins in arrivals.items():
        box = boxes[key]
        for i, (x, y) in enumerate(sorted(origins, key=lambda o: o[1])):
            wires.append(Wire(x, y, box.x, box.y + (i - (len(origins) - 1) / 2) * ARROW_GAP, True))
    return wires


def _height(box: Box, buffer: str) -> float:
    return box.y if box.kind == "lane" else box.port(buffer)
