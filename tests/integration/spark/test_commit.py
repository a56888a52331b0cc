"""The commit job's rules on small hand-made events: reruns, races, dead letters, evolution, moves, truncates."""

import json
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from firn.config.names import TableName
from firn.log import cuts, published_configs
from firn.log.dead_letters.letters import read_dead
from firn.log.layout import dead_prefix
from firn.log.store import paths
from firn_spark.tables import fence
from firn_spark.tables.evolve import Tables
from firn_spark.tables.fence import LostRace
from tests.integration.spark.committing import Died, Unsure, append_rows, unknown
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake
from tests.soak import long_only

pytestmark = pytest.mark.spark

GONE = "__debezium_unavailable_value"
Make = Callable[[str], Lake]


def config(table: str = "key: [id]", stream: str = "") -> str:
    """One stream with one table `app.t`, mirrored to `lake.t`."""
    return (
        "warehouse: file:///set/by/the/deployment\ncatalog: {type: sql}\nstreams:\n  spec:\n"
        f"{stream}    tables:\n      app.t: {{to: lake.t{', ' + table if table else ''}}}\n"
        "      app.other: {to: lake.other, key: [id]}\n"
    )


def event(
    op: str,
    lsn: int,
    after: dict[str, Any] | None = None,
    before: dict[str, Any] | None = None,
    table: str = "t",
    commit: int | None = None,
) -> dict[str, Any]:
    """A Debezium event of PostgreSQL at `lsn`, in the transaction after `commit` (default: one of its own)."""
    first = None if op == "r" else str(lsn - 1 if commit is None else commit)
    source = {"connector": "postgresql", "schema": "app", "table": table, "ts_ms": 1_700_000_000_000 + lsn}
    source |= {"sequence": json.dumps([first, str(lsn)]), "lsn": lsn}
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": source["ts_ms"]}


def with_schema(value: dict[str, Any], **fields: str | dict[str, Any]) -> dict[str, Any]:
    """The event with an inline schema: name -> Connect type."""
    row = [{"field": n, "optional": True} | ({"type": t} if isinstance(t, str) else t) for n, t in fields.items()]
    images = [{"type": "struct", "fields": row, "optional": True, "field": side} for side in ("before", "after")]
    return {"schema": {"type": "struct", "fields": images}, "payload": value}


def letters(lake: Lake) -> list[Any]:
    """All dead letters."""
    return [letter for path in paths(lake.store, dead_prefix("spec")) for letter in read_dead(lake.store, path)]


def test_a_rerun_changes_nothing_and_a_range_that_overlaps_takes_only_what_is_new(lake: Callable[[str], Lake]) -> None:
    one = lake(config())
    one.post([event("c", 10, {"id": 1, "v": "a"})])
    one.seal()
    one.post([event("u", 20, {"id": 1, "v": "b"})])
    one.seal()
    assert one.commit(1) == 0
    assert one.commit(1) == 0
    assert len(one.snapshots("lake.t")) == 1
    assert one.commit(1, 2) == 0
    assert one.line("lake.t")["events"] == 1
    assert [summary["firn.epoch.spec"] for summary in one.snapshots("lake.t")] == ["1", "2"]
    assert one.rows("lake.t")[0]["v"] == "b"
    cut = cuts.read(one.store, "spec", 2)
    table = one.catalog.load_table(("lake", "t"))
    assert cut is not None
    assert cut.tables == {"lake.t": table.metadata.current_snapshot_id}


def test_older_changes_and_deletes_lose_against_newer_rows(lake: Make) -> None:
    one = lake(config())
    one.land(
        [event("c", 50, {"id": 1, "v": "new"}), event("c", 51, {"id": 2, "v": "x"}), event("d", 60, None, {"id": 2})]
    )
    one.land([event("u", 40, {"id": 1, "v": "old"}), event("d", 45, None, {"id": 1})])
    assert [(row["id"], row["v"]) for row in one.rows("lake.t")] == [(1, "new")]
    assert len(one.snapshots("lake.t")) == 2, "an epoch of only stale changes leaves its mark too"


