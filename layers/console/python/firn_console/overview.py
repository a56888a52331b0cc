"""GET /v1/console/overview: what needs a person, worst first; the streams; all tables together."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final, Literal

from firn.config.names import TableName
from firn.log import pause
from firn.status.source_status import SourceState, source_states
from firn.status.stream_status import fed_no_more
from firn.views import view_state
from firn_console.asked import Asked
from firn_console.contract.stream_pages import Need, Overview, Severity
from firn_console.holds import commands_of
from firn_console.recent import Recent
from firn_console.stream_look import Look, is_behind, look_at_all, row, waiting
from firn_console.tables import CutTable, said_of, totals

SHORTEST: Final = 300
LONGEST: Final = 86_400
_SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warning", "info")
_OF_TABLES: Final = ("table_held", "view_held", "unfed")
_LOST_SLOT: Final = ("unreserved", "lost")
_sources: Final = Recent[str, list[SourceState]]()


def overview(asked: Asked) -> Overview:
    """Raises RequestError 400, StorageUnavailable if no stream can be looked at."""
    seconds = asked.number("window", SHORTEST, LONGEST, 3_600)
    looks, unread = look_at_all(asked.store, asked.streams(), asked.config.sha, asked.now, timedelta(seconds=seconds))
    sources = [one for one in states_of_sources(asked) if asked.grant.sees(stream=one.stream)]
    needs = [
        *_stack_needs(asked, unread),
        *_source_needs(sources),
        *(need for one in looks for need in needs_of(asked, one)),
    ]
    needs = [one for one in needs if one.kind not in _OF_TABLES or asked.grant.sees(table=one.subject)]
    needs.sort(key=lambda one: (_SEVERITIES.index(one.severity), one.stream or "", one.kind, one.subject))
    return Overview(seconds, tuple(needs), tuple(row(one, asked.grant) for one in looks), totals(asked), unread)


def states_of_sources(asked: Asked) -> list[SourceState]:
    """The databases that Firn reads, as the pull saw them last."""
    return _sources.get(asked.store, asked.config.sha, lambda: source_states(asked.store, asked.now))


def needs_of(asked: Asked, seen: Look) -> Iterator[Need]:
    """What of one stream needs a person."""
    stream = seen.settings.name
    for name, case in seen.held.all_held(seen.settings.generation).items():
        kind: Literal["stream_held", "epoch_held", "table_held"] = "stream_held"
        if name != "stream":
            kind = "table_held" if case.table is not None else "epoch_held"
        text = f"{name} is quarantined ({case.reason}): {asked.said(case.message, stream, case.table)}; {case.advice}"
        subject = stream if kind == "stream_held" else name
        yield Need("critical", kind, stream, subject, text, f"quarantine?stream={stream}", commands_of(stream, name)[0])
    for view in seen.settings.views:
        state = seen.views.views.get(str(view.table))
        if state is not None and view_state.is_failing(state):
            error = said_of(asked, stream, view, state.error or "its jobs died while they refreshed it")
            text = f"the view {view.table} is quarantined: {error}; its rows stay as they were"
            command = f"firn resume {stream} {view.table}"
            yield Need("critical", "view_held", stream, str(view.table), text, f"tables/{view.table}", command)
    if seen.failure is not None:
        first, last, why = seen.failure
        text = f"the newest job, of epochs {first} to {last}, failed ({why.kind}): {asked.said(why.error, stream)}"
        yield Need("critical", "job_failed", stream, stream, text, f"jobs?stream={stream}", f"firn flush {stream}")
    elif is_behind(seen) and not seen.held_names:
        backlog = waiting(seen)
        events = backlog.staged_events + backlog.sealed_events
        wait = "event waits for its" if events == 1 else "events wait for their"
        text = f"{events:,} {wait} commit, the oldest since {backlog.oldest_at}"
        yield Need("warning", "behind", stream, stream, text, f"streams/{stream}", f"firn flush {stream}")
    if dead := seen.letters.waiting.total():
        yield Need(
            "warning", "dead_letters", stream, stream, _dead_text(seen, dead), f"dead-letters?stream={stream}",
            f"firn dead list {stream}",
        )  # fmt: skip
    for name in sorted(seen.cut.tables if seen.cut else ()):
        if (unfed := fed_no_more(asked.store, seen.settings, CutTable.of(TableName.parse(name)))) is not None:
            yield Need("info", "unfed", stream, name, unfed, f"tables/{name}")


def _dead_text(seen: Look, dead: int) -> str:
    by: dict[str, int] = {}
    for (_, reason), count in seen.letters.waiting.items():
        by[reason] = by.get(reason, 0) + count
    told = ", ".join(f"{reason} {count:,}" for reason, count in sorted(by.items(), key=lambda one: -one[1])[:5])
    return f"{dead:,} dead letter{'' if dead == 1 else 's'} wait{'s' if dead == 1 else ''}: {told}"


def _stack_needs(asked: Asked, unread: dict[str, str]) -> Iterator[Need]:
    if (since := pause.since(asked.store)) is not None:
        text = f"paused since {since:%Y-%m-%d %H:%M} UTC: changes are staged, no job starts"
        yield Need("warning", "paused", None, "stack", text, "", "firn resume")
    for stream, why in sorted(unread.items()):
        yield Need("critical", "unreadable", stream, stream, why, f"streams/{stream}", "firn status")


def _source_needs(sources: Iterable[SourceState]) -> Iterator[Need]:
    for one in sources:
        status = one.status
        bad = status is not None and (bool(status.stopped) or status.wal_status in _LOST_SLOT)
        for note in one.notes:
            severity: Severity = "critical" if bad else "warning"
            yield Need(severity, "source", one.stream, one.source, note, f"streams/{one.stream}", "firn sources")
