"""Freshness over time as SVG: one panel a stream, a point a commit. Pure: commits in, text out."""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from firn.deployment import line_plot
from firn.log.freshness import Commit, measured

_LINES: Final = {"p50": 0.5, "p99": 0.99}
_MINUTES: Final = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)  # between two marks of the time axis


def freshness_svg(streams: Mapping[str, Sequence[Commit]], since: datetime, until: datetime) -> str:
    """The plot of `streams` (name -> its commits) from `since` to `until`: seconds from acceptance to commit."""
    return line_plot.document([_panel(name, commits, since, until) for name, commits in streams.items()])


def _panel(name: str, commits: Sequence[Commit], since: datetime, until: datetime) -> str:
    def seconds(moment: datetime) -> float:
        return (moment - since).total_seconds()

    lines = {
        label: [(seconds(one.at), one.lag(share) or 0.0) for one in commits if one.events]
        for label, share in _LINES.items()
    }
    moments = {seconds(moment): f"{moment:%H:%M}" for moment in _moments(since, until)}
    return line_plot.panel(
        _title(name, commits),
        line_plot.Axis(0.0, max(seconds(until), 1.0), moments),
        line_plot.linear(max((lag for line in lines.values() for _, lag in line), default=0.0), text="{:g}".format),
        lines,
    )


def _title(name: str, commits: Sequence[Commit]) -> str:
    if not any(one.events for one in commits):
        return f"{name}: nothing was committed"
    found = measured(commits)
    if found.p50 is None or found.p99 is None:
        return f"{name}: seconds from acceptance to commit"
    rate = "" if found.events_per_second is None else f", {found.events_per_second:,.0f} events/s"
    return (
        f"{name}: seconds from acceptance to commit (p50 {found.p50:.1f}, p99 {found.p99:.1f}; "
        f"{found.events:,} events in {found.commits} commits{rate})"
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
