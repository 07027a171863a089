"""A verified pipeline as an SVG picture: the stage graph from left to right, above its schedule and worst-case ages.

Owns the drawing; the words come from table.py, the places from layout.py. Writes SVG by hand: pure Python, imports
nothing of the package outside contract/.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from flashrt_ros.contract.age import paths, worst_ages
from flashrt_ros.contract.closure import schedule
from flashrt_ros.contract.layout import Box, layout
from flashrt_ros.contract.pipeline import Pipeline, Stage
from flashrt_ros.contract.refresh import own_state
from flashrt_ros.contract.spec import BufferSpec
from flashrt_ros.contract.table import age_sum, filling, ms, overlap, pace, path_words, rate, rule

FONTS = "Inter, DejaVu Sans, Helvetica, Arial, sans-serif"
INK, MUTED, FAINT, EDGE, PAPER, ALARM = "#1f2933", "#5f6c7b", "#e4e9ee", "#8794a3", "#ffffff", "#b45309"
# Kind of box -> fill, border, dashes of the border, radius of the corners.
STYLES = {
    "input": ("#f4f6f8", "#aab5c0", "", 18),
    "stage": ("#e8f0fe", "#3b6fd4", "", 6),
    "overlapped": ("#f3eafd", "#8a4fd3", "7 4", 6),
    "action": ("#e2f5ec", "#1d9a63", "", 6),
    "output": ("#fff4dc", "#d59a1b", "", 18),
}
MARGIN, LINE = 36.0, 17.0
TURN, ROW = 40.0, 34.0  # of the schedule: width of a decision, height of a stage
MOST_TURNS = 20


@dataclass
class _Sheet:
    """SVG elements in the order of drawing, and how far they reach."""

    parts: list[str] = field(default_factory=list)
    right: float = 0.0
    bottom: float = 0.0

    def _reach(self, x: float, y: float) -> None:
        self.right, self.bottom = max(self.right, x), max(self.bottom, y)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        size: int = 12,
        colour: str = INK,
        bold: bool = False,
        anchor: str = "start",
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"{weight}>'
            f"{escape(words)}</text>"
        )
        self._reach(x + (_width(words, size) if anchor == "start" else 0), y)

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        stroke: str = "none",
        dash: str = "",
        radius: float = 0,
    ) -> None:
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius}" fill="{fill}" '
            f'stroke="{stroke}" stroke-width="1.5"{dashes}/>'
        )
        self._reach(x + width, y + height)

    def line(self, path: str, colour: str = EDGE, arrow: bool = False, width: float = 1.6) -> None:
        head = ' marker-end="url(#head)"' if arrow else ""
        self.parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{head}/>')


def svg(pipeline: Pipeline) -> str:
    """The picture as the text of an SVG file; the same pipeline always gives the same text."""
    sheet = _Sheet()
    sheet.text(MARGIN, 46, pipeline.contract.policy.type, 22, bold=True)
    sheet.text(MARGIN, 70, pace(pipeline), 13, MUTED)
    top = 100.0
    for warning in pipeline.warnings:
        sheet.text(MARGIN, top - 8, f"Warning: {warning}", 13, ALARM, bold=True)
        top += 20
    bottom = _graph(sheet, pipeline, top)
    right = _schedule(sheet, pipeline, MARGIN, bottom + 52)
    _ages(sheet, pipeline, right + 60, bottom + 52)
    size = f'width="{sheet.right + MARGIN:.0f}" height="{sheet.bottom + MARGIN:.0f}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONTS}">',
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0 0.5 L8 4 L0 7.5 z" fill="{EDGE}"/></marker></defs>',
            f'<rect width="100%" height="100%" fill="{PAPER}"/>',
            *sheet.parts,
            "</svg>",
            "",
        ]
    )


def _width(words: str, size: int) -> float:
    """About how wide a text is, in pixels; on the wide side, for fonts differ."""
    return len(words) * size * 0.6


def _shape(buffer: BufferSpec) -> str:
    return f"{buffer.dtype} {'×'.join(map(str, buffer.shape))}"


def _graph(sheet: _Sheet, pipeline: Pipeline, top: float) -> float:
    """Draws the graph; returns its lower edge."""
    lines = {
        **{("input", b.name): _input_lines(pipeline, b) for b in pipeline.spec.buffers if b.kind == "input"},
        **{
            (kind, s.name): _stage_lines(pipeline, s)
            for s in pipeline.stages
            for kind in ("stage", "overlapped", "action")
        },
        **{
            ("output", o.name): (
                o.channel.topic,
                f"{len(o.select)} joint{'s' * (len(o.select) > 1)}, a step per {o.step_ms:g} ms",
            )
            for o in pipeline.contract.outputs
        },
    }

    def size(kind: str, name: str) -> tuple[float, float]:
        longest = max(_width(name, 14), *(_width(line, 11) for line in lines[kind, name]))
        return max(110.0, longest + 24), 34 + LINE * len(lines[kind, name])

    def label(name: str) -> float:
        return max(_width(name, 12), _width(_shape(pipeline.buffers[name]), 10)) + 18

    placed = layout(pipeline, size, label, MARGIN, top)
    for wire in placed.wires:
        middle = (wire.x0 + wire.x1) / 2
        sheet.line(
            f"M{wire.x0:.1f} {wire.y0:.1f} C{middle:.1f} {wire.y0:.1f} {middle:.1f} {wire.y1:.1f} "
            f"{wire.x1:.1f} {wire.y1:.1f}",
            arrow=wire.arrow,
        )
    for name, left, right, y in placed.labels:
        sheet.line(f"M{left:.1f} {y:.1f} H{right:.1f}")
        if name is not None:
            sheet.text(left + 9, y - 6, name, 12, INK, bold=True)
            sheet.text(left + 9, y + 14, _shape(pipeline.buffers[name]), 10, MUTED)
    for box in placed.boxes:
        _box(sheet, box, lines[box.kind, box.name])
    return placed.bottom


def _box(sheet: _Sheet, box: Box, lines: tuple[str, ...]) -> None:
    fill, stroke, dash, radius = STYLES[box.kind]
    top, middle = box.y - box.height / 2, box.x + box.width / 2
    sheet.rect(box.x, top, box.width, box.height, fill, stroke, dash, radius)
    y = box.y - LINE * len(lines) / 2 + 5
    sheet.text(middle, y, box.name, 14, INK, bold=True, anchor="middle")
    for i, line in enumerate(lines):
        sheet.text(middle, y + LINE * (i + 1), line, 11, MUTED, anchor="middle")


def _input_lines(pipeline: Pipeline, buffer: BufferSpec) -> tuple[str, ...]:
    if buffer.name in pipeline.spec.engine_filled:
        return (filling(pipeline, buffer.name), "filled by the engine")
    entry = pipeline.input[buffer.name]
    return (entry.channel.topic, "never ages" if entry.max_age_ms is None else f"at most {entry.max_age_ms:g} ms old")


def _stage_lines(pipeline: Pipeline, stage: Stage) -> tuple[str, ...]:
    age = worst_ages(pipeline).get(stage.writes[0])
    often = rate(pipeline, stage)
    lines = [rule(stage) if often == "-" else f"{rule(stage)}: {often}"]
    if stage.commit_after is not None:
        lines.append(f"overlap: {overlap(stage)}")
    if age is not None:
        bound = "" if stage.max_age_ns is None else f" (max_age {ms(stage.max_age_ns)})"
        lines.append(f"worst age {ms(age)}{bound}")
    lines += [f"state {b}: {_shape(pipeline.buffers[b])}" for b in stage.writes if b in own_state(stage)]
    return tuple(lines)


def _schedule(sheet: _Sheet, pipeline: Pipeline, left: float, top: float) -> float:
    """Draws the first turns of the nominal schedule; returns its right edge."""
    nominal = schedule(pipeline)
    turns = min(MOST_TURNS, max(12, len(nominal)))
    sheet.text(left, top, "Schedule", 15, bold=True)
    repeats = "every decision" if len(nominal) == 1 else f"every {len(nominal)} decisions"
    caption = f"repeats {repeats}; dashed: in the background, taken up at its right end"
    sheet.text(left, top + 20, caption, 11, MUTED)
    x0 = left + max(_width(s.name, 12) for s in pipeline.stages) + 16
    y0 = top + 40
    for turn in range(turns + 1):
        x = x0 + turn * TURN
        sheet.line(f"M{x:.1f} {y0:.1f} V{y0 + ROW * len(pipeline.stages):.1f}", FAINT, width=1)
        if turn < turns:
            sheet.text(x + 2, y0 + ROW * len(pipeline.stages) + 16, str(turn), 10, MUTED)
    for row, stage in enumerate(pipeline.stages):
        y = y0 + ROW * row
        sheet.text(x0 - 12, y + ROW / 2 + 4, stage.name, 12, INK, anchor="end")
        for turn in range(turns):
            for run in (r for r in nominal[turn % len(nominal)] if r.stage == stage.name):
                kind = "action" if stage.name == pipeline.spec.action else "overlapped" if run.background else "stage"
                fill, stroke, dash, _ = STYLES[kind]
                length = TURN * min(stage.commit_after, turns - turn) - 4 if run.background else TURN * 0.55
                sheet.rect(x0 + turn * TURN + 2, y + 6, length, ROW - 12, fill, stroke, dash and "4 3", 3)
    sheet.text(
        x0 + turns * TURN / 2,
        y0 + ROW * len(pipeline.stages) + 34,
        f"decision, one per {ms(pipeline.period_ns)}",
        11,
        MUTED,
        anchor="middle",
    )
    return max(x0 + turns * TURN, left + _width(caption, 11))


def _ages(sheet: _Sheet, pipeline: Pipeline, left: float, top: float) -> None:
    """Lists the worst-case age of every path, with a bar each."""
    sheet.text(left, top, "Worst-case age at the action", 15, bold=True)
    found = sorted(paths(pipeline), key=lambda p: -p.age_ns)[:8]
    for i, path in enumerate(found):
        y = top + 30 + 40 * i
        share = path.age_ns / found[0].age_ns
        sheet.text(left, y, path_words(path, " → "), 12, INK)
        sheet.rect(left, y + 7, 180 * share, 9, STYLES["overlapped"][0], STYLES["overlapped"][1], radius=2)
        age = ms(path.age_ns)
        sheet.text(left + 180 * share + 10, y + 16, age, 12, INK, bold=True)
        sheet.text(left + 180 * share + 22 + _width(age, 12), y + 16, age_sum(pipeline, path), 11, MUTED)
