"""Freshness over time as SVG: one panel a stream, a point a commit. Pure: commits in, text out."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Final

from firn.log.freshness import Commit, measured

_WIDTH: Final = 900
_HEIGHT: Final = 240  # of a panel
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 44, 32
_LINES: Final = (("p50", 0.5, "#1f6fb4", ""), ("p99", 0.99, "#c8501e", "6 3"))
_MINUTES: Final = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)  # between two ticks of the time axis


def freshness_svg(streams: Mapping[str, Sequence[Commit]], since: datetime, until: datetime) -> str:
    """The plot of `streams` (name -> its commits) from `since` to `until`: seconds from acceptance to commit."""
    panels = [_panel(name, commits, since, until) for name, commits in streams.items()]
    height = _HEIGHT * max(1, len(panels))
    body = "".join(f'<g transform="translate(0 {place * _HEIGHT})">{panel}</g>\n' for place, panel in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        f'font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n{body}</svg>\n'
    )


def ticks(top: float, most: int = 5) -> list[float]:
    """Round numbers from 0 up to the first that is not below `top`: steps of 1, 2 or 5 times a power of ten."""
    if top <= 0:
        return [0.0, 1.0]
    rough = top / most
    power: float = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))
    return [step * n for n in range(math.ceil(top / step - 1e-9) + 1)]


def _panel(name: str, commits: Sequence[Commit], since: datetime, until: datetime) -> str:
    drawn = [(one.at, [one.lag(share) or 0.0 for _, share, _, _ in _LINES]) for one in commits if one.events]
    marks = ticks(max((lag for _, lags in drawn for lag in lags), default=0.0))
    span = max((until - since).total_seconds(), 1.0)

    def x(moment: datetime) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * min(max((moment - since).total_seconds() / span, 0.0), 1.0)

    def y(lag: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * lag / marks[-1]

    parts = [f'<text x="{_LEFT}" y="18" font-size="14">{escape(_title(name, commits))}</text>']
    parts += [_grid(mark, y) for mark in marks]
    parts += [_time_mark(moment, x) for moment in _moments(since, until)]
    for place, (label, _, colour, dash) in enumerate(_LINES):
        points = [(x(moment), y(lags[place])) for moment, lags in drawn]
        parts.append(_line(points, colour, dash))
        parts.append(f'<text x="{_LEFT + 48 * place}" y="36" fill="{colour}">{label}</text>')
    if not drawn:
        parts.append(f'<text x="{_WIDTH // 2}" y="{_HEIGHT // 2}" text-anchor="middle">nothing was committed</text>')
    return "\n".join(parts)


def _title(name: str, commits: Sequence[Commit]) -> str:
    found = measured(commits)
    if found.p50 is None or found.p99 is None:
        return f"{name}: seconds from acceptance to commit"
    rate = "" if found.events_per_second is None else f", {found.events_per_second:,.0f} events/s"
    return (
        f"{name}: seconds from acceptance to commit (p50 {found.p50:.1f}, p99 {found.p99:.1f}; "
        f"{found.events:,} events in {found.commits} commits{rate})"
    )


def _grid(mark: float, y: Callable[[float], float]) -> str:
    at = f"{y(mark):.1f}"
    return (
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at}" y2="{at}" stroke="#ddd"/>'
        f'<text x="{_LEFT - 8}" y="{at}" dy="4" text-anchor="end">{mark:g}</text>'
    )


def _time_mark(moment: datetime, x: Callable[[datetime], float]) -> str:
    at = f"{x(moment):.1f}"
    return (
        f'<line x1="{at}" x2="{at}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" stroke="#eee"/>'
        f'<text x="{at}" y="{_HEIGHT - _BOTTOM + 16}" text-anchor="middle">{moment:%H:%M}</text>'
    )


def _moments(since: datetime, until: datetime) -> Iterable[datetime]:
    """Round times of the day, in the zone of `since`, at most ten of them."""
    minutes = (until - since).total_seconds() / 60
    step = timedelta(minutes=next((one for one in _MINUTES if minutes / one <= 10), 1440))
    midnight = since.replace(hour=0, minute=0, second=0, microsecond=0)
    moment = midnight + math.ceil((since - midnight) / step) * step
    while moment <= until:
        yield moment
        moment += step


def _line(points: Sequence[tuple[float, float]], colour: str, dash: str) -> str:
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    dots = "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2" fill="{colour}"/>' for a, b in points)
    style = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"{style}/>{dots}'
