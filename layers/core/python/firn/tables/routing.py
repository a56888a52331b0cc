"""Which source tables of a range of epochs go to which Iceberg table, by the stream's rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from firn.changes.decode.source_encodings import declared_column
from firn.changes.decode.types import Column
from firn.config.model import StreamConfig, TableRule
from firn.config.names import TableName
from firn.errors import EventError
from firn.tables.batch_facts import TableFacts
from firn.tables.table_state import TableState, fed_by


@dataclass(frozen=True)
class Target:
    """One Iceberg table and what feeds it. `facts` are those of all its sources, in order; `names`: the whole names of
    sources that events name without schema."""

    name: TableName
    rule: TableRule
    sources: tuple[str, ...]
    facts: tuple[TableFacts, ...]
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def fed(self) -> tuple[str, ...]:
        """The sources by their whole names, each once."""
        return tuple(dict.fromkeys(self.names.get(source, source) for source in self.sources))

    def events(self, above: int, op: str | None = None) -> int:
        """Staged changes in epochs above `above`, all or those of one op."""
        counts = (count for facts in self.facts for count in facts.events.items())
        return sum(count for (epoch, one), count in counts if epoch > above and op in (None, one))

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

    def seen(self) -> list[tuple[Column, ...]]:
        """All sets of columns that the sources' changes show."""
        return [columns for facts in self.facts for columns in facts.seen]

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
        own = self.rule.schema.columns() if self.rule.schema is not None else ()
        return [
            *own,
            *(
                declared_column(name, declaration.type, declaration.source_precision, config.settings)
                for name, declaration in self.rule.columns.items()
            ),
        ]


@dataclass
class Routes:
    """`targets` by name; `ignored`: changes of tables that no rule takes; `refused`: source tables that can't be
    placed, with (code, message)."""

    targets: list[Target] = field(default_factory=list)
    ignored: int = 0
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)


def route(config: StreamConfig, facts: Mapping[str, TableFacts]) -> Routes:
    """Sorts the source tables by target. Pure. The rule of the first source (by name) speaks for its target."""
    routes = Routes()
    found: dict[TableName, list[tuple[str, TableRule]]] = {}
    for table in sorted(facts):
        try:
            rule = config.rule_for(table)
            if rule is None:
                routes.ignored += sum(facts[table].events.values())
                continue
            found.setdefault(rule.target(table), []).append((table, rule))
        except EventError as error:
            routes.refused[table] = (error.code, str(error))
    for name, sources in sorted(found.items()):
        tables = tuple(table for table, _ in sources)
        # An exact rule is meant for this target more than a pattern that happens to reach it.
        rule = min((rule for _, rule in sources), key=lambda rule: rule.is_pattern)
        names = {table: whole for table, own in sources if (whole := own.source_of(table)) != table}
        routes.targets.append(Target(name, rule, tables, tuple(facts[table] for table in tables), names))
    return routes


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
