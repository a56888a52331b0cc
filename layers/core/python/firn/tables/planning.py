"""Which columns a table gets, and which changes to an existing one: pure rules.

An existing Iceberg table comes first, then the declaration in firn.yaml, then the inline schemas, then inference.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from firn.changes.decode.column_defaults import default_in, same_default
from firn.changes.decode.nanoseconds import is_fine
from firn.changes.decode.row_schema import names_below
from firn.changes.decode.texts import changes_form
from firn.changes.decode.types import INFERRED, VARIANT, Column, Type, promotable, storable, widen
from firn.changes.metadata_columns import METADATA
from firn.config.file_writing import NEWEST_FORMAT, OLDEST_FORMAT
from firn.config.modes import MODES
from firn.config.names import is_left_out
from firn.errors import TerminalError
from firn.tables.type_changes import TypeChange

MOST_COLUMNS: Final = 5_000  # of a table: each is a field in every version of its schema, and a chunk in every file


@dataclass(frozen=True)
class ColumnPlan:
    """`columns` is what the table has after `added`, `widened` and `retyped` are applied, in the table's order,
    metadata left out. `widened` is by Iceberg's own promotions; `retyped` needs the values to be rewritten.
    `unwritable` names columns of an adopted table that Firn has no type for; `inferred` names the long and
    string columns of which inference has seen only what is double once a fraction is among it (types.INFERRED);
    `unnamed` holds names that no column of the table can have: events with values there are dead letters. `defaulted`:
    columns that are there, and whose default is another one from now on."""

    columns: tuple[Column, ...]
    added: tuple[Column, ...] = ()
    widened: tuple[Column, ...] = ()
    retyped: tuple[Column, ...] = ()
    unwritable: frozenset[str] = frozenset()
    inferred: Mapping[str, str] = field(default_factory=dict)
    unnamed: frozenset[str] = frozenset()
    defaulted: tuple[Column, ...] = ()


def changed(before: Iterable[Column], after: Iterable[Column]) -> tuple[TypeChange, ...]:
    """Which of the columns `after` have another type than `before`, as tables store it."""
    types = {column.name: str(storable(column.type)) for column in before}
    found = (TypeChange(one.name, types.get(one.name, ""), str(storable(one.type))) for one in after)
    return tuple(one for one in found if one.before and one.before != one.after)


def plan_columns(
    existing: Sequence[Column],
    declared: Iterable[Column],
    seen: Iterable[Sequence[Column]],
    key: Sequence[str] = (),
    unwritable: frozenset[str] = frozenset(),
    fixed: frozenset[str] = frozenset(),
) -> ColumnPlan:
    """Puts the sources together. `existing` is empty for a table not yet created.

    A column's type is the smallest that holds all that was seen, or the declared one, whether it was seen in one epoch
    or in several: else a table would depend on how its changes were split. Only the columns `fixed` (those of an
    adopted table, those that a table is partitioned by) change by Iceberg's own promotions alone; a value that does not
    fit one becomes a dead letter. New columns are optional but for the key. Raises NotPromotable.
    """
    declarations = {column.name: column for column in declared if not is_left_out(column.name)}
    offered = _offered(seen, declarations, unwritable)

    result, widened, retyped, defaulted = _existing(existing, declarations, offered, fixed)
    known = {column.name for column in existing}
    taken = set[str]().union(*(names_below(column.name, column.type) for column in result))
    unnamed: set[str] = set()
    fits: dict[str, Column] = {}
    for name in (
        *declarations,
        *(name for name in offered if name not in declarations),
    ):  # what is declared comes first
        if name in known:
            continue
        column = declarations.get(name) or _smallest(offered[name])
        if taken.intersection(names_below(column.name, column.type)):
            unnamed.add(name)
            continue
        taken.update(names_below(column.name, column.type))
        fits[name] = replace(column, required=not existing and name in key)
    added = [fits[name] for name in offered if name in fits]
    seen_as = {column.name: column.type.name for column in (*result, *added) if column.type.name in INFERRED}
    new = _stored(added)
    wider, others = _stored(widened), _stored(retyped)
    names = frozenset(unnamed)
    return ColumnPlan((*_stored(result), *new), new, wider, others, unwritable, seen_as, names, _stored(defaulted))


def _existing(
    existing: Sequence[Column],
    declarations: Mapping[str, Column],
    offered: Mapping[str, list[Column]],
    fixed: frozenset[str],
) -> tuple[list[Column], list[Column], list[Column], list[Column]]:
    """The columns that a table has as it will have them, and those of them that are widened, retyped and defaulted."""
    result: list[Column] = []
    widened: list[Column] = []
    retyped: list[Column] = []
    defaulted: list[Column] = []
    for column in existing:
        now = column
        declaration = declarations.get(column.name)
        wishes = [declaration] if declaration else offered.get(column.name, [])
        for wish in wishes:
            kind = _holding(now.type, wish.type)
            if column.name not in fixed or promotable(column.type, kind):
                now = replace(now, type=kind)
        old, new_type = storable(column.type), storable(now.type)
        if new_type == VARIANT != old:
            raise NotPromotable(
                f"column {column.name[:100]} is {old} in the table and a variant in firn.yaml, and Iceberg makes none "
                f"of a column that is there: declare it as {old}, or as a variant under another name (renames)"
            )
        promoted = promotable(old, new_type) and (column.name in fixed or not changes_form(old, new_type))
        if promoted:
            widened += [now] if old != new_type else []
        else:
            now = replace(now, default=None)  # it is another column from then on, which has none
            retyped.append(now)
        if declaration is not None and declaration.default is not None:
            now = replace(now, default=default_in(declaration, now.type))
            if not promoted or not same_default(new_type, now.default, column.default):
                defaulted.append(now)
        result.append(replace(now, source=declaration.source, rule=declaration.rule) if declaration else now)
    return result, widened, retyped, defaulted


def _offered(
    seen: Iterable[Sequence[Column]], declared: Iterable[str], unwritable: frozenset[str]
) -> dict[str, list[Column]]:
    """What was seen of each column that a table may have, by name, and nothing of those that are declared only."""
    offered: dict[str, list[Column]] = {}
    for columns in seen:
        for column in columns:
            if not is_left_out(column.name) and column.name not in unwritable:
                offered.setdefault(column.name, []).append(column)
    for name in declared:
        offered.setdefault(name, [])
    return offered


def without_others(plan: ColumnPlan, declared: Collection[str]) -> ColumnPlan:
    """The plan of a table whose changes bring only what is declared: its other columns, if it has any, get nothing."""
    columns = (c if c.name in declared else replace(c, silent=True, earlier=()) for c in plan.columns)
    return replace(plan, columns=tuple(columns))


def without_defaults(plan: ColumnPlan, key: Collection[str]) -> ColumnPlan:
    """The plan, where no default stands in for a key that a change does not name: such a change is a dead letter."""
    if not any(column.default is not None and column.name in key for column in plan.columns):
        return plan
    columns, added = (
        tuple(replace(c, default=None) if c.name in key else c for c in some) for some in (plan.columns, plan.added)
    )
    return replace(plan, columns=columns, added=added, defaulted=tuple(c for c in plan.defaulted if c.name not in key))


def columns_beside(there: Collection[str], seen: Iterable[Sequence[Column]]) -> tuple[Column, ...]:
    """What was seen of other columns than those that are `there`: MOST_COLUMNS of them at most."""
    offered = _offered(seen, (), frozenset(there))
    return _stored(_smallest(columns) for columns in list(offered.values())[:MOST_COLUMNS] if columns)


def _holding(there: Type, wish: Type) -> Type:
    """The type for a column of type `there` that shall hold `wish` too: for ever `there` where that is text already."""
    if promotable(there, wish):
        return wish
    kind = widen(there, wish)
    return there if storable(kind) == there else kind


def _stored(columns: Iterable[Column]) -> tuple[Column, ...]:
    return tuple(replace(column, type=storable(column.type)) for column in columns)


def _smallest(columns: Sequence[Column]) -> Column:
    kind = columns[0].type
    for column in columns[1:]:
        kind = widen(kind, column.type)
    # The encodings belong to the schemas of the single events, never to the table.
    return Column(columns[0].name, kind)


class TooManyColumns(Exception):
    """The changes bring a table more columns than a table may have: nothing is applied."""


def check_width(plan: ColumnPlan, existing: int, declared: Collection[str]) -> None:
    """Raises TooManyColumns for a plan that widens a table over MOST_COLUMNS. Those that firn.yaml declares are never
    too many, and a table that was wider already goes on. `existing`: how many it has."""
    most = max(MOST_COLUMNS, existing)
    others = [column.name for column in plan.columns if column.name not in declared]
    new = [column.name for column in plan.added if column.name not in declared]
    if new and len(others) > most:
        names = ", ".join(name[:100] for name in new[:5])
        raise TooManyColumns(
            f"the changes bring {len(new):,} columns that the table does not have ({names}, …), which would be "
            f"{len(others):,} in all; a table may have {most:,}"
        )


class NotPromotable(TerminalError):
    """A column is declared as what the one that the table has can't become: nothing is applied."""


