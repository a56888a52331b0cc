"""Which new tables of a stream are one too many (docs/adr/0038-limits.md): a pattern makes a table of every name that
somebody sends, and each table costs its commits, its files and its turn in every job after it. Pure."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from firn.config.model import StreamConfig
from firn.config.names import TableName
from firn.errors import EventError

TOO_MANY_TABLES: Final = "too_many_tables"
# Epochs: number, the stream's settings in the configuration that it was sealed under, its source tables.
Log = Iterable[tuple[int, StreamConfig, Collection[str]]]


@dataclass(frozen=True)
class Part:
    """Epochs of a range in all of which the same source tables are refused."""

    epochs: tuple[int, ...]
    refused: frozenset[str]


def refused(known: Collection[str], log: Log) -> dict[int, frozenset[str]]:
    """The source tables whose changes are dead letters, by epoch, because the patterns of the stream have made its
    `max_tables`: who comes in an earlier epoch comes first, then who has the lesser name.

    Each epoch is judged by its own settings. A job that dies leaves letters and rows, and the next one may have further
    epochs in its range, under a limit that was changed meanwhile: judged by that one, they would be both.

    known  the tables that the cut before knows: they are never too many. Nor are those of rules without a `*`, which
           take no other table's place: whether such a table comes first must decide nothing
    log    all epochs since that cut, held ones too: a job may have judged others by them before they were held
    """
    made = set(known)
    found: dict[int, frozenset[str]] = {}
    for n, settings, sources in sorted(log, key=lambda one: one[0]):
        goes = {source: name for source in sources if (name := _target(settings, source)) is not None}
        over: set[TableName] = set()
        if new := {name for name in goes.values() if str(name) not in made}:
            # What a pipeline reads is named too, and so is its target.
            exact = {rule.source for rule in settings.tables if not rule.is_pattern}
            exact |= {one.source for one in settings.pipelines}
            named = {str(_target(settings, source)) for source in exact} | {str(p.target) for p in settings.pipelines}
            room = max(0, settings.max_tables - len(made - named))
            over = set(sorted(name for name in new if str(name) not in named)[room:])
            made |= {str(name) for name in new - over}
        found[n] = frozenset(source for source, name in goes.items() if name in over)
    return found


def parts(found: Mapping[int, frozenset[str]], sources: Mapping[int, Collection[str]]) -> tuple[Part, ...]:
    """A range in as few parts as its limits need: one, unless they were changed in it. `found`: as `refused` tells;
    `sources`: those of each epoch of the range."""
    done: list[Part] = []
    numbers: list[int] = []
    no: set[str] = set()
    yes: set[str] = set()
    for n in sorted(sources):
        refuses, takes = found[n], set(sources[n]) - found[n]
        if refuses & yes or takes & no:
            done.append(Part(tuple(numbers), frozenset(no)))
            numbers, no, yes = [], set(), set()
        numbers.append(n)
        no |= refuses
        yes |= takes
    return (*done, Part(tuple(numbers), frozenset(no))) if numbers else ()


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
