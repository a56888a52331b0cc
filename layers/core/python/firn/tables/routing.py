"""Which source tables of a range of epochs go to which Iceberg table, by the stream's rules."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from firn.changes.decode.source_encodings import declared_column
from firn.changes.decode.types import Column
from firn.config.model import StreamConfig, TableRule
from firn.config.names import TableName
from firn.config.pipelines import Pipeline
from firn.errors import EventError
from firn.tables.batch_facts import TableFacts
from firn.tables.table_state import TableState, fed_by


@dataclass(frozen=True)
class Feed:
    """How changes of some source tables come into a table: as they are, or through a pipeline."""

    pipeline: Pipeline | None
    sources: tuple[str, ...]


FEW: Final = 5_000  # changes: a table with no more is a small one, of which many are committed at once


@dataclass(frozen=True)
class Target:
    """One Iceberg table and what feeds it. `facts` are those of all its sources, in order; `names`: the whole names of
    sources that events name without schema; `feeds`: how they come in, where pipelines do that, else (); `back`:
    whether these are changes of before its pipelines, which count for no epoch."""

    name: TableName
    rule: TableRule
    sources: tuple[str, ...]
    facts: tuple[TableFacts, ...]
    names: Mapping[str, str] = field(default_factory=dict)
    feeds: tuple[Feed, ...] = ()
    back: bool = False

    @property
    def fed(self) -> tuple[str, ...]:
        """The sources by their whole names, each once."""
        return tuple(dict.fromkeys(self.names.get(source, source) for source in self.sources))

    @property
    def joins(self) -> frozenset[TableName]:
        """The tables that its rows are joined with."""
        return frozenset(name for feed in self.feeds if feed.pipeline for name in feed.pipeline.joins)

    def events(self, above: int, op: str | None = None) -> int:
        """Staged changes in epochs above `above`, all or those of one op."""
        counts = (count for facts in self.facts for count in facts.events.items())
        return sum(count for (epoch, one), count in counts if epoch > above and op in (None, one))

    @property
    def turn(self) -> tuple[bool, int]:
        """By which the tables of a range are committed in order: the small ones first, and of these the one with most
        changes, for one takes about as long as another; then the large ones, of which each waits for those with
        less."""
        events = self.events(0)
        return (True, events) if events > FEW else (False, -events)

    def above(self, epoch: int) -> "Target":
        """The same without the changes of epochs up to `epoch`, as far as they are counted or name a key."""
        facts = (
            replace(
                one,
                events={at: n for at, n in one.events.items() if at[0] > epoch},
                keys={key: newest for key, newest in one.keys.items() if newest > epoch},
            )
            for one in self.facts
        )
        return replace(self, facts=tuple(facts)) if epoch else self

    def up_to(self, epoch: int) -> "Target":
        """The same without the changes of epochs after `epoch`, as far as they are counted."""
        counts = ({at: n for at, n in one.events.items() if at[0] <= epoch} for one in self.facts)
        facts = (replace(one, events=events) for one, events in zip(self.facts, counts, strict=True))
        return replace(self, facts=tuple(facts))

    def counts(self, op: str | None = None) -> dict[int, int]:
        """Staged changes by epoch, all or those of one op."""
        found: dict[int, int] = {}
        for facts in self.facts:
            for (epoch, one), count in facts.events.items():
                if op in (None, one):
                    found[epoch] = found.get(epoch, 0) + count
        return found

    def of(self, feed: Feed) -> "Target":
        """The same of what one of its feeds brings."""
        facts = dict(zip(self.sources, self.facts, strict=True))
        return replace(self, sources=feed.sources, facts=tuple(facts[one] for one in feed.sources), feeds=())

    def seen(self, key: Collection[str] = ()) -> list[tuple[Column, ...]]:
        """All sets of columns that the sources' changes show. `key`: of a mirror, which takes its deletes' keys too."""
        shown = [columns for facts in self.facts for columns in facts.seen]
        keyed = [columns for facts in self.facts for columns in facts.keyed] if key else []
        return shown + [tuple(column for column in columns if column.name in key) for columns in keyed]

    @property
    def unordered(self) -> bool:
        """Whether there are changes without a place in the order, of which `seen` tells nothing."""
        return any(facts.unordered for facts in self.facts)

    def telling(self, told: Mapping[str, TableFacts]) -> "Target":
        """The same with what these facts, by source table, tell of columns, and nothing else of them."""
        own = zip(self.sources, self.facts, strict=True)
        of = ((one, told.get(source, TableFacts())) for source, one in own)
        return replace(self, facts=tuple(replace(one, seen=by.seen, keyed=by.keyed) for one, by in of))

    def showing(self, names: Collection[str]) -> "Target":
        """The same as if its changes showed these columns alone."""
        facts = (
            replace(one, seen=[tuple(column for column in columns if column.name in names) for columns in one.seen])
            for one in self.facts
        )
        return replace(self, facts=tuple(facts))

    def schemas(self) -> dict[str, tuple[Column, ...]]:
        """The inline schemas by id."""
        return {name: columns for facts in self.facts for name, columns in facts.schemas.items()}

    def bad_schemas(self) -> dict[str, str]:
        """Why schemas can't be read, by id."""
        return {name: reason for facts in self.facts for name, reason in facts.bad_schemas.items()}

    def named_keys(self) -> set[tuple[str, ...]]:
        """The keys that the changes of all sources name."""
        return {key for facts in self.facts for key in facts.keys}

    def declared(self, config: StreamConfig) -> list[Column]:
        """The columns that firn.yaml declares."""
        return declared_columns(self.rule, config)