def test_a_job_that_dies_after_its_commit_has_remembered_its_deletes(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    one.post([event("d", 30, None, {"id": 1, "v": None})])
    n = one.seal()
    real = fence.commit

    def commit(spark: Any, table: Any, *rest: Any) -> None:
        real(spark, table, *rest)
        if str(table.name) == "lake.t":
            raise Died

    with monkeypatch.context() as patch:
        patch.setattr(fence, "commit", commit)
        with pytest.raises(Died):
            one.commit(n)
    assert one.commit(n) == 0
    one.land([event("u", 20, {"id": 1, "v": "late"})])
    assert one.rows("lake.t") == []


def test_files_of_a_commit_whose_answer_was_lost_are_left_alone(lake: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    one = lake(config())
    real = fence.commit
    lost: list[str] = []

    def commit(spark: Any, table: Any, update: Any, *rest: Any) -> None:
        def applied() -> None:
            update.commit()
            lost.append(str(table.name))
            raise unknown(spark)

        real(spark, table, update if lost else Unsure(update, applied), *rest)

    monkeypatch.setattr(fence, "commit", commit)
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    assert lost == ["lake.t"]
    assert [row["v"] for row in one.rows("lake.t")] == ["a"]


def test_a_delete_followed_by_an_insert_leaves_one_row_within_and_across_epochs(lake: Make) -> None:
    one = lake(config())
    one.land(
        [event("c", 10, {"id": 1, "v": "a"}), event("d", 20, None, {"id": 1}), event("c", 30, {"id": 1, "v": "b"})]
    )
    one.land([event("d", 40, None, {"id": 1})])
    assert one.rows("lake.t") == []
    one.land([event("c", 50, {"id": 1, "v": "c"})])
    assert [row["v"] for row in one.rows("lake.t")] == ["c"]


def test_an_unavailable_column_takes_the_newest_value_of_the_batch_or_else_of_the_table(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "kept", "n": 1}), event("c", 11, {"id": 2, "v": "first", "n": 1})])
    one.land(
        [
            event("u", 22, {"id": 2, "v": GONE, "n": 3}),
            event("u", 21, {"id": 2, "v": "second", "n": 2}),
            event("u", 20, {"id": 1, "v": GONE, "n": 2}),
        ]
    )
    rows = one.by_key("lake.t", "id")
    assert (rows[1]["v"], rows[1]["n"]) == ("kept", 2)
    assert (rows[2]["v"], rows[2]["n"]) == ("second", 3)


def test_a_value_from_before_a_delete_never_comes_back(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "dead and gone", "n": 1})])
    # The create between delete and update is late: nothing is known of v, and the old row's value would be wrong.
    one.land([event("d", 20, None, {"id": 1}), event("u", 30, {"id": 1, "v": GONE, "n": 3})])
    assert [(row["v"], row["n"]) for row in one.rows("lake.t")] == [(None, 3)]


def test_a_row_that_another_tool_deleted_is_not_found(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 10 + n, {"id": n, "v": "a", "w": "b"}) for n in range(3)])
    one.spark.sql("ALTER TABLE firn.lake.t SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    one.spark.sql("DELETE FROM firn.lake.t WHERE id = 1")
    one.land([event("u", 20, {"id": 1, "v": GONE, "w": "c"})])
    assert {row["id"]: row["v"] for row in one.rows("lake.t")} == {0: "a", 1: None, 2: "a"}
    one.spark.sql("DELETE FROM firn.lake.t WHERE id = 2")
    one.land([event("u", 5, {"id": 2, "v": "older", "w": "c"})])
    assert {row["id"]: row["v"] for row in one.rows("lake.t")} == {0: "a", 1: None, 2: "older"}


def test_a_move_takes_unavailable_columns_from_the_row_that_the_table_has(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "long text", "n": 1}), event("c", 11, {"id": 5, "v": GONE, "n": 5})])
    one.land(
        [
            event("d", 20, None, {"id": 1, "v": None, "n": 0}),
            event("c", 20, {"id": 2, "v": GONE, "n": 2}),
            event("d", 30, None, {"id": 2, "v": None, "n": 0}),
            event("c", 30, {"id": 3, "v": GONE, "n": 3}),
        ]
    )
    rows = {key: (row["v"], row["n"]) for key, row in one.by_key("lake.t", "id").items()}
    assert rows == {3: ("long text", 3), 5: (GONE, 5)}


def test_what_a_move_took_from_a_row_goes_with_a_truncate_that_comes_late(lake: Make) -> None:
    one = lake(config())
    moved = [event("d", 30, None, {"id": 2, "v": None}), event("c", 30, {"id": 3, "v": GONE, "n": 2})]
    one.land([event("c", 10, {"id": 2, "v": "long", "n": 1}), *moved, event("c", 31, {"id": 4, "v": "x", "n": 1})])
    assert one.by_key("lake.t", "id")[3]["v"] == "long"
    one.land([event("t", 20)])
    assert {key: row["v"] for key, row in one.by_key("lake.t", "id").items()} == {3: None, 4: "x"}


