"""Changing a table's columns: what is done, by which ids, and what is refused with which advice."""

from typing import Any

import pyarrow as pa
import pytest
from pyiceberg import types as t
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform

from firn.errors import TransientError
from firn.tables.table_state import parse
from firn_lake.lake import Lake
from firn_lake.lake_table import LakeTable
from firn_lake.schemas.evolution import EvolutionRefused, plan
from firn_lake.schemas.evolution_commit import evolve
from firn_lake.schemas.evolution_steps import NewColumn, Subject, Wishes
from firn_lake.schemas.type_text import BadType, text_of, type_of

ITEM = t.StructType(
    t.NestedField(10, "sku", t.StringType()), t.NestedField(11, "count", t.IntegerType(), required=True)
)
NESTED = Schema(
    t.NestedField(1, "id", t.LongType(), required=True),
    t.NestedField(2, "at", t.TimestamptzType()),
    t.NestedField(3, "small", t.IntegerType()),
    t.NestedField(4, "price", t.DecimalType(9, 2)),
    t.NestedField(
        5,
        "address",
        t.StructType(t.NestedField(12, "city", t.StringType()), t.NestedField(13, "zip", t.IntegerType())),
    ),
    t.NestedField(6, "items", t.ListType(14, ITEM, element_required=False)),
    t.NestedField(7, "by_name", t.MapType(15, t.StringType(), 16, ITEM.model_copy(), value_required=False)),
    t.NestedField(8, "dot.ted", t.StringType()),
    t.NestedField(9, "country", t.StringType()),
    identifier_field_ids=[1],
)


@pytest.fixture
def free(catalog: Catalog) -> LakeTable:
    """A table that no stream feeds, with rows in it."""
    catalog.create_namespace_if_not_exists("shop")
    made = catalog.create_table(
        "shop.free",
        NESTED,
        sort_order=SortOrder(SortField(9, IdentityTransform())),
        properties={"write.metadata.metrics.column.small": "full"},
    )
    row = {"id": 1, "small": 7, "address": {"city": "Ulm", "zip": 89073}, "items": [{"sku": "a", "count": 2}]}
    made.append(pa.Table.from_pylist([row], schema=made.schema().as_arrow()))
    with made.update_spec() as spec:  # PyIceberg writes into no such partitions by itself
        spec.add_field("at", DayTransform(), "at_day")
    return Lake(catalog).table("free")


def names(table: LakeTable) -> dict[str, int]:
    schema = table.iceberg.schema()
    return {name: schema.find_field(name).field_id for name in schema.column_names}


def test_columns_keep_their_ids_and_their_values(free: LakeTable) -> None:
    before = names(free)
    done = free.evolve(
        add={
            "note": NewColumn("string", "free text"),
            "address.country": "string",
            "items.price": "decimal(9,2)",
            "tags": "list<string>",
        },
        rename={"small": "large", "address.zip": "postcode", "items.element.sku": "article"},
        widen={"small": "long", "price": "decimal(12,2)", "items.count": "long"},
        docs={"small": "how many", "address.city": "where"},
        make_optional=["items.count"],
        drop=["dot.ted"],
    )
    after = names(free)
    assert after["large"] == before["small"]
    assert after["address.postcode"] == before["address.zip"]
    assert after["items.element.article"] == before["items.element.sku"]
    assert "dot.ted" not in after
    assert done.applied
    assert done.schema == free.iceberg.schema()
    (row,) = free.read(columns=["id", "large", "address", "items", "note"]).pylist()
    assert row == {
        "id": 1, "large": 7, "address": {"city": "Ulm", "postcode": 89073, "country": None},
        "items": [{"article": "a", "count": 2, "price": None}], "note": None,
    }  # fmt: skip
    schema = free.iceberg.schema()
    assert [str(schema.find_field(name).field_type) for name in ("large", "price", "items.count")] == [
        "long", "decimal(12, 2)", "long",
    ]  # fmt: skip
    assert (schema.find_field("large").doc, schema.find_field("note").doc) == ("how many", "free text")
    assert not schema.find_field("items.count").required


def test_what_was_done_is_told_step_by_step(free: LakeTable) -> None:
    told = str(free.evolve(add={"note": "string"}, widen={"small": "long"}, reorder=["country", "note"], dry_run=True))
    assert told == (
        "shop.free: 4 steps, not done (dry run)\n"
        "  widen small to long: was int; files stay as they are, readers widen the values\n"
        "  add note string: rows before have null\n"
        "  move country to the front\n"
        "  move note after country"
    )
    assert str(free.evolve(drop=["country"][:0])) == "shop.free: nothing to change"


