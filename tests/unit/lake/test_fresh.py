"""Fresh reads of any history, cut anywhere: what is in the table and remembered beside it, and what waits.

The committed part is written here by the row engine on a table in memory, without Spark; with the real
job it is tests/integration/spark/test_fresh.py.
"""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog

from firn.changes.merge import decoded_rows
from firn.changes.merge.fold import Key, Row, RowChange, fold
from firn.changes.metadata_columns import HELD, LOOKED, OP, POSITION, SOURCE, TIME
from firn.commit.staged_changes import once
from firn.config.names import TableName
from firn.ingest import accept
from firn.log import cuts, epochs, holds, published_configs
from firn.log.holds import Quarantine
from firn.log.store import Store, open_store
from firn.quarantine.rules import unreadable_epoch
from firn.tables.table_state import CREATES, EPOCH, NEWEST, SOURCES, TRUNCATED
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.fresh import pending
from firn_lake.fresh.fresh_rows import FreshTable
from firn_lake.fresh.fresh_tables import Fresh
from firn_lake.fresh.pending import Look, NotFresh
from firn_lake.fresh.pending_table import waiting
from firn_lake.lake import Lake
from firn_lake.reading.unreadable import UnreadableFile
from firn_lake.sql.query import query
from firn_lake.tables import TableNotFound
from tests.integration.spark.spark_lake import ndjson
from tests.integration.spark.test_commit import GONE, config, event, with_schema
from tests.integration.spark.test_specification import PARTITIONS, change, history
from tests.memory_table import MemoryTable
from tests.soak import few_cases, times

NAMES = ("id", "v", "w", "n")
_ROW: dict[str, Any] = {"id": 1, "v": "long", "w": "w", "n": 1}
START = datetime(2026, 11, 21, tzinfo=UTC)
_COLUMNS = [("id", pa.int64()), ("v", pa.string()), ("w", pa.string()), ("n", pa.int64())]
_OWN = [(POSITION, pa.binary()), (TIME, pa.timestamp("us", "UTC")), (HELD, pa.map_(pa.int32(), pa.binary()))]
TABLE = pa.schema([*_COLUMNS, *_OWN, (SOURCE, pa.string())])
FACTS = pa.schema([*_COLUMNS, *_OWN, (OP, pa.string()), (LOOKED, pa.string()), (SOURCE, pa.string())])


