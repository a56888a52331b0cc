"""Debezium's own events against PostgreSQL's own final state, and each trap in them by name. The other encodings go
through the whole stack in tests/e2e/test_corpus_over_http.py.

tests/data/README.md says how the events were made and which differences no reader of them can avoid.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from firn.log.dead_letters.letters import read_dead
from firn.log.layout import dead_prefix
from firn.log.store import paths
from tests.integration import comparing
from tests.integration.spark.spark_lake import CORPUS, Lake, records, values

pytestmark = pytest.mark.spark

TABLES = comparing.tables(CORPUS / "spec" / "final" / "_tables.json")
COMPARED = {name: about for name, about in TABLES.items() if name != "numspecial"}  # not in these four files
KEYLESS = {"nopk_full", "nopk_insert"}
KEYS = {name: about["pk"] or ["a", "b"] for name, about in COMPARED.items() if name not in KEYLESS}
UNTYPED = {"integer", "bigint", "smallint", "text", "uuid", "boolean", "citext", "character varying"}


def config(keys: Mapping[str, list[str]], envelope: str = "debezium", prefix: str = "s.") -> str:
    """A firn.yaml for the corpus: the given keys, everything else by pattern."""
    lines = ["warehouse: file:///set/by/the/deployment", "catalog: {type: sql}", "streams:", "  spec:"]
    lines += [f"    envelope: {envelope}", "    tables:"]
    for name, key in keys.items():
        columns = ", ".join(f'"{column}"' for column in key)
        lines.append(f'      "{prefix}{name}": {{to: "spec.{name}", key: [{columns}]}}')
    # A renamed table keeps its rows, and PostgreSQL tells nobody: both names feed one table.
    lines.append(f'      "{prefix}ren_old": {{to: "spec.ren_new"{", key: [id]" if "ren_new" in keys else ""}}}')
    lines.append(f'      "{prefix}*": {{to: "spec.{{table}}"}}')
    return "\n".join(lines) + "\n"


def differences(lake: Lake, name: str, *, typed: bool, expect_null: Any = None) -> list[str]:
    """How a table differs from its final CSV: all scalar columns, or those that need no schema to be understood."""
    columns = {column["name"]: column["type"] for column in COMPARED[name]["columns"]}
    columns = {column: kind for column, kind in columns.items() if comparing.is_scalar(kind)}
    if not typed:
        columns = {column: kind for column, kind in columns.items() if kind.partition("(")[0] in UNTYPED}
    expected = comparing.final_rows(CORPUS / "spec" / "final" / f"{name}.csv")
    return comparing.differences(
        expected, lake.rows(f"spec.{name}"), columns, KEYS[name], expect_null or (lambda _column, _row: False)
    )


def area_of_streamed_rows(column: str, _row: Mapping[str, str]) -> bool:
    """PostgreSQL 15 leaves stored generated columns out of the stream: both rows were changed after the snapshot."""
    return column == "area"


def what_iceberg_or_debezium_cannot_hold(column: str, _row: Mapping[str, str]) -> bool:
    """numeric(5,-2) arrives with scale 2046 from Debezium in every mode."""
    return column == "nneg"


EXPECT_NULL = {"gen": area_of_streamed_rows}


@pytest.fixture(scope="module")
def plain(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """No schema, bare values as over HTTP: keys come from firn.yaml."""
    lake = Lake(spark, tmp_path_factory.mktemp("plain"), config(KEYS))
    lake.land(values(CORPUS / "spec" / "plain.ndjson.gz"))
    return lake


@pytest.fixture(scope="module")
def schema(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Inline schemas, whole records: keys come from the records, but for the table that has none."""
    lake = Lake(spark, tmp_path_factory.mktemp("schema"), config({"uidx": ["a", "b"]}))
    lake.land(records(CORPUS / "spec" / "schema.ndjson.gz"))
    return lake


@pytest.mark.parametrize("name", sorted(KEYS))
def test_plain_events_give_the_final_state(plain: Lake, name: str) -> None:
    assert differences(plain, name, typed=False, expect_null=EXPECT_NULL.get(name)) == []


@pytest.mark.parametrize("name", sorted(KEYS))
def test_events_with_schema_give_the_final_state_in_every_scalar_type(schema: Lake, name: str) -> None:
    expect_null = {"types": what_iceberg_or_debezium_cannot_hold, **EXPECT_NULL}.get(name)
    found = differences(schema, name, typed=True, expect_null=expect_null)
    assert [line for line in found if " nneg: " not in line] == []


# The traps of tests/data/README.md, by name.


