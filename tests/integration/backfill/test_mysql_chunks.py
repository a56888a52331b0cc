"""Chunks out of a real MariaDB: every row once, the values that its stream sends, at the place of the snapshot."""

import json
import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from examples.sources.mariadb import MariaDb
from firn.backfill import mysql_chunk, mysql_log
from firn.backfill.mysql_log import place_of
from firn.backfill.postgres_chunk import ForeignServer
from firn.backfill.postgres_plan import Into
from firn.backfill.progress import Watch
from firn.backfill.read_position import ForeignStream
from firn.changes.decode.codec import RowCodec
from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.source_encodings import DecodeSettings
from firn.changes.decode.types import parse
from firn.changes.merge.fold import fold
from firn.errors import ConfigError, TerminalError
from firn_spark.backfill import mysql_reader
from firn_spark.backfill.chunk_reader import Work
from firn_spark.backfill.chunk_task import ChunkTask
from tests.faults.calls import Counting, Died, Fault, WatchedStore
from tests.integration.backfill.binlog_writers import Writer, change, streamed
from tests.integration.backfill.in_process import Backfill
from tests.mariadb import mariadb
from tests.mariadb_corpus import KEYS, KNOWN, META, differences, texts_of
from tests.soak import few_cases, long_only, seeds


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDb]:
    with mariadb("shop") as started:
        yield started


@pytest.fixture
def address(server: MariaDb) -> Iterator[str]:
    yield f"mysql://cdc:{quote(server.password)}@127.0.0.1:{server.port}/shop"
    server.run("DROP DATABASE shop", "CREATE DATABASE shop")


def decoded(one: Backfill, table: str) -> list[dict[str, Any]]:
    """The rows as a table of Firn would hold them."""
    plan = one.planned()
    (planned,) = [found for found in plan.tables if found.name == table]
    columns = columns_of(planned.schema.encode())
    codec = RowCodec(columns, columns, DecodeSettings())
    images = [row["after"] for row in one.rows() if row["table"] == table]
    names = [column.name for column in columns]
    return [dict(zip(names, codec.decode(image.encode()).values, strict=True)) for image in images]


TYPES = (
    "t_int", "t_num", "t_time", "t_text", "t_bin", "t_geo", "pk_dec", "pk_bin", "pk_ci", "defaults", "orders",
    "order_items", "docs", "Mixed Case-Table",
)  # fmt: skip
_SPECIAL = {"js": "json", "l1": "varchar(50) CHARACTER SET latin1", "u16": "varchar(50) CHARACTER SET utf16"}
# What the connector sends otherwise than the source has it, and a backfill as the connector (docs/sources/mysql.md).
# Nulls come with defaults in the recording alone, and so do other uuids.
AS_THE_STREAM = {table: KNOWN[table] for table in ("t_int", "t_time", "t_num")}


def made(server: MariaDb, table: str) -> None:
    """A table of the recording, with its final rows."""
    columns = [(one["name"], one["type"]) for one in META[table]["columns"] if one["type"] != "uuid"]
    own = ", ".join(f"`{name}` {_SPECIAL.get(name, kind)} NULL" for name, kind in columns)
    keys = ", ".join(f"`{name}`" for name in KEYS[table])
    connection = server.connect()
    with connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        cursor.execute(f"CREATE TABLE `{table}` ({own}) CHARACTER SET utf8mb4")
        for name in KEYS[table]:
            kind = dict(columns)[name]
            cursor.execute(f"ALTER TABLE `{table}` MODIFY `{name}` {_SPECIAL.get(name, kind)} NOT NULL")
        cursor.execute(f"ALTER TABLE `{table}` ADD PRIMARY KEY ({keys})")
        for row in texts_of(table):
            values = ", ".join(written(kind, row[name]) for name, kind in columns)
            cursor.execute(f"INSERT INTO `{table}` VALUES ({values})")
    connection.close()


def written(kind: str, text: str | None) -> str:
    """A value's text in the recording as SQL."""
    if text is None:
        return "NULL"
    if text.startswith("SRID="):
        number, _, shape = text.removeprefix("SRID=").partition(";")
        return f"ST_GeomFromWKB(X'{shape}', {number})"
    if kind.partition("(")[0] in ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"):
        return f"X'{text.removeprefix(chr(92) + 'x')}'"
    if kind.startswith("bit"):
        return text
    return f"CONVERT(X'{text.encode().hex()}' USING utf8mb4)"