class Ground:
    """A store and a catalog, as a commit left them."""

    def __init__(self, folder: Path, text: str | None = None) -> None:
        self.store: Store = open_store(f"file://{folder}/staging")
        self.catalog: Catalog = open_catalog(f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse", {})
        self.config = published_configs.publish(self.store, text or config())
        self.now = START

    def post(self, events: list[dict[str, Any]]) -> None:
        """Acknowledged, and no more."""
        self.now += timedelta(seconds=1)
        answer = accept.accept(self.store, self.config, "spec", ndjson(events), now=self.now)
        assert answer.accepted == len(events)

    def seal(self) -> int:
        """Seals what is free. -> the epoch"""
        self.now += timedelta(seconds=1)
        found = epochs.candidates(self.store, "spec", self.now, above=cuts.newest(self.store, "spec"))
        epoch = epochs.seal(self.store, "spec", found, now=self.now, config=self.config.sha, nonce=str(found.next_n))
        assert epoch is not None
        return epoch.n

    def folded(self) -> MemoryTable:
        """What a first commit of all that waits would make."""
        [one] = waiting(Look(self.store), TableName("lake", "t"), None)
        made = MemoryTable()
        made.commit([found for _, found in one.decoded() if found is not None] + one.truncates())
        return made

    def commit(self, known: MemoryTable, epoch: int) -> None:
        """The table and its facts as a commit of these changes would leave them, and the cut."""
        self.catalog.create_namespace_if_not_exists("lake")
        properties = {"firn.key": '["id"]', "firn.mode": "mirror", "firn.stream": "spec", "firn.held": "2,3"}
        if known.sources:
            properties[SOURCES] = json.dumps([None, *sorted(filter(None, known.sources))])
        table = self.catalog.create_table("lake.t", TABLE, properties=properties)
        table.append(_rows(known.live.items(), TABLE), {f"{EPOCH}spec": str(epoch)})
        facts = [(one.key, None, one.op, one.order, one.source) for one in known.remembered]
        facts += [(key, row, "k", row.order, row.source) for key, row in known.gone]
        if facts:
            orders = [one.order for one in known.remembered]
            said = {f"{EPOCH}spec": str(epoch), NEWEST: max(orders, default=b"").hex()}
            truncates = [one.order for one in known.remembered if one.op == "t"]
            said |= {TRUNCATED: max(truncates).hex()} if truncates else {}
            said |= {CREATES: "true"} if any(one.op == "c" for one in known.remembered) else {}
            beside = self.catalog.create_table("lake.t__deletes", FACTS, properties={"firn.mode": "deletes"})
            beside.append(_facts(facts), said)
        snapshot = self.catalog.load_table("lake.t").metadata.current_snapshot_id
        assert snapshot is not None
        cut = cuts.make("spec", epoch, "2026-11-21T00:00:00.000Z", {"lake.t": snapshot}, progress={"lake.t": epoch})
        assert cuts.write(self.store, cut)

    def fresh(self, where: str | None = None) -> Mapping[int, Mapping[str, Any]]:
        """Fresh rows by key."""
        lake = Lake(self.catalog, lambda: self.store)
        found = lake.table("lake.t").read(NAMES, where, fresh=True).pylist()
        text = "SELECT id, v, w, n FROM lake.t" + (f" WHERE {where}" if where else "")
        assert sorted(map(repr, lake.sql(text, fresh=True).pylist())) == sorted(map(repr, found))
        assert len({row["id"] for row in found}) == len(found)
        return {row["id"]: row for row in found}


def _plain(order: bytes) -> bytes | None:
    return order[1:] if order[:1] == b"\1" else None


def _held(row: Row) -> list[tuple[int, bytes]] | None:
    ids = {name: number for number, name in enumerate(NAMES, 1)}
    return [(ids[name], _plain(order) or b"") for name, order in row.held.items()] or None


def _rows(rows: Any, schema: pa.Schema) -> pa.Table:
    told = [
        {**row.values, POSITION: _plain(row.order), TIME: None, HELD: _held(row), SOURCE: row.source} for _, row in rows
    ]
    return pa.Table.from_pylist(told, schema)


def _facts(facts: Sequence[tuple[Key, Row | None, str, bytes, str | None]]) -> pa.Table:
    told = []
    for key, row, op, order, source in facts:
        values: dict[str, Any] = {"id": key[0]} if key else {}
        values |= dict(row.values) if row else {}
        held = _held(row) if row else None
        told.append({**values, OP: op, POSITION: _plain(order), TIME: None, HELD: held, LOOKED: None, SOURCE: source})
    return pa.Table.from_pylist(told, FACTS)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.catalog.close()


@few_cases(1)
@pytest.mark.parametrize("tables", ["t", "abc"])
@pytest.mark.parametrize(("seed", "events", "keys"), [(seed, 60, 5) for seed in range(times(3, 200, 5))])
def test_any_history_cut_anywhere_gives_the_rows_of_the_specification(
    tmp_path: Path, seed: int, events: int, keys: int, tables: str
) -> None:
    ground = Ground(tmp_path, PARTITIONS if len(tables) > 1 else None)
    dice = random.Random(seed)
    posted = history(seed, events, keys, tables, truncates=0.02 if len(tables) == 1 else 1)
    if seed % 3 == 0:  # few histories have one otherwise
        posted.append(event("t", 100 + dice.randrange(events), table=tables[0], commit=1_000 if seed % 2 else None))
    delivered = posted + dice.choices(posted, k=events // 3)
    dice.shuffle(delivered)
    cut = dice.randrange(1, len(delivered))
    ground.post(delivered[:cut])
    ground.commit(ground.folded(), ground.seal())
    assert ground.fresh() == _expected([change(one) for one in delivered[:cut]])
    middle = dice.randrange(cut, len(delivered) + 1)
    for first, last in ((cut, middle), (middle, len(delivered))):
        if first < last:
            ground.post(delivered[first:last])
        expected = _expected([change(one) for one in delivered[:last]])
        assert ground.fresh() == expected
        one = dice.randrange(keys)
        assert ground.fresh(f"id = {one}") == {key: row for key, row in expected.items() if key == one}
        assert ground.fresh("w >= 'w13'") == {key: row for key, row in expected.items() if (row["w"] or "") >= "w13"}
        if first < last and dice.random() < 0.5:
            ground.seal()
            assert ground.fresh() == expected


def _expected(changes: Sequence[RowChange]) -> dict[int, Any]:
    return {key[0]: dict(row.values) for key, row in fold({}, changes).rows.items()}


@pytest.mark.parametrize(
    ("committed", "late"),
    [
        ([event("c", 100, _ROW), event("u", 110, _ROW | {"v": GONE})], [event("t", 105)]),
        (
            [event("c", 100, _ROW), event("d", 110, None, _ROW), event("c", 110, _ROW | {"id": 2, "v": GONE})],
            [event("t", 90), event("u", 105, _ROW | {"v": "between"})],
        ),
    ],
    ids=["of a held value", "of a move"],
)
def test_a_late_truncate_leaves_what_the_specification_leaves(
    ground: Ground, committed: list[dict[str, Any]], late: list[dict[str, Any]]
) -> None:
    ground.post(committed)
    ground.commit(ground.folded(), ground.seal())
    ground.post(late)
    assert ground.fresh() == _expected([change(one) for one in (*committed, *late)])


@pytest.mark.parametrize("name", ["n", POSITION])
def test_without_a_column_that_somebody_took_away_there_is_no_fresh_read(ground: Ground, name: str) -> None:
    """The commit holds the table."""
    ground.post(history(1, 20, 5))
    ground.commit(ground.folded(), ground.seal())
    with ground.catalog.load_table("lake.t").update_schema() as others:
        others.delete_column(name)
    ground.post(history(2, 5, 5))
    with pytest.raises(NotFresh, match=f"column {name}"):
        Lake(ground.catalog, lambda: ground.store).table("lake.t").read(["id"], fresh=True).pylist()


@pytest.mark.parametrize("of", ["lake.t", None])
def test_what_is_held_says_so(ground: Ground, of: str | None) -> None:
    ground.post(history(1, 20, 5))
    ground.commit(MemoryTable(), ground.seal())
    ground.post(history(2, 5, 5))
    why: holds.Reason = "rolled_back" if of else "source_restored"
    case = Quarantine(1, "spec", 1, "2026-11-21T00:00:00.000Z", why, "something is wrong", "fix it", table=of)
    assert holds.hold(ground.store, case)
    with pytest.raises(NotFresh, match=r"is held.*something is wrong; fix it"):
        ground.fresh()


def test_a_table_that_no_commit_has_made_is_asked_by_sql(ground: Ground) -> None:
    ground.post([event("c", 100, {"id": 1, "v": "a", "w": None, "n": 1}), event("d", 101, None, {"id": 1})])
    lake = Lake(ground.catalog, lambda: ground.store)
    assert lake.sql("SELECT * FROM lake.t", fresh=True).pylist() == []
    ground.post([event("c", 102, {"id": 2, "v": "b", "w": None, "n": 2})])
    assert lake.sql("SELECT id, v FROM t", fresh=True).pylist() == [{"id": 2, "v": "b"}]


def test_maps_and_bytes_of_one_length_that_wait_are_read(tmp_path: Path) -> None:
    columns = "{id: long, m: 'map<long, date>', u: 'map<uuid, int>', f: 'fixed[2]'}"
    ground = Ground(tmp_path, config(f"key: [id], columns: {columns}"))
    key = "6b1f0e7c-5a5d-4c1e-9a53-000000000001"
    ground.post([event("c", 10, {"id": 1, "m": {"5": 1, "-1": None}, "u": [[key, 2]], "f": "AP8="})])
    ground.post([event("c", 20, {"id": 2, "m": [], "u": None, "f": None})])
    found = (
        Lake(ground.catalog, lambda: ground.store).sql("SELECT m, u, f FROM lake.t ORDER BY id", fresh=True).pylist()
    )
    told = {"m": [(5, date(1970, 1, 2)), (-1, None)], "u": [(key, 2)], "f": b"\0\xff"}
    assert [row | ({"u": [(str(one), n) for one, n in row["u"]]} if row["u"] else {}) for row in found] == [
        told,
        {"m": [], "u": None, "f": None},
    ]


def test_a_delete_that_holds_nothing_but_its_key_makes_a_table_as_a_commit_does(ground: Ground) -> None:
    def record(op: str, place: int, row: dict[str, Any] | None) -> dict[str, Any]:
        return {"destination": "p.app.t", "key": {"id": 2**60}, "value": event(op, place, row)}

    lake = Lake(ground.catalog, lambda: ground.store)
    ground.post([record("d", 101, None)])
    assert lake.sql("SELECT id FROM lake.t", fresh=True).pylist() == []
    ground.post([record("c", 100, {"id": 2**60, "v": "late"}), record("c", 102, {"id": 2**60, "v": "again"})])
    assert lake.sql("SELECT id, v FROM lake.t", fresh=True).pylist() == [{"id": 2**60, "v": "again"}]


def test_a_table_whose_mode_changes_before_it_is_made_is_read_anew(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground.post([event("c", 100, {"id": 1, "v": "a", "w": None, "n": 1}), event("u", 101, {"id": 1, "v": "b"})])
    lake = Lake(ground.catalog, lambda: ground.store)
    assert lake.sql("SELECT v FROM lake.t", fresh=True).pylist() == [{"v": "b"}]
    monkeypatch.setattr(
        published_configs.CurrentConfig, "__call__", lambda _: published_configs.load(ground.store, appending.sha)
    )
    appending = published_configs.publish(ground.store, config("key: [id], mode: append"))
    found = lake.sql("SELECT v, _firn_op AS op FROM lake.t ORDER BY v", fresh=True).pylist()
    assert found == [{"v": "a", "op": "c"}, {"v": "b", "op": "u"}]


def test_what_was_decoded_for_a_mirror_table_is_not_given_to_another(ground: Ground) -> None:
    ground.post([event("c", 100, {"id": 1, "v": "a", "w": None, "n": 1})])
    [one] = waiting(Look(ground.store), TableName("lake", "t"), None)
    [batch] = one.pending.above(0)
    assert len(batch.decoded(one.target.sources, one.decoder).changes) == 1
    assert batch.decoded(one.target.sources, decoded_rows.decoder(one.decoding, mirror=False)).changes == []


def test_facts_are_those_of_the_batch_that_tells_them_first() -> None:
    fact = {"table": "t", "flat": False, "schema_id": None, "fact": "columns", "value": "x"}
    said = [fact | {"epoch": epoch, "batch": batch, "value": value} for epoch, batch, value in
            [(2, "a", "x"), (1, "b", "y"), (1, "b", "x"), (1, "a", "y")]]  # fmt: skip
    assert [(one["epoch"], one["batch"], one["value"]) for one in once(said)] == [(1, "a", "y"), (1, "b", "x")]


def test_a_missing_file_is_named_whoever_asks(ground: Ground) -> None:
    ground.post([event("c", 100 + i, {"id": i, "v": "a", "w": None, "n": i}) for i in range(3)])
    ground.commit(ground.folded(), ground.seal())
    ground.post([event("u", 200, {"id": 1, "v": "b", "w": None, "n": 9})])
    [task] = ground.catalog.load_table("lake.t").scan().plan_files()
    Path(task.file.file_path.removeprefix("file://")).unlink()
    lake = Lake(ground.catalog, lambda: ground.store)
    with pytest.raises(UnreadableFile, match=Path(task.file.file_path).name):
        lake.table("lake.t").read(fresh=True).arrow()
    with pytest.raises(UnreadableFile, match=Path(task.file.file_path).name):
        lake.sql("SELECT v FROM lake.t WHERE id = 1", fresh=True)


def test_sql_looks_at_the_log_once_its_tables_are_loaded(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.post([event("c", 100, {"id": 1, "v": "a", "w": None, "n": 1})])
    ground.commit(ground.folded(), ground.seal())
    real, late = Fresh.table, [event("c", 101, {"id": 2, "v": "late", "w": None, "n": 2})]

    def table(self: Fresh, identifier: tuple[str, ...]) -> FreshTable:
        if late:
            ground.post([late.pop()])
        return real(self, identifier)

    monkeypatch.setattr(Fresh, "table", table)
    lake, read = Lake(ground.catalog, lambda: ground.store), list[tuple[str, ...]]()
    assert lake.sql("SELECT v FROM lake.t ORDER BY id", fresh=True).pylist() == [{"v": "a"}, {"v": "late"}]
    query(ground.catalog, "SELECT v FROM lake.t", fresh=lake.fresh(), on_read=read.append)
    assert read == [("lake", "t")]


def test_a_held_stream_is_in_the_way_of_its_own_tables_alone(ground: Ground) -> None:
    ground.config = published_configs.publish(
        ground.store, config() + "  second:\n    tables:\n      app.u: {to: lake.u}\n"
    )
    ground.post([event("c", 100, {"id": 1, "v": "a", "w": None, "n": 1})])
    ground.commit(ground.folded(), ground.seal())
    case = Quarantine(1, "second", 1, "2026-11-21T00:00:00.000Z", "source_restored", "something is wrong", "fix it")
    assert holds.hold(ground.store, case)
    lake = Lake(ground.catalog, lambda: ground.store)
    assert lake.sql("SELECT id FROM lake.t", fresh=True).pylist() == [{"id": 1}]
    with pytest.raises(TableNotFound, match=r"lake\.nowhere"):
        lake.sql("SELECT 1 FROM lake.nowhere", fresh=True)


def test_too_much_that_waits_is_not_read(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(3):
        ground.post([event("c", 100 + n, {"id": n, "v": "a", "w": None, "n": n})])
    monkeypatch.setattr(pending, "MOST_CHANGES", 2)
    with pytest.raises(NotFresh, match="3 changes of spec wait for their commit, and at most 2"):
        waiting(Look(ground.store), TableName("lake", "t"), None)
    monkeypatch.setattr(pending, "MOST_CHANGES", 500_000)
    monkeypatch.setattr(epochs, "MAX_BATCHES", 2)
    with pytest.raises(NotFresh, match="3 requests of spec wait for their commit, and at most 2"):
        waiting(Look(ground.store), TableName("lake", "t"), None)


@pytest.mark.parametrize("how", ["named without schema", "with an inline schema", "beside a held epoch"])
def test_what_is_folded_again_is_read_out_of_the_log_as_a_commit_reads_it(tmp_path: Path, how: str) -> None:
    """Of all source tables, under their whole names, with their own schemas, and without epochs that are held."""
    ground = Ground(tmp_path, PARTITIONS)
    row = {"id": 1, "v": "long", "w": "w", "n": 10}
    first, other = event("c", 110, row, table="a"), event("c", 111, row | {"id": 2}, table="b")
    late = event("u", 115, row | {"v": GONE, "n": 15}, table="b")
    expected = {1: row | {"n": 15}, 2: row | {"id": 2}}
    if how == "named without schema":
        del first["source"]["schema"]
        late = event("u", 107, row | {"v": GONE, "n": 7}, table="b")
        expected = {2: row | {"id": 2}}
    elif how == "with an inline schema":
        first = with_schema(first, id="int64", v="string", w="string", n="int64")
    ground.post([first, other, event("t", 120, table="a")])
    known, committed = ground.folded(), ground.seal()
    if how == "beside a held epoch":
        ground.post([event("c", 130, row | {"id": 3}, table="a")])
        committed = ground.seal()
        epoch = epochs.read(ground.store, "spec", committed)
        assert epoch is not None
        (tmp_path / "staging" / epoch.batches[0].path).write_bytes(b"no Parquet")
        holds.hold(ground.store, unreadable_epoch("spec", committed, "it can't be read", "2026-11-21T00:00:00.000Z"))
    ground.commit(known, committed)
    ground.post([late])
    assert ground.fresh() == expected


def test_changes_of_a_table_that_is_too_many_are_left_out_by_the_limit_that_their_epoch_has(tmp_path: Path) -> None:
    text = "streams: {spec: {max_tables: 1, tables: {'*': {to: 'lake.{table}', key: [id]}}}}"
    ground = Ground(tmp_path, text)
    ground.post([event("c", 1, {"id": 1}, table="t"), event("c", 2, {"id": 2}, table="u")])
    ground.seal()
    ground.config = published_configs.publish(ground.store, text.replace("max_tables: 1", "max_tables: 2"))
    ground.post([event("c", 3, {"id": 3}, table="u"), event("c", 4, {"id": 4}, table="v")])
    lake = Lake(ground.catalog, lambda: ground.store)
    assert lake.sql("SELECT id FROM lake.t", fresh=True).pylist() == [{"id": 1}]
    assert lake.sql("SELECT id FROM lake.u", fresh=True).pylist() == [{"id": 3}]
    with pytest.raises(TableNotFound, match=r"lake\.v"):
        lake.sql("SELECT id FROM lake.v", fresh=True)