def test_a_dry_run_changes_nothing_and_knows_the_schema(free: LakeTable) -> None:
    at = free.iceberg.metadata_location
    would = free.evolve(add={"note": "string"}, dry_run=True)
    assert (would.applied, free.iceberg.metadata_location) == (False, at)
    assert would.schema.find_field("note").field_id > max(names(free).values())


def test_what_is_so_already_is_no_step_and_no_commit(free: LakeTable) -> None:
    at = free.iceberg.metadata_location
    same = free.evolve(
        widen={"small": "int"}, make_optional=["small"], docs={"small": ""}, rename={"small": "small"}, reorder=["id"]
    )
    assert (same.steps, same.applied, free.iceberg.metadata_location) == ((), False, at)


def test_the_order_is_that_of_each_struct(free: LakeTable) -> None:
    free.evolve(add={"note": "string"}, reorder=["note", "price", "address.zip"])
    assert list(free.columns())[:4] == ["note", "price", "id", "at"]
    assert str(free.iceberg.schema().find_field("address").field_type).index("zip") < 12


def test_properties_follow_a_renamed_column(free: LakeTable) -> None:
    free.evolve(rename={"small": "large"})
    properties = free.iceberg.properties
    assert properties.get("write.metadata.metrics.column.large") == "full"
    assert "write.metadata.metrics.column.small" not in properties


def test_names_may_be_exchanged(free: LakeTable) -> None:
    before = names(free)
    free.evolve(rename={"small": "price", "price": "small"})
    after = names(free)
    assert (after["small"], after["price"]) == (before["price"], before["small"])


def test_a_dropped_name_may_be_used_again_for_another_column(free: LakeTable) -> None:
    before = names(free)["small"]
    free.evolve(drop=["small"], add={"small": "string"})
    assert names(free)["small"] > before
    assert free.read(columns=["small"]).pylist() == [{"small": None}]


def test_earlier_moments_stay_as_they_were(catalog: Catalog, orders: Table) -> None:
    table = Lake(catalog).table("orders")
    then = table.read(as_of="month-end").pylist()
    before = orders.refresh().metadata
    table.evolve(add={"extra": "int"}, reorder=["note"], docs={"note": "free text"})
    assert table.read(as_of="month-end").pylist() == then
    after = table.iceberg.metadata
    assert (after.refs, after.snapshots, after.current_snapshot_id) == (
        before.refs, before.snapshots, before.current_snapshot_id,
    )  # fmt: skip
    assert [one.epochs for one in table.snapshots()] == [{"shop": 1}, {"shop": 2}]


REFUSED = [
    ({"widen": {"smal": "long"}}, "there is no column smal (do you mean small?); there are id, at, small"),
    ({"widen": {"id": "int"}}, "id is long and can't be widened to int: long may become no other type"),
    ({"widen": {"small": "double"}}, "small is int and can't be widened to double: int may become long"),
    ({"widen": {"price": "decimal(12,3)"}}, "may only get more digits in front, decimal(10…38, 2)"),
    ({"widen": {"country": "binary"}}, "string may become no other type"),
    ({"widen": {"address": "string"}}, "is widened in its fields, by their paths"),
    ({"add": {"x": "text"}}, "x: 'text' is not a type; write string"),
    ({"add": {"x": "int required"}}, "x: a new column can't be required: the rows that are there have no value"),
    ({"add": {"x": "timestamp_ns"}}, "x: timestamp_ns comes with format 3"),
    ({"add": {"country": "int"}}, "there is a column country already"),
    ({"add": {"small.x": "int"}}, "small is int, and only a struct has columns in it"),
    ({"add": {"address.geo.x": "int"}}, "there is no column address.geo"),
    ({"add": {"_firn_x": "int"}}, "begin with _firn_"),
    ({"add": {"a__firn_new": "int"}}, "end in __firn_new"),
    ({"drop": ["id"]}, "id can't be dropped: the key [id] tells rows apart"),
    ({"drop": ["at"]}, "at can't be dropped: the table is or was partitioned by day(at)"),
    ({"drop": ["country"]}, "the table is or was sorted by country"),
    ({"drop": ["items.element"]}, "can't be dropped alone"),
    ({"drop": "small"}, "drop='small' is not a list: write drop=['small']"),
    ({"drop": ["small"], "rename": {"small": "x"}}, "rename small: it shall be dropped too"),
    ({"drop": ["address"], "add": {"address.x": "int"}}, "add address.x: it shall be dropped too, or what it is in"),
    ({"rename": {"small": "price"}}, "there is a column price already"),
    ({"rename": {"small": "x", "price": "x"}}, "there is a column x already"),
    ({"rename": {"by_name.key": "x"}}, "Iceberg calls it so in every list and map"),
    ({"make_optional": ["id"]}, "id can't be made optional: the key"),
    ({"make_optional": ["by_name.key"]}, "keys of a map are never null"),
    ({"docs": {"items.element": "x"}}, "write it at its list or map"),
    ({"reorder": ["items.element"]}, "items.element can't be moved"),
]