@few_cases(4)
@pytest.mark.parametrize("table", TYPES)
def test_a_value_is_the_same_by_the_stream_and_by_a_backfill(
    server: MariaDb, address: str, tmp_path: Path, table: str
) -> None:
    made(server, table)
    one = Backfill(tmp_path, address, verify=True)
    one.run()
    gone = [column["name"] for column in META[table]["columns"] if column["type"] == "uuid"]
    assert differences(table, decoded(one, f"shop.{table}"), gone) == AS_THE_STREAM.get(table, [])


@pytest.mark.parametrize(
    ("kind", "existing", "text", "found"),
    [
        ("bigint unsigned", "long", "18446744073709551615", -1),
        ("decimal(12,2)", "double", "1.10", 1.1),
        ("decimal(12,2)", "decimal(14,2)", "1.10", "Decimal('1.10')"),
        ("datetime(6)", "long", "1970-01-01 00:00:01.5", 1_500_000),
        ("datetime(6)", "long", "1969-12-31 23:59:59.999999", -1),
        ("datetime(3)", "long", "1970-01-01 00:00:01.5", 1_500),
        ("datetime(3)", "long", "1969-12-31 23:59:59.5", -500),
        ("time(6)", "long", "-00:00:01.5", -1_500_000),
        ("time(6)", "long", "838:59:59", 3_020_399_000_000),
        ("date", "int", "1970-01-03", 2),
        ("float", "double", "0.1", 0.1),
        ("float", "double", "16777216", 16777216.0),
        ("float", "double", "1.17549435e-38", 1.1754944e-38),
        ("tinyint(1)", "boolean", "1", True),
        ("tinyint(1)", "long", "1", 1),
        ("timestamp(3)", "string", "2024-02-29 12:00:00.5", "2024-02-29T12:00:00.500000Z"),
    ],
)
def test_the_columns_that_a_table_has_decide(
    server: MariaDb, address: str, tmp_path: Path, kind: str, existing: str, text: str, found: Any
) -> None:
    server.run(f"CREATE TABLE t (id int PRIMARY KEY, v {kind} NULL)", f"INSERT INTO t VALUES (1, '{text}'), (2, NULL)")
    one = Backfill(tmp_path, address)
    one.into = Into({"id": parse("int"), "v": parse(existing)}, keyed=True)
    plan = one.run()
    columns = columns_of(plan.tables[0].schema.encode())
    target = [column if column.name == "id" else type(column)("v", parse(existing)) for column in columns]
    codec = RowCodec(target, columns, DecodeSettings())
    values = [codec.decode(image.encode()).values[1] for image in one.images()]
    assert values[1] is None
    assert values[0] == found or repr(values[0]) == found


def test_what_the_connector_does_not_send_is_refused(server: MariaDb, address: str, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id int PRIMARY KEY, u uuid)")
    with pytest.raises(TerminalError, match="column u is uuid, of which the connector sends other values"):
        Backfill(tmp_path, address).planned()
    server.run("DROP TABLE t", "CREATE TABLE t (id int PRIMARY KEY, v boolean)")
    one = Backfill(tmp_path, address)
    one.into = Into({"v": parse("date")}, keyed=True)
    with pytest.raises(TerminalError, match=r"column v is tinyint\(1\) in the source and date in the table"):
        one.planned()


@few_cases(3)
@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("a varchar(20), b int, PRIMARY KEY (a, b)", "left(md5(seq), 20), seq"),
        ("a varbinary(20), PRIMARY KEY (a)", "unhex(md5(seq))"),
        ("a float, b datetime(6), PRIMARY KEY (a, b)", "seq % 7 + 0.1, '2024-01-01' + INTERVAL seq MICROSECOND"),
        ("a bigint unsigned, PRIMARY KEY (a)", "18446744073709551615 - seq * 1000"),
        ("a varchar(20) COLLATE utf8mb4_unicode_ci, b int NOT NULL, c int, UNIQUE (c), UNIQUE (b)", "'x', seq, NULL"),
        ("a decimal(20,4), PRIMARY KEY (a)", "seq / 16"),
        ("a int, v int", "seq, 1"),
        ("a enum('z','a','m'), b int, PRIMARY KEY (a, b)", "elt(seq % 3 + 1, 'z', 'a', 'm'), seq"),
        ("a set('z','a','m'), b int, PRIMARY KEY (a, b)", "elt(seq % 3 + 1, 'z', 'a,m', ''), seq"),
        ("a varchar(20) CHARACTER SET latin1, PRIMARY KEY (a)", "concat(elt(seq % 3 + 1, 'é', 'Ö', 'z'), seq)"),
        ("a year, b bit(20), PRIMARY KEY (a, b)", "1990 + seq % 9, seq"),
        ("`a``%s {}\"'é` int, `%` text, PRIMARY KEY (`a``%s {}\"'é`)", "seq, '%d {} %%'"),
    ],
)
def test_every_row_is_staged_once_whatever_its_key_is(
    server: MariaDb, address: str, tmp_path: Path, columns: str, values: str
) -> None:
    server.run(f"CREATE TABLE `T t` ({columns})", f"INSERT INTO `T t` SELECT {values} FROM seq_1_to_1000")
    one = Backfill(tmp_path, address, chunk_rows=100, verify=True)
    plan = one.run()
    assert len(plan.chunks) == (1 if "UNIQUE" not in columns and "PRIMARY" not in columns else 10)
    assert len(one.images()) == 1000
    assert len(set(one.images())) == 1000
    seen = Watch(one.store, "shop", plan).look()
    assert (seen.rows, seen.checked) == ({"shop.T t": 1000}, len(plan.chunks))
    assert {(row["op"], row["connector"], row["table"]) for row in one.rows()} == {("r", "mysql", "shop.T t")}
    assert one.task(plan).run(range(len(plan.chunks))) == 0  # all of them are there


