"""Columns that firn.yaml declares with a default: the same changes give the same table, split, doubled, in any order,
whenever the column came."""

import json
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from firn.changes.decode.column_defaults import default_json, defaults_json, write_default
from firn.changes.decode.iceberg_fields import typed_json
from firn.changes.decode.types import Column, parse
from firn.changes.merge import decoded_rows
from firn.config.model import StreamConfig
from firn.config.reader import parse as parse_config
from firn.tables.settled_plan import RowJudge, settled
from firn.tables.table_plan import Planned
from firn.tables.table_state import TableState
from tests.property.test_settled_types import Raw, change, staged, target_of
from tests.soak import times

DEFAULT = 7


def stream(columns: str, mode: str = "mirror") -> StreamConfig:
    rule = f"{{to: lake.t, key: [id], mode: {mode}, format: 3, columns: {{id: long, {columns}}}}}"
    return parse_config(f"catalog: {{type: sql}}\nstreams:\n  spec:\n    tables: {{a.t: {rule}}}\n").streams["spec"]


BEFORE = stream("n: long")
DECLARED = stream(f"n: long, x: {{type: int, default: {DEFAULT}}}")
CHANGED = stream(f"n: long, x: {{type: long, default: {DEFAULT + 1}}}")


class Table:
    """A table as files have it: of each row the columns that there were when it was written."""

    def __init__(self) -> None:
        self.fields: list[dict[str, Any]] = []
        self.rows: dict[int, tuple[int, dict[str, Any]]] = {}
        self.state: TableState | None = None

    def commit(self, config: StreamConfig, batches: Sequence[list[Raw]]) -> None:
        every = [one for batch in batches for one in batch]
        plan = settled(target_of(config, batches), config, self.state, RowJudge(batches), exact=True)
        good, bad = decoded_rows.decoded(every, plan.decoding, mirror=True)
        assert bad == []
        self._evolve(plan)
        numbers = {(one["batch"], one["index"]): one["number"] for one in every}
        names = [column.name for column in plan.columns.columns]
        for row in good:
            number = numbers[row[decoded_rows.BATCH], row[decoded_rows.INDEX]]
            cells = dict(zip(names, row[decoded_rows.WIDTH :], strict=True))
            if self.rows.get(cells["id"], (-1,))[0] < number:
                self.rows[cells["id"]] = number, cells

    def _evolve(self, plan: Planned) -> None:
        ids = count(1 + len(self.fields))
        self.fields += [
            {"id": next(ids), "name": one.name, "required": False, "type": typed_json(one.type, count(100))}
            | defaults_json(one)
            for one in plan.columns.added
        ]
        told = {one.name: default_json(one.type, one.default) for one in plan.columns.defaulted}
        kinds = {one.name: typed_json(one.type, count(100)) for one in plan.columns.widened}
        for field in self.fields:
            field["type"] = kinds.get(field["name"], field["type"])
            field |= {"write-default": told[field["name"]]} if field["name"] in told else {}
        properties = {"firn.key": '["id"]', "firn.mode": "mirror"}
        self.state = TableState("memory://t", properties, tuple(self.fields), 1, ({},), version=3)

    def read(self) -> dict[int, dict[str, Any]]:
        return {
            key: {field["name"]: cells.get(field["name"], field.get("initial-default")) for field in self.fields}
            for key, (_, cells) in sorted(self.rows.items())
        }

    def told(self) -> set[tuple[Any, ...]]:
        return {tuple(field.get(name) for name in ("name", "type", "initial-default", "write-default"))
                for field in self.fields}  # fmt: skip


ROWS = st.fixed_dictionaries(
    {"id": st.integers(0, 3)}, optional={"n": st.integers(0, 2), "x": st.none() | st.integers(-3, 3)}
)


def split(data: st.DataObject, some: Sequence[Raw]) -> Iterator[list[list[Raw]]]:
    """In any order, some twice, in epochs of batches."""
    doubled = [*some, *data.draw(st.lists(st.sampled_from(some), max_size=2))] if some else []
    epochs: list[list[list[Raw]]] = [[[]]]
    for one in data.draw(st.permutations(doubled)):
        where = data.draw(st.sampled_from(["epoch", "batch", "same"]))
        if where == "epoch":
            epochs.append([[]])
        elif where == "batch":
            epochs[-1].append([])
        epochs[-1][-1].append(one)
    yield from staged([kept for epoch in epochs if (kept := [batch for batch in epoch if batch])])


