"""Staged events through SQL into files, by the code that jobs run: what lies there is what DuckDB selects.

Real ingest, sealing and job, decoding, SQL and Parquet; only the tables are in memory.
"""

import gzip
import hashlib
import io
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from obstore.store import MemoryStore

from firn.audit.sink_account import accounts
from firn.commit import sink_turn
from firn.config.file_sinks import COMPRESSIONS, FileCompression, FileFormat, FileSink
from firn.dispatch.dispatcher import Terms, dispatch
from firn.errors import TerminalError
from firn.ingest import accept
from firn.log import epochs, layout
from firn.log.dead_letters.letters import read_dead
from firn.log.layout import dead_prefix
from firn.log.store import get, paths
from firn.sinks import plans
from firn.sinks.file_rows import FileRows, SinkRange
from firn.sinks.turn import Turn
from firn_spark.sinks import file_bodies, sink_rows, source_changes, spool
from firn_spark.sinks.sink_rows import SinkRows
from tests.faults.calls import FAULTS, Counting, Died, WatchedStore, in_order
from tests.model.lake_contract import STREAM, Stream, event
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import MemoryLake
from tests.soak import seeds
from tests.unit.audit.audited import audited

TO = "file:///sinks/out"
CONFIG = """
streams:
  shop:
    envelope: rows
    debezium: {{decimal.handling.mode: string}}
    tables:
      clicks:
        to: lake.clicks
        mode: append
        columns: {{id: long, region: string, amount: 'decimal(12,2)', seen: timestamptz}}
    pipelines:
      out:
        sql: "{sql}"
        files: {{to: file:///sinks/out, {files}}}
"""
SCHEMA = pa.schema(
    {"id": pa.int64(), "region": pa.string(), "amount": pa.decimal128(12, 2), "seen": pa.timestamp("us", "UTC")}
)
ALL = "SELECT * FROM clicks"


class Lake(MemoryLake):
    """Tables in memory, files as in production."""

    def files(self, sink: SinkRange) -> FileRows:
        return SinkRows(self.store, "memory://staging", "memory://warehouse", sink)


class Sinks(Stream):
    """The stream, with its sink in memory."""

    def __init__(self, sql: str = ALL, files: str = "format: json, compression: none") -> None:
        ground = MemoryGround()
        ground.lake = Lake(ground.store, ground.catalog)
        roll = "" if "roll" in files else ", roll: {every: 60s, size: 1KB}"
        super().__init__(ground, CONFIG.format(sql=sql, files=files + roll))
        self.sink: Any = MemoryStore()

    def post(self, *events: dict[str, Any]) -> None:
        if not events:
            return
        body = json.dumps(events).encode()
        accept.accept(self.store, self.config, STREAM, body, now=self.tick(), table="clicks")

    def wake(self, **later: int) -> None:
        """What dispatch does when time has passed."""
        self.now += timedelta(**later)
        done = dispatch(self.store, STREAM, None, now=self.now, terms=Terms(self.config.sha), tick=timedelta())
        if done.pending is not None:
            assert self.commit(*done.pending) == 0, self.lines

    def manifests(self) -> list[plans.Manifest]:
        return plans.manifests(self.store, STREAM, "out")

    def bodies(self) -> dict[str, bytes]:
        """What the manifests name, by path, as they say it is; there is nothing else."""
        found = {}
        for one in (file for manifest in self.manifests() for file in manifest.files):
            found[one.path] = get(self.sink, one.path) or b""
            assert hashlib.sha256(found[one.path]).hexdigest() == one.sha256
        assert sorted(found) == paths(self.sink, "")
        return found

    def rows(self) -> list[dict[str, Any]]:
        """All rows, of Parquet files."""
        tables = [pq.read_table(io.BytesIO(body)) for body in self.bodies().values()]
        return [row for table in tables for row in table.to_pylist()]


