"""How the changes of one target become rows: the table's key and mode, its columns, and the decoding. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from firn.changes.decode.iceberg_fields import column_of
from firn.changes.decode.nanoseconds import fine
from firn.changes.decode.row_decoder import Decoding
from firn.changes.decode.types import Column
from firn.config.model import StreamConfig, TableRule
from firn.config.modes import KEYLESS, MODES, TableMode
from firn.errors import TerminalError
from firn.tables.batch_facts import TableFacts
from firn.tables.iceberg_format import keeps_nanoseconds
from firn.tables.planning import (
    ColumnPlan,
    check_fineness,
    check_gone,
    check_mode,
    check_nanoseconds,
    columns_beside,
    lacking_key,
    plan_columns,
    plan_key,
    without_defaults,
    without_others,
)
from firn.tables.renames import Renames, renames_of
from firn.tables.routing import Target
from firn.tables.table_state import TableState, are_several, check_format, fed_by


@dataclass(frozen=True)
class Planned:
    """`key`: the names of the key's columns, () without one; `mode`: what the rules make of the table; `renames`: which
    names mean one column, `due`: the columns of the table that are to be renamed first, old name -> new name;
    `alters`: whether `columns` are others than the table has, or known better; `declared`: names of those that
    firn.yaml declares."""

    key: tuple[str, ...]
    mode: TableMode
    columns: ColumnPlan
    decoding: Decoding
    renames: Renames
    due: Mapping[str, str]
    alters: bool
    declared: frozenset[str]

    def beside(self, columns: Iterable[Column]) -> "Planned":
        """The same, where changes are judged by these columns too, though the table does not get them."""
        return replace(self, decoding=replace(self.decoding, others=others(self.decoding, [tuple(columns)])))


def key_and_mode(
    rule: TableRule, existing: tuple[str, ...] | None, named: Iterable[Sequence[str]]
) -> tuple[tuple[str, ...], TableMode]:
    """What firn.yaml, the table and its events make of it (planning.plan_key). Raises KeyChanged."""
    key = plan_key(rule.key, existing, named, rule.mode)
    return key, MODES[rule.mode if key or not rule.keyed else KEYLESS]


def planned(
    target: Target, settings: StreamConfig, state: TableState | None, seen: Sequence[Sequence[Column]] | None = None
) -> Planned:
    """What all that the target's facts tell makes of its table; settled_plan.settled leaves out what is rejected.
    `state`: the table as it is; None if there is none yet; `seen`: the columns that its rows have, None: what the
    changes show, whose keys count then too. Raises KeyChanged, TerminalError (planning.ColumnGone among them)."""
    check_format(state)
    nanoseconds = keeps_nanoseconds(state, target.rule.writing.format)
    own = state.key() if state else None
    if state is not None and own is None and target.rule.key is None:
        own = state.named_key()
    key, mode = key_and_mode(target.rule, own, target.named_keys() if seen is None else ())
    check_mode(mode.name, state.properties.get("firn.mode") if state else None)
    renames = renames_of(target.rule.renames, state.properties if state else {})
    renames.check_key(key)
    due = renames.due(field["name"] for field in state.fields) if state else {}
    state = state.renamed(due) if state else None
    required = key if mode.keyed else ()
    existing, unwritable = state.columns if state else ((), frozenset[str]())
    fixed = state.fixed() if state else frozenset[str]()
    declared = renames.named(target.declared(settings))
    _check_filled(state, mode, declared, unwritable.difference(required))
    schema = target.rule.schema
    closed = schema is not None and schema.closed
    check_fineness(existing, declared)
    known_columns = () if closed else target.seen(required) if seen is None else seen
    if nanoseconds and seen is None:
        known_columns = [fine(columns) for columns in known_columns]
    plan = plan_columns(existing, declared, map(renames.named, known_columns), required, unwritable, fixed)
    plan = renames.told(plan)
    check_nanoseconds(plan, max(state.version if state else 0, target.rule.writing.format or 0))
    check_gone(plan, state.gone if state else ())
    if closed:
        plan = without_others(plan, {column.name for column in declared})
    plan = without_defaults(plan, required)
    ordinals = {column.name: i for i, column in enumerate(plan.columns)}
    decoding = Decoding(
        columns=plan.columns,
        key=tuple(ordinals[name] for name in key if name in ordinals),
        settings=settings.settings if schema is None else schema.settings(settings.settings),
        schemas=read_schemas(target.schemas(), nanoseconds=nanoseconds),
        nanoseconds=nanoseconds,
        bad_schemas=target.bad_schemas(),
        snapshot_reads=target.rule.snapshot_reads == "upsert",
        no_key=lacking_key(
            plan,
            required,
            made=state is not None,
            stored={one["name"]: one["type"] for one in state.fields} if state else {},
        ),
        several=mode.keyed and are_several(fed_by(state, target.fed)),
        names=target.names,
        unnamed=plan.unnamed,
        closed=None if schema is None else schema.others(settings.own_fields),
    )
    known = state.inferred if state else None
    alters = bool(plan.added or plan.widened or plan.retyped or plan.defaulted) or plan.inferred != known
    return Planned(key, mode, plan, decoding, renames, due, alters, frozenset(column.name for column in declared))


def _check_filled(
    state: TableState | None, mode: TableMode, declared: Sequence[Column], unwritable: frozenset[str]
) -> None:
    # Rows of an append table keep nothing, so that only a type that no stream writes is in the way.
    lasting = {field["name"] for field in state.fields if mode.keyed or column_of(field) is None} if state else set()
    filled = next((column.name for column in declared if column.name in unwritable & lasting), None)
    if filled is not None:
        raise TerminalError(
            f"firn.yaml declares the column {filled[:100]}, whose type in the table is one that no change can "
            "fill there (docs/how-to/others-write.md): take the declaration out, and its values stay as they are"
        )


def with_schemas(decoding: Decoding, target: Target, facts: Mapping[str, TableFacts]) -> Decoding:
    """The same decoding for all changes of the target's source tables that `facts` tell of, dead letters among them."""
    known = [facts[source] for source in target.sources if source in facts]
    closed = target.rule.schema is not None and target.rule.schema.closed
    seen = [fine(columns) if decoding.nanoseconds else columns for one in known for columns in one.seen]
    beside = () if closed else others(decoding, seen)
    schemas = {name: columns for one in known for name, columns in one.schemas.items()}
    return replace(
        decoding,
        schemas=read_schemas(schemas, nanoseconds=decoding.nanoseconds),
        bad_schemas={name: reason for one in known for name, reason in one.bad_schemas.items()},
        names=target.names,
        others=beside,
    )


def read_schemas(told: Mapping[str, tuple[Column, ...]], *, nanoseconds: bool) -> Mapping[str, tuple[Column, ...]]:
    """Inline schemas by id, as a table reads them. `nanoseconds`: as Decoding has it."""
    return {name: fine(columns) for name, columns in told.items()} if nanoseconds else told


def others(decoding: Decoding, seen: Iterable[Sequence[Column]]) -> tuple[Column, ...]:
    """The columns among those that were `seen` that the table does not have (Decoding.others)."""
    there = {name for column in decoding.columns for name in (column.name, *column.earlier)} | decoding.unnamed
    return columns_beside(there, seen)