def numbered(rows: Sequence[dict[str, Any]], first: int = 0) -> list[Raw]:
    return [change("c", None, json.dumps(row)) | {"number": n} for n, row in enumerate(rows, first)]


def expected(rows: Sequence[dict[str, Any]]) -> dict[int, Any]:
    """What `x` is in each row: as PostgreSQL has it after ADD COLUMN x int DEFAULT 7."""
    return {row["id"]: row.get("x", DEFAULT) for row in rows}


@settings(max_examples=times(10, 3_000, 150), deadline=None)
@given(st.data(), st.lists(ROWS, max_size=8), st.lists(ROWS, max_size=8))
def test_rows_from_before_the_column_and_changes_that_do_not_name_it_have_its_default(
    data: st.DataObject, early: list[dict[str, Any]], later: list[dict[str, Any]]
) -> None:
    early = [{name: value for name, value in row.items() if name != "x"} for row in early]
    table = Table()
    for epoch in split(data, numbered(early)):
        table.commit(BEFORE, epoch)
    for epoch in split(data, numbered(later, len(early))):
        table.commit(DECLARED, epoch)
    if later:
        found = {key: row["x"] for key, row in table.read().items()}
        assert found == expected([*early, *later])
        assert ("x", "int", DEFAULT, DEFAULT) in table.told()


@settings(max_examples=times(7, 3_000, 100), deadline=None)
@given(st.data(), st.lists(ROWS, min_size=1, max_size=10))
def test_the_table_is_the_same_however_its_changes_are_split(data: st.DataObject, rows: list[dict[str, Any]]) -> None:
    whole, other = Table(), Table()
    [epoch] = staged([[numbered(rows)]])
    whole.commit(DECLARED, epoch)
    for some in split(data, numbered(rows)):
        other.commit(DECLARED, some)
    assert other.read() == whole.read()
    assert other.told() == whole.told()


@settings(max_examples=times(7, 3_000, 100), deadline=None)
@given(st.data(), st.lists(ROWS, min_size=1, max_size=6), st.lists(ROWS, min_size=1, max_size=6))
def test_another_default_is_for_changes_from_then_on_and_changes_no_row(
    data: st.DataObject, early: list[dict[str, Any]], later: list[dict[str, Any]]
) -> None:
    table = Table()
    for epoch in split(data, numbered(early)):
        table.commit(DECLARED, epoch)
    before = {key: row["x"] for key, row in table.read().items()}
    for epoch in split(data, numbered(later, len(early))):
        table.commit(CHANGED, epoch)
    after = {row["id"]: row.get("x", DEFAULT + 1) for row in later}
    assert {key: row["x"] for key, row in table.read().items()} == before | after
    assert ("x", "long", DEFAULT, DEFAULT + 1) in table.told()


DEFAULTS = {
    "boolean": st.booleans(), "int": st.integers(-(2**31), 2**31 - 1), "long": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(allow_nan=False, allow_infinity=False), "date": st.integers(-719_162, 2_932_896),
    "decimal(9,2)": st.decimals(-9_999_999, 9_999_999, places=2), "timestamp": st.integers(-(2**55), 2**57),
    "timestamptz": st.integers(-(2**55), 2**57), "string": st.text(), "uuid": st.uuids().map(str),
    "binary": st.binary(), "fixed[3]": st.binary(min_size=3, max_size=3),
}  # fmt: skip


@given(st.data(), st.sampled_from(sorted(DEFAULTS)))
def test_a_default_comes_back_out_of_icebergs_json(data: st.DataObject, kind: str) -> None:
    value = data.draw(DEFAULTS[kind])
    told = json.loads(json.dumps(defaults_json(Column("x", parse(kind), default=value))))
    assert told["initial-default"] == told["write-default"]
    assert write_default({"name": "x", **told}, parse(kind)) == value
