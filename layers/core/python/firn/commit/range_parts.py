"""In which parts a range of epochs is committed: one, unless the limit of tables or pipelines change in it. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from firn.commit import table_limit
from firn.config.pipelines import Pipeline


@dataclass(frozen=True)
class Part:
    """Epochs of a range in all of which the same source tables are refused, and that run under the same pipelines into
    append tables: `pipelines` are all of the newest of these configurations."""

    epochs: tuple[int, ...]
    refused: frozenset[str]
    pipelines: tuple[Pipeline, ...] = ()


def parts(
    refused: Mapping[int, frozenset[str]],
    sources: Mapping[int, Collection[str]],
    pipelines: Mapping[int, tuple[Pipeline, ...]],
) -> tuple[Part, ...]:
    """The parts, in order. By epoch: `refused` as table_limit tells, `sources`, and the `pipelines` of its own
    configuration."""
    found = []
    for part in table_limit.parts(refused, sources):
        for _, some in groupby(part.epochs, key=lambda n: appending(pipelines.get(n, ()))):
            mine = tuple(some)
            found.append(Part(mine, part.refused, pipelines.get(mine[-1], ())))
    return tuple(found)


def appending(pipelines: Sequence[Pipeline]) -> list[tuple[str, str]]:
    """Those into append tables, whose rows stay what they were: names and SQL. A mirror is made again."""
    return sorted((one.name, one.sql) for one in pipelines if one.rule is not None and not one.is_mirror)
