"""Chunks out of a real PostgreSQL: every row once, the same values as the stream's, whoever writes meanwhile."""

import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from firn.backfill import backfill_request as requests
from firn.backfill import postgres_chunk
from firn.backfill.backfill_request import Request
from firn.backfill.postgres_cells import form_of
from firn.backfill.postgres_chunk import Moved, OtherSettings, RowWriter, open_chunk
from firn.backfill.postgres_connection import Session
from firn.backfill.postgres_plan import Into, make_plan
from firn.backfill.postgres_tables import entries, table_of, types_of
from firn.backfill.progress import Watch
from firn.backfill.read_position import ForeignStream, lsn_of
from firn.changes.decode.codec import RowCodec
from firn.changes.decode.connect_schema import columns_of
from firn.changes.decode.source_encodings import DecodeSettings
from firn.changes.decode.types import Type, parse
from firn.errors import EventError, TerminalError
from firn.log import published_configs
from firn.log.batches import FORMAT
from firn.sources.postgres.row_form import RowForm, SourceColumn
from firn.sources.postgres.type_catalog import TypeCatalog
from firn_spark.backfill.chunk_task import Cancelled
from tests.integration.backfill.in_process import CONFIG, Backfill, connected
from tests.soak import times

# A column of each type, and values of it as PostgreSQL writes them.
TYPES = {
    "boolean": ["true", "false"], "smallint": ["-32768"], "integer": ["2147483647"], "oid": ["4294967295"],
    "bigint": ["-9223372036854775808"], "real": ["0.1", "NaN", "-0", "1e38"],
    "double precision": ["0.1", "-Infinity", "-0", "1e300"], "numeric(12,2)": ["1.10", "-0.01", "NaN"],
    "numeric": ["1.100", "NaN", "12345678901234567890123456789012345678901"], "numeric(5,-2)": ["12300"],
    "money": ["-1234.56"], "text": ["", "\u00e9 \" \\ \n \t \x7f", "\\x", "\u20ac"], "varchar(3)": ["abc"],
    "char(5)": ["ab"], '"char"': ["x"], "name": ["n"], "bytea": ["\\x00ff", "\\x" + "61" * 100],
    "date": ["2024-02-29", "infinity"], "time": ["23:59:59.999999", "24:00:00"], "timetz": ["10:00:00.5+02"],
    "timestamp": ["2024-02-29 23:59:59.1", "infinity"], "timestamp(3)": ["2024-02-29 23:59:59.123"],
    "timestamptz": ["2024-02-29 23:59:59.123456+02", "-infinity", "0044-03-15 BC"],
    "interval": ["1 year 2 mons -3 days 04:05:06.789"], "uuid": ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"],
    "json": ['{"a":  1,\n "b":"x"}'], "jsonb": ['{"b": [1, null]}'], "xml": ["<a/>"], "bit": ["1"],
    "bit(10)": ["1010000001"], "varbit(9)": ["101"], "inet": ["10.0.0.1", "10.0.0.1/8"], "cidr": ["10.0.0.0/8"],
    "macaddr": ["08:00:2b:01:02:03"], "point": ["(1.5,-2)"], "int4range": ["[1,5)"], "tsvector": ["'a':1 'b'"],
    "mood": ["sad"], "positive": ["5"], "pair": ["(1,a)"], "integer[]": ["{1,NULL,3}", "{}"],
    "text[]": ['{"a b",NULL,"\\"q\\"","NULL"}'], "numeric(5,2)[]": ["{1.50,NULL}"], "inet[]": ["{10.0.0.1}"],
    "timestamp[]": ['{"2024-02-29 23:59:59"}'], "uuid[]": ["{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}"],
    "mood[]": ["{sad,NULL}"], "boolean[]": ["{t,f}"], "double precision[]": ["{0.1,NaN,-0}"],
    "bytea[]": ['{"\\\\x00ff"}'], "date[]": ["{2024-02-29}"], "char(3)[]": ["{a}"],
}  # fmt: skip


