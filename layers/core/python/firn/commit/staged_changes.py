"""Raw changes in this process: read from staged objects, what they say about their tables, and their dead letters.

The same questions that Spark answers with aggregates. Raw changes are dicts of the columns CHANGES of
firn_spark.staged.packed. Pure.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any, Final

from firn.changes.merge.ordering import PLACED_BY, Order, placed
from firn.log import layout
from firn.log.batches import UnreadableBatch
from firn.tables.batch_facts import SAID_BY, Facts, TableFacts, collected, facts_in

Change = Mapping[str, Any]
_STAGED: Final = (
    "index", "table", "op", "ts", "connector", "order", "tx_order", "emitted", "flat", "key", "before", "after",
    "schema_id", "schema", "transaction", "occurrence", "generation", "origin",
)  # fmt: skip
_SAID: Final = ("table", "flat", "schema_id", "fact", "value")


def raw_changes(body: bytes, epoch: int, batch: str, place: int, order: Order) -> list[dict[str, Any]]:
    """The rows of one staged object, each with its position and the text of its inline schema. `place`: as for
    `placed`. Raises UnreadableBatch."""
    columns = raw_columns(body, epoch, batch, place, order)
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def raw_columns(body: bytes, epoch: int, batch: str, place: int, order: Order) -> dict[str, Sequence[Any]]:
    """The same by columns, which takes half as long. Raises UnreadableBatch."""
    table = _read(body, batch)
    rows = table.num_rows
    there = {name: table.column(name).to_pylist() for name in table.column_names}
    usual: dict[str, Sequence[Any]] = {"index": range(rows), "flat": [False] * rows}
    columns: dict[str, Sequence[Any]] = {name: there.get(name) or usual.get(name, [None] * rows) for name in _STAGED}
    columns |= placed({name: columns[name] for name in (*PLACED_BY, "ts")}, place, order, layout.accepted(batch))
    texts = {i: text for i, text in zip(columns["schema_id"], columns["schema"], strict=True) if text is not None}
    columns |= {
        "schema": [texts.get(i) for i in columns["schema_id"]],
        "epoch": [epoch] * rows,
        "batch": [batch] * rows,
    }
    return columns


def _read(body: bytes, batch: str) -> Any:
    from arro3.io import read_parquet

    try:
        return read_parquet(BytesIO(body)).read_all()
    except BaseException as error:
        # Rust's own, for what is not a Parquet file: no Exception of Python.
        if type(error).__name__ != "PanicException":
            raise
        raise UnreadableBatch(f"the staged batch {batch} can't be read: {error}") from None


def said_by(changes: Sequence[dict[str, Any]]) -> Facts:
    """What the raw changes of one batch say about their tables (batch_facts.facts_in). Those that can't be asked get a
    fault."""
    said, bad = facts_in({name: [one[name] for one in changes] for name in SAID_BY})
    for row, why in bad.items():
        if changes[row]["fault"] is None:
            changes[row] |= {"fault": why.code, "fault_text": str(why)}
    return said


def facts_of(counts: Mapping[tuple[str, int, str], int], said: Iterable[Change]) -> dict[str, TableFacts]:
    """Facts by source table. `counts`: changes by (table, epoch, op); `said`: rows {epoch, batch, table, flat,
    schema_id, fact, value}."""
    return collected(once(said), [(*what, number) for what, number in counts.items()])


def once(said: Iterable[Change]) -> list[Change]:
    """Each fact as the first batch tells it, in the order of those; a key as the first of each epoch does."""
    first: dict[tuple[Any, ...], Change] = {}
    for one in said:
        what = (one["epoch"] if one["fact"] == "key" else None, *[one.get(name) for name in _SAID])
        known = first.get(what)
        if known is None:
            first[what] = one
        elif _place(one) < _place(known):
            del first[what]  # it goes behind the others of its batch
            first[what] = one
    return sorted(first.values(), key=_place)


def _place(one: Change) -> tuple[int, str]:
    return one["epoch"], one["batch"]


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
