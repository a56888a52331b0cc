"""Debezium's own events, sent whole, against PostgreSQL's own final state: every table equals, and each trap is named.

tests/data/corpus/README.md says how the events were made and which differences no reader of them can avoid.
"""

from collections.abc import Mapping
from typing import Any

from tests.integration import comparing
import pytest
from firn.staging.dead import read_dead
from firn.staging.layout import dead_prefix
from firn.staging.store import paths
from pyspark.sql import SparkSession
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


@pytest.fixture(scope="module")
def flat(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Flattened by ExtractNewRecordState: no truncates, only an LSN for the order."""
    lake = Lake(spark, tmp_path_factory.mktemp("flat"), config(KEYS, "flat"))
    lake.land(records(CORPUS / "spec" / "flat.ndjson.gz"))
    return lake


@pytest.fixture(scope="module")
def cloudevents(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """CloudEvents 1.0 in JSON."""
    lake = Lake(spark, tmp_path_factory.mktemp("cloudevents"), config({"uidx": ["a", "b"]}, "cloudevents"))
    lake.land(records(CORPUS / "spec" / "cloudevents.ndjson.gz"))
    return lake


@pytest.mark.parametrize("name", sorted(KEYS))
def test_plain_events_give_the_final_state(plain: Lake, name: str) -> None:
    assert differences(plain, name, typed=False, expect_null=EXPECT_NULL.get(name)) == []


@pytest.mark.parametrize("name", sorted(KEYS))
def test_events_with_schema_give_the_final_state_in_every_scalar_type(schema: Lake, name: str) -> None:
    expect_null = {"types": what_iceberg_or_debezium_cannot_hold, **EXPECT_NULL}.get(name)
    found = differences(schema, name, typed=True, expect_null=expect_null)
    assert [line for line in found if " nneg: " not in line] == []


# Flattening drops truncates (the SMT does), so the rows that they removed stay.
@pytest.mark.parametrize("name", sorted(KEYS.keys() - {"trunc_a", "trunc_b"}))
def test_flattened_events_give_the_final_state(flat: Lake, name: str) -> None:
    found = differences(flat, name, typed=False, expect_null=EXPECT_NULL.get(name))
    assert found == STALE_WITHOUT_INCREMENTAL_SNAPSHOT.get(name, [])


@pytest.mark.parametrize("name", sorted(KEYS))
def test_cloudevents_give_the_final_state(cloudevents: Lake, name: str) -> None:
    found = differences(cloudevents, name, typed=False, expect_null=EXPECT_NULL.get(name))
    assert found == STALE_WITHOUT_INCREMENTAL_SNAPSHOT.get(name, [])


# evolve: a rename makes no event, and without the incremental snapshot nobody tells the untouched rows again.
STALE_WITHOUT_INCREMENTAL_SNAPSHOT: dict[str, list[str]] = {}