@pytest.mark.parametrize(("wishes", "text"), REFUSED, ids=[text[:40] for _, text in REFUSED])
def test_what_would_lose_something_is_refused_with_the_choices(
    free: LakeTable, wishes: dict[str, Any], text: str
) -> None:
    at = free.iceberg.metadata_location
    with pytest.raises(EvolutionRefused) as refused:
        free.evolve(**wishes)
    assert text in str(refused.value)
    assert free.iceberg.metadata_location == at


def test_all_problems_come_at_once(free: LakeTable) -> None:
    with pytest.raises(EvolutionRefused) as refused:
        free.evolve(add={"x": "text"}, drop=["id", "at"], widen={"small": "string"})
    assert str(refused.value).startswith("shop.free stays as it is:\n")
    assert len(str(refused.value).splitlines()) == 5


FED = Subject(
    "shop.orders",
    Schema(
        t.NestedField(1, "id", t.LongType(), required=True), t.NestedField(2, "note", t.StringType()),
        t.NestedField(3, "_firn_pos", t.StringType()), t.NestedField(4, "count", t.IntegerType()),
        t.NestedField(5, "extra", t.StructType(t.NestedField(6, "a", t.StringType()))),
    ),
    key=("id",), stream="shop",
)  # fmt: skip


@pytest.mark.parametrize(
    ("wishes", "text"),
    [
        (Wishes(drop=["note"]), "the next change that has it would add it again, empty before. Drop it in the source"),
        (Wishes(rename={"note": "text"}), "Write renames: {text: note} under the table in firn.yaml"),
        (Wishes(drop=["_firn_pos"]), "it is Firn's own"),
        (Wishes(rename={"_firn_pos": "p"}), "it is Firn's own"),
        (Wishes(rename={"id": "key"}), "firn rebuild makes a table under another key"),
    ],
)
def test_what_the_stream_would_undo_is_refused(wishes: Wishes, text: str) -> None:
    with pytest.raises(EvolutionRefused, match=r"shop\.orders stays") as refused:
        plan(FED, wishes)
    assert text in str(refused.value)


def test_of_a_fed_table_the_rest_may_be_changed() -> None:
    steps = plan(
        FED,
        Wishes({"a": "string", "b": "map<double, int>"}, ["note"], {"extra.a": "b"}, {"count": "long"}, ["count"]),
        despite_stream=True,
    )
    assert [str(step) for step in steps] == [
        "drop note: earlier moments still have it",
        "rename extra.a to b: the same column, by its id",
        "widen count to long: was int; files stay as they are, readers widen the values",
        "add a string: rows before have null; the job fills it once changes have it",
        "add b map<double, int>: rows before have null; the job can't write map<double, int>, so a row that changes "
        "has null in it again",
        "move count to the front",
    ]


def test_an_adopted_table_is_fed_by_those_that_have_committed_to_it(catalog: Catalog) -> None:
    rows = pa.table({"id": [1], "note": ["a"]})
    catalog.create_namespace("own")
    catalog.create_table("own.t", rows.schema).append(rows, snapshot_properties={"firn.epoch.shop": "1"})
    table = Lake(catalog).table("own.t")
    with pytest.raises(EvolutionRefused, match="while stream shop feeds the table"):
        table.evolve(drop=["note"])
    table.evolve(drop=["note"], despite_stream=True)
    assert table.iceberg.properties["firn.dropped"] == "[2]"


def test_what_was_dropped_on_purpose_comes_back_as_a_column_that_nobody_else_may_take(catalog: Catalog) -> None:
    rows = pa.table({"id": [1], "note": ["a"]})
    catalog.create_namespace("own")
    made = catalog.create_table("own.t", rows.schema)
    made.append(rows, snapshot_properties={"firn.epoch.shop": "1"})
    Lake(catalog).table("own.t").evolve(drop=["note"], despite_stream=True)
    assert parse(made.refresh().metadata.model_dump_json()).gone == frozenset()
    with made.update_schema() as back:
        back.add_column("note", t.StringType())
    made.append(rows, snapshot_properties={"firn.epoch.shop": "2"})
    with made.update_schema() as others:
        others.delete_column("note")
    assert parse(made.refresh().metadata.model_dump_json()).gone == {"note"}