class ColumnGone(TerminalError):
    """Somebody dropped or renamed a column of a fed table, and changes still bring it, or it is Firn's own. It would
    come back empty in all older rows: nothing is applied."""


def check_gone(plan: ColumnPlan, gone: Collection[str]) -> None:
    """Raises ColumnGone. `gone`: as TableState has it."""
    own = sorted(METADATA.intersection(gone))
    if own:
        raise ColumnGone(
            f"the table has no column {own[0]} any more, in which Firn keeps what it needs of each row: somebody "
            "dropped or renamed it. Rename it back, or rebuild the table"
        )
    name = next((column.name for column in plan.added if column.name in gone), None)
    if name is not None:
        raise ColumnGone(
            f"somebody dropped or renamed the column {name[:100]} of the table, and changes still bring it: it would "
            "be empty in all older rows. Rename it back, or write `renames: {NEW: OLD}` into the table's rule; or "
            "rebuild the table; or, if the older values may be missing, add the column to it again"
        )


def check_fineness(existing: Iterable[Column], declared: Iterable[Column]) -> None:
    """Raises TerminalError for a declaration of nanoseconds of a column that has microseconds, or the other way round:
    Iceberg makes neither of the other, and nothing holds both."""
    there = {column.name: column.type for column in existing}
    for column in declared:
        was = there.get(column.name)
        if was is not None and _other_fineness(was, column.type):
            raise TerminalError(
                f"the column {column.name[:100]} is {was} in the table, and firn.yaml declares {column.type}: Iceberg "
                f"makes no column the one of the other. Write {was}, or have the rows so in a new table: another name "
                "under to:, and firn rebuild of that one. The changes wait in the log"
            )