def selected(sql: str, rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """What DuckDB selects of all rows at once, sorted."""
    columns = {name: [row.get(name) for row in rows] for name in SCHEMA.names}
    columns["amount"] = [None if one is None else Decimal(one) for one in columns["amount"]]
    columns["seen"] = [None if one is None else datetime.fromisoformat(one) for one in columns["seen"]]
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("clicks", pa.table(columns, schema=SCHEMA))
    found = connection.sql(sql).to_arrow_table().to_pylist()
    return ordered(found)


def own_left_out(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """The rows as the SQL made them, sorted."""
    return ordered({name: value for name, value in row.items() if not name.startswith("_firn")} for row in rows)


def ordered(rows: Iterable[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    """Rows by names, sorted."""
    return sorted((tuple(sorted(row.items())) for row in rows), key=repr)


def clicks(seed: int, count: int = 12) -> list[dict[str, Any]]:
    """Random events."""
    draw = random.Random(seed)
    texts = ["eu", "us", None, "", "..", "a/b", "é", "x" * 300, "__null__", "%2E"]
    return [
        {
            "id": draw.choice([None, draw.randrange(-5, 2**40)]),
            "region": draw.choice(texts),
            "amount": draw.choice([None, f"{draw.randrange(-9999, 99999) / 100:.2f}"]),
            "seen": draw.choice([None, f"2026-01-{draw.randrange(1, 28):02d}T{draw.randrange(24):02d}:30:00+00:00"]),
        }
        for _ in range(count)
    ]


QUERIES = [
    ALL,
    "SELECT id, upper(region) AS region, amount * 2 AS amount, seen FROM clicks WHERE id > 100 OR region IS NULL",
    "SELECT id, region, UNNEST([amount, amount + 1]) AS amount, seen FROM clicks",
    "WITH big AS (SELECT * FROM clicks WHERE amount > 0) "
    "SELECT id, seen, CASE WHEN id < 0 THEN 'x' ELSE region END AS region FROM big",
]
FORMS = [
    "format: parquet, compression: zstd, path: 'dt=%Y-%m-%d/region={region}'",
    "format: parquet, compression: snappy, path: 'dt=%Y-%m-%dT%H', time: seen",
    "format: parquet, compression: lz4, path: '{region}/{id}'",
    "format: parquet, compression: none, roll: {every: 60s, size: 1MB}",
    "format: parquet, compression: gzip, path: 'x/%j'",
]


@pytest.fixture(autouse=True)
def calls_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    in_order(monkeypatch)


def opened(monkeypatch: pytest.MonkeyPatch, sinks: Sinks, gate: Counting | None = None) -> Sinks:
    """The job finds the sink's store in memory, behind a gate if there is one."""
    store = sinks.sink if gate is None else WatchedStore(sinks.sink, gate)
    monkeypatch.setattr(sink_turn, "open_files", lambda _: store)
    return sinks


@pytest.mark.parametrize("query", range(len(QUERIES)))
def test_the_files_hold_what_duckdb_selects(query: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in seeds(3, 20):
        sinks = opened(monkeypatch, Sinks(QUERIES[query], FORMS[(query + seed) % len(FORMS)]))
        events = [clicks(10 * seed + n) for n in range(4)]
        for some in events:
            sinks.land(*some)
        sinks.wake(hours=1)
        assert own_left_out(sinks.rows()) == selected(QUERIES[query], [row for some in events for row in some])
        if seed % len(FORMS) != 3:
            assert len({row["_firn_id"] for row in sinks.rows()}) == len(sinks.rows())


@pytest.mark.parametrize("seed", seeds(6, 50))
def test_killed_at_a_seeded_moment_the_files_hold_each_row_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    query = draw.choice(QUERIES)
    sinks = Sinks(query, draw.choice(FORMS))
    gate = Counting(draw.randrange(10, 120), draw.choice(FAULTS), draw.choice([None, None, "name"]))
    opened(monkeypatch, sinks, gate)
    watched, rows = WatchedStore(sinks.store, gate), []
    for n in range(4):
        some = clicks(100 * seed + n)
        rows += some
        sealed = sinks.seal(*some)
        gate.born_again()
        with suppress(Died):
            sinks.commit(sealed, store=watched)
    gate.heal()
    for _ in range(6):
        sinks.wake(minutes=3)
    assert own_left_out(sinks.rows()) == selected(query, rows), (gate.hit, gate.fault)
    ids = [row["_firn_id"] for row in sinks.rows()]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("kind", "compression"),
    [(kind, one) for kind, compressions in COMPRESSIONS.items() for one in compressions],
)
def test_every_format_holds_the_rows_and_the_same_rows_are_the_same_bytes(
    kind: FileFormat, compression: FileCompression
) -> None:
    sink = FileSink(TO, kind, compression)
    rows = pa.table({"id": range(20_000), "text": ["é\n"] * 20_000})
    body = file_bodies.body_of([rows.slice(0, 7), rows.slice(7)], sink)
    assert body == file_bodies.body_of([rows.slice(0, 7), rows.slice(7)], sink)
    assert file_bodies.rows_in(body, sink) == 20_000
    found = (
        pq.read_table(io.BytesIO(body)).to_pylist()
        if kind == "parquet"
        else [json.loads(line) for line in inflated(body, compression).splitlines()]
    )
    assert found == rows.to_pylist()
    if compression != "none":
        with pytest.raises(ValueError, match="not"):
            file_bodies.rows_in(body[: len(body) // 2], sink)


LATE = 253_402_300_800_000_000  # the year 10000, which Python's times do not have


@pytest.mark.parametrize(
    ("kind", "stored", "value", "told"),
    [
        (pa.list_(pa.timestamp("us")), pa.list_(pa.int64()), [LATE, None], ["10000-01-01T00:00:00.000000", None]),
        (pa.struct([("a", pa.date32())]), pa.struct([("a", pa.int32())]), {"a": 2_932_897}, {"a": "10000-01-01"}),
        (pa.map_(pa.timestamp("us", "UTC"), pa.int32()), pa.map_(pa.int64(), pa.int32()), [(LATE, 1)],
         [["10000-01-01T00:00:00.000000Z", 1]]),
        (pa.map_(pa.string(), pa.list_(pa.timestamp("us"))), pa.map_(pa.string(), pa.list_(pa.int64())),
         [("k", [LATE])], {"k": ["10000-01-01T00:00:00.000000"]}),
    ],
)  # fmt: skip
def test_times_that_python_does_not_have_are_texts_wherever_they_are(
    kind: pa.DataType, stored: pa.DataType, value: Any, told: Any
) -> None:
    column = pa.array([value, None], stored).cast(kind)
    body = file_bodies.body_of([pa.table({"x": column})], FileSink(TO, "json", "none"))
    assert [json.loads(line)["x"] for line in body.splitlines()] == [told, None]


def inflated(body: bytes, compression: str) -> bytes:
    if compression == "none":
        return body
    return gzip.decompress(body) if compression == "gzip" else bytes(zstandard.decompress(body, 10**9))


def lines(sinks: Sinks) -> list[dict[str, Any]]:
    """All rows, of JSON files that are not compressed."""
    return [json.loads(line) for body in sinks.bodies().values() for line in body.splitlines()]


def test_json_has_a_word_for_each_type(monkeypatch: pytest.MonkeyPatch) -> None:
    sql = (
        "SELECT id, amount, seen, CAST(seen AS DATE) AS day, [id, NULL] AS many, to_json(region) AS one, "
        "'NaN'::DOUBLE AS odd, region::BLOB AS bytes, now() AS came, MAP {region: [MAP {'x': id}]} AS named, "
        "MAP {id: region} AS numbered FROM clicks"
    )
    sinks = opened(monkeypatch, Sinks(sql))
    sinks.land({"id": 1, "region": "eu", "amount": "12.30", "seen": "2026-01-02T03:04:05.678+00:00"})
    (row,) = lines(sinks)
    own = {name: row.pop(name) for name in list(row) if name.startswith("_firn")}
    assert row == {
        "id": 1, "amount": 12.30, "seen": "2026-01-02T03:04:05.678000Z", "day": "2026-01-02", "many": [1, None],
        "one": '"eu"', "odd": None, "bytes": "ZXU=", "came": "2026-11-21T00:00:01.000000Z",
        "named": {"eu": [{"x": 1}]}, "numbered": [[1, "eu"]],
    }  # fmt: skip
    assert (own["_firn_op"], own["_firn_ts"]) == ("c", None)
    assert own["_firn_id"].endswith("/out/0")


def test_an_event_that_the_sql_can_not_take_is_a_dead_letter_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sinks = opened(monkeypatch, Sinks("SELECT id, CAST(region AS INTEGER) AS n FROM clicks"))
    sinks.land({"id": 1, "region": "7"}, {"id": 2, "region": "x"}, {"id": "text"}, {"id": 4, "region": "8"})
    assert [(row["id"], row["n"]) for row in lines(sinks)] == [(1, 7), (4, 8)]
    (manifest,) = sinks.manifests()
    assert (manifest.events, manifest.rows, manifest.dead) == (4, 2, 2)
    found = [
        letter
        for path in paths(sinks.store, dead_prefix(STREAM))
        if "files-out" in path
        for letter in read_dead(sinks.store, path)
    ]
    assert [(one.index, one.reason) for one in found] == [(1, "pipeline_failed"), (2, "type_mismatch")]
    assert found[0].message.startswith("pipeline out: ")
    assert [line["reason"] for line in sinks.lines if line.get("dlq_total")].count("pipeline_failed") == 1


def test_a_column_that_no_event_had_yet_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks = opened(
        monkeypatch, Sinks("SELECT id, later FROM clicks", "format: json, compression: none, path: '{later}/{no}'")
    )
    sinks.land({"id": 1})
    sinks.land({"id": 2, "later": "x"})
    assert [(row["id"], row["later"]) for row in lines(sinks)] == [(1, None), (2, "x")]
    assert [path.rpartition("/")[0] for path in sorted(sinks.bodies())] == ["__null__/__null__", "x/__null__"]
    assert [line["unseen"] for line in sinks.lines if line.get("sink")] == [["no"]]


def test_more_folders_than_a_plan_may_have_are_dead_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_rows, "MOST_FOLDERS", 3)
    sinks = opened(monkeypatch, Sinks(files="format: json, compression: none, path: 'id={id}'"))
    sinks.land(*({"id": n} for n in range(5)))
    assert sorted(row["id"] for row in lines(sinks)) == [0, 1, 2]
    assert sinks.manifests()[0].dead == 2


def test_what_does_not_fit_the_memory_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool.Spool.__init__, "__defaults__", (1,))
    monkeypatch.setattr(source_changes, "_DECODED_AT_ONCE", 5)
    sinks = opened(monkeypatch, Sinks(files=FORMS[0]))
    sinks.land(*clicks(1, 40))
    assert own_left_out(sinks.rows()) == selected(ALL, clicks(1, 40))


def test_a_redelivery_comes_again_with_an_equal_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONFIG.format(sql=ALL, files="format: json, compression: none, roll: {every: 60s, size: 1KB}")
    sinks = opened(monkeypatch, Sinks())
    sinks.publish(text.replace("envelope: rows", "envelope: debezium"))
    for _ in range(2):
        Stream.post(sinks, change(7))
        sinks.land()
    Stream.post(sinks, change(8))
    sinks.land()
    assert [row["id"] for row in lines(sinks)] == [7, 7, 8]
    first, again, other = (row["_firn_id"] for row in lines(sinks))
    assert first == again != other


def change(n: int) -> dict[str, Any]:
    found = event("c", n, {"id": n})
    found["source"] |= {"schema": "", "table": "clicks"}
    return found


def test_a_twin_whose_bytes_differ_leaves_what_is_there_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks = Sinks(files="format: parquet, roll: {every: 1s, size: 1MB}")
    n = sinks.seal(*clicks(1))

    class Gate(Counting):
        def call(self, where: Any, name: str, effect: Any) -> Any:
            return super().call(where, name.partition("-")[0], effect)

    gate = Gate("put shop.out.00000001", "dies after")
    opened(monkeypatch, sinks, gate)
    with pytest.raises(Died):
        sinks.commit(n, store=WatchedStore(sinks.store, gate))
    gate.heal()
    (path,) = paths(sinks.sink, "")
    rows = pq.read_table(io.BytesIO(get(sinks.sink, path) or b""))
    other = pa.BufferOutputStream()
    pq.write_table(rows, other, compression="gzip")  # as another version of Arrow might
    sinks.sink.put(path, other.getvalue().to_pybytes())
    sinks.wake(hours=1)
    assert list(sinks.bodies()) == [path]  # with the hash of what is there
    assert own_left_out(sinks.rows()) == selected(ALL, clicks(1))


def test_somebody_elses_file_in_its_place_is_not_taken_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_turn, "Turn", partial(Turn, random=bytes))
    sinks = opened(monkeypatch, Sinks(files="format: json, compression: none"))
    sinks.land({"id": 1})
    (path,) = sinks.bodies()
    again = opened(monkeypatch, Sinks(files="format: json, compression: none"))
    again.sink.put(path, b"{}\n{}\n")
    again.land({"id": 1})
    (line,) = [line for line in again.lines if line.get("sink")]
    assert line["status"] == "failed"
    assert "is there with 2 rows, and 1 are planned; move it away" in line["error"]


def test_files_may_not_lie_among_tables_or_in_the_log() -> None:
    for place, why in (("memory://staging/x", "staging area"), ("memory://warehouse", "warehouse")):
        sinks = Sinks()
        sinks.publish(sinks.config.text)
        settings = sinks.config.streams[STREAM]
        (pipeline,) = settings.pipelines
        assert pipeline.files is not None
        there = replace(pipeline, files=replace(pipeline.files, to=place))
        with pytest.raises(TerminalError, match=why):
            sinks.ground.lake.files(SinkRange(settings, there, {}, ""))


def test_the_audit_balances_with_files_and_their_dead_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks = opened(monkeypatch, Sinks("SELECT id, CAST(region AS INTEGER) AS n FROM clicks"))
    sinks.land({"id": 1, "region": "7"}, {"id": 2, "region": "x"}, {"id": "text"}, {"id": 4, "region": "8"})
    sinks.post({"id": 5})
    found = audited(sinks, sinks.ground)
    assert found.differences == []
    assert (found.acked, found.dead, found.pending) == (5, 1, 1)
    (account,), wrong = accounts(sinks.store, STREAM)
    assert (account.epoch, account.events, account.rows, account.dead, account.pending) == (1, 4, 2, 2, 0)
    assert wrong == []
    epoch = epochs.read(sinks.store, STREAM, 1)
    assert epoch is not None
    other = msgspec.structs.replace(epoch, tables={"clicks": 9})
    sinks.store.put(layout.epoch_path(STREAM, 1), epochs.encode(other))
    epochs._known.clear()
    assert [one.message for one in accounts(sinks.store, STREAM)[1]] == [
        "files of out: plan 1 counts 4 changes, and its epochs 1 to 1 hold 9"
    ]


def test_a_stream_may_write_files_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks = opened(monkeypatch, Sinks())
    text = sinks.config.text
    sinks.publish(text[: text.index("    tables:")] + text[text.index("    pipelines:") :])
    sinks.land({"id": 1, "region": "eu"})
    sinks.land({"id": 2})
    assert [row["id"] for row in lines(sinks)] == [1, 2]
    assert sinks.cut().tables == {}
    assert audited(sinks, sinks.ground).differences == []


def test_rows_come_through_before_any_has_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks = opened(monkeypatch, Sinks("SELECT 1 AS one FROM clicks"))
    declared = "columns: {id: long, region: string, amount: 'decimal(12,2)', seen: timestamptz}"
    text = CONFIG.replace("{{", "{").replace("}}", "}").replace(declared, "update: replace")
    files = "format: json, compression: none, roll: {every: 60s, size: 1KB}"
    sinks.publish(text.replace("{sql}", "SELECT 1 AS one FROM clicks").replace("{files}", files))
    sinks.land({}, {})
    sinks.wake(hours=1)
    found = [json.loads(line) for body in sinks.bodies().values() for line in body.splitlines()]
    assert [row["one"] for row in found] == [1, 1]