def test_names_of_columns_that_were_dropped_before_become_ids(catalog: Catalog) -> None:
    rows = pa.table({"id": [1], "note": ["a"], "more": ["b"]})
    catalog.create_namespace("own")
    made = catalog.create_table("own.t", rows.schema)
    made.append(rows, snapshot_properties={"firn.epoch.shop": "1"})
    with made.transaction() as before:
        before.set_properties({"firn.dropped": '["more"]'})
        with before.update_schema() as update:
            update.delete_column("more")
    Lake(catalog).table("own.t").evolve(drop=["note"], despite_stream=True)
    assert made.refresh().properties["firn.dropped"] == "[2, 3]"
    assert parse(made.metadata.model_dump_json()).gone == frozenset()


def test_what_is_dropped_on_purpose_may_have_had_another_type_before(catalog: Catalog) -> None:
    rows = pa.table({"id": [1], "note": ["a"]})
    catalog.create_namespace("own")
    made = catalog.create_table("own.t", rows.schema)
    made.append(rows, snapshot_properties={"firn.epoch.shop": "1"})
    with made.update_schema() as retyped:
        retyped.add_column("new", t.LongType())
    with made.update_schema() as retyped:
        retyped.delete_column("note").rename_column("new", "note")
    Lake(catalog).table("own.t").evolve(drop=["note"], despite_stream=True)
    assert made.refresh().properties["firn.dropped"] == "[2, 3]"
    assert parse(made.metadata.model_dump_json()).gone == frozenset()


def test_a_former_name_stays_that_of_its_column(catalog: Catalog, orders: Table) -> None:
    with orders.transaction() as both:
        both.set_properties({"firn.renames": '{"note": ["comment", "remark"]}'})
    with pytest.raises(EvolutionRefused, match="comment can't be a name: note was called so, and changes that still"):
        Lake(catalog).table("orders").evolve(add={"comment": "string"})


def test_even_so_firns_own_columns_and_the_key_stay() -> None:
    with pytest.raises(EvolutionRefused):
        plan(FED, Wishes(drop=["_firn_pos"]), despite_stream=True)
    with pytest.raises(EvolutionRefused):
        plan(FED, Wishes(drop=["id"]), despite_stream=True)


def test_the_memory_of_deletes_is_left_alone(catalog: Catalog) -> None:
    catalog.create_namespace_if_not_exists("shop")
    schema = pa.schema([("id", pa.int64())])
    catalog.create_table("shop.orders__deletes", schema, properties={"firn.mode": "deletes"})
    with pytest.raises(EvolutionRefused, match="follows the columns of its table by itself"):
        Lake(catalog).table("shop.orders__deletes").evolve(add={"x": "int"})


def test_a_column_that_an_old_layout_was_made_by_stays_too(free: LakeTable) -> None:
    with free.iceberg.update_spec() as spec:
        spec.remove_field("at_day")
        spec.add_field("small", BucketTransform(4), "small_bucket")
    with pytest.raises(EvolutionRefused, match=r"partitioned by day\(at\)"):
        free.evolve(drop=["at"])
    with pytest.raises(EvolutionRefused, match=r"partitioned by bucket\[4\]\(small\)"):
        free.evolve(drop=["small"])


def test_a_writer_that_was_quicker_is_taken_into_account(catalog: Catalog, free: LakeTable) -> None:
    mine = catalog.load_table("shop.free")
    free.evolve(add={"theirs": "string"})
    assert evolve(mine, Wishes(add={"mine": "string"})).applied
    assert {"theirs", "mine"} <= set(free.columns())
    stale = catalog.load_table("shop.free")
    free.evolve(add={"again": "string"})
    with pytest.raises(EvolutionRefused, match="there is a column again already"):
        evolve(stale, Wishes(add={"again": "string"}))


def test_writers_that_never_stop_are_a_reason_to_try_again(
    catalog: Catalog, free: LakeTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table import Transaction

    def refuse(_: Transaction) -> None:
        raise CommitFailedException("another was quicker")

    monkeypatch.setattr(Transaction, "commit_transaction", refuse)
    with pytest.raises(TransientError, match="nothing was changed, try again"):
        free.evolve(add={"x": "int"})


def test_a_table_of_a_later_format_is_left_alone() -> None:
    assert plan(Subject("shop.new", NESTED, format_version=3), Wishes(add={"x": "timestamp_ns"}))
    with pytest.raises(EvolutionRefused, match="is of format 4; here formats up to 3"):
        plan(Subject("shop.new", NESTED, format_version=4), Wishes(add={"x": "int"}))


def test_types_are_read_as_they_are_printed() -> None:
    for text in ("map<string, struct<a: int required, `b,c`: list<string required>>>", "fixed[16]", "decimal(38,38)"):
        assert text_of(type_of(text)) == text
    for text in ("struct<int>", "map<int>", "list<int, int>", "decimal(39,0)", "struct<>", "fixed[0]"):
        with pytest.raises(BadType):
            type_of(text)
