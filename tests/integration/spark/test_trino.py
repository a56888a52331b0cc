"""Trino over the catalog that jobs commit to: it reads the same rows, then and now; `to_sql` makes the same table."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform, TruncateTransform, YearTransform
from pyiceberg.types import BinaryType, LongType, NestedField, TimestamptzType, TimeType, UUIDType

from firn_lake.lake import Lake as Reader
from tests.integration.spark import test_ddl, test_engines
from tests.integration.spark.engine_reads import plain_rows
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_engines import COLUMNS
from tests.trino import Ask, TrinoError, missing, sql_catalog, trino

pytestmark = [pytest.mark.spark, pytest.mark.skipif(missing() is not None, reason=missing() or "")]

made, expected = test_engines.made, test_engines.expected
LEAVE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "leave.md"
ODD = "it's a `col\"umn with\\\\ all"
SCHEMA = Schema(
    *(one for one in test_ddl.SCHEMA.fields if one.name != test_ddl.ODD),
    NestedField(11, ODD, test_ddl.SCHEMA.find_type(test_ddl.ODD)),
    NestedField(15, "ref", UUIDType()),
    NestedField(16, "at_time", TimeType()),
)
SPEC = PartitionSpec(
    PartitionField(2, 1000, DayTransform(), "at_day"), PartitionField(1, 1001, BucketTransform(16), "id_bucket"),
    PartitionField(20, 1002, TruncateTransform(3), "address.city_trunc"),
    PartitionField(4, 1004, YearTransform(), "day_year"),
)  # fmt: skip
ORDER = SortOrder(SortField(4, IdentityTransform(), SortDirection.DESC, NullOrder.NULLS_LAST))


@pytest.fixture(scope="module")
def ask(made: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """A Trino over the catalog of `made`."""
    with trino(tmp_path_factory.mktemp("trino"), sql_catalog(made.catalog_uri, made.warehouse)) as running:
        yield running


def test_the_rows_are_those_that_spark_reads(ask: Ask, made: Lake, expected: list[list[Any]]) -> None:
    assert plain_rows(ask(f"SELECT {', '.join(COLUMNS)} FROM lake.t")) == expected
    where = "region = 'us' AND amount > 3000 AND day < DATE '2026-09-01'"
    some = Reader(made.catalog).table("lake.t").read(COLUMNS, filter=where.replace("DATE ", "")).pylist()
    assert some
    assert plain_rows(ask(f"SELECT {', '.join(COLUMNS)} FROM lake.t WHERE {where}")) == plain_rows(some)


def test_each_snapshot_is_what_we_read_of_it(ask: Ask, made: Lake) -> None:
    table = Reader(made.catalog).table("lake.t")
    told = {one["snapshot_id"] for one in ask('SELECT snapshot_id FROM lake."t$snapshots"')}
    assert told == {one.id for one in table.snapshots()}
    for one in table.snapshots():
        found = ask(f"SELECT id, region, amount FROM lake.t FOR VERSION AS OF {one.id}")
        assert plain_rows(found) == plain_rows(table.read(["id", "region", "amount"], as_of=one.id).pylist())


def test_a_tag_is_a_version(ask: Ask, made: Lake) -> None:
    table = Reader(made.catalog).table("lake.t")
    first = table.snapshots()[0]
    table.tag("first", first.id)
    found = ask("SELECT count(*) AS n FROM lake.t FOR VERSION AS OF 'first'")
    assert found == [{"n": table.read(as_of=first.id).count()}]


def test_what_firn_goes_on_writing_is_read_at_once(ask: Ask, made: Lake) -> None:
    before = ask("SELECT count(*) AS n FROM lake.t")[0]["n"]
    made.land([test_engines.event("c", 91, test_engines.row(91, "new")), test_engines.event("d", 92, None, {"id": 7})])
    assert ask("SELECT count(*) AS n FROM lake.t")[0]["n"] == before
    assert [one["label"] for one in ask("SELECT label FROM lake.t WHERE id IN (7, 91)")] == ["new"]


def test_the_table_that_to_sql_makes_is_the_same(ask: Ask, made: Lake) -> None:
    for namespace in ("shop", "other"):
        made.catalog.create_namespace(namespace)
    made.catalog.create_table(("shop", "kinds"), SCHEMA, None, SPEC, ORDER, {"comment": "it's all; -- of \\\\ them"})
    opened = Reader(made.catalog)
    sql = opened.table("shop.kinds").to_sql("trino")
    ask(sql.replace('"shop"."kinds"', '"other"."kinds"'))
    again = opened.table("other.kinds").to_sql("trino").replace('"other"."kinds"', '"shop"."kinds"')
    assert again[again.index("CREATE") :] == sql[sql.index("CREATE") :]
    ours, theirs = (test_ddl.layout(made.catalog.load_table(f"{one}.kinds")) for one in ("shop", "other"))
    assert (theirs["spec"], theirs["order"], theirs["comment"]) == (ours["spec"], ours["order"], ours["comment"])


def test_who_leaves_drops_what_is_firns_own(ask: Ask, made: Lake) -> None:
    own = (NestedField(2, "_firn_pos", BinaryType()), NestedField(3, "_firn_ts", TimestamptzType()))
    made.catalog.create_namespace_if_not_exists("own")
    for name in ("orders", "orders__deletes"):
        made.catalog.create_table(("own", name), Schema(NestedField(1, "id", LongType()), *own))
    rows = {"id": [1, 2], "_firn_pos": [b"1", b"2"], "_firn_ts": [datetime(2026, 1, 31, tzinfo=UTC)] * 2}
    table = made.catalog.load_table(("own", "orders"))
    table.append(pa.Table.from_pydict(rows, table.schema().as_arrow()))
    for statement in re.findall("```sql tested=.*?\n(.*?)```", LEAVE.read_text(), re.S)[0].strip().split(";")[:-1]:
        ask(statement.replace("lake.shop.", "own."))
    assert made.catalog.list_tables("own") == [("own", "orders")]
    assert made.catalog.load_table(("own", "orders")).scan().to_arrow().to_pylist() == [{"id": 1}, {"id": 2}]


def test_what_trino_says_of_a_wrong_statement_is_heard(ask: Ask) -> None:
    with pytest.raises(TrinoError, match="does not exist"):
        ask("SELECT * FROM lake.nothing")
