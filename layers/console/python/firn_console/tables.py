"""Tables as the log knows them: the newest cuts, what jobs saw last, what is held. No catalog is asked."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from firn.config.maintenance import Care
from firn.config.model import Config
from firn.config.names import TableName, owner
from firn.config.storage_classes import S3, ClassTable, classes_of
from firn.config.views import View
from firn.errors import RequestError
from firn.log import cuts, layout, table_health, tiering_state
from firn.log.table_health import Health
from firn.maintenance import health_report
from firn.maintenance.launcher import feeding
from firn.maintenance.schedule import due
from firn.maintenance.storage_prices import storage_price
from firn.status.view_status import view_statuses
from firn.views import view_state
from firn_console.asked import Asked, cursor_of
from firn_console.contract.stream_pages import Totals
from firn_console.contract.table_pages import Feed, TableAnswer, TablePage, TableRow, Tier, ViewShown
from firn_console.holds import known_of, row
from firn_console.recent import Recent

MOST: Final = 500  # of a page
_STATES: Final = ("held", "unfed", "due", "ok", "unknown")
_AT_ONCE: Final = 8


class TableCursor(msgspec.Struct, frozen=True, array_like=True):
    """The table that the page before ended with."""

    name: str


@dataclass(frozen=True)
class CutTable:
    """A table of which only the name is known, for firn.status (its Table)."""

    name: str
    identifier: tuple[str, ...]
    stream: str | None = None
    mode: str | None = None
    key: tuple[str, ...] = ()
    retyped: tuple[Any, ...] = ()
    pipelines: tuple[str, ...] = ()

    @staticmethod
    def of(name: TableName) -> "CutTable":
        """The table of that name."""
        return CutTable(str(name), (name.namespace, name.table))


@dataclass(frozen=True)
class _Rules:
    """What a configuration says of tables, found once for each: a thousand tables have a thousand rules."""

    fed_by: dict[str, frozenset[str]]
    care: dict[str, Care]


_tables: Final = Recent[str, tuple[TableRow, ...]]()
_rules: dict[str, _Rules] = {}


def table_page(asked: Asked) -> TablePage:
    """Raises RequestError 400, 404, StorageUnavailable."""
    limit, place = asked.number("limit", 1, MOST, 100), asked.cursor(TableCursor)
    like, state = (asked.text("like") or "").lower(), asked.choice("state", _STATES)
    stream = asked.text("stream")
    if stream is not None:
        asked.stream(stream)
    found = [
        one
        for one in visible(asked)
        if like in one.table.lower() and state in (None, one.state) and (stream is None or stream in one.streams)
    ]
    page = [one for one in found if place is None or one.table > place.name]
    more = len(page) > limit
    return TablePage(tuple(page[:limit]), len(found), cursor_of(TableCursor(page[limit - 1].table) if more else None))


def table_answer(asked: Asked, name: str) -> TableAnswer:
    """Raises RequestError 404, StorageUnavailable."""
    mine = next((one for one in visible(asked) if one.table == name), None)
    if mine is None:
        raise RequestError(404, "no_such_table", "no stream has committed a table of that name that you may see")
    table = TableName.parse(name)
    health = table_health.read_all(asked.store, mine.streams).get(name)
    tier = tiering_state.read(asked.store, name, table.slug)
    held = next(
        (
            row(asked, stream, name, case)
            for stream in mine.streams
            for held, case in known_of(asked, stream).held().items()
            if held == name
        ),
        None,
    )
    classes = classes_of(asked.config.warehouse) or S3
    report = None if health is None else health_report.report(health, asked.config.care_of(table), asked.now)
    return TableAnswer(
        row=mine,
        feeds=tuple(_feeds(asked.config, table, mine.streams)),
        held=held,
        health=report,
        tiers=tuple(_tiers(health, sum(files for files, _ in tier.cold.values()), classes)),
        prices=f"list prices of {classes.storage} in {classes.region}, {classes.date}, a month, without requests",
        notes=(),
        view=_view(asked, table, mine.streams),
    )


def _view(asked: Asked, table: TableName, streams: Iterable[str]) -> ViewShown | None:
    """How it is, if it is a view of one of these streams; None if it is none."""
    known = ((name, asked.config.streams[name].views) for name in streams if name in asked.config.streams)
    name, view = next(((name, one) for name, views in known for one in views if one.table == table), ("", None))
    if view is None:
        return None
    [one] = view_statuses(asked.store, asked.config, name, asked.now, table)
    return ViewShown(
        stream=name,
        cut={stream: n for stream, n in sorted(one.cut.items()) if asked.grant.sees(stream)},
        every=view.every,
        refreshed_at=None if one.refreshed_at is None else layout.instant(one.refreshed_at),
        behind_seconds=one.behind_seconds,
        due=None if one.due is None else layout.instant(one.due),
        waits_for=one.waits_for if asked.grant.sees(table=one.waits_for) else None,
        quarantined=one.quarantined,
        tries=one.tries,
        error=one.error and said_of(asked, name, view, one.error),
    )


def said_of(asked: Asked, stream: str, view: View, error: str) -> str:
    """Why a view could not be refreshed, which may quote a row of any table that it reads."""
    for table in (view.table, *view.sources):
        error = asked.said(error, stream, str(table))
    return error


def totals(asked: Asked) -> Totals:
    """All tables that the caller may see. Raises StorageUnavailable."""
    some = visible(asked)
    return Totals(
        tables=len(some),
        rows=sum(one.rows or 0 for one in some),
        bytes=sum(one.bytes or 0 for one in some),
        held=sum(one.state == "held" for one in some),
        due=sum(bool(one.due) for one in some),
    )


def visible(asked: Asked) -> list[TableRow]:
    """The tables that the caller may see, by name. Raises StorageUnavailable."""
    every = _tables.get(asked.store, asked.config.sha, lambda: _every(asked))
    return [one for one in every if asked.grant.sees(table=one.table) and any(map(asked.grant.sees, one.streams))]


def _every(asked: Asked) -> tuple[TableRow, ...]:
    store, names = asked.store, sorted(asked.config.streams)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        newest = dict(zip(names, pool.map(lambda name: cuts.last(store, name), names), strict=True))
        held = dict(zip(names, pool.map(lambda name: known_of(asked, name).held(), names), strict=True))
    health = table_health.read_all(store, names)
    made_by: dict[str, set[str]] = {}
    snapshots: dict[str, int] = {}
    failing: set[str] = set()
    for name, cut in newest.items():
        for table in {*(cut.known if cut else ()), *held[name]}:
            made_by.setdefault(table, set()).add(name)
        snapshots |= cut.tables if cut else {}
    for name in (one for one in names if asked.config.streams[one].views):
        for table, state in view_state.read(store, name).views.items():
            if state.refreshed_at is not None or state.tries:  # which no cut names
                made_by.setdefault(table, set()).add(name)
            if view_state.is_failing(state):
                failing.add(table)
    for table in health:
        made_by.setdefault(table, set())
    rules = _rules_of(asked.config)
    found = []
    for table, streams in sorted(made_by.items()):
        if owner(table) != table:  # what Firn keeps beside a table is told with that
            continue
        fed_by, care = _rule(asked.config, rules, table)
        is_held = table in failing or any(table in held[name] for name in streams)
        known, snapshot = health.get(table), snapshots.get(table)
        found.append(_row(asked, table, streams | fed_by, fed_by, care, known, snapshot, is_held))
    return tuple(found)


def _row(
    asked: Asked,
    table: str,
    streams: Iterable[str],
    fed_by: frozenset[str],
    care: Care,
    health: Health | None,
    snapshot: int | None,
    is_held: bool,
) -> TableRow:
    wanted = due(health, care, asked.now) if health is not None and fed_by else {}
    state = "held" if is_held else "unfed" if not fed_by else "unknown" if health is None else "due" if wanted else "ok"
    return TableRow(
        table=table,
        streams=tuple(sorted(streams)),
        state=state,  # type: ignore[arg-type]
        rows=None if health is None else max(0, health.rows - health.deleted),
        bytes=None if health is None else health.bytes,
        files=None if health is None else health.files,
        due=tuple(wanted),
        snapshot=None if snapshot is None else str(snapshot),
        measured_at=None if health is None else health.measured_at,
    )


def _rules_of(config: Config) -> _Rules:
    if config.sha not in _rules:
        _rules.clear()
        _rules[config.sha] = _Rules({}, {})
    return _rules[config.sha]


def _rule(config: Config, rules: _Rules, table: str) -> tuple[frozenset[str], Care]:
    if table not in rules.fed_by:
        rules.fed_by[table] = frozenset(feeding(config, table))
        rules.care[table] = config.care_of(TableName.parse(table))
    return rules.fed_by[table], rules.care[table]


def _feeds(config: Config, table: TableName, streams: Iterable[str]) -> Iterable[Feed]:
    for name in streams:
        stream = config.streams.get(name)
        for rule in stream.targets if stream else ():
            if rule.feeds(table):
                pipeline = next((one.name for one in stream.pipelines if one.rule is rule), None) if stream else None
                view = next((one for one in stream.views if one.rule is rule), None) if stream else None
                source = rule.source if view is None else ", ".join(map(str, view.sources))
                sql = None if view is None else view.sql
                yield Feed(name, source, rule.mode, tuple(rule.key or ()), pipeline, sql)


def _tiers(health: Health | None, cold_files: int, classes: ClassTable) -> Iterable[Tier]:
    """What is known of storage classes: the hot one, and together all that is cold, at the price of the cheapest."""
    if health is None:
        return
    gigabyte = float(2**30)
    standard = max(0, health.bytes - health.cold_bytes)
    files = max(0, health.files - health.cold_files)
    dollars = standard / gigabyte * storage_price(classes.hot, None, classes)
    yield Tier(classes.hot, files, standard, round(dollars, 6))
    if health.cold_bytes:
        dollars = health.cold_bytes / gigabyte * storage_price(classes.cold[-1], None, classes)
        yield Tier("cold", cold_files or health.cold_files, health.cold_bytes, round(dollars, 6))
