"""Line plots as SVG: a few kilobytes, and readable on a light and on a dark page. Pure: points in, text out."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 760
HEIGHT: Final = 300  # of a panel
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 36, 48  # around what is drawn; the lines' names are on the right
_COLOURS: Final = ("#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e", "#c2255c", "#868e96")
_MOST_DOTS: Final = 20  # of a line; more would hide it

Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """What an axis shows: the values from `low` to `high`, with `marks` (value -> text); `name` says what they are."""

    low: float
    high: float
    marks: Mapping[float, str]
    name: str = ""
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Where a value lies between low (0) and high (1); values outside are drawn at the edge."""
        low, high = self.low, self.high
        if self.logarithmic:
            value, low, high = math.log10(value), math.log10(low), math.log10(high)
        return min(max((value - low) / (high - low), 0.0), 1.0)


def short(number: float) -> str:
    """1500000 -> 1.5M."""
    for size, letter in ((10**6, "M"), (10**3, "K")):
        if abs(number) >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def linear(top: float, name: str = "", text: Callable[[float], str] = short) -> Axis:
    """From 0 to the first mark that is not below `top`; the marks are 1, 2 or 5 times a power of ten apart."""
    if top <= 0:
        return Axis(0.0, 1.0, {0.0: "0", 1.0: "1"}, name)
    rough = top / 5
    power: float = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    marks = [step * n for n in range(math.ceil(top / step - 1e-9) + 1)]
    return Axis(0.0, marks[-1], {mark: text(mark) for mark in marks}, name)


def logarithmic(values: Iterable[float], name: str = "") -> Axis:
    """Whole powers of ten around `values`, all above 0."""
    values = list(values)
    low = math.floor(math.log10(min(values)))
    high = max(math.ceil(math.log10(max(values))), low + 1)
    return Axis(10.0**low, 10.0**high, {10.0**n: short(10.0**n) for n in range(low, high + 1)}, name, logarithmic=True)


def panel(title: str, x: Axis, y: Axis, lines: Mapping[str, Sequence[Point]]) -> str:
    """One plot; each of `lines` has its name beside it."""

    def across(value: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * x.share(value)

    def up(value: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * y.share(value)

    parts = [
        f'<text x="{LEFT}" y="20" font-size="14">{escape(title)}</text>',
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, x.name, "middle"),
        f'<text transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(y.name)}</text>",
    ]
    grid = 'stroke="#868e96" stroke-opacity=".3"'
    parts += [f'<path d="M{LEFT} {up(mark):.1f}H{WIDTH - RIGHT}" {grid}/>' for mark in y.marks]
    parts += [_text(LEFT - 6, up(mark) + 4, text, "end") for mark, text in y.marks.items()]
    parts += [_text(across(mark), HEIGHT - BOTTOM + 18, text, "middle") for mark, text in x.marks.items()]
    for n, (name, line) in enumerate(lines.items()):
        colour, beside = _COLOURS[n % len(_COLOURS)], TOP + 14 + 18 * n
        points = " ".join(f"{across(a):.1f},{up(b):.1f}" for a, b in line)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        dots = line if len(line) <= _MOST_DOTS else ()
        parts += [f'<circle cx="{across(a):.1f}" cy="{up(b):.1f}" r="3" fill="{colour}"/>' for a, b in dots]
        parts.append(f'<path d="M{WIDTH - RIGHT + 12} {beside - 4}h16" stroke="{colour}" stroke-width="3"/>')
        parts.append(_text(WIDTH - RIGHT + 34, beside, name, "start"))
    return "\n".join(parts)


def document(panels: Sequence[str]) -> str:
    """The panels below each other, as one SVG document."""
    height = HEIGHT * max(1, len(panels))
    body = "".join(f'<g transform="translate(0 {n * HEIGHT})">\n{one}\n</g>\n' for n, one in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        f'font-size="12" fill="#868e96">\n{body}</svg>\n'
    )


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