def test_a_changed_key_carries_the_unchanged_documents_of_the_old_row(plain: Lake) -> None:
    docs = plain.by_key("spec.docs_default", "id")
    moved = docs["00000000-0000-4000-8000-0000000000aa"]
    assert len(moved["body"]) == 150 * 32
    assert moved["meta"].startswith('{"k": 3')
    assert moved["n"] == 13


def test_a_row_that_really_holds_the_placeholder_text_keeps_it(plain: Lake, schema: Lake) -> None:
    for lake in (plain, schema):
        docs = {str(key): row for key, row in lake.by_key("spec.docs_default", "id").items()}
        assert docs["00000000-0000-4000-8000-0000000000bb"]["body"] == "__debezium_unavailable_value"


def test_unchanged_documents_of_updated_rows_keep_their_value_in_every_type(schema: Lake) -> None:
    docs = {str(key): row for key, row in schema.by_key("spec.docs_default", "id").items()}
    first = docs["00000000-0000-4000-8000-000000000001"]
    assert (first["body"], first["n"]) == ("short", 11)
    assert len(first["blob"]) == 200 * 16
    assert len(first["tags"]) == 90
    assert all(len(tag) == 32 for tag in first["tags"])


def test_a_column_renamed_dropped_and_added_again_ends_as_the_source_says(plain: Lake) -> None:
    rows = plain.by_key("spec.evolve", "id")
    assert rows[1]["c"] is None
    assert rows[1]["label"] == "r1"
    assert rows[1]["b"] is None
    assert rows[8]["c"] == "8"  # the column was text before it was an integer: text holds both


def test_a_generated_column_is_never_streamed_and_stays_null(plain: Lake) -> None:
    assert {row["area"] for row in plain.rows("spec.gen")} <= {None, 6}


def test_both_names_of_a_renamed_table_feed_one_table(plain: Lake) -> None:
    assert set(plain.by_key("spec.ren_new", "id")) == {1, 2}


def test_partitions_that_the_snapshot_reads_twice_do_not_double_the_rows(plain: Lake) -> None:
    assert set(plain.by_key("spec.part", "id", "region")) == {(1, "us"), (3, "eu")}
    assert len(plain.rows("spec.part")) == 2


def test_keyless_tables_hold_every_change_once(schema: Lake) -> None:
    full = [(row["a"], row["b"], row["_firn_op"]) for row in schema.rows("spec.nopk_full")]
    assert sorted(full) == [(1, "dup", "d"), (1, "dup", "r"), (1, "dup", "r"), (2, "upd", "u"), (2, "x", "r")]
    assert len(schema.rows("spec.nopk_insert")) == 9
    assert schema.line("spec.nopk_full")["mode"] == "append"


def test_a_table_with_replica_identity_index_is_keyed_by_its_columns(schema: Lake) -> None:
    assert [(row["a"], row["b"], row["c"]) for row in schema.rows("spec.uidx")] == [(2, "bb", "y")]


def test_infinite_and_ancient_dates_become_null_and_extreme_ones_stay(schema: Lake) -> None:
    rows = schema.by_key("spec.types", "id")
    for ancient_or_infinite in (7, 8, 10):
        assert [rows[ancient_or_infinite][name] for name in ("d", "ts", "tstz")] == [None, None, None]
    assert str(rows[9]["d"]) == "9999-12-31"
    assert str(rows[3]["d"]) == "0001-01-01"
    assert str(rows[11]["d"]) == "1582-10-10"


def test_truncates_of_two_tables_at_one_position_clear_both(plain: Lake) -> None:
    assert plain.rows("spec.trunc_a") == []
    assert [row["id"] for row in plain.rows("spec.trunc_b")] == [9]


def test_keys_swapped_within_a_transaction_end_swapped(plain: Lake) -> None:
    rows = plain.by_key("spec.pkchange", "id")
    assert {key: row["v"] for key, row in rows.items()} == {10: "a", 1: "c", 3: "reused"}


def test_a_row_deleted_and_inserted_again_in_one_transaction_is_there_once(plain: Lake) -> None:
    rows = [row for row in plain.rows("spec.hot") if row["id"] == 2]
    assert [row["n"] for row in rows] == [777]


def test_names_with_dots_blanks_and_other_scripts_are_columns_like_others(plain: Lake) -> None:
    rows = plain.by_key("spec.Mixed Case-Table", "Id")
    assert (rows[1]["dot.ted"], rows[1]["日本語"], rows[1]["Größe"], rows[1]["$d"]) == ("d", "変更", 11, 5)


def test_nothing_of_the_corpus_is_rejected(plain: Lake, schema: Lake) -> None:
    for lake in (plain, schema):
        letters = [letter for path in paths(lake.store, dead_prefix("spec")) for letter in read_dead(lake.store, path)]
        assert letters == []
