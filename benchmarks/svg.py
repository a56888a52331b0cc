"""Line plots as SVG, by hand: a few kilobytes, and readable on a light and on a dark page."""

from collections.abc import Callable, Sequence
from html import escape
from math import ceil, floor, log10

from benchmarks.results import Plot

WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 36, 48
COLOURS = ("#0b7285", "#e8590c", "#5f3dc4", "#2b8a3e", "#c2255c", "#868e96")


def line_plot(plot: Plot) -> str:
    """The plot as one SVG document."""
    lines = {name: [(x, y) for x, y in line if y == y] for name, line in plot.lines.items()}  # NaN: not measured
    lines = {name: line for name, line in lines.items() if line}
    points = [point for line in lines.values() for point in line]
    if not points:
        return ""
    across, x_ticks = _axis([x for x, _ in points], "x" in plot.log, LEFT, WIDTH - RIGHT)
    up, y_ticks = _axis([y for _, y in points], "y" in plot.log, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12" fill="#868e96">',
        f'<text x="{LEFT}" y="20" font-size="14">{escape(plot.title)}</text>',
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, plot.x, "middle"),
        f'<text transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(plot.y)}</text>",
    ]
    grid = 'stroke="#868e96" stroke-opacity=".3"'
    parts += [f'<path d="M{LEFT} {up(tick):.1f}H{WIDTH - RIGHT}" {grid}/>' for tick in y_ticks]
    parts += [_text(LEFT - 6, up(tick) + 4, short(tick), "end") for tick in y_ticks]
    parts += [_text(across(tick), HEIGHT - BOTTOM + 18, short(tick), "middle") for tick in x_ticks]
    for n, (name, line) in enumerate(lines.items()):
        colour = COLOURS[n % len(COLOURS)]
        placed = [(across(x), up(y)) for x, y in line]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if len(placed) <= 20:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
        y = TOP + 14 + 18 * n
        parts.append(f'<path d="M{WIDTH - RIGHT + 12} {y - 4}h16" stroke="{colour}" stroke-width="3"/>')
        parts.append(_text(WIDTH - RIGHT + 34, y, name, "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def short(number: float) -> str:
    """1500000 -> 1.5M."""
    for size, letter in ((10**6, "M"), (10**3, "K")):
        if abs(number) >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _axis(
    values: Sequence[float], logarithmic: bool, first: float, last: float
) -> tuple[Callable[[float], float], list[float]]:
    """(value -> place, ticks). A plain axis begins at 0."""
    if logarithmic:
        low, high = floor(log10(min(values))), max(ceil(log10(max(values))), floor(log10(min(values))) + 1)
        ticks = [10.0**n for n in range(low, high + 1)]
        return lambda value: first + (log10(value) - low) / (high - low) * (last - first), ticks
    step = 10.0 ** floor(log10(max(max(values), 1e-9)))
    step = next(s for s in (step / 5, step / 2, step, step * 2) if max(values) / s <= 6)
    top = ceil(max(values) / step) * step
    ticks = [n * step for n in range(round(top / step) + 1)]
    return lambda value: first + value / top * (last - first), ticks