def declared_columns(rule: TableRule, config: StreamConfig) -> list[Column]:
    """The columns that a rule of firn.yaml declares."""
    own = rule.schema.columns() if rule.schema is not None else ()
    declared = (
        replace(declared_column(name, one.type, one.source_precision, config.settings), default=one.default)
        for name, one in rule.columns.items()
    )
    return [*own, *declared]


@dataclass
class Routes:
    """`targets` by name; `ignored`: changes of tables that no rule takes; `refused`: source tables that can't be
    placed, with (code, message)."""

    targets: list[Target] = field(default_factory=list)
    ignored: int = 0
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)


def route(config: StreamConfig, facts: Mapping[str, TableFacts]) -> Routes:
    """Sorts the source tables by target. Pure. The rule of the first source (by name) speaks for its target.

    A mirror that a pipeline makes is no target of its source table: it rests on that table's own mirror.
    """
    routes = Routes()
    found: dict[TableName, list[_Way]] = {}
    for table in sorted(facts):
        ways: list[tuple[TableName, _Way]] = []
        try:
            if (rule := config.rule_for(table)) is not None:
                ways.append((rule.target(table), (table, rule, None)))
        except EventError as error:
            routes.refused[table] = (error.code, str(error))
        ways += _through_pipelines(config, table)
        for name, way in ways:
            found.setdefault(name, []).append(way)
        if not ways and table not in routes.refused and not config.wants(table):
            routes.ignored += sum(facts[table].events.values())
    for name, mine in sorted(found.items()):
        tables = tuple(dict.fromkeys(table for table, _, _ in mine))
        # An exact rule is meant for this target more than a pattern that happens to reach it, or than a pipeline.
        rule = min(mine, key=lambda way: (way[2] is not None, way[1].is_pattern))[1]
        names = {table: whole for table, own, _ in mine if (whole := own.source_of(table)) != table}
        routes.targets.append(Target(name, rule, tables, tuple(facts[one] for one in tables), names, _feeds(mine)))
    return routes


_Way = tuple[str, TableRule, Pipeline | None]  # a source table, and what brings it into a target


def _through_pipelines(config: StreamConfig, table: str) -> list[tuple[TableName, _Way]]:
    with suppress(EventError):  # it is ambiguous, and refused for that already
        return [
            (one.target, (table, one.rule, one))
            for one in config.pipelines_of(table)
            if one.rule is not None and one.target is not None and not one.is_mirror
        ]
    return []


def _feeds(mine: list[_Way]) -> tuple[Feed, ...]:
    by: dict[str | None, tuple[Pipeline | None, list[str]]] = {}
    for table, _, pipeline in mine:
        by.setdefault(pipeline.name if pipeline else None, (pipeline, []))[1].append(table)
    if not by.keys() - {None}:
        return ()
    return tuple(Feed(pipeline, tuple(tables)) for pipeline, tables in by.values())


def targets_of(config: StreamConfig, table: str) -> tuple[TableName, ...]:
    """The Iceberg tables that a source table's changes go to, each once; a table that refuses them is none."""
    return tuple(dict.fromkeys(name for name, _ in _ways(config, table)))


def _ways(config: StreamConfig, table: str) -> list[tuple[TableName, _Way]]:
    """What brings a source table's changes into tables: its rule first; what refuses them is left out."""
    found = _through_pipelines(config, table)
    with suppress(EventError):
        if (rule := config.rule_for(table)) is not None:
            found.insert(0, (rule.target(table), (table, rule, None)))
    return found


def appends_of(config: StreamConfig, sources: Collection[str]) -> int:
    """How many append tables take the changes of all these source tables."""
    each = [{name for name, (_, rule, _) in _ways(config, table) if not rule.keyed} for table in sources]
    return len(set.intersection(*each)) if each else 0


def mirrors_on(config: StreamConfig) -> Iterator[tuple[Pipeline, TableName, TableName]]:
    """The pipelines that make mirrors, each with its base, the mirror of its source table, and its target."""
    for one in config.pipelines:
        if one.is_mirror and one.target is not None:
            with suppress(EventError):
                yield one, config.target(one.source), one.target


def all_of(target: Target, state: TableState | None, config: StreamConfig) -> Target:
    """The target with all source tables that ever fed its table, not only those of this range, by all names that events
    may give them: what is folded again out of the log may be of any of them. `state`: None if the table isn't made."""
    fed = [one for one in fed_by(state, target.fed) if one]
    bare = {name: whole for one in fed if (whole := _goes_to(config, name := one.partition(".")[2], target))}
    sources = tuple(dict.fromkeys([*target.sources, *fed, *bare]))
    return replace(target, sources=sources, names={**target.names, **bare})


def _goes_to(config: StreamConfig, bare: str, target: Target) -> str | None:
    """The whole name of a source table that events name without its schema; None if they aren't the target's."""
    try:
        rule = config.rule_for(bare) if bare else None
        return rule.source_of(bare) if rule is not None and rule.target(bare) == target.name else None
    except EventError:
        return None