def literal(text: str) -> str:
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def decoded(codec: RowCodec, image: bytes) -> str:
    """The values, or why there are none; NaN equals itself."""
    try:
        return repr(codec.decode(image).values)
    except EventError as error:
        return str(error)


@pytest.mark.parametrize(
    "settings",
    [
        DecodeSettings(),
        DecodeSettings(decimal="string", binary="hex", interval="string"),
        DecodeSettings(decimal="double", binary="base64-url-safe"),
    ],
    ids=["precise", "string", "double"],
)
def test_a_value_is_the_same_by_the_stream_and_by_a_backfill(server: Session, settings: DecodeSettings) -> None:
    server.rows("CREATE TYPE mood AS ENUM ('sad', 'happy')")
    server.rows("CREATE TYPE pair AS (a int, b text)")
    server.rows("CREATE DOMAIN positive AS integer CHECK (VALUE > 0)")
    columns = ", ".join(f'"c {n}" {kind}' for n, kind in enumerate(TYPES))
    server.rows(f"CREATE TABLE t (id serial PRIMARY KEY, {columns}, g int GENERATED ALWAYS AS (id * 2) STORED)")
    for n, (kind, texts) in enumerate(TYPES.items()):
        for text in texts:
            server.rows(f'INSERT INTO t ("c {n}") VALUES ({literal(text)}::text::{kind})')
    table = table_of(server, entries(server)["public.t"])
    mine = [column for column in table.columns if not column.generated]
    types = types_of(server, mine)
    form = RowForm([SourceColumn(one.name, one.oid, one.modifier) for one in mine], types, settings)
    # What pgoutput sends: the output functions' texts.
    texts = ", ".join(f'CASE WHEN "{one.name}" IS NOT NULL THEN concat("{one.name}") END' for one in mine)
    streamed = {}
    for row in server.rows(f"SELECT {texts} FROM t"):
        streamed[row[0]] = form.image([None if text is None else text.encode() for text in row])
    request = Request(FORMAT, "b1", "shop", "", "", ("public.t",))
    plan = make_plan(server, request, settings, lambda _: Into({}, keyed=True), "")
    writer = RowWriter(plan.tables[0], types, settings)
    opened, lines = open_chunk(server, plan, plan.chunks[0], 0), []
    server.copy(opened.sql, lines.append)
    server.rows("COMMIT")
    ours, theirs = columns_of(plan.tables[0].schema.encode()), columns_of(form.schema)
    assert [(one.name, one.type) for one in ours] == [(one.name, one.type) for one in theirs]
    codecs = RowCodec(ours, ours, settings), RowCodec(theirs, theirs, settings)
    images = [writer.image(line[:-1])[0] for line in lines]
    read = {str(msgspec.json.decode(image)["id"]): decoded(codecs[0], image) for image in images}
    for key, image in streamed.items():
        assert read[key] == decoded(codecs[1], image), image
    assert len(read) == len(streamed) == sum(map(len, TYPES.values()))


def test_every_row_is_staged_once_by_whichever_way_the_table_is_cut(
    server: Session, address: str, tmp_path: Path
) -> None:
    server.rows('CREATE TABLE t (a text, "B" int, v text, PRIMARY KEY (a, "B"))')
    server.rows("INSERT INTO t SELECT md5(n::text), n, repeat('x', n % 50) FROM generate_series(1, 3000) n")
    server.rows("ANALYZE t")
    expected = sorted(row[0] for row in server.rows("SELECT row_to_json(t)::text FROM t"))
    for by in ("ctid", "key"):
        one = Backfill(tmp_path / by, address, by=by, chunk_rows=250, verify=True)
        plan = one.run()
        assert len(plan.chunks) > 5
        assert one.images() == expected
        seen = Watch(one.store, "shop", plan).look()
        assert (seen.rows, seen.checked) == ({"public.t": 3000}, len(plan.chunks))
        assert {(row["op"], row["connector"], row["table"]) for row in one.rows()} == {("r", "postgresql", "public.t")}
        assert one.task(plan).run(range(len(plan.chunks))) == 0  # all of them are there


