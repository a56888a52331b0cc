"""A stream over tables in memory, and what `firn audit` would say of it: the real ingest, sealing, job and reading."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from firn.audit.expected_changes import CannotTell, DecodedChanges, TableLog, changes
from firn.audit.ledger import History, Ledger, history, read
from firn.audit.ledger_view import Difference, Keeping, View
from firn.audit.plain_changes import as_logged
from firn.audit.row_check import AppendRows, Logged, MirrorRows, RowAccount, Values
from firn.audit.sure_verdicts import PlainRow, SureVerdicts, is_whole, linked
from firn.audit.verdict import Audit, audit
from firn.changes.decode.types import STRING
from firn.changes.merge.fold import Key, RowChange
from firn.changes.merge.ordering import plain, total
from firn.config.names import TableName
from firn.log import epochs, holds, layout
from firn.log.epochs import Epoch
from tests.model.lake_contract import STREAM, Stream, event
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import Catalog, Table

Ground = MemoryGround


def histories(catalog: Catalog, names: Iterable[str]) -> dict[str, History]:
    """The tables' histories, as the command reads them from Iceberg."""
    found = {}
    for name in names:
        table = catalog.tables.get(TableName.parse(name))
        if table is not None:
            snapshots = {one.id: (one.parent, one.summary) for one in table.snapshots.values()}
            found[name] = history(STREAM, table.current, snapshots)
    return found


def ledger(stream: Stream, ground: MemoryGround) -> Ledger:
    return read(ground.store, STREAM, lambda names: histories(ground.catalog, names))


def audited(stream: Stream, ground: MemoryGround, *, later: timedelta = timedelta(minutes=1), **keep: Any) -> Audit:
    return audit(ledger(stream, ground), stream.now + later, Keeping(**keep))


def only(found: Audit, code: str) -> Difference:
    """The one difference; with what was found instead in the message."""
    assert [one.code for one in found.differences] == [code], found.differences
    assert not found.balanced
    return found.differences[0]


def codes(found: Audit) -> list[str]:
    return sorted({one.code for one in found.differences})


def rewrite(ground: MemoryGround, n: int, **fields: Any) -> Epoch:
    """Epoch n with other fields, as nobody may write it."""
    data = bytes(ground.store.get(layout.epoch_path(STREAM, n)).bytes())
    changed = msgspec.structs.replace(msgspec.json.decode(data, type=Epoch), **fields)
    ground.store.put(layout.epoch_path(STREAM, n), epochs.encode(changed), mode="overwrite")
    return changed


def sums(found: Audit) -> Mapping[str, int]:
    names = ("acked", "merged", "superseded", "pending", "dead", "uncounted")
    return {name: getattr(found, name) for name in names} | {"ignored": sum(found.ignored.values())}


def typed(lsn: int, value: Any) -> dict[str, Any]:
    return event("c", lsn, {"id": value}, table="typed")


def release(stream: Stream, how: Any, table: str = "lake.typed") -> None:
    held = holds.read_all(stream.store, STREAM).held()[table]
    holds.lift(stream.store, held, how, layout.instant(stream.now))


def rows_of(table: Table, *, mirror: bool) -> list[tuple[Any, Any]]:
    """(key, row) or (identity, values) of the table's rows, as Iceberg holds them: nothing of arrival order."""
    if table.current is None:
        return []
    # Where a column became text, Spark writes its values again; here the old ones stay, and their keys with them.
    texts = {column.name for column in table.columns if column.type == STRING}
    found: dict[Any, tuple[Any, Any]] = {}
    for name, row in table.snapshots[table.current].rows.items():
        values = {table.called.get(column, column): value for column, value in row.values.items()}
        values |= {column: str(value) for column, value in values.items() if column in texts and value is not None}
        name = tuple(values[column] for column in json.loads(table.properties["firn.key"])) if mirror else name
        held = {table.called.get(column, column): order for column, order in row.held.items()}
        order = total(plain(row.order))
        if not mirror:
            found[name] = (name[0], values)
        elif name not in found or order > found[name][1].order:
            found[name] = (name, replace(row, values=values, held=held, order=order))
    return list(found.values())


def _facts(table: Table, keys: Collection[Key]) -> list[RowChange]:
    return [fact for _, fact in table.facts if fact.op == "t" or (fact.op == "d" and fact.key in keys)]


Damage = Callable[[TableLog, list[Logged], list[tuple[Any, Any]]], list[tuple[Any, Any]]]


def unharmed(log: TableLog, logged: list[Logged], rows: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    return rows


def row_audited(
    stream: Stream, ground: MemoryGround, *, deep: bool = True, damage: Damage = unharmed, one_by_one: bool = False
) -> dict[str, RowAccount]:
    """The tables row by row, as firn_lake.audit does it for Iceberg: in one part, and with the table's own facts.
    `damage`: what becomes of a table's rows before they are looked at; `one_by_one`: all by the full rule."""
    view = View(ledger(stream, ground), stream.now, Keeping())
    current = stream.config.streams[STREAM]
    logs: dict[TableName, TableLog] = {}
    for name, table in ground.catalog.tables.items():
        with suppress(CannotTell):
            logs[name] = TableLog(view, name, table.state(), current, deep=deep)
    told: dict[TableName, DecodedChanges] = {name: DecodedChanges([], []) for name in logs}
    for log, some in changes(stream.store, view, list(logs.values()), one_by_one=one_by_one):
        told[log.name].plain.extend(some.plain)
        told[log.name].logged.extend(some.logged)
    found = {}
    for name, log in logs.items():
        table, mine = ground.catalog.tables[name], told[name]
        mode = "mirror" if log.mirror else "append"
        account = found[str(name)] = RowAccount(str(name), mode, whole=log.whole, deep=deep)
        values = Values([column.name for column in log.columns]) if deep else None
        every = [*mine.logged, *(as_logged(one, log.names, mirror=log.mirror) for one in mine.plain)]
        rows = damage(log, every, rows_of(table, mirror=log.mirror))
        logged = mine.logged
        if not one_by_one:
            plain, rows = plain_rows(rows, log)
            sure = SureVerdicts(account, log.names, mirror=log.mirror, values=values, truncates=log.truncates)
            apart = linked(log.moving, logged, mine.plain) if deep else set()
            logged, rows = sure.unsettled(mine.plain, plain, apart, logged, rows)
        if log.mirror:
            judge = MirrorRows(
                account, whole=log.whole, truncates=log.truncates, refused=log.refused, facts=partial(_facts, table),
                values=values,
            )  # fmt: skip
            judge.judge(logged, rows)
        else:
            AppendRows(account, whole=log.whole, values=values).judge(logged, rows)
    return found


def plain_rows(rows: list[tuple[Any, Any]], log: TableLog) -> tuple[list[PlainRow], list[tuple[Any, Any]]]:
    """The rows that are plain, as firn_lake reads them, and the others."""
    plain: list[PlainRow] = []
    others: list[tuple[Any, Any]] = []
    for name, row in rows:
        if not log.mirror:
            plain.append((name, b"", None, tuple(row.get(one) for one in log.names)))
        elif is_whole(row.order) and not row.held:
            plain.append((name, row.order, row.source, tuple(row.values.get(one) for one in log.names)))
        else:
            others.append((name, row))
    return plain, others
