"""A view in memory: its query run whole by DuckDB over the rows of its sources at a cut, in one snapshot."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from firn.changes.decode.types import DOUBLE, LONG, STRING, Column, storable
from firn.changes.merge.fold import Key, Row
from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.config.views import View
from firn.errors import TransientError
from firn.tables.outcome import Outcome
from firn.tables.table_state import EPOCH, REFRESHES
from firn.views.cut import Told, ViewCut, is_overtaken, moment, told
from firn_sql.source_types import arrow_type

if TYPE_CHECKING:
    from tests.model.memory_lake import Catalog, Table

Sources = Mapping[TableName, tuple["Table", int]]


def refresh(catalog: "Catalog", stream: str, settings: StreamConfig, view: View, at: ViewCut) -> Outcome | None:
    """As Lake.refresh says, in one try, which raises."""
    table = catalog.load(view.table)
    before = told(table.state().ancestry) if table else None
    sources = _sources(catalog, settings, view, at)
    now = Told(
        view.sha, {name: (one.uuid, snapshot) for name, (one, snapshot) in sources.items()}, at.epochs,
        moment(view, at, before),
    )  # fmt: skip
    if before is not None and is_overtaken(now, before, lambda name, *of: follows(sources[name][0], *of)):
        raise TransientError(f"{view.table} is of a newer cut")
    if before is not None and before.has_rows_of(now):
        return None
    columns, rows = queried(at_moment(view.sql, now.now), sources)
    is_of_time_alone = before is not None and (before.sql, before.sources) == (now.sql, now.sources)
    if is_of_time_alone and table is not None and rows == table.snapshots[table.current or 0].rows:
        return None
    if table is None:
        catalog.create(view.table, columns, {"firn.mode": "view", "firn.stream": stream})
        table = catalog.load(view.table)
        assert table is not None
    progress = table.progress(REFRESHES)
    summary = {f"{EPOCH}{REFRESHES}": str(progress + 1), **now.summary()}
    snapshot = catalog.replace(table, REFRESHES, progress, columns, rows, summary)
    return Outcome(str(view.table), tuple(map(str, view.sources)), mode="view", snapshot_id=snapshot)


def at_moment(sql: str, now: datetime | None) -> str:
    """A query with a moment written out."""
    return sql if now is None else sql.replace("now()", f"TIMESTAMPTZ '{now.isoformat()}'")


def queried(sql: str, sources: Sources) -> tuple[tuple[Column, ...], dict[Key, Row]]:
    """The columns and the rows of a query over tables at their snapshots."""
    connection = _connection()
    for name, (table, snapshot) in sources.items():
        rows = table.rows(snapshot)
        values = [pa.array([row[one.name] for row in rows], arrow_type(storable(one.type))) for one in table.columns]
        held = pa.table(values, names=[one.name for one in table.columns])
        connection.register("held", held)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name.namespace}")
        connection.execute(f"CREATE OR REPLACE TABLE {name.namespace}.{name.table} AS SELECT * FROM held")
        connection.unregister("held")
    found = connection.execute(sql)
    columns = tuple(Column(str(name), _kind(str(kind))) for name, kind, *_ in found.description or ())
    seen = Counter[str]()
    made: dict[Key, Row] = {}
    for values_of in found.fetchall():
        seen[repr(values_of)] += 1
        identity = hashlib.sha256(f"{values_of!r} {seen[repr(values_of)]}".encode()).digest()[:16]
        made[(identity,)] = Row({one.name: _plain(v) for one, v in zip(columns, values_of, strict=True)}, b"")
    return columns, made


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """One for all queries: to open one takes longer than most."""
    return duckdb.connect(config={"threads": 1})


def _sources(catalog: "Catalog", settings: StreamConfig, view: View, at: ViewCut) -> dict[TableName, Any]:
    views = {one.table: one for one in settings.views}
    found = {}
    for name in view.sources:
        table = catalog.load(name)
        if table is None or table.current is None:
            raise TransientError(f"{name} is not there")
        snapshot = newest(table, at.snapshots[name]) if name not in views else table.current
        if name in views and not _is_of(catalog, settings, views[name], table, at):
            raise TransientError(f"{name} is not of that cut")
        found[name] = (table, snapshot)
    return found


def _is_of(catalog: "Catalog", settings: StreamConfig, view: View, table: "Table", at: ViewCut) -> bool:
    """Whether a view's table is of a cut."""
    said = told(table.state().ancestry)
    if said is None or said.sql != view.sha:
        return False
    now = {name: (one.uuid, at_it) for name, (one, at_it) in _sources(catalog, settings, view, at).items()}
    return now == said.sources


def newest(table: "Table", some: frozenset[int]) -> int:
    """The snapshot that has the others among its ancestors."""
    for one in some:
        if all(follows(table, one, other) for other in some):
            return one
    raise FileNotFoundError(f"{table.name}: none of the snapshots {sorted(some)} follows the others")


def follows(table: "Table", snapshot: int, other: int) -> bool:
    """Whether a snapshot has the other one among its ancestors, or is it."""
    at: int | None = snapshot
    while at in table.snapshots and at != other:
        at = table.snapshots[at].parent
    return at == other


def _kind(kind: str) -> Any:
    return DOUBLE if kind == "DOUBLE" else STRING if kind == "VARCHAR" else LONG


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, str | float) else int(value)
