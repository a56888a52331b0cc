"""What raw changes that are in this process say: the facts about their tables, and their dead letters.

The same questions that Spark answers with aggregates. Raw changes are dicts of the columns firn_spark.packed.CHANGES.
Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from firn.jobs.facts import TableFacts, collected

Change = Mapping[str, Any]
_SAID: Final = ("table", "flat", "schema_id", "fact", "value")


def facts_of(counts: Mapping[tuple[str, int, str], int], said: Iterable[Change]) -> dict[str, TableFacts]:
    """Facts by source table. `counts`: changes by (table, epoch, op); `said`: rows {epoch, batch, table, flat,
    schema_id, fact, value}."""
    return collected(once(said), [(*what, number) for what, number in counts.items()])


def once(said: Iterable[Change]) -> list[Change]:
    """Each fact as the first batch tells it, in the order of those."""
    first: dict[tuple[Any, ...], Change] = {}
    for one in sorted(said, key=lambda one: (one["epoch"], one["batch"])):
        first.setdefault(tuple(one.get(name) for name in _SAID), one)
    return [*first.values()]


def rejected(
    changes: Iterable[Change], why: Mapping[tuple[str, int], tuple[str, str]], schemas: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The staged rows (rejects.write_rejects) of the changes that `why` names: (batch, index) -> (code, message), by
    batch and index. `schemas`: the inline schemas by id."""
    bad = sorted(_of(changes, why), key=lambda one: (one["batch"], one["index"]))
    return [
        {**one, "schema": schemas.get(one["schema_id"]), "_code": code, "_message": message}
        for one in bad
        for code, message in [why[one["batch"], one["index"]]]
    ]


def _of(changes: Iterable[Change], why: Mapping[tuple[str, int], Any]) -> Iterator[Change]:
    return (one for one in changes if (one["batch"], one["index"]) in why)


def schema_texts(said: Sequence[Change]) -> dict[str, str]:
    """The inline schemas by id."""
    return {one["schema_id"]: one["value"] for one in said if one["fact"] == "schema"}