def check_nanoseconds(plan: ColumnPlan, version: int) -> None:
    """Raises TerminalError for a column of nanoseconds in a table of a format that has none. `version`: the table's, or
    the one that firn.yaml asks for; 0 for a table that is made now where it asks for none."""
    name = next((column.name for column in plan.columns if is_fine(column.type)), None)
    if name is not None and version < NEWEST_FORMAT:
        raise TerminalError(
            f"the column {name[:100]} has nanoseconds, which need Iceberg's format 3, and the table has "
            f"{version or OLDEST_FORMAT}: write format: 3 in its rule, or in a pipeline's SQL CAST({name[:100]} AS "
            "TIMESTAMP). The changes wait in the log"
        )


def _other_fineness(was: Type, now: Type) -> bool:
    if was.element is not None and now.element is not None:
        return _other_fineness(was.element, now.element)
    if was.entry is not None and now.entry is not None:
        return any(_other_fineness(one, other) for one, other in zip(was.entry, now.entry, strict=True))
    parts = dict(was.fields)
    if parts and now.fields:
        return any(name in parts and _other_fineness(parts[name], part) for name, part in now.fields)
    return was != now and {was.name, now.name} in _FINENESS


_FINENESS: Final = ({"timestamp", "timestamp_ns"}, {"timestamptz", "timestamptz_ns"})


class KeyChanged(Exception):
    """The key or mode that firn.yaml or the events give is not the table's, or the events give two. Rows of one key
    could stand under another: nothing is applied."""


