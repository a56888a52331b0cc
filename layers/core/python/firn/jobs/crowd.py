"""Which new tables of a stream are one too many (docs/adr/0038-limits.md): a pattern makes a table of every name that
somebody sends, and each table costs its commits, its files and its turn in every job after it. Pure."""

from collections.abc import Collection, Iterable
from typing import Final

from firn.errors import EventError
from firn.streams.config import StreamConfig
from firn.streams.names import TableName

TOO_MANY_TABLES: Final = "too_many_tables"


def crowded(settings: StreamConfig, known: Collection[str], sources: Iterable[tuple[int, str]]) -> frozenset[TableName]:
    """The tables whose changes are dead letters, because the patterns of the stream have made its `max_tables`.

    known    the tables that the cut before knows: they are never too many. Nor are those of rules without a `*`, which
             take no other table's place: whether such a table comes first must decide nothing
    sources  (epoch, source table) of the range: who comes in an earlier epoch comes first, then who has the lesser name
    """
    named = {str(_target(settings, rule.source)) for rule in settings.tables if not rule.is_pattern}
    first: dict[TableName, int] = {}
    for epoch, source in sources:
        name = _target(settings, source)
        if name is not None and str(name) not in known and str(name) not in named:
            first[name] = min(epoch, first.get(name, epoch))
    room = max(0, settings.max_tables - len(set(known) - named))
    return frozenset(sorted(first, key=lambda name: (first[name], name))[room:])


def _target(settings: StreamConfig, source: str) -> TableName | None:
    try:
        rule = settings.rule_for(source)
        return None if rule is None else rule.target(source)
    except EventError:
        return None


def why(settings: StreamConfig) -> str:
    """What a letter says."""
    return (
        f"the stream's patterns have made their {settings.max_tables:,} tables, and no rule names this one; raise "
        "`max_tables` of the stream, or name the table in firn.yaml, then replay"
    )