@pytest.mark.parametrize("seed", seeds(1, 30))
def test_wherever_a_task_dies_every_row_is_staged_once(
    server: MariaDb, address: str, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    server.run("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT seq FROM seq_1_to_500")
    one = Backfill(tmp_path, address, chunk_rows=100, where="id % 10 <> 3 AND '%' LIKE '%%'")
    plan = one.planned()
    work = Work(one.request, plan, one.config.streams["shop"], one.config.sha, 0)
    for _ in range(8):
        how: Fault = chance.choice(("dies before", "dies after"))
        store = WatchedStore(one.store, Counting(chance.randint(1, 25), how))  # type: ignore[arg-type]
        with suppress(Died):
            ChunkTask(store, work).run(chance.sample(range(len(plan.chunks)), 3))
    one.run_planned()
    assert sorted(json.loads(image)["id"] for image in one.images()) == [n for n in range(1, 501) if n % 10 != 3]


def test_rows_are_chosen_and_name_their_keys(server: MariaDb, address: str, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (v text, a int, b binary(2), PRIMARY KEY (b, a))")
    server.run("INSERT INTO t VALUES ('x', 1, X'00ff'), ('y', 2, X'01ff')", "CREATE TABLE u (id int PRIMARY KEY)")
    one = Backfill(tmp_path, address, tables=("shop.t",), where="v = 'x' OR false")
    one.into = Into({}, keyed=False)
    one.run()
    (row,) = one.rows()
    assert json.loads(row["key"]) == {"b": "AP8=", "a": 1}


def test_what_the_user_may_not_read_is_not_left_out_silently(server: MariaDb, address: str, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int PRIMARY KEY)")
    server.run_as_root(
        "CREATE OR REPLACE USER reader@'127.0.0.1' IDENTIFIED BY 'geheim'",
        "GRANT SELECT ON shop.t TO reader@'127.0.0.1'",
    )
    of_reader = address.replace(address.split("//")[1].split("@")[0], "reader:geheim")
    with pytest.raises(ConfigError, match=r"may not read all of shop, .*GRANT SELECT ON `shop`\.\* TO it, or name"):
        Backfill(tmp_path / "1", of_reader).planned()
    with pytest.raises(ConfigError, match=r"sees no table shop\.other; it sees shop\.t\. If it is there: GRANT"):
        Backfill(tmp_path / "2", of_reader, tables=("shop.other",)).planned()
    assert len(Backfill(tmp_path / "3", of_reader, tables=("shop.t",)).run().tables) == 1
    server.run_as_root("GRANT SELECT ON `sho_`.* TO reader@'127.0.0.1'")
    assert len(Backfill(tmp_path / "4", of_reader).run().tables) == 2
    with pytest.raises(ConfigError, match=r"--by ctid is PostgreSQL's"):
        Backfill(tmp_path / "5", of_reader, by="ctid").planned()


def test_no_error_repeats_a_rows_value(server: MariaDb, address: str, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'geheim(')")
    for where in ("'x' REGEXP v", "JSON_VALUE(v, '$.a') = 1 AND ExtractValue(v, '/a') = 1", "nope = 1"):
        with pytest.raises(TerminalError) as said:
            raise_if_none(Backfill(tmp_path / str(len(where)), address, where=where).run())
        assert "geheim" not in str(said.value)


def raise_if_none(plan: Any) -> None:
    raise TerminalError(f"{len(plan.chunks)} chunks were read: no error came")


@long_only
def test_a_row_above_the_servers_packet_is_an_error_and_no_null(server: MariaDb, address: str, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id int PRIMARY KEY, v longblob)", "INSERT INTO t VALUES (1, 'x')")
    server.run("UPDATE t SET v = REPEAT('x', 13000000)")  # 13 MB, and 17 in base64, of 16
    with pytest.raises(TerminalError, match="max_allowed_packet"):
        Backfill(tmp_path / "1", address).run()
    server.run("UPDATE t SET v = REPEAT('x', 3000000)")
    Backfill(tmp_path / "2", address).run()


def test_another_server_and_a_log_that_began_again_are_refused(server: MariaDb, address: str, tmp_path: Path) -> None:
    server.run("CREATE TABLE t (id int PRIMARY KEY)", "FLUSH BINARY LOGS")
    one = Backfill(tmp_path / "1", address)
    plan = one.planned()
    with pytest.raises(ForeignStream, match="raise the stream's `generation`"):
        one.task(plan, floor=place_of("binlog.999999:4").number).run([0])
    server.run_as_root("RESET MASTER")
    with pytest.raises(ForeignStream, match="it began again"):
        one.task(plan).run([0])
    two = Backfill(tmp_path / "2", address)
    plan = two.planned()
    server.run_as_root("SET GLOBAL server_id = 8")
    try:
        with pytest.raises(ForeignServer, match="server_uuid are 8"):
            two.task(plan).run([0])
    finally:
        server.run_as_root("SET GLOBAL server_id = 7")
    assert two.rows() == one.rows() == []


@pytest.mark.parametrize("statement", ["TRUNCATE t", "ALTER TABLE t FORCE", "ALTER TABLE t MODIFY v bigint"])
def test_a_table_that_is_rewritten_under_a_chunk_is_read_again(
    server: MariaDb, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    server.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT seq, 1 FROM seq_1_to_50")
    opened, left = mysql_chunk.open_mysql_chunk, [statement]

    def then_altered(*given: Any) -> Any:
        found = opened(*given)
        while left:
            server.run(left.pop())
        return found

    monkeypatch.setattr(mysql_reader, "open_mysql_chunk", then_altered)
    one = Backfill(tmp_path, address)
    one.run()
    assert left == []
    assert len(one.rows()) == (0 if statement.startswith("TRUNCATE") else 50)


def test_a_chunk_waits_for_what_is_prepared(server: MariaDb, address: str, tmp_path: Path) -> None:
    """Its rows are in the stream already, and in no snapshot: the old row would win for ever."""
    server.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t VALUES (1, 1)")
    one = Backfill(tmp_path, address)
    plan = one.planned()
    writer = server.connect()
    with writer.cursor() as cursor:
        for statement in ("XA START 'x'", "UPDATE t SET v = 2", "XA END 'x'", "XA PREPARE 'x'"):
            cursor.execute(statement)
        thread = threading.Thread(target=one.task(plan).run, args=([0],))
        thread.start()
        thread.join(1.5)
        assert thread.is_alive()
        assert one.rows() == []
        cursor.execute("XA COMMIT 'x'")
    thread.join(20)
    assert one.images() == ['{"id": 1, "v": 2}']


@pytest.mark.parametrize("seed", seeds(1, 20))
def test_reads_and_the_stream_give_the_source_in_any_order(
    server: MariaDb, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(mysql_log, "_PREPARING", 0.1)
    chance, keys = random.Random(seed), 1_500
    server.run("CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT seq, seq FROM seq_0_to_1399")
    server.run_as_root("RESET MASTER")
    writers = [Writer(server, seed * 10 + n, keys, xa=n == 0) for n in range(3)]
    for writer in writers:
        writer.start()
    one = Backfill(tmp_path, address, chunk_rows=100)
    plan = one.planned()
    chunks = list(range(len(plan.chunks)))
    assert len(chunks) > 5
    chance.shuffle(chunks)
    for n in chunks:
        server.run("FLUSH BINARY LOGS")
        one.task(plan).run([n])
    for writer in writers:
        writer.ended.set()
    for writer in writers:
        writer.join(30)
    changes = streamed(server, writers)
    assert len(changes) > 100
    images = [(json.loads(row["after"]), row["order"]) for row in one.rows()]
    reads = [change("r", row["id"], row["v"], order) for row, order in images]
    source = dict(server.rows("SELECT id, v FROM t"))
    for _ in range(5):
        mixed = [*changes, *reads, *chance.sample(changes, len(changes) // 3)]
        chance.shuffle(mixed)
        assert {key[0]: row.values["v"] for key, row in fold({}, mixed).rows.items()} == source
