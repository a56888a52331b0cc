"""Tables with very many snapshots: what is read of them is what PyIceberg reads, with few models of snapshots made."""

import json
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError, ValidationError
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.snapshots import Snapshot

from firn.errors import StorageUnavailable
from firn.tables.snapshot_history import AsOf
from firn_lake.catalogs import reading_catalog
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.catalogs.reading_catalog import Splits, to_read
from firn_lake.fresh.pending_table import state_of
from firn_lake.lake import Lake
from firn_lake.long_history import LongHistory, LongLog, Split, log_of, split, with_history
from firn_lake.reading.lineage import line
from firn_lake.reading.moments import snapshot_at
from firn_lake.snapshot_columns import of_models
from firn_lake.snapshot_pages import snapshot_page
from firn_lake.tables import count_rows, history, summarize
from firn_lake.timeline import column_page, timeline
from tests.unit.lake.long_table import lengthened


@pytest.fixture
def reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Catalog]:
    """The catalog to read by; any table's metadata is large to it."""
    monkeypatch.setattr(reading_catalog, "LEAST_BYTES", 0)
    monkeypatch.setattr(reading_catalog, "KNOWN", Splits())
    opened = to_read(open_catalog(f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse", {}))
    yield opened
    opened.close()


FORMS: list[dict[str, Any]] = [
    {},
    {"packed": True},
    {"indent": 2},
    {"format-version": 1},
    {"format-version": 3, "next-row-id": 0},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_what_is_read_is_what_pyiceberg_reads(
    catalog: Catalog, reading: Catalog, orders: Table, form: dict[str, Any]
) -> None:
    whole = lengthened(catalog, orders, 120, **form)
    long = reading.load_table("shop.orders")
    assert isinstance(long.metadata.snapshots, LongHistory)
    assert list(long.metadata.snapshots) == whole.metadata.snapshots
    assert long.metadata.snapshots[3:30] == whole.metadata.snapshots[3:30]
    assert list(long.metadata.snapshot_log) == whole.metadata.snapshot_log
    assert (long.metadata.refs, long.properties, long.schemas()) == (
        whole.metadata.refs,
        whole.properties,
        whole.schemas(),
    )
    assert long.current_snapshot() == whole.current_snapshot() == whole.metadata.snapshots[-1]
    assert long.snapshot_by_id(12) is None
    assert (history(long), summarize(long)) == (history(whole), summarize(whole))
    assert len(summarize(long).retyped) == 3
    ids = [one.snapshot_id for one in whole.metadata.snapshots]
    moments: list[AsOf] = [
        "first",
        str(ids[5]),
        datetime.fromtimestamp(whole.metadata.snapshots[9].timestamp_ms / 1000, UTC),
    ]
    assert [snapshot_at(long, one) for one in moments] == [ids[0], ids[5], ids[9]]
    for start, end in ((None, None), ("first", str(ids[70])), (str(ids[70]), None)):
        assert timeline(long, start, end, 7) == timeline(whole, start, end, 7)
    assert column_page(long, str(ids[2]), "", -1, 10) == column_page(whole, str(ids[2]), "", -1, 10)
    between = [whole.metadata.snapshots[place] for place in (10, 90)]
    assert line(long.metadata, *between) == line(whole.metadata, *between) == whole.metadata.snapshots[11:91]


def test_rows_of_any_moment_are_read_and_changes_seen_at_once(
    catalog: Catalog, reading: Catalog, orders: Table
) -> None:
    whole = lengthened(catalog, orders, 60)
    lake, old = Lake(reading), whole.metadata.snapshots[7].snapshot_id
    table = lake.table("shop.orders")
    assert lake.sql("SELECT count(*) AS n FROM shop.orders", as_of=old).pylist() == [{"n": 5}]
    assert (len(table.snapshots()), count_rows(reading.load_table("shop.orders"))) == (60, 5)
    orders.refresh().append(orders.scan().to_arrow())
    assert len(table.snapshots()) == 61
    assert lake.sql("SELECT count(*) AS n FROM shop.orders").pylist() == [{"n": 10}]
    with pytest.raises(NoSuchTableError):
        reading.load_table("shop.other")


def test_what_is_loaded_to_be_read_can_not_be_written(catalog: Catalog, reading: Catalog, orders: Table) -> None:
    lengthened(catalog, orders, 5)
    table = reading.load_table("shop.orders")
    with pytest.raises(PermissionError, match="opened to be read"):
        table.append(orders.scan().to_arrow())
    with pytest.raises(AttributeError, match="opened to be read"):
        reading.drop_table("shop.orders")
    with pytest.raises(AttributeError, match="opened to be read"), table.update_schema() as change:
        change.rename_column("note", "remark")
    assert len(catalog.load_table("shop.orders").metadata.snapshots) == 5


def test_few_models_of_snapshots_are_made_and_the_file_is_read_once(
    catalog: Catalog, reading: Catalog, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = lengthened(catalog, orders, 3_000)
    made, read = [], []
    validate = Snapshot.model_validate_json

    def counted(raw: bytes) -> Snapshot:
        made.append(raw)
        return validate(raw)

    def taken_apart(content: bytes) -> Split | None:
        read.append(content)
        return split(content)

    monkeypatch.setattr(Snapshot, "model_validate_json", counted)
    monkeypatch.setattr(reading_catalog, "split", taken_apart)
    lake, rows = Lake(reading), orders.scan().to_arrow().to_pylist()
    assert timeline(lake.table("shop.orders").iceberg, None, None, 300)["snapshots"] == 3_000
    assert lake.sql("SELECT * FROM shop.orders", as_of=whole.metadata.snapshots[9].snapshot_id).pylist() == rows
    assert lake.table("shop.orders").summary().snapshots == 3_000
    assert (len(made) <= 3, len(read)) == (True, 1)


@pytest.mark.parametrize("packed", [False, True])
def test_what_the_commit_job_reads_of_a_table_takes_no_look_at_the_storage_for_each_snapshot(
    catalog: Catalog, reading: Catalog, orders: Table, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    whole = lengthened(catalog, orders, 200, packed=packed)
    opened = []
    open_ = PyArrowFile.open

    def counted(file: PyArrowFile, seekable: bool = True) -> Any:
        opened.append(file.location)
        return open_(file, seekable)

    monkeypatch.setattr(PyArrowFile, "open", counted)
    long = reading.load_table("shop.orders")
    assert state_of(long) == state_of(whole)
    assert len(opened) < 5


def test_a_summary_with_a_value_that_is_no_text_hides_no_history(
    catalog: Catalog, reading: Catalog, orders: Table
) -> None:
    path = Path(lengthened(catalog, orders, 3).metadata_location.removeprefix("file://"))
    path.write_text(path.read_text().replace('"firn.format": "1"', '"its.count": 1, "its.note": null'))
    whole = catalog.load_table("shop.orders")
    assert "its.count" in whole.metadata.snapshots[0].summary.additional_properties  # type: ignore[union-attr]
    assert history(reading.load_table("shop.orders")) == history(whole)


def test_a_file_that_was_replaced_is_not_read_by_where_things_lay_in_the_old_one(
    catalog: Catalog, reading: Catalog, orders: Table
) -> None:
    whole = lengthened(catalog, orders, 40)
    path = Path(whole.metadata_location.removeprefix("file://"))
    ids = [one.snapshot_id for one in whole.metadata.snapshots]
    long = reading.load_table("shop.orders")
    path.write_text(path.read_text().replace(str(ids[5]), str(ids[5] - 1)))
    for places in ([5], range(40)):
        with pytest.raises(StorageUnavailable, match="was replaced"):
            long.metadata.snapshots.at(places)  # type: ignore[attr-defined]
    path.write_text('{"snapshots": []}')
    with pytest.raises(StorageUnavailable, match="was replaced"):
        list(long.metadata.snapshots)
    with pytest.raises(StorageUnavailable, match="was replaced"):
        long.snapshot_by_id(ids[6])


def test_a_file_whose_name_may_come_again_is_read_again(catalog: Catalog, reading: Catalog, orders: Table) -> None:
    # As Hadoop's tables have it: a table that is made anew in the folder of another has v1 again.
    made = Path(lengthened(catalog, orders, 40).metadata_location.removeprefix("file://"))
    path = made.rename(made.with_name("v9.metadata.json"))
    catalog.drop_table("shop.orders")
    catalog.register_table("shop.orders", f"file://{path}")
    assert len(history(reading.load_table("shop.orders"))) == 40
    lengthened(catalog, catalog.load_table("shop.orders"), 3)
    newer = Path(catalog.load_table("shop.orders").metadata_location.removeprefix("file://"))
    catalog.drop_table("shop.orders")
    newer.rename(path)
    whole = catalog.register_table("shop.orders", f"file://{path}")
    assert history(reading.load_table("shop.orders")) == history(whole)
    assert len(whole.metadata.snapshots) == 3


def test_what_a_summary_holds_beside_texts_is_passed_over(catalog: Catalog, reading: Catalog, orders: Table) -> None:
    path = Path(lengthened(catalog, orders, 3).metadata_location.removeprefix("file://"))
    metadata = json.loads(path.read_text())
    metadata["snapshots"][1]["summary"] |= {"of-others": None, "theirs": {"a": [1]}}
    path.write_text(json.dumps(metadata))
    table = reading.load_table("shop.orders")
    assert [one.epochs for one in history(table)] == [{"shop": 0}, {"shop": 1}, {"shop": 2}]
    assert state_of(table).progress("shop") == 2


def test_ten_thousand_snapshots_take_a_hundred_bytes_each_and_what_is_said_of_them_is_right(
    catalog: Catalog, orders: Table
) -> None:
    content = Path(lengthened(catalog, orders, 10_000).metadata_location.removeprefix("file://")).read_bytes()
    tracemalloc.start()
    try:
        parts = split(content)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert parts is not None
    assert len(parts.columns) == 10_000
    assert held < 1_500_000  # PyIceberg's models: 40 MB
    assert 0.7 * held < parts.bytes < 1.3 * held


def test_what_is_kept_is_bounded(orders: Table) -> None:
    parts = split(Path(orders.metadata_location.removeprefix("file://")).read_bytes())
    assert parts is not None
    kept = Splits(2 * parts.bytes)
    for name in "ab":
        kept.keep(name, parts)
    assert kept.find("a") is parts
    kept.keep("c", parts)
    assert (kept.find("a"), kept.find("b"), kept.bytes) == (parts, None, 2 * parts.bytes)
    kept = Splits(0)
    kept.keep("one that is larger than all", parts)
    assert kept.find("one that is larger than all") is parts


class OwnIO(PyArrowFileIO):
    """One that a catalog's properties name."""


def test_what_is_read_is_read_by_the_fileio_that_the_catalog_names(
    catalog: Catalog, orders: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_catalog, "LEAST_BYTES", 0)
    monkeypatch.setattr(reading_catalog, "KNOWN", Splits())
    named = f"{OwnIO.__module__}.{OwnIO.__name__}"
    whole = open_catalog(f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse", {})
    whole.properties["py-io-impl"] = named
    found = to_read(whole).load_table("shop.orders")
    assert isinstance(found.io, OwnIO)
    assert found.scan().to_arrow().num_rows == orders.scan().to_arrow().num_rows


BROKEN = [
    b"",
    b"[]",
    b"{",
    b'{"snapshots": 1}',
    b'{"snapshots": [{"snapshot-id": "x"}]}',
    b'{"properties": []}',
    b"\xff",
]


@pytest.mark.parametrize(
    "content", [*BROKEN, b'{"snapshots": [{"snapshot-id": 9223372036854775808, "timestamp-ms": 1}]}']
)
def test_what_is_not_as_the_spec_says_is_left_to_pyiceberg(content: bytes) -> None:
    assert split(content) is None


def test_a_snapshot_that_stands_elsewhere_too_is_left_to_pyiceberg() -> None:
    """Where each lies would be guessed by the first of them."""
    one, two = (f'{{"snapshot-id": {number}, "timestamp-ms": 1}}' for number in (1, 2))
    assert split(f'{{"snapshots": [{one}, {two}]}}'.encode()) is not None
    for before in (f'"theirs": [{one}, {{"a": "{"b" * 99}"}}]', f'"snapshots": [{one}, {{"a": 1}}]'):
        assert split(f'{{{before}, "snapshots": [{one}, {two}]}}'.encode()) is None
    assert split(f'{{"theirs": [{one}], "snapshots": [{one}, {two}]}}'.encode()) is None


def test_a_broken_file_is_pyicebergs_to_refuse(catalog: Catalog, reading: Catalog, orders: Table) -> None:
    for packed, content in ((False, b'{"snapshots": [3]}'), (True, b"no gzip")):
        path = Path(lengthened(catalog, orders, 2, packed=packed).metadata_location.removeprefix("file://"))
        path.write_bytes(content)
        with pytest.raises((ValidationError, OSError)):
            reading.load_table("shop.orders")
        path.unlink()


FIELD = {"id": 1, "name": "a", "type": "long", "required": False}
texts = st.text(max_size=8)
counts = st.one_of(st.integers(0, 2**70).map(str), texts)
summaries = st.none() | st.fixed_dictionaries(
    {"operation": st.sampled_from(["append", "overwrite", "delete", "replace"])},
    optional={
        **dict.fromkeys(("added-records", "deleted-records", "added-position-deletes", "total-records"), counts),
        **dict.fromkeys(("total-position-deletes", "total-equality-deletes", "firn.types"), counts),
        'ein "Name"': texts,
    },
)
ids = st.integers(0, 2**63 - 1)
snapshots = st.fixed_dictionaries(
    {"snapshot-id": ids, "timestamp-ms": st.integers(0, 2**40), "manifest-list": texts},
    optional={
        "parent-snapshot-id": ids,
        "sequence-number": st.integers(0, 2**40),
        "schema-id": st.integers(0, 2**30),
        "summary": summaries,
    },
)
logs = st.lists(st.fixed_dictionaries({"snapshot-id": ids, "timestamp-ms": st.integers(0, 2**40)}), max_size=4)


@given(st.lists(snapshots, max_size=6), logs, st.sampled_from([None, 1]), st.booleans())
def test_any_snapshots_are_the_same_as_columns(
    some: list[dict[str, Any]], log: list[dict[str, Any]], indent: int | None, doubled: bool
) -> None:
    top = {
        "format-version": 2,
        "location": "file:///t",
        "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
        "last-updated-ms": 1,
        "last-column-id": 1,
        "schemas": [{"type": "struct", "schema-id": 0, "fields": [FIELD]}],
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "snapshots": some + some if doubled else some,
        "snapshot-log": log,
    }
    content = json.dumps(top, indent=indent, ensure_ascii=indent is None).encode()
    whole, parts = TableMetadataUtil.parse_raw(content.decode()), split(content)
    assert parts is not None
    assert parts.columns == of_models(whole.snapshots)
    slices = [content[at : at + length] for at, length in zip(parts.starts, parts.lengths, strict=True)]
    assert [Snapshot.model_validate_json(one) for one in slices] == whole.snapshots
    rest = TableMetadataUtil.parse_raw(parts.rest.decode())
    long = with_history(rest, LongHistory(None, "", parts), LongLog(parts))  # type: ignore[arg-type]
    assert log_of(long) == log_of(whole)
    fields = set(type(whole).model_fields) - {"snapshots", "snapshot_log"}
    assert {name: getattr(long, name) for name in fields} == {name: getattr(whole, name) for name in fields}


def test_a_page_of_snapshots_reads_what_the_whole_history_says(
    catalog: Catalog, reading: Catalog, orders: Table
) -> None:
    whole = history(lengthened(catalog, orders, 120))
    long = reading.load_table("shop.orders")
    first = snapshot_page(long, "", 50)
    assert (first.snapshots, first.total) == (whole[:50], 120)
    rest = snapshot_page(long, first.next or "", 100)
    assert (rest.snapshots, rest.next) == (whole[50:], None)
    newest = snapshot_page(long, "", 3, newest_first=True)
    assert newest.snapshots == whole[:-4:-1]
    assert snapshot_page(long, newest.next or "", 3, newest_first=True).snapshots == whole[-4:-7:-1]


def test_pages_of_ids_and_times_below_nought_follow_each_other(orders: Table) -> None:
    last = orders.metadata.snapshots[-1]
    made = [last.model_copy(update={"snapshot_id": -9 - n, "timestamp_ms": n - 2}) for n in range(4)]
    orders.metadata.__dict__["snapshots"] = made
    page = snapshot_page(orders, "", 3)
    assert [one.id for one in snapshot_page(orders, page.next or "", 3).snapshots] == [-12]
    assert [one.id for one in snapshot_page(orders, "-1.9.-77", 9).snapshots] == [-11, -12]


def test_a_page_goes_on_where_its_last_snapshot_was_let_go(catalog: Catalog, orders: Table) -> None:
    table = lengthened(catalog, orders, 6)
    snapshots = table.metadata.snapshots
    first, back = snapshot_page(table, "", 3), snapshot_page(table, "", 3, newest_first=True)
    kept = [one for place, one in enumerate(snapshots) if place not in (2, 3)]
    table.metadata.__dict__["snapshots"] = kept
    assert [one.id for one in snapshot_page(table, first.next or "", 9).snapshots] == [
        one.snapshot_id for one in snapshots[4:]
    ]
    assert [one.id for one in snapshot_page(table, back.next or "", 9, newest_first=True).snapshots] == [
        snapshots[1].snapshot_id,
        snapshots[0].snapshot_id,
    ]