def test_an_update_whose_before_image_has_another_key_is_a_move(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "long text", "n": 1})])
    one.land([event("u", 20, {"id": 2, "v": GONE, "n": 2}, {"id": 1, "v": None, "n": 1})])
    assert [(row["id"], row["v"], row["n"]) for row in one.rows("lake.t")] == [(2, "long text", 2)]


def test_a_truncate_removes_older_rows_and_changes_but_no_newer_ones(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "a"}), event("c", 100, {"id": 2, "v": "later"})])
    one.land([event("c", 40, {"id": 3, "v": "b"}), event("t", 50), event("c", 60, {"id": 4, "v": "c"})])
    assert sorted(row["id"] for row in one.rows("lake.t")) == [2, 4]
    assert one.line("lake.t")["ignored"] == 1


def test_snapshot_reads_lose_against_streamed_changes_of_the_same_place(lake: Make) -> None:
    one = lake(config())
    one.land([event("c", 10, {"id": 1, "v": "streamed"}, commit=0)])
    one.land([event("r", 90, {"id": 1, "v": "read"}), event("r", 91, {"id": 2, "v": "only read"})])
    assert {key: row["v"] for key, row in one.by_key("lake.t", "id").items()} == {1: "streamed", 2: "only read"}


def test_snapshot_reads_can_be_left_out_by_configuration(lake: Make) -> None:
    one = lake(config("key: [id], snapshot_reads: ignore"))
    one.land([event("r", 10, {"id": 1, "v": "read"}), event("c", 20, {"id": 2, "v": "new"})])
    assert [row["id"] for row in one.rows("lake.t")] == [2]
    assert one.line("lake.t")["ignored"] == 1


def test_new_columns_and_wider_types_are_added_as_they_appear(lake: Make) -> None:
    one = lake(config())
    money = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
    narrow = money | {"parameters": {"scale": "2", "connect.decimal.precision": "8"}}
    wide = money | {"parameters": {"scale": "2", "connect.decimal.precision": "14"}}
    one.land([with_schema(event("c", 10, {"id": 1, "f": 1.5, "m": "ZA=="}), id="int32", f="float", m=narrow)])
    first = {field.name: field for field in one.catalog.load_table(("lake", "t")).schema().fields}
    one.land(
        [
            with_schema(
                event("c", 20, {"id": 3_000_000_000, "f": 1e300, "m": "ZA==", "dot.ted": "x"}),
                id="int64", f="double", m=wide, **{"dot.ted": "string"},
            )
        ]
    )  # fmt: skip
    now = {field.name: field for field in one.catalog.load_table(("lake", "t")).schema().fields}
    assert {name: str(now[name].field_type) for name in ("id", "f", "m")} == {
        "id": "long", "f": "double", "m": "decimal(14, 2)",
    }  # fmt: skip
    # A float is rewritten as a double, so that it has the digits that it has if all comes at once (ADR 32).
    assert [name for name in first if now[name].field_id != first[name].field_id] == ["f"]
    rows = one.by_key("lake.t", "id")
    assert (rows[1]["m"], rows[1]["dot.ted"], rows[3_000_000_000]["dot.ted"]) == (Decimal("1.00"), None, "x")


def test_a_value_that_its_declared_column_cannot_hold_is_a_dead_letter_and_the_others_land(lake: Make) -> None:
    one = lake(config("key: [id], columns: {n: long}"))
    one.land([event("c", 10, {"id": 1, "n": 1})])
    one.land([event("c", 20, {"id": 2, "n": "two"}), event("c", 21, {"id": 3, "n": 3}), event("c", 22, {"n": 4})])
    assert sorted(one.by_key("lake.t", "id")) == [1, 3]
    found = {letter.reason: letter for letter in letters(one)}
    assert set(found) == {"type_mismatch", "no_key"}
    assert "column n" in found["type_mismatch"].message
    assert json.loads(found["type_mismatch"].original)["after"] == {"id": 2, "n": "two"}
    assert one.line("lake.t")["dead"] == 2
    assert one.commit(2) == 0
    assert len(letters(one)) == 2


def test_a_table_whose_key_no_change_has_is_not_made_and_does_not_stop_the_others(lake: Make) -> None:
    one = lake(config("key: [nowhere]"))
    one.post([event("c", 10, {"id": 1}), event("c", 11, {"id": 1, "v": "fine"}, table="other")])
    assert one.commit(one.seal()) == 0
    assert (one.line("lake.t")["status"], one.line("lake.t")["dead"]) == ("empty", 1)
    (letter,) = letters(one)
    assert (letter.reason, "nowhere" in letter.message) == ("no_key", True)
    assert one.rows("lake.other")[0]["v"] == "fine"
    cut = cuts.read(one.store, "spec", 1)
    assert cut is not None
    assert (cut.quarantined, sorted(cut.tables)) == ({}, ["lake.other"])