def test_a_row_names_its_key_where_nobody_else_does(server: Session, address: str, tmp_path: Path) -> None:
    server.rows("CREATE TABLE t (v text, a int, b uuid, PRIMARY KEY (b, a))")
    server.rows("INSERT INTO t VALUES ('x', 1, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11')")
    one = Backfill(tmp_path, address)
    one.into = Into({}, keyed=False)
    one.run()
    (row,) = one.rows()
    assert row["key"].replace(" ", "") == '{"b":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11","a":1}'


@pytest.mark.parametrize(
    ("kind", "existing", "text", "found"),
    [
        ("numeric(12,2)", "double", "1.10", 1.1),
        ("numeric(12,2)", "decimal(14,2)", "1.10", "Decimal('1.10')"),
        ("numeric", "decimal(20,4)", "1.1", "Decimal('1.1000')"),
        ("timestamp", "long", "1970-01-01 00:00:01.5", 1_500_000),
        ("timestamp(3)", "long", "1970-01-01 00:00:01.5", 1_500),
        ("date", "int", "1970-01-03", 2),
        ("real", "double", "0.1", 0.1),
        ("integer", "long", "7", 7),
        ("uuid", "string", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ],
)
def test_the_columns_that_a_table_has_decide(
    server: Session, address: str, tmp_path: Path, kind: str, existing: str, text: str, found: Any
) -> None:
    server.rows(f"CREATE TABLE t (id int PRIMARY KEY, v {kind})")
    server.rows(f"INSERT INTO t VALUES (1, '{text}')")
    one = Backfill(tmp_path, address)
    one.into = Into({"id": parse("int"), "v": parse(existing)}, keyed=True)
    plan = one.run()
    columns = columns_of(plan.tables[0].schema.encode())
    target = [column if column.name == "id" else type(column)("v", parse(existing)) for column in columns]
    value = RowCodec(target, columns, DecodeSettings()).decode(one.images()[0].encode()).values[1]
    assert value == found or repr(value) == found


@pytest.mark.parametrize(
    ("oid", "value", "found"),
    [
        (1114, "timestamp '2024-01-01 00:00:00.9996'", 1_704_067_200_999),
        (1114, "timestamp '1969-12-31 23:59:59.9996'", -1),
        (1114, "timestamp '2024-01-01 00:00:00.001'", 1_704_067_200_001),
        (1083, "time '23:59:59.9996'", 86_399_999),
    ],
)
def test_milliseconds_are_cut_off_as_connectors_do(server: Session, oid: int, value: str, found: int) -> None:
    form = form_of("v", oid, -1, TypeCatalog(), DecodeSettings(time="connect"), parse("long"))
    sql = form.sql.replace("{}", "x")
    assert server.value(f"SELECT {sql} FROM (SELECT {value} AS x) AS one") == found


def test_a_column_that_fits_no_table_is_refused_before_anything_is_read(
    server: Session, address: str, tmp_path: Path
) -> None:
    server.rows("CREATE TABLE t (id int PRIMARY KEY, v boolean)")
    one = Backfill(tmp_path, address)
    one.into = Into({"v": Type("date")}, keyed=True)
    with pytest.raises(TerminalError, match=r"column v is bool in the source and date in the table"):
        one.planned()


def test_a_chunk_waits_for_transactions_and_stands_where_the_log_ended_before(
    server: Session, address: str, tmp_path: Path
) -> None:
    server.rows("CREATE TABLE t (id int PRIMARY KEY, v int)")
    server.rows("INSERT INTO t VALUES (1, 1)")
    one = Backfill(tmp_path, address)
    plan = one.planned()
    with connected(address, "writer") as writer:
        writer.rows("BEGIN")
        writer.rows("UPDATE t SET v = 2")
        before = lsn_of(writer.value("SELECT pg_current_wal_insert_lsn()::text"))
        thread = threading.Thread(target=one.task(plan).run, args=([0],))
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()  # nothing is staged yet
        assert one.rows() == []
        writer.rows("COMMIT")
        after = lsn_of(writer.value("SELECT pg_current_wal_insert_lsn()::text"))
    thread.join(20)
    (row,) = one.rows()
    assert row["after"] == '{"id":1,"v":2}'
    _, lsn = row["order"].strip("[]").replace('"', "").split(",")
    assert before <= int(lsn) < after


def test_a_chunk_takes_an_earlier_position_where_a_transaction_stays_open(
    server: Session, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.rows("CREATE TABLE t (id int PRIMARY KEY, v int)")
    server.rows("INSERT INTO t SELECT n, 1 FROM generate_series(1, 900) n")
    one = Backfill(tmp_path, address, by="key", chunk_rows=100)
    plan = one.planned()
    monkeypatch.setattr(postgres_chunk, "LONG", 0.2)
    first = open_chunk(server, plan, plan.chunks[0], 0)
    server.rows("COMMIT")
    with connected(address, "writer") as writer:
        writer.rows("BEGIN")
        writer.rows("UPDATE t SET v = 2 WHERE id = 900")
        second = open_chunk(server, plan, plan.chunks[1], 0, first.settled)
        assert second.order == first.order
        assert second.waited >= 0.2
        server.rows("COMMIT")
        writer.rows("ROLLBACK")


def test_a_table_that_was_rewritten_is_not_read_by_places(server: Session, address: str, tmp_path: Path) -> None:
    server.rows("CREATE TABLE t (id int PRIMARY KEY)")
    one = Backfill(tmp_path, address)
    plan = one.planned()
    server.rows("VACUUM FULL t")
    with pytest.raises(Moved, match="rewritten since the plan"):
        one.task(plan).run([0])
    assert one.rows() == []


def test_a_stream_of_another_server_is_refused(server: Session, address: str, tmp_path: Path) -> None:
    server.rows("CREATE TABLE t (id int PRIMARY KEY)")
    one = Backfill(tmp_path, address)
    plan = one.planned()
    with pytest.raises(ForeignStream, match="raise the stream's `generation`"):
        one.task(plan, floor=1 << 60).run([0])


def test_who_is_cancelled_stages_nothing_more(server: Session, address: str, tmp_path: Path) -> None:
    server.rows("CREATE TABLE t (id int PRIMARY KEY)")
    one = Backfill(tmp_path, address)
    plan = one.planned()
    requests.write(one.store, one.request)
    requests.end(one.store, "shop", "b1", requests.End(FORMAT, "cancelled", one.request.made_at))
    with pytest.raises(Cancelled):
        one.task(plan).run([0])


@pytest.mark.parametrize("by", ["key", "ctid"])
def test_a_table_that_is_being_rewritten_is_not_read_as_an_empty_one(
    server: Session, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: Any
) -> None:
    """A rewritten row belongs to the transaction that rewrote it: a snapshot from before its end shows none at all."""
    server.rows("CREATE TABLE t (id int PRIMARY KEY, v int)")
    server.rows("INSERT INTO t SELECT n, 1 FROM generate_series(1, 100) n")
    one = Backfill(tmp_path, address, by=by)
    plan = one.planned()
    monkeypatch.setattr(postgres_chunk, "LONG", 0.1)
    earlier = open_chunk(server, plan, plan.chunks[0], 0).settled
    server.rows("COMMIT")
    found: list[Any] = []

    def read() -> None:
        try:
            opened = open_chunk(server, plan, plan.chunks[0], 0, earlier)
            server.copy(opened.sql, found.append)
        except Moved as error:
            found.append(error)
        server.rows("ROLLBACK")

    with connected(address, "owner") as owner:
        owner.rows("BEGIN")
        owner.rows("ALTER TABLE t ALTER COLUMN v TYPE bigint")
        thread = threading.Thread(target=read)
        thread.start()
        thread.join(1.0)
        assert thread.is_alive()
        owner.rows("COMMIT")
    thread.join(20)
    if by == "key":
        assert len(found) == 100
    else:
        assert [type(one) for one in found] == [Moved]


def test_settings_of_values_that_change_while_a_backfill_is_open_stop_it(
    server: Session, address: str, tmp_path: Path
) -> None:
    server.rows("CREATE TABLE t (id int PRIMARY KEY, v interval, b bytea)")
    server.rows("INSERT INTO t VALUES (1, '1 day', '\\x00ff')")
    one = Backfill(tmp_path, address)
    plan = one.planned()
    text = CONFIG.replace("{shop: {", "{shop: {debezium: {interval.handling.mode: string, binary.handling.mode: hex}, ")
    one.config = published_configs.publish(one.store, text)
    with pytest.raises(OtherSettings, match=r"or the type of column v of public\.t: its values would not fit"):
        one.task(plan).run([0])
    assert one.rows() == []
    # What the server writes is as the plan has it, whatever firn.yaml says by now.
    server.rows("ALTER TABLE t DROP COLUMN v")
    two = Backfill(tmp_path / "2", address)
    plan = two.planned()
    two.config = published_configs.publish(two.store, text)
    two.task(plan).run([0])
    (image,) = two.images()
    columns = columns_of(plan.tables[0].schema.encode())
    settings = two.config.streams["shop"].settings
    assert RowCodec(columns, columns, settings).decode(image.encode()).values == [1, b"\x00\xff"]


@pytest.mark.parametrize("where", ["v::int > 1", "jsonb(v) IS NULL", "1 / length(v) > id / 0", "raised(v)"])
def test_no_error_repeats_a_rows_value(server: Session, address: str, tmp_path: Path, where: str) -> None:
    server.rows("CREATE TABLE t (id int PRIMARY KEY, v text)")
    server.rows("INSERT INTO t VALUES (1, 'geheim')")
    server.rows(
        "CREATE FUNCTION raised(text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no %', $1; END $$"
    )
    for verify in (False, True):
        with pytest.raises(TerminalError, match="not repeated here") as said:
            Backfill(tmp_path / str(verify), address, where=where, verify=verify).run()
        assert "geheim" not in str(said.value)


@pytest.mark.parametrize("by", ["key", "ctid"])
def test_a_value_out_of_line_is_read_though_its_row_moves_from_a_chunk_to_another(
    server: Session, address: str, tmp_path: Path, by: Any
) -> None:
    """The stream brings a moved row without it: nobody else would tell."""
    server.rows("CREATE TABLE t (id int PRIMARY KEY, v text)")
    server.rows("ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
    server.rows("INSERT INTO t SELECT n, repeat(md5(n::text), 100) FROM generate_series(1, 900) n")
    server.rows("ANALYZE t")
    one = Backfill(tmp_path, address, by=by, chunk_rows=100)
    plan = one.planned()
    *firsts, last = range(len(plan.chunks))
    assert [chunk.last for chunk in plan.chunks] == [False] * len(firsts) + [True]
    one.task(plan).run(firsts[1:])
    before = len(one.images())
    assert before < 900
    assert len({msgspec.json.decode(image)["id"] for image in one.images()}) == before, "no row is in two chunks"
    server.rows("UPDATE t SET id = 5000 WHERE id = 1")
    one.task(plan).run([firsts[0], last])
    read = {row["id"]: row["v"] for row in map(msgspec.json.decode, one.images())}
    assert read == {row[0]: row[1] for row in server.rows("SELECT id, v FROM t")}
    assert len(one.images()) == 900  # and no other row is read twice


def test_a_key_that_an_open_transaction_changes_is_read_again_above_it(
    server: Session, address: str, tmp_path: Path
) -> None:
    """The chunk waits for it, and stands below its commit: so does the value that it reads."""
    server.rows("CREATE TABLE t (id int PRIMARY KEY, v text)")
    server.rows("ALTER TABLE t ALTER v SET STORAGE EXTERNAL")
    server.rows("INSERT INTO t SELECT n, repeat(md5(n::text), 100) FROM generate_series(1, 3) n")
    one = Backfill(tmp_path, address, pulled=True)
    with connected(address, "writer") as writer:
        writer.rows("BEGIN")
        writer.rows("UPDATE t SET id = 5000 WHERE id = 1")
        plan = one.planned()
        assert [chunk.last for chunk in plan.chunks] == [False, True]
        thread = threading.Thread(target=one.task(plan).run, args=([0],))
        thread.start()
        thread.join(0.5)
        before = lsn_of(writer.value("SELECT pg_current_wal_insert_lsn()::text"))
        writer.rows("COMMIT")
        after = lsn_of(writer.value("SELECT pg_current_wal_insert_lsn()::text"))
    thread.join(20)
    one.task(plan).run([1])
    read = [
        (msgspec.json.decode(row["after"])["id"], *map(int, msgspec.json.decode(row["order"]))) for row in one.rows()
    ]
    firsts, (last,) = read[:3], read[3:]
    assert {key for key, *_ in firsts} == {2, 3, 5000}
    assert all(first == second <= before for _, first, second in firsts)
    assert last[0] == 5000
    assert last[1] == last[2] >= after


# Keys that are compared otherwise than their texts are: 60 of each, as an expression of n.
KEYS = {
    "numeric": "CASE n WHEN 1 THEN 'NaN' WHEN 2 THEN 'Infinity' WHEN 3 THEN '-Infinity' ELSE n - 30.50 END",
    "double precision": "CASE n WHEN 1 THEN 'NaN' WHEN 2 THEN '-Infinity' ELSE -0.1 * n END",
    "text COLLATE \"C\"": "chr(32 + n) || E'\\\\'':1 $1'", "text COLLATE loose": "chr(192 + n % 30) || n",
    "char(4)": "chr(40 + n)", '"char"': "chr(32 + n)", "bytea": "decode(md5(n::text), 'hex')",
    "uuid": "md5(n::text)::uuid", "mood": "(ARRAY['z', 'B', E'a\\\\'])[1 + n % 3]", "interval": "n || ' hours'",
    "timestamptz": "CASE n WHEN 1 THEN 'infinity' WHEN 2 THEN '0044-03-15 BC' ELSE to_timestamp(n * 1e5) END",
    "pair": "(n % 7, 'a')::pair", "regclass": "(ARRAY['pg_class', 'pg_type', 'pg_proc'])[1 + n % 3]",
    "oidvector": "n || ' 1'", "tsvector": "'a' || n || ':1'", "int[]": "ARRAY[n % 5, NULL, n]", "jsonb": "to_jsonb(-n)",
}  # fmt: skip


def test_every_row_is_in_one_chunk_whatever_the_type_of_its_key(server: Session, address: str, tmp_path: Path) -> None:
    server.rows("CREATE TYPE mood AS ENUM ('z', 'B', E'a\\\\')")
    server.rows("CREATE TYPE pair AS (a int, b text)")
    server.rows("CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)")
    for number, (kind, value) in enumerate(list(KEYS.items())[:: times(3, 1)]):
        server.rows(f'CREATE TABLE t ("K" {kind}, n int, v text, PRIMARY KEY ("K", n))')
        plain = kind.partition(" COLLATE")[0]
        rows = f"SELECT (({value})::text)::{plain}, n % 20, repeat('x', 200) FROM generate_series(1, 60) n"
        server.rows(f"INSERT INTO t {rows} ON CONFLICT DO NOTHING")
        count = server.value("SELECT count(*) FROM t")
        one = Backfill(tmp_path / str(number), address, by="key", chunk_rows=4)
        plan = one.run()
        images = one.images()
        assert (len(images), len(set(images))) == (count, count), kind
        assert len(plan.chunks) > 5, kind
        server.rows("DROP TABLE t")
