"""Files that others wrote into a table, and that are not read without Spark: rewritten once, and then as any other."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table.snapshots import Operation

from firn.config.names import TableName
from firn_spark.tables import foreign_files
from firn_spark.tables.evolve import Tables
from tests.integration.spark.homes import HOMES, commit_in, row
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark
RULE = "key: [id], columns: {id: long, v: string, w: string}"


@pytest.fixture(autouse=True)
def at_home(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_in(home, monkeypatch, events=3, one_task=3)


def values(one: Lake) -> list[tuple[Any, ...]]:
    return sorted(tuple(each[name] for name in ("id", "v", "w")) for each in read_by_spark(one))


def read_by_spark(one: Lake) -> list[dict[str, Any]]:
    """PyIceberg reads no ORC."""
    found: list[dict[str, Any]] = one.spark.table("firn.lake.t").toArrow().to_pylist()
    return found


def java(one: Lake) -> Any:
    found = Tables(one.spark).load(TableName.parse("lake.t"))
    assert found is not None
    return found.java


def inserted(one: Lake, numbers: range) -> None:
    rows = ", ".join(f"({n}, 'v{n}', 'w{n}', NULL, NULL)" for n in numbers)
    one.spark.sql(f"INSERT INTO firn.lake.t (id, v, w, _firn_pos, _firn_ts) VALUES {rows}")


def other_format(one: Lake, kind: str) -> None:
    one.spark.sql(f"ALTER TABLE firn.lake.t SET TBLPROPERTIES ('write.format.default' = '{kind}')")
    inserted(one, range(10, 20))


def equality_deletes(one: Lake) -> None:
    inserted(one, range(10, 22))
    delete_by_key(one, (20, 21))


def delete_by_key(one: Lake, keys: Sequence[int]) -> None:
    """As Flink does: a file of the keys that are gone, with their bounds."""
    table = java(one)
    number = table.schema().findField("id").fieldId()
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": str(number)})
    path = f"{one.folder}/warehouse/keys.parquet"
    pq.write_table(pa.table([pa.array(keys)], schema=pa.schema([field])), path)
    jvm: Any = one.spark._jvm
    ids = one.spark.sparkContext._gateway.new_array(jvm.int, 1)
    ids[0] = number
    file = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec()).ofEqualityDeletes(ids)
    file = file.withPath(f"file://{path}").withFormat("parquet").withFileSizeInBytes(Path(path).stat().st_size)
    config = jvm.org.apache.iceberg.MetricsConfig.forTable(table)
    metrics = jvm.org.apache.iceberg.parquet.ParquetUtil.fileMetrics(table.io().newInputFile(f"file://{path}"), config)
    table.newRowDelta().addDeletes(file.withMetrics(metrics).build()).commit()


def deletes_in_avro(one: Lake) -> None:
    said = "'write.delete.format.default' = 'avro', 'write.delete.mode' = 'merge-on-read'"
    one.spark.sql(f"ALTER TABLE firn.lake.t SET TBLPROPERTIES ({said})")
    inserted(one, range(10, 22))
    one.spark.sql("DELETE FROM firn.lake.t WHERE id IN (20, 21)")


def added_files(one: Lake) -> None:
    """Files of a table that was no Iceberg table, its columns in another order."""
    folder = one.folder / "before"
    folder.mkdir()
    rows = [{name: row(n)[name] for name in ("w", "id", "v")} for n in range(10, 20)]
    for part, some in enumerate((rows[:5], rows[5:])):
        pq.write_table(pa.Table.from_pylist(some), folder / f"{part}.parquet")
    one.spark.sql(f"CALL firn.system.add_files(table => 'lake.t', source_table => '`parquet`.`{folder}`')")


KINDS: dict[str, Callable[[Lake], None]] = {
    "orc": lambda one: other_format(one, "orc"),
    "avro": lambda one: other_format(one, "avro"),
    "equality deletes": equality_deletes,
    "deletes in avro": deletes_in_avro,
    "added files": added_files,
}


@few_cases(1)
@HOMES
@pytest.mark.parametrize("kind", [pytest.param(one, marks=long_only) if one == "avro" else one for one in KINDS])
def test_they_are_rewritten_once_and_no_row_is_other_than_it_was(
    lake: Callable[[str], Lake], home: str, kind: str
) -> None:
    one = lake(config(RULE))
    one.land([event("c", 10 + n, row(n)) for n in range(10)])
    KINDS[kind](one)
    assert values(one) == [tuple(row(n).values()) for n in range(20)]
    one.land([
        event("u", 100, row(11, v="new", w=GONE)),
        event("u", 101, row(15, v="new")),
        event("d", 102, None, row(17)),
        event("c", 103, row(30)),
        event("u", 104, row(1, v="new")),
    ])  # fmt: skip
    way = one.line("lake.t")["way"]
    assert (way["lookup"], way["foreign_files"] > 0) == (home, True), way
    expected = {n: row(n) for n in (*range(20), 30) if n != 17}
    expected |= {n: row(n, v="new") for n in (1, 11, 15)}
    assert values(one) == [tuple(expected[n].values()) for n in sorted(expected)]
    said = [each.summary for each in one.catalog.load_table(("lake", "t")).metadata.snapshots]
    replaced = [each.additional_properties for each in said if each and each.operation is Operation.REPLACE]
    assert replaced
    assert not any(name.startswith("firn.epoch.") for each in replaced for name in each), "it is no progress"
    one.land([event("u", 200 + n, row(10 + n, v="newer")) for n in range(10)])
    way = one.line("lake.t")["way"]
    assert way["lookup"] == home
    assert "foreign_files" not in way
    assert values(one) == [
        tuple((row(n, v="newer") if 10 <= n < 20 else expected[n]).values()) for n in sorted({*expected, 17})
    ]


@few_cases(1)
@HOMES
@pytest.mark.parametrize("kind", ["equality deletes", "orc"])
def test_a_table_that_is_written_copy_on_write_loses_rows_of_them(
    lake: Callable[[str], Lake], home: str, kind: str
) -> None:
    one = lake(config(f"{RULE}, write: copy-on-write"))
    one.land([event("c", 10 + 2 * n, row(n)) for n in range(10)])
    KINDS[kind](one)
    one.land([event("t", 15), event("u", 101, row(15, v="new")), event("c", 103, row(30))])
    assert one.line("lake.t")["way"]["lookup"] == home
    # What has no position is older than all.
    assert values(one) == [tuple(row(n).values()) for n in range(3, 10)] + [(15, "new", "w15"), (30, "v30", "w30")]


@long_only
@few_cases(1)
@HOMES
@pytest.mark.parametrize("rule", ["write: copy-on-write", "format: 3"])
def test_what_others_deleted_by_keys_that_no_change_has_stays_deleted(
    lake: Callable[[str], Lake], home: str, rule: str
) -> None:
    """A look-up is not told of deletes of other keys than it looks for, in the same data file."""
    one = lake(config(f"{RULE}, {rule}"))
    one.land([event("c", 10 + n, row(n)) for n in range(10)])
    delete_by_key(one, (7, 8))
    one.land([event("u", 101, row(1, v="new")), event("d", 102, None, row(2))])
    assert one.line("lake.t")["way"]["lookup"] == home
    assert values(one) == [tuple((row(n, v="new") if n == 1 else row(n)).values()) for n in (0, 1, 3, 4, 5, 6, 9)]


def delete_by_place(one: Lake, keys: Sequence[int]) -> None:
    one.spark.sql("ALTER TABLE firn.lake.t SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    one.spark.sql(f"DELETE FROM firn.lake.t WHERE id IN {tuple(keys)}")


@few_cases(1)
@HOMES
@pytest.mark.parametrize(
    ("delete", "rule"), [(delete_by_place, ", partition_by: ['bucket(2, id)']"), (delete_by_key, "")]
)
def test_what_others_delete_while_they_are_rewritten_is_not_lost(
    lake: Callable[[str], Lake],
    monkeypatch: pytest.MonkeyPatch,
    home: str,
    delete: Callable[[Lake, Sequence[int]], None],
    rule: str,
) -> None:
    one = lake(config(f"{RULE}{rule}"))
    one.land([event("c", 10 + n, row(n)) for n in range(10)])
    other_format(one, "orc")
    real, gone = foreign_files.write_rows, [(12, 13)]

    def write_rows(*given: Any) -> list[Any]:
        files = real(*given)
        if gone:
            delete(one, gone.pop())
        return files

    monkeypatch.setattr(foreign_files, "write_rows", write_rows)
    one.land([event("u", 100 + n, row(n, v="new")) for n in (1, 11, 15)])
    way = one.line("lake.t")["way"]
    assert (way["lookup"], way["foreign_files"] > 0, gone) == (home, True, []), way
    found = {each["id"]: each["v"] for each in read_by_spark(one)}
    left = {n: f"v{n}" for n in range(20) if n not in (12, 13)}
    assert found == left | dict.fromkeys((1, 11, 15), "new")


@HOMES
def test_a_column_with_a_default_keeps_it_in_rows_from_before_it(lake: Callable[[str], Lake], home: str) -> None:
    one = lake(config(RULE))
    one.land([event("c", 10 + n, row(n)) for n in range(6)])
    one.spark.sql("ALTER TABLE firn.lake.t SET TBLPROPERTIES ('format-version' = '3')")
    types = one.spark._jvm.org.apache.iceberg
    literal = types.expressions.Literal.of(5)
    java(one).updateSchema().addColumn("d", types.types.Types.IntegerType.get(), literal).commit()
    one.land([event("u", 100, row(1, v="new", w=GONE)), event("c", 101, row(7)), event("d", 102, None, row(2)),
              event("u", 103, row(3, v="new") | {"d": 6})])  # fmt: skip
    assert one.line("lake.t")["way"]["lookup"] == home
    found = {each["id"]: each["d"] for each in read_by_spark(one)}
    assert {key: found[key] for key in (0, 3, 4, 5)} == {0: 5, 3: 6, 4: 5, 5: 5}
    assert sorted(found) == [0, 1, 3, 4, 5, 7]


@long_only
@HOMES
def test_what_no_rewrite_makes_readable_fails_with_what_to_do(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    one = lake(config(RULE))
    one.land([event("c", 10, row(1))])
    other_format(one, "orc")
    before = values(one)
    monkeypatch.setattr(foreign_files, "rewrite", lambda *_: 1)
    one.post([event("u", 100, row(11, v="new"))])
    assert one.commit(one.seal()) != 0
    error = one.line("lake.t")["error"]
    assert "files that are not Parquet, such as file:" in error
    assert "CALL firn.system.rewrite_data_files(table => 'lake.t'" in error
    assert values(one) == before


@HOMES
def test_an_append_table_looks_into_them(lake: Callable[[str], Lake], home: str) -> None:
    one = lake(config("mode: append, columns: {id: long, v: string, w: string}"))
    first = [event("c", 10 + n, row(n)) for n in range(4)]
    one.land(first)
    one.spark.sql("ALTER TABLE firn.lake.t SET TBLPROPERTIES ('write.format.default' = 'orc')")
    one.spark.sql("INSERT OVERWRITE firn.lake.t SELECT * FROM firn.lake.t")
    one.land([*first, event("c", 20, row(9))])
    way = one.line("lake.t")["way"]
    assert (way["lookup"], way["foreign_files"] > 0) == (home, True), way
    assert values(one) == [tuple(row(n).values()) for n in (0, 1, 2, 3, 9)]


@HOMES
def test_rows_from_before_the_table_had_its_key_have_none(lake: Callable[[str], Lake], home: str) -> None:
    one = lake(config(RULE))
    one.spark.sql("CREATE NAMESPACE IF NOT EXISTS firn.lake")
    one.spark.sql("CREATE TABLE firn.lake.t (v string) USING iceberg TBLPROPERTIES ('format-version' = '2')")
    one.spark.sql("INSERT INTO firn.lake.t VALUES ('old')")
    one.spark.sql("ALTER TABLE firn.lake.t ADD COLUMNS (id bigint, w string)")
    one.spark.sql("INSERT INTO firn.lake.t (id, v, w) VALUES (1, 'a', 'b')")
    one.land([event("u", 10, row(1)), event("c", 11, row(2)), event("u", 12, row(3, w=GONE))])
    assert one.line("lake.t")["way"]["lookup"] == home
    found = {(each["id"], each["v"], each["w"]) for each in read_by_spark(one)}
    assert found == {(None, "old", None), (1, "v1", "w1"), (2, "v2", "w2"), (3, "v3", None)}


@long_only
@HOMES
@pytest.mark.parametrize("by", ["x", "'bucket(5, u)'"])
def test_they_come_sorted_by_whatever_partitions_them(lake: Callable[[str], Lake], by: str) -> None:
    """Zeroes of both signs, and uuids, which Spark puts into other buckets than Iceberg."""
    one = lake(config(f"key: [id], columns: {{id: long, x: double, u: uuid}}, partition_by: [{by}]"))
    uuids = [f"00000000-0000-00{n:02x}-0000-0000000000{n:02x}" for n in range(40)]
    told = [{"id": n, "x": [0.0, -0.0, 0.5][n % 3], "u": uuids[n]} for n in range(40)]
    one.land([event("c", 10, told[0])])
    said = "'write.format.default' = 'orc', 'write.spark.fanout.enabled' = 'true', 'write.distribution-mode' = 'none'"
    one.spark.sql(f"ALTER TABLE firn.lake.t SET TBLPROPERTIES ({said})")
    rows = ", ".join(f"({each['id']}, double('{each['x']}'), '{each['u']}', NULL, NULL)" for each in told[1:])
    one.spark.sql(f"INSERT INTO firn.lake.t (id, x, u, _firn_pos, _firn_ts) VALUES {rows}")
    one.land([event("u", 50 + n, told[n] | {"x": 0.25}) for n in range(0, 40, 4)])
    assert one.line("lake.t")["way"]["foreign_files"] > 0
    found = {each["id"]: (each["x"], each["u"]) for each in read_by_spark(one)}
    assert found == {n: (0.25 if n % 4 == 0 else each["x"], each["u"]) for n, each in enumerate(told)}