def test_a_table_that_fails_does_not_stop_the_others_and_no_cut_is_written(lake: Make) -> None:
    one = lake(config("key: [id], partition_by: [day(nowhere)]"))
    one.post([event("c", 10, {"id": 1}), event("c", 11, {"id": 1, "v": "fine"}, table="other")])
    assert one.commit(one.seal()) == 1
    assert one.line("lake.t")["status"] == "failed"
    assert "nowhere" in one.line("lake.t")["error"]
    assert one.rows("lake.other")[0]["v"] == "fine"
    assert cuts.newest(one.store, "spec") == 0


def test_a_declared_table_is_typed_and_partitioned_without_any_schema(lake: Make) -> None:
    columns = 'columns: {at: "timestamp(3)", amount: "decimal(12,2)"}, partition_by: [day(at), bucket(4, id)]'
    one = lake(config(f"key: [id], {columns}"))
    one.land([event("c", 10, {"id": 1, "at": 1_700_000_000_123, "amount": "ZA=="})])
    one.land([event("u", 20, {"id": 1, "at": 1_800_000_000_456, "amount": "AMg="})])
    table = one.catalog.load_table(("lake", "t"))
    assert [str(field.transform) for field in table.spec().fields] == ["day", "bucket[4]"]
    row = one.rows("lake.t")[0]
    assert (row["at"].isoformat(timespec="milliseconds"), row["amount"]) == ("2027-01-15T08:00:00.456", Decimal("2.00"))


def test_a_uuid_key_is_read_alike_by_spark_pyiceberg_and_duckdb(lake: Make) -> None:
    one = lake(config())
    kind = {"type": "string", "name": "io.debezium.data.Uuid"}
    name = "6b1f0e7c-5a5d-4c1e-9a53-000000000001"
    one.land([with_schema(event("c", 10, {"id": name, "v": "a"}), id=kind, v="string")])
    one.land([with_schema(event("u", 20, {"id": name, "v": "b"}), id=kind, v="string")])
    table = one.catalog.load_table(("lake", "t"))
    assert str(table.schema().find_type("id")) == "uuid"
    assert [(row["id"], row["v"]) for row in one.rows("lake.t")] == [(uuid.UUID(name), "b")]
    rows = table.scan().to_arrow()
    connection = duckdb.connect()
    connection.register("rows", rows)
    assert connection.execute("SELECT v FROM rows WHERE id = ?::UUID", [name]).fetchall() == [("b",)]


def test_null_is_a_key_like_another(lake: Make) -> None:
    one = lake(config("key: [a, b], columns: {a: long, b: long, v: string}"))
    one.land([event("c", 10, {"a": 1, "b": None, "v": "x"})])
    one.land([event("c", 11, {"a": 1, "b": 2, "v": "y"})])
    # Both rows are looked up at once, by bounds that say nothing of nulls.
    one.land([event("u", 20, {"a": 1, "b": None, "v": GONE}), event("u", 21, {"a": 1, "b": 2, "v": GONE})])
    assert sorted((row["b"] or 0, row["v"]) for row in one.rows("lake.t")) == [(0, "x"), (2, "y")]
    one.land([event("u", 30, {"a": 1, "b": None, "v": "z"}), event("d", 31, None, {"a": 1, "b": 2})])
    assert [(row["a"], row["b"], row["v"]) for row in one.rows("lake.t")] == [(1, None, "z")]


def test_identical_rows_of_one_copy_are_all_kept_and_a_repeated_request_adds_none(lake: Make) -> None:
    one = lake(config(""))
    copied = [event("c", 10, {"a": 1}) for _ in range(3)]
    one.land(copied)
    assert len(one.rows("lake.t")) == 3
    one.land(copied)
    assert len(one.rows("lake.t")) == 3
    assert one.line("lake.t") | {"superseded": 3, "merged": 0} == one.line("lake.t")
    assert one.snapshots("lake.t")[-1]["firn.epoch.spec"] == "2"


def test_a_request_delivered_twice_in_one_epoch_is_appended_once(lake: Make) -> None:
    one = lake(config(""))
    copied = [event("c", 10, {"a": 1}) for _ in range(3)]
    one.post(copied)
    one.post(copied)
    assert one.commit(one.seal()) == 0
    assert len(one.rows("lake.t")) == 3
    assert one.line("lake.t") | {"merged": 3, "superseded": 3} == one.line("lake.t")


