"""A body's events as changes, as its stream says: by its envelope, and plain rows by the request and the settings too,
since they do not say of themselves which table they are for, whether they delete, and where they stand; held to the
schemas of their tables. Pure.

* The table is the one that the request names, else what the row says in `table_by`, else the stream's only one.
* A row is a delete if the text of its `op_field` is one of `delete_when`, or if `delete_when` is a condition that is
  true of it; else it is written.
* A row of a table with `update: patch` is an update, which says nothing of the columns that it does not name.
* A stream without `order_by` goes by when its rows came: a row's place is that of its batch (the time of ingest, then
  the batch's random part) and its number in it. So do changes of an emitter that gives them no order (Canal). It is
  made here, once: who repeats a request under its key repeats it.
* What comes as a record of a stream (firn.changes.record) has its place there instead, whatever envelope it has, if
  neither its source nor `order_by` gives it one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET

from firn.changes.change import ARRIVING, Parsed, Rejected
from firn.changes.decode import nesting
from firn.changes.envelopes import registry
from firn.changes.envelopes.limits import EventLimits
from firn.changes.envelopes.parser import Content, parse
from firn.changes.json_member import member
from firn.changes.positions import came
from firn.changes.record import Record
from firn.config.model import StreamConfig
from firn.errors import EventError, RequestError
from firn.ingest import record_values
from firn.ingest.schema_check import checked, of_table
from firn.log.dead_letters.letters import change_at, rebuilt, staged_change

if TYPE_CHECKING:
    from firn.changes.decode.conformance import Conformance
    from firn.changes.row_condition import RowCondition


def read(
    body: bytes,
    settings: StreamConfig,
    content: Content,
    limits: EventLimits,
    batch: str,
    table: str | None = None,
    first: int = 0,
    record: Record | None = None,
) -> Parsed:
    """The changes of one body, as firn.changes.envelopes.parser.parse has them; rows in their places.

    batch   the one that they will be in, `first`: the number of the first event there
    table   the source table that the request names
    record  the record of a stream whose value the body is

    Raises RequestError as `parse` does, and 400 not_rows, no_table, invalid_rows; 404 unknown_table.
    """
    parsed = _without_deep(_read(body, settings, content, limits, batch, table, first, record), limits)
    return parsed if record is None else record_values.of_record(parsed, record)


def _without_deep(parsed: Parsed, limits: EventLimits) -> Parsed:
    """The changes without those that are nested too deeply, which are rejected. Raises RequestError 413."""
    deep = nesting.too_deep({"key": parsed.key, "before": parsed.before, "after": parsed.after})
    if not deep:
        return parsed
    lost = []
    for place in sorted(deep):
        one = change_at(parsed, place)
        why = deep[place]
        lost.append(Rejected(parsed.index[place], why.code, str(why), rebuilt(staged_change(one)), one))
    rejected = [*parsed.rejected, *lost]
    limits.check_rejected(sum(len(one.original) for one in rejected), rejected[0].message[:200])
    return parsed.at([place for place in range(len(parsed)) if place not in deep], rejected)


def _read(
    body: bytes,
    settings: StreamConfig,
    content: Content,
    limits: EventLimits,
    batch: str,
    table: str | None,
    first: int,
    record: Record | None,
) -> Parsed:
    """As `read`, whatever is nested how deeply."""
    if not registry.KNOWN.bare(settings.envelope):
        return _enveloped(body, settings, content, limits, batch, table, first, record)
    if record is not None:
        table = table or record_values.table_of_topic(record, settings)
        if table is None and settings.table_by is None:
            table = _only_table(settings)
        if record.gone:
            return record_values.deleted(record, settings, table or _only_table(settings))
        body = record_values.with_key(body, record, settings, table)
    if table is not None:
        _check_known(settings, table)
    elif settings.table_by is None:
        table = _only_table(settings)
    judge = of_table(settings, table)
    fits = _Witness(judge) if judge is not None else None
    parsed = parse(body, settings.envelope, content, limits, fits)
    if table is None:
        parsed = _by_field(parsed, settings.table_by or "", limits)
    else:
        rejected = [msgspec.structs.replace(one, table=table) for one in parsed.rejected]
        parsed = msgspec.structs.replace(parsed, table=[table] * len(parsed), rejected=rejected)
    parsed = _with_deletes(parsed, settings)
    if any(rule.update == "patch" for rule in settings.tables):
        parsed = _with_patches(parsed, settings)
    if not settings.order_by:
        order = [came(batch, first + index) if record is None else record.order(index) for index in parsed.index]
        parsed = msgspec.structs.replace(parsed, order=order)
    return parsed if fits is not None and fits.seen else checked(parsed, settings, limits)


def _enveloped(
    body: bytes,
    settings: StreamConfig,
    content: Content,
    limits: EventLimits,
    batch: str,
    table: str | None,
    first: int,
    record: Record | None,
) -> Parsed:
    """As `read`, of events that say themselves what they are."""
    lacking = registry.KNOWN.may_lack_table(settings.envelope)
    if table is not None and not lacking:
        raise RequestError(
            400,
            "not_rows",
            f"events of the envelope {settings.envelope} name their tables themselves: post to "
            f"/v1/streams/{settings.name}, or write `envelope: rows` for this stream",
        )
    if record is not None:
        parsed = record_values.enveloped(body, record, settings, limits)
        return _with_table(parsed, settings, table, limits) if lacking else parsed
    parsed = parse(body, settings.envelope, content, limits)
    if lacking:
        parsed = _with_table(parsed, settings, table, limits)
    if settings.order_by or not registry.KNOWN.may_lack_order(settings.envelope):
        return parsed
    return _came(parsed, batch, first)


def _with_table(parsed: Parsed, settings: StreamConfig, table: str | None, limits: EventLimits) -> Parsed:
    """The changes that name no table with the one that the request names, or the stream's only one; if that is not to
    be had, those among others are rejected. Raises RequestError."""
    lost = [Rejected(one.index, one.code, one.message, one.original, table=table) for one in parsed.rejected]
    parsed = msgspec.structs.replace(parsed, rejected=lost) if table is not None else parsed
    if "" not in parsed.table:
        return parsed
    try:
        if table is None:
            table = _only_table(settings)
        else:
            _check_known(settings, table)
    except RequestError as error:
        if not any(parsed.table):
            raise
        return _without_tableless(parsed, error, limits)
    return msgspec.structs.replace(parsed, table=[name or table for name in parsed.table])


def _without_tableless(parsed: Parsed, why: RequestError, limits: EventLimits) -> Parsed:
    nameless = [place for place, name in enumerate(parsed.table) if not name]
    changes = [(parsed.index[place], change_at(parsed, place)) for place in nameless]
    lost = [Rejected(i, "missing_table", str(why), rebuilt(staged_change(one)), one) for i, one in changes]
    limits.check_rejected(sum(len(one.original) for one in lost), str(why)[:200])
    return parsed.at([place for place, name in enumerate(parsed.table) if name], [*parsed.rejected, *lost])


def _came(parsed: Parsed, batch: str, first: int) -> Parsed:
    """The changes of emitters that give them no order: they count as they come, like plain rows."""
    lacking = [place for place, order in enumerate(parsed.order) if order is None]
    lacking = [place for place in lacking if parsed.connector[place] in ARRIVING]
    if not lacking:
        return parsed
    order = list(parsed.order)
    for place in lacking:
        order[place] = came(batch, first + parsed.index[place])
    return msgspec.structs.replace(parsed, order=order)


class _Witness:
    """Whether lines of rows fit their schema, and whether it has seen that they do."""

    def __init__(self, judge: "Conformance") -> None:
        self._judge = judge
        self.seen = False

    def __call__(self, lines: bytes, count: int) -> bool:
        self.seen = self._judge.fits(lines, count)
        return self.seen


def _check_known(settings: StreamConfig, table: str) -> None:
    try:
        known = settings.wants(table)
    except EventError as error:
        raise RequestError(400, error.code, str(error)) from None
    if not known:
        raise RequestError(
            404,
            "unknown_table",
            f"the stream {settings.name} has no rule for the table {table[:100]!r}: add it to firn.yaml or correct the "
            "URL",
        )


def _only_table(settings: StreamConfig) -> str:
    """Raises RequestError 400 no_table if there is not exactly one."""
    rules = [rule for rule in settings.tables if not rule.ignore]
    names = {rule.source for rule in rules} | {one.source for one in settings.pipelines}
    if len(names) == 1 and not any(rule.is_pattern for rule in rules):
        return names.pop()
    raise RequestError(
        400,
        "no_table",
        f"nothing says which table of the stream {settings.name} the rows are for: post them to "
        f"/v1/streams/{settings.name}/tables/TABLE, or name the field that says it as `table_by` in firn.yaml",
    )


def _by_field(parsed: Parsed, field: str, limits: EventLimits) -> Parsed:
    """The rows with the tables that they name; those that name none are rejected. Raises RequestError 413."""
    table = _texts(parsed.after, field)
    if all(table):
        return msgspec.structs.replace(parsed, table=table)
    why = f"the row does not say its table: `table_by` is {field!r}, and it needs a text there"
    lost = [
        Rejected(parsed.index[place], "missing_table", why, parsed.after[place] or b"")
        for place, name in enumerate(table)
        if not name
    ]
    rejected = [*parsed.rejected, *lost]
    limits.check_rejected(sum(len(one.original) for one in rejected), why)
    found = parsed.at([place for place, name in enumerate(table) if name], rejected)
    return msgspec.structs.replace(found, table=[name for name in table if name])


def _fitting(rows: Sequence[bytes | None], condition: "RowCondition") -> list[bool]:
    """Of which rows the condition is true."""
    found = []
    for row in rows:
        try:
            found.append(condition.holds(row or b"{}"))
        except (msgspec.DecodeError, RecursionError):  # a row that is no JSON inside: its own dead letter, in the job
            found.append(False)
    return found


def _with_deletes(parsed: Parsed, settings: StreamConfig) -> Parsed:
    gone: list[bool] = []
    if settings.op_field is not None:
        told = _texts(parsed.after, settings.op_field, scalars=True)
        gone = [text in settings.delete_when for text in told]
    elif settings.delete_if is not None:
        gone = _fitting(parsed.after, settings.delete_if)
    if not any(gone):
        return parsed
    return msgspec.structs.replace(
        parsed,
        op=["d" if it_is else op for op, it_is in zip(parsed.op, gone, strict=True)],
        before=[row if it_is else None for row, it_is in zip(parsed.after, gone, strict=True)],
        after=[None if it_is else row for row, it_is in zip(parsed.after, gone, strict=True)],
    )


def _with_patches(parsed: Parsed, settings: StreamConfig) -> Parsed:
    patched = {table for table in set(parsed.table) if _is_patched(settings, table)}
    op = ["u" if op == "c" and table in patched else op for op, table in zip(parsed.op, parsed.table, strict=True)]
    return msgspec.structs.replace(parsed, op=op)


def _is_patched(settings: StreamConfig, table: str) -> bool:
    try:
        rule = settings.rule_for(table)
    except EventError:  # its rows are refused for that
        return False
    return rule is not None and rule.update == "patch"


def _texts(rows: Sequence[bytes | None], field: str, *, scalars: bool = False) -> list[str | None]:
    """What each row has in `field`, as text; None if it is none. `scalars`: numbers, true and false as they stand."""
    read = member(field)
    found: list[str | None] = []
    for row in rows:
        text = None
        try:
            raw = read(row or b"{}")
            value = b"null" if raw is UNSET else bytes(raw)
            if value[:1] == b'"':
                text = msgspec.json.decode(value, type=str)
            elif scalars and value[:1] not in (b"{", b"[", b"n"):
                text = value.decode()
        except (msgspec.DecodeError, RecursionError):  # a row that is no JSON inside: its own dead letter, in the job
            pass
        found.append(text)
    return found
