"""Plain rows held to the schemas of their tables, as they come: misfits are dead letters, or the request is refused."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from firn.changes.change import Parsed, Rejected
from firn.changes.envelopes.limits import EventLimits
from firn.config.model import StreamConfig
from firn.errors import EventError, RequestError
from firn.log.dead_letters.letters import change_at, rebuilt, staged_change

if TYPE_CHECKING:
    from firn.changes.decode.conformance import Conformance
    from firn.changes.decode.row_schema import RowSchema
    from firn.changes.decode.source_encodings import DecodeSettings

_SHOWN: Final = 10  # misfits that the answer to a request which is refused names
_CHECKS: Final = 64  # kept ready


def schemas_of(settings: StreamConfig, tables: Sequence[str]) -> "dict[str, RowSchema]":
    """The schemas of those of the source tables that have one."""
    found = {}
    for table in tables:
        try:
            rule = settings.rule_for(table)
        except EventError:
            continue  # it becomes a dead letter for that
        if rule is not None and rule.schema is not None:
            found[table] = rule.schema
    return found


def versions(settings: StreamConfig, tables: Sequence[str]) -> dict[str, str]:
    """The versions of these schemas, by source table."""
    return {table: schema.version for table, schema in sorted(schemas_of(settings, tables).items())}


def of_table(settings: StreamConfig, table: str | None) -> "Conformance | None":
    """What judges the rows of a request for this source table, if they are nothing but rows of it: none is a delete."""
    if table is None or settings.op_field is not None or settings.delete_if is not None or not settings.has_schemas:
        return None
    schema = schemas_of(settings, [table]).get(table)
    return None if schema is None else _check(schema, settings.settings, settings.own_fields)


def checked(parsed: Parsed, settings: StreamConfig, limits: EventLimits) -> Parsed:
    """The rows that fit the schemas of their tables; the others are rejected.

    Raises RequestError 400 invalid_rows where a schema says `invalid: refuse`, 413 as EventLimits.check_rejected.
    """
    if not settings.has_schemas:
        return parsed
    schemas = schemas_of(settings, list(dict.fromkeys(parsed.table)))
    if not schemas:
        return parsed
    bad: dict[int, EventError] = {}
    for table, schema in schemas.items():
        check = _check(schema, settings.settings, settings.own_fields)
        whole = parsed.table.count(table) == len(parsed)
        places = range(len(parsed)) if whole else [i for i, name in enumerate(parsed.table) if name == table]
        bad |= _misfits(parsed, places, check)
    if not bad:
        return parsed
    _refuse(parsed, schemas, bad)
    return _without(parsed, bad, limits)


def _misfits(parsed: Parsed, places: Sequence[int], check: "Conformance") -> dict[int, EventError]:
    if len(places) == len(parsed) and None not in parsed.after:
        return check.misfits(parsed.after)  # type: ignore[arg-type]
    rows = [parsed.after[place] or parsed.before[place] or b"{}" for place in places]
    deleted = {n for n, place in enumerate(places) if parsed.op[place] == "d"}
    return {places[n]: why for n, why in check.misfits(rows, deleted).items()}


def _refuse(parsed: Parsed, schemas: "Mapping[str, RowSchema]", bad: Mapping[int, EventError]) -> None:
    strict = {place: why for place, why in bad.items() if schemas[parsed.table[place]].invalid == "refuse"}
    if not strict:
        return
    lines = [f"{parsed.index[place]}: {why.code}: {why}" for place, why in sorted(strict.items())[:_SHOWN]]
    more = f"; and {len(strict) - _SHOWN:,} more" if len(strict) > _SHOWN else ""
    raise RequestError(
        400,
        "invalid_rows",
        f"{len(strict):,} of the rows do not fit the schema, and nothing was taken: {'; '.join(lines)}{more}",
    )


def _without(parsed: Parsed, bad: Mapping[int, EventError], limits: EventLimits) -> Parsed:
    limits.check_events(len(bad), alone=True)
    images = [parsed.after[place] or parsed.before[place] or b"" for place in bad]
    limits.check_rejected(sum(map(len, images)), str(next(iter(bad.values())))[:200])
    lost = []
    for place, why in bad.items():
        change = change_at(parsed, place)
        original = rebuilt(staged_change(change))
        lost.append(Rejected(parsed.index[place], why.code, str(why), original, change, parsed.table[place]))
    return parsed.at([i for i in range(len(parsed)) if i not in bad], [*parsed.rejected, *lost])


@lru_cache(_CHECKS)
def _check(schema: "RowSchema", settings: "DecodeSettings", known: frozenset[str]) -> "Conformance":
    from firn.changes.decode.conformance import Conformance  # with the codec, which no other stream needs

    return Conformance(schema, settings, known)