def test_a_twin_that_appends_the_same_epoch_is_refused_by_the_fence(lake: Make) -> None:
    one = lake(config(""))
    one.land([event("c", 10, {"a": 1})])
    tables = Tables(one.spark)
    seen = tables.load(TableName("lake", "t"))
    assert seen is not None
    one.land([event("c", 20, {"a": 2})])
    rows = one.spark.table(seen.sql)
    with pytest.raises(LostRace):
        append_rows(one.spark, seen, rows, {"firn.epoch.spec": "2"}, "spec")
    assert sorted(row["a"] for row in one.rows("lake.t")) == [1, 2]


def test_a_key_changed_in_the_configuration_stops_the_table_with_advice(lake: Make) -> None:
    one = lake(config("key: [id]"))
    one.land([event("c", 10, {"id": 1, "v": "a"})])
    one.config = published_configs.publish(one.store, config("key: [v]"))
    one.post([event("c", 20, {"id": 2, "v": "a"})])
    assert one.commit(one.seal()) == 0
    assert one.line("lake.t")["status"] == "quarantined"
    assert "rebuild the table" in one.line("lake.t")["error"]


def test_a_source_without_positions_is_ordered_by_the_field_that_the_configuration_names(lake: Make) -> None:
    one = lake(config(stream="    order_by: version\n"))
    value = {"op": "u", "before": None, "source": {"connector": "own", "schema": "app", "table": "t"}}
    one.land([{**value, "after": {"id": 1, "v": "ten", "version": 10}}])
    one.land([{**value, "after": {"id": 1, "v": "nine", "version": 9}}])
    assert one.by_key("lake.t", "id")[1]["v"] == "ten"


@HOMES
def test_the_second_half_of_a_move_finds_the_first_in_files_that_tell_their_bounds_exactly(
    lake: Make, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch)
    one = lake(config("key: [id], columns: {id: long, v: string}"))
    one.land([event("c", 10, {"id": 1, "v": "long"}), event("c", 11, {"id": 9, "v": "x"})])
    one.land([event("d", 12, None, {"id": 9})])
    # As long as Iceberg cuts bounds to 16 bytes, those of all files with the position look alike.
    one.spark.sql("ALTER TABLE firn.lake.t__deletes SET TBLPROPERTIES ('write.metadata.metrics.default' = 'full')")
    one.land([event("d", 20, None, {"id": 1})])
    one.land([event("c", 20, {"id": 2, "v": GONE})])
    assert {row["id"]: row["v"] for row in one.rows("lake.t")} == {2: "long"}
    assert one.line("lake.t")["way"]["lookup"] == home


@long_only
@HOMES
@pytest.mark.parametrize(
    ("took", "creates"),
    [("d", True), ("t", False), pytest.param("d", False, marks=long_only), pytest.param("t", True, marks=long_only)],
)
def test_what_comes_beside_an_update_does_not_change_what_it_takes_from_a_row_that_was_loaded(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: str, took: str, creates: bool
) -> None:
    """Such a row is older than all, wherever it comes: the delete of its key takes its values, alone or not."""
    commit_in(home, monkeypatch, events=5, one_task=5)

    def row(number: int, v: str = "v", w: str = "w") -> dict[str, Any]:
        return {"id": number, "v": v, "w": w}

    for beside in (False, True):
        one = Lake(spark, tmp_path / str(beside), config("key: [id], columns: {id: long, v: string, w: string}"))
        old = event("u", 50, row(3, w=GONE))  # delivered again later
        one.land([*(event("c", 10 + n, row(n)) for n in range(5)), old])
        one.land([event("d", 100, None, row(1)) if took == "d" else event("t", 100)])
        if creates:
            one.land([event("d", 120, None, row(2)), event("c", 120, row(20, w=GONE))])
        told = {"id": "1L", "v": "'loaded'", "w": "'loaded'"}
        names = one.spark.table("firn.lake.t").columns
        rows = ", ".join(f"{told.get(name, 'NULL')} AS `{name}`" for name in names)
        one.spark.sql(f"INSERT INTO firn.lake.t BY NAME SELECT {rows}")
        update = event("u", 200, row(1, v=GONE, w="new"))
        one.land([old, update] if beside else [update])
        assert one.line("lake.t")["way"]["lookup"] == home
        assert {found["id"]: (found["v"], found["w"]) for found in one.rows("lake.t")}[1] == (None, "new"), beside