def plan_key(
    configured: Sequence[str] | None,
    existing: Sequence[str] | None,
    named: Iterable[Sequence[str]],
    mode: str = "mirror",
) -> tuple[str, ...]:
    """The table's key: configuration, else the table's own `firn.key`, else the one that events name. () means append.

    `existing` is None for a new table and for an adopted one; `named`: the keys that events name, those without one
    left out; `mode`: what firn.yaml says, in append tables the events' keys are only values.

    Without a configured key each event must mean the same one, or its row would depend on how the changes were split:
    raises KeyChanged for two of them (the order of the names does not count), for another one than the table's, and
    for a table that is append because nothing named a key. Raises it too if the configuration contradicts the table.
    """
    told = sorted(map(tuple, named))
    if configured is not None:
        if existing is not None and set(configured) != set(existing):
            raise KeyChanged(
                f"the key is {_listed(existing)} in the table and {_listed(configured)} in firn.yaml: "
                "set it back, or rebuild the table under the new key"
            )
        return tuple(configured if existing is None else existing)
    if not MODES[mode].keyed:
        return tuple(existing if existing is not None else told[0] if len(set(map(frozenset, told))) == 1 else ())
    known = [*told] if existing is None else [tuple(existing), *told]
    if len(set(map(frozenset, known))) > 1:
        raise KeyChanged(_two_keys(existing, told))
    return known[0] if known else ()


def _two_keys(existing: Sequence[str] | None, told: Sequence[Sequence[str]]) -> str:
    others = {frozenset(key): tuple(key) for key in reversed(told) if set(key) != set(existing or ())}
    keys = " and ".join(map(_listed, sorted(others.values())))
    rebuild = "rebuild the table (firn rebuild TABLE --in-place)"
    if existing is None:
        return f"events name the keys {keys}; set `key:` or `mode: append` in the table's rule in firn.yaml"
    if not existing:
        return (
            f"the table is append, as no event named a key, and now events name {keys}; set `mode: append` in "
            f"firn.yaml to leave it so, or {rebuild}, which takes the key from the whole log or from `key:`"
        )
    return (
        f"the key is {_listed(existing)} in the table and events name {keys}; set `key:` in firn.yaml, and if it is "
        f"another one than the table's, {rebuild}"
    )


def _listed(key: Sequence[str]) -> str:
    return f"[{', '.join(key)}]"


def check_mode(mode: str, existing: str | None) -> None:
    """Raises KeyChanged if the rules make another mode of a table than it has (`firn.mode`; None: it does not say)."""
    if existing is not None and existing != mode:
        raise KeyChanged(
            f"the table is in mode {existing} and firn.yaml now makes it {mode}; set it back, or name another table"
        )


def lacking_key(
    plan: ColumnPlan, key: Sequence[str], *, made: bool, stored: Mapping[str, Any] | None = None
) -> str | None:
    """Why no change can be a row of a mirror table with this key: a column of it is nowhere to be seen, or of a type
    that tells no two rows apart. None if the key is fine. `made`: whether the table is; `stored`: its columns' types,
    as its metadata has them.

    Of a table that is not made yet it is the changes that are at fault: they are dead letters, and the next ones may
    make it. Raises KeyChanged for one that is.
    """
    types = {column.name: column.type for column in plan.columns}
    for name in key:
        kind = _words((stored or {}).get(name)) if name in plan.unwritable else _with_parts(types.get(name))
        if kind is not None:
            why = f"{name[:100]}, which is in its key, is {kind}, by which Firn tells no rows apart"
            if made:
                raise KeyChanged(f"the table's column {why}; name other columns under `key` in firn.yaml")
            return f"the column {why}; name other columns under `key` in firn.yaml, and replay"
    missing = [name for name in key if name not in types]
    if not missing:
        return None
    if made:
        raise KeyChanged(f"the table has no column {missing[0]}, which is in its key; correct the key in firn.yaml")
    if is_left_out(missing[0]):
        return f"{missing[0]}, which is in its key, is a name that Firn or Iceberg keeps for itself; call it otherwise"
    return (
        f"the table is not made yet, and no declaration and no change, with a value, names {missing[0]} of its key: "
        "declare it under `columns` and replay, or replay once the table is there"
    )


def _with_parts(kind: Type | None) -> str | None:
    """A type that has a map or a struct in it, in words; None for others. Lists are compared element by element."""
    word = next((one for one in ("map", "struct") if kind is not None and kind.holds(one)), None)
    return None if word is None or kind is None else f"a {word}" if kind.name == word else f"a list with a {word} in it"


def _words(kind: Any) -> str:
    """A type as Iceberg's metadata has it, in words."""
    if isinstance(kind, Mapping):
        word = str(kind.get("type"))
        return f"a list of {_words(kind.get('element'))}" if word == "list" else f"a {word}"
    return f"a {kind}"
