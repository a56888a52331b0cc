"""Pictures from text: boxes on a grid and arrows between them, as SVG without a script, in the page's own colours.

    box   NAME "text" COLUMN ROW        a step; "\\n" breaks its text, columns and rows may be halves
    store NAME "text" COLUMN ROW        something that is kept
    note  "text" COLUMN ROW             text alone
    NAME -> NAME "label"                an arrow; --> is a dashed one

Mermaid would be 3 MB of script in each reader's browser for pictures that never change.
"""

import re
from dataclasses import dataclass
from html import escape
from typing import Final

_WIDTH, _HEIGHT, _ACROSS, _DOWN, _EDGE = 156, 52, 216, 92, 12
_LINE: Final = re.compile(r'(box|store)\s+(\w+)\s+"([^"]*)"\s+([\d.]+)\s+([\d.]+)')
_NOTE: Final = re.compile(r'note\s+"([^"]*)"\s+([\d.]+)\s+([\d.]+)')
_ARROW: Final = re.compile(r'(\w+)\s+(-->|->)\s+(\w+)(?:\s+"([^"]*)")?')


class BadDiagram(Exception):
    """A line that can't be read, or an arrow to a box that is not there."""


@dataclass(frozen=True)
class _Box:
    kind: str
    text: str
    x: float  # of its middle
    y: float


def svg(text: str, title: str) -> str:
    """The picture. `title`: what it shows, for readers who can't see it. Raises BadDiagram."""
    boxes: dict[str, _Box] = {}
    notes: list[_Box] = []
    arrows: list[tuple[_Box, _Box, bool, str]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if found := _LINE.fullmatch(line):
            boxes[found[2]] = _Box(found[1], found[3], *_place(found[4], found[5]))
        elif found := _NOTE.fullmatch(line):
            notes.append(_Box("note", found[1], *_place(found[2], found[3])))
        elif (found := _ARROW.fullmatch(line)) and {found[1], found[3]} <= boxes.keys():
            arrows.append((boxes[found[1]], boxes[found[3]], found[2] == "-->", found[4] or ""))
        else:
            raise BadDiagram(f"{line!r} is not a line of a diagram, or names a box that is not above it")
    shapes = [*boxes.values(), *notes]
    if not shapes:
        raise BadDiagram("there is nothing in the diagram")
    width = max(one.x for one in shapes) + _WIDTH / 2 + _EDGE
    height = max(one.y for one in shapes) + _HEIGHT / 2 + _EDGE
    parts = [_arrow(*one) for one in arrows] + [_shape(one) for one in shapes]
    return (
        f'<svg class="diagram" role="img" aria-label="{escape(title)}" viewBox="0 0 {width:g} {height:g}" '
        f'width="{width:g}" xmlns="http://www.w3.org/2000/svg"><title>{escape(title)}</title>'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>' + "".join(parts) + "</svg>"
    )


def _place(column: str, row: str) -> tuple[float, float]:
    return (
        _EDGE + _WIDTH / 2 + float(column) * _ACROSS,
        _EDGE + _HEIGHT / 2 + float(row) * _DOWN,
    )


def _shape(box: _Box) -> str:
    lines = box.text.split("\\n")
    top = box.y - (len(lines) - 1) * 8.5
    words = "".join(
        f'<text x="{box.x:g}" y="{top + at * 17:g}" class="{box.kind}">{escape(line)}</text>'
        for at, line in enumerate(lines)
    )
    if box.kind == "note":
        return words
    corner = 4 if box.kind == "box" else 20
    return (
        f'<rect x="{box.x - _WIDTH / 2:g}" y="{box.y - _HEIGHT / 2:g}" width="{_WIDTH}" height="{_HEIGHT}" '
        f'rx="{corner}" class="{box.kind}"/>{words}'
    )


def _arrow(start: _Box, end: _Box, dashed: bool, label: str) -> str:
    (x1, y1), (x2, y2) = _border(start, end, 0), _border(end, start, 3)
    line = f'<path d="M{x1:g} {y1:g}L{x2:g} {y2:g}" class="arrow{" dashed" if dashed else ""}" marker-end="url(#tip)"/>'
    if not label:
        return line
    flat = abs(y2 - y1) < 20
    x, y, anchor = (x1 + x2) / 2, (y1 + y2) / 2, "middle" if flat else "start"
    place = f'x="{x + (0 if flat else 6):g}" y="{y - (8 if flat else 0):g}"'
    return f'{line}<text {place} class="label" text-anchor="{anchor}">{escape(label)}</text>'


def _border(box: _Box, to: _Box, gap: float) -> tuple[float, float]:
    """Where the line from the middle of `box` to that of `to` leaves the box, `gap` beyond its border."""
    dx, dy = to.x - box.x, to.y - box.y
    if not dx and not dy:
        raise BadDiagram(f"{box.text!r} lies on {to.text!r}")
    scale = min(
        (_WIDTH / 2 + gap) / abs(dx) if dx else float("inf"), (_HEIGHT / 2 + gap) / abs(dy) if dy else float("inf")
    )
    return box.x + dx * scale, box.y + dy * scale
