"""Which new tables of a stream are one too many (docs/adr/0038-limits.md): a pattern makes a table of every name that
somebody sends, and each table costs its commits, its files and its turn in every job after it. Pure."""

from collections.abc import Collection, Iterable
from typing import Final

from firn.errors import EventError
from firn.streams.config import StreamConfig
from firn.streams.names import TableName

TOO_MANY_TABLES: Final = "too_many_tables"


def crowded(settings: StreamConfig, known: Collection[str], sources: Iterable[tuple[int, str]]) -> frozenset[TableName]:
    """The tables whose changes are dead letters, because the stream has its `max_tables`.

    known    the tables that the cut before knows: they are never too many, nor those of rules without a `*`
    sources  (epoch, source table) of the range: who comes in an earlier epoch comes first, then who has the lesser name
    """
    first: dict[TableName, int] = {}
    for epoch, source in sources:
        try:
            rule = settings.rule_for(source)
            if rule is None or str(name := rule.target(source)) in known:
                continue
        except EventError:
            continue
        first[name] = min(epoch if rule.is_pattern else 0, first.get(name, epoch))
    room = max(0, settings.max_tables - len(known))
    new = sorted(first, key=lambda name: (first[name], name))
    return frozenset(name for name in new[room:] if first[name])


def why(settings: StreamConfig) -> str:
    """What a letter says."""
    return (
        f"the stream has its {settings.max_tables:,} tables, and no rule names this one; raise `max_tables` of the "
        "stream, or name the table in firn.yaml, then replay"
    )
