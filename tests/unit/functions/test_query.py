import base64
import io
import json
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import msgspec
import obstore.store
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.types import BinaryType

from firn.errors import StorageUnavailable
from firn.log import cuts, named_cuts, query_results, query_usage
from firn.log.epochs import Epoch
from firn.log.layout import epoch_path
from firn.log.published_configs import CurrentConfig, publish
from firn.log.store import Store, open_store, paths
from firn.log.usage_layout import month_of
from firn_lake import http_api, query_responses
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.lake import Lake
from firn_lake.query_process import QueryProcess
from firn_lake.question_parameters import Query
from firn_lake.reading.read_recorder import recorder
from firn_lake.sql.query import Limits
from tests.unit.functions.conftest import CONFIG

KEY = "a-key-of-twenty-characters"
ROWS = pa.table({"id": [1, 2, 3], "amount": [10.0, None, float("nan")], "note": ["a", "b", None]})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """In a folder: the worker process sees it too."""
    opened = open_store(f"file://{tmp_path}/staging")
    publish(opened, CONFIG)
    return opened


@cache
def worker() -> QueryProcess:
    """One for all tests: each says in its questions where its lake is."""
    return QueryProcess()


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    """shop.orders with two snapshots: three rows, then one of them deleted."""
    opened = open_catalog(f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse", {})
    opened.create_namespace("shop")
    table = opened.create_table("shop.orders", ROWS.schema, properties={"firn.key": '["id"]'})
    table.append(ROWS)
    table.delete("id = 2")
    yield opened
    opened.close()


@pytest.fixture
def app(load: Callable[..., ModuleType], catalog: Catalog, tmp_path: Path) -> ModuleType:
    """The function, open to all, over that lake."""
    return loaded(load, catalog, tmp_path, open_reads=True)


def loaded(load: Callable[..., ModuleType], catalog: Catalog, folder: Path, **settings: Any) -> ModuleType:
    places = {"staging": f"file://{folder}/staging", "warehouse": f"file://{folder}/warehouse"}
    app = load("query", catalog_uri=catalog.properties["uri"], **{**places, **settings})
    app.process.close()
    app.process = worker()  # type: ignore[attr-defined]
    return app


def ask(app: ModuleType, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, dict[str, str], bytes]:
    event = {
        "httpMethod": method,
        "path": path,
        "headers": more.get("headers"),
        "queryStringParameters": more.get("query"),
        "body": json.dumps(body) if body is not None else None,
        "requestContext": more.get("context", {}),
    }
    told = app.handler(event, None)
    text = told["headers"]["Content-Type"].startswith(("application/json", "text/csv"))
    assert told["isBase64Encoded"] != text
    return told["statusCode"], told["headers"], told["body"].encode() if text else base64.b64decode(told["body"])


def post(app: ModuleType, sql: str, **more: Any) -> tuple[int, Any]:
    status, headers, body = ask(app, "POST", "/v1/query", {"sql": sql, **more})
    assert headers["Content-Type"] == "application/json"
    return status, json.loads(body)


def get(app: ModuleType, path: str, **query: str) -> tuple[int, Any]:
    status, _, body = ask(app, "GET", path, query=query or None)
    return status, json.loads(body)


def test_a_query_gives_columns_and_rows(app: ModuleType) -> None:
    status, told = post(app, "SELECT id, note, amount FROM shop.orders WHERE id >= ? ORDER BY id", parameters=[1])
    assert status == 200
    assert told["columns"] == [
        {"name": "id", "type": "int64"},
        {"name": "note", "type": "string"},
        {"name": "amount", "type": "double"},
    ]
    assert told["rows"] == [{"id": 1, "note": "a", "amount": 10.0}, {"id": 3, "note": None, "amount": None}]
    assert post(app, "SELECT id FROM shop.orders WHERE id = $k", parameters={"k": 3})[1]["rows"] == [{"id": 3}]
    assert post(app, "SELECT id FROM shop.orders WHERE id > 9")[1]["rows"] == []
    assert len(post(app, "SELECT * FROM range(25_000)")[1]["rows"]) == 25_000


def test_an_answer_says_which_snapshots_were_read(app: ModuleType, catalog: Catalog) -> None:
    newest = catalog.load_table("shop.orders").current_snapshot().snapshot_id  # type: ignore[union-attr]
    assert post(app, "SELECT 1 AS one FROM orders, shop.orders b")[1]["snapshots"] == {"shop.orders": newest}
    assert post(app, "SELECT 1 AS one")[1]["snapshots"] == {}
    _, _, body = ask(app, "POST", "/v1/query", {"sql": "SELECT id FROM orders", "format": "parquet"})
    metadata = pyarrow.parquet.read_schema(io.BytesIO(body)).metadata
    assert json.loads(metadata[b"firn.snapshots"]) == {"shop.orders": newest}


def test_values_that_json_lacks_are_text_or_null(app: ModuleType) -> None:
    sql = """SELECT 1.50::DECIMAL(9,2) AS d, DATE '2026-01-31' AS day, TIMESTAMPTZ '2026-01-31 12:00:00+01' AS moment,
    'x'::BLOB AS b, 'inf'::DOUBLE AS i, uuid '00000000-0000-0000-0000-000000000001' AS u, [1, NULL] AS l"""
    (row,) = post(app, sql)[1]["rows"]
    assert row == {
        "d": "1.50", "day": "2026-01-31", "moment": "2026-01-31T11:00:00Z", "b": "eA==", "i": None,
        "u": "00000000-0000-0000-0000-000000000001", "l": [1, None],
    }  # fmt: skip


def test_the_other_formats_hold_the_same_rows(app: ModuleType) -> None:
    def answered(form: str) -> tuple[str, bytes]:
        sql = "SELECT id, note FROM shop.orders ORDER BY id"
        status, headers, body = ask(app, "POST", "/v1/query", {"sql": sql, "format": form})
        assert status == 200
        return headers["Content-Type"], body

    expected = [{"id": 1, "note": "a"}, {"id": 3, "note": None}]
    kind, body = answered("arrow")
    assert (kind, pa.ipc.open_stream(body).read_all().to_pylist()) == ("application/vnd.apache.arrow.stream", expected)
    kind, body = answered("parquet")
    assert pyarrow.parquet.read_table(io.BytesIO(body)).to_pylist() == expected
    kind, body = answered("csv")
    assert (kind, body) == ("text/csv; charset=utf-8", b'"id","note"\n1,"a"\n3,\n')


def test_an_earlier_moment_is_read(app: ModuleType, catalog: Catalog) -> None:
    snapshots = get(app, "/v1/tables/shop.orders/snapshots")[1]["snapshots"]
    assert [one["total"] for one in snapshots] == [3, 2]
    for as_of in (snapshots[0]["id"], str(snapshots[0]["id"]), snapshots[0]["time"]):
        assert post(app, "SELECT count(*) AS n FROM orders", as_of=as_of)[1]["rows"] == [{"n": 3}]


def test_a_fresh_query_has_what_was_posted_a_moment_ago(app: ModuleType, load: Callable[..., ModuleType]) -> None:
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "sequence": '["1","2"]'}
    body = json.dumps({"op": "c", "before": None, "after": {"id": 9}, "source": source})
    event = {"httpMethod": "POST", "path": "/v1/streams/shop", "headers": {}, "body": body, "requestContext": {}}
    assert load("ingest_http").handler(event, None)["statusCode"] == 202
    for fresh, expected in ((False, [1, 3]), (True, [1, 3, 9])):
        status, told = post(app, "SELECT id FROM orders ORDER BY id", fresh=fresh)
        assert (status, [row["id"] for row in told["rows"]]) == (200, expected)


def test_a_file_that_can_not_be_read_is_named(app: ModuleType, store: Store, tmp_path: Path) -> None:
    epoch = Epoch(99, "shop", 1, "n", "2026-11-21T00:00:00.000Z", "c", [], {})
    store.put(epoch_path("shop", 1), msgspec.json.encode(epoch), mode="create")
    status, told = post(app, "SELECT id FROM orders", fresh=True)
    assert (status, told["error"]) == (500, "unreadable_batch")
    assert "epoch 1 of shop has format 99" in told["message"]
    (gone, *others) = (tmp_path / "warehouse/shop/orders/data").glob("*.parquet")
    for file in (gone, *others):
        file.unlink()
    status, told = post(app, "SELECT id FROM orders")
    assert (status, told["error"]) == (500, "unreadable_file")
    assert any(file.name in told["message"] for file in (gone, *others))


def test_a_cut_is_read(app: ModuleType, store: Store, catalog: Catalog) -> None:
    first = catalog.load_table("shop.orders").history()[0].snapshot_id
    cut = cuts.make("shop", 1, "2026-01-31T12:00:00.000Z", {"shop.orders": first})
    cuts.write(store, cut)
    named_cuts.record(store, "month-end", cut, datetime.now(UTC))
    for asked in ({"cut": 1}, {"cut": "month-end", "stream": "shop"}):
        assert post(app, "SELECT count(*) AS n FROM orders", **asked)[1]["rows"] == [{"n": 3}]
    status, told = post(app, "SELECT 1 FROM orders", cut="year-end")
    assert (status, told["error"]) == (404, "no_such_cut")


def test_changes_are_told(app: ModuleType) -> None:
    first, second = (one["id"] for one in get(app, "/v1/tables/shop.orders/snapshots")[1]["snapshots"])
    status, told = get(app, "/v1/tables/shop.orders/changes", **{"from": str(first)}, columns="note")
    assert (status, told["from"], told["to"], told["key"]) == (200, first, second, ["id"])
    assert told["rows"] == [{"_change": "delete", "id": 2, "note": "b", "_before": {"id": 2, "note": "b"}}]
    stepped = get(app, "/v1/tables/shop.orders/changes", **{"from": str(first)}, steps="true")[1]["rows"]
    assert [row["_snapshot"] for row in stepped] == [second]
    assert len(get(app, "/v1/tables/shop.orders/changes", to=str(first))[1]["rows"]) == 3
    status, told = get(app, "/v1/tables/shop.orders/changes", limit="1")
    assert (status, told["error"]) == (413, "too_large")


def test_tables_and_columns_are_told(app: ModuleType) -> None:
    assert [one["name"] for one in get(app, "/v1/tables")[1]["tables"]] == ["shop.orders"]
    told = get(app, "/v1/tables/shop.orders/schema")[1]
    assert (told["key"], told["columns"][0]) == (["id"], {"name": "id", "type": "long"})
    assert get(app, "/v1/tables/orders/schema", as_of="2001-01-01")[0] == 404


@pytest.mark.parametrize(
    ("body", "status", "code", "message"),
    [
        ({"sql": "SELECT nope FROM shop.orders"}, 400, "bad_query", "shop.orders has id, amount, note"),
        ({"sql": "DROP TABLE shop.orders"}, 400, "bad_query", "only reads"),
        ({"sql": "SELECT * FROM read_csv('/etc/passwd')"}, 400, "bad_query", "reads tables of the lake"),
        ({"sql": "SELECT ?"}, 400, "bad_query", "give a list of 1"),
        ({"sql": "SELECT 1 AS a, 2 AS a"}, 400, "bad_query", "several columns are named 'a'"),
        ({"sql": "SELECT [1] AS a", "format": "csv"}, 422, "not_encodable", "'a' (list<l: int32>) has what csv"),
        ({"sql": "SELECT * FROM shop.order"}, 404, "no_such_table", "tables: shop.orders"),
        ({"sql": "SELECT * FROM shop.orders", "as_of": "2001-01-01"}, 404, "no_such_moment", "its first kept one"),
        ({"sql": "SELECT * FROM range(2000)"}, 413, "too_large", "more than 1,000 rows"),
        ({"sql": "SELECT count(*) FROM range(1000000) a, range(1000000) b"}, 413, "too_large", "its 1 seconds"),
        ({"sql": "SELECT 1", "format": "xml"}, 400, "bad_request", "Invalid enum value 'xml' - at `$.format`"),
        ({"sql": "SELECT 1", "asof": "x"}, 400, "bad_request", "unknown field `asof`"),
        ({"sql": "SELECT 1", "as_of": "x", "cut": 1}, 400, "bad_request", "not both"),
        ({"sql": "SELECT 1", "as_of": "x", "fresh": True}, 400, "bad_request", "fresh is now"),
        ({"sql": "SELECT 1", "stream": "x"}, 400, "bad_request", "goes with cut"),
        ({}, 400, "bad_request", "missing required field `sql`"),
        ("SELECT 1", 400, "bad_request", 'write {"sql": "SELECT …"}'),
    ],
)  # fmt: skip
def test_what_can_not_be_answered_says_why(
    load: Callable[..., ModuleType], catalog: Catalog, tmp_path: Path, body: Any, status: int, code: str, message: str
) -> None:
    app = loaded(load, catalog, tmp_path, open_reads=True, query_rows=1000, query_seconds=1)
    found, _, told = ask(app, "POST", "/v1/query", body)
    assert (found, json.loads(told)["error"]) == (status, code)
    assert message in json.loads(told)["message"]


@pytest.mark.parametrize(
    ("method", "path", "query", "status", "code"),
    [
        ("GET", "/v1/query", {}, 405, "method_not_allowed"),
        ("GET", "/v1/tables/orders", {}, 404, "no_such_path"),
        ("GET", "/v1/tables/nope/schema", {}, 404, "no_such_table"),
        ("GET", "/v1/tables/orders/changes", {"from": "x"}, 404, "no_such_moment"),
        ("GET", "/v1/tables/orders/changes", {"since": "x"}, 400, "bad_request"),
        ("GET", "/v1/tables/orders/changes", {"limit": "many"}, 400, "bad_request"),
        ("GET", "/v1/tables/orders/changes", {"columns": "nope"}, 400, "no_such_column"),
    ],
)
def test_paths_and_parameters_that_are_not_there_say_so(
    app: ModuleType, method: str, path: str, query: dict[str, str], status: int, code: str
) -> None:
    found, _, told = ask(app, method, path, query=query)
    assert (found, json.loads(told)["error"]) == (status, code)


def test_storage_that_is_away_is_503(app: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise StorageUnavailable("s3 says no")

    monkeypatch.setattr(app, "staging", away)
    status, headers, _ = ask(app, "POST", "/v1/query", {"sql": "SELECT 1"})
    assert (status, headers["Retry-After"]) == (503, "1")
    from_the_worker = http_api.as_refusal(StorageUnavailable("s3 says no"))
    assert (from_the_worker.status, from_the_worker.retry_after) == (503, 1)


def test_what_is_tiered_by_its_reads_has_a_record_of_them(catalog: Catalog, store: Store) -> None:
    publish(store, CONFIG.replace("key: [id]}", "key: [id], care: {tier: {predictive: true}}}"))
    for on_read, records in ((None, 0), (recorder(store, CurrentConfig(store)), 1)):
        answer = http_api.answer_query(Lake(catalog), Query("SELECT id FROM orders"), Limits(), on_read)
        assert b'"rows":[{"id":1},{"id":3}]' in b"".join(answer.parts)
        assert len(paths(store, "reads")) == records


def test_a_large_result_is_a_link(
    app: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, store: Store
) -> None:
    local = obstore.store.LocalStore(tmp_path / "a b", mkdir=True)
    opened = app.staging()._replace(store=local)
    monkeypatch.setattr(app, "staging", lambda: opened)
    monkeypatch.setattr(query_responses, "INLINE_BYTES", 1000)
    status, told = post(app, "SELECT i, 'text' AS t FROM range(500) r(i)", format="parquet")
    assert (status, told["rows"], told["format"]) == (200, 500, "parquet")
    address = urlsplit(told["url"])
    assert address.scheme == "file"
    assert address.path.startswith(f"{tmp_path}/a%20b/results/")
    (file,) = (tmp_path / "a b" / "results").iterdir()
    assert file.stat().st_size == told["bytes"]
    assert pyarrow.parquet.read_table(file).num_rows == 500
    assert 3500 < (datetime.fromisoformat(told["expires_at"]) - datetime.now(UTC)).total_seconds() <= 3600


def test_a_local_stack_takes_old_results_away(tmp_path: Path) -> None:
    local = obstore.store.LocalStore(tmp_path / "staging", mkdir=True)
    now = datetime.now(UTC)
    for later, left in ((0, 1), (23, 2), (47, 1)):
        result = query_results.Result(local, "csv", now + timedelta(hours=later))
        result.write(b"rows")
        assert result.keep().bytes == 4
        assert len(list((tmp_path / "staging" / "results").iterdir())) == left


def test_text_that_lambda_would_write_too_long_is_a_link(app: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_responses, "INLINE_BYTES", 100_000)
    monkeypatch.setattr(query_responses, "ESCAPED_BYTES", 140_000)
    # Each é is two bytes, and six in Lambda's JSON.
    assert "url" not in post(app, "SELECT repeat('e', 90000) AS t")[1]
    assert "url" in post(app, "SELECT repeat('é', 45000) AS t")[1]


# Who may read.
def readers(auth: str) -> str:
    return f"query: {{auth: {auth}}}\n{CONFIG}"


def test_nobody_reads_where_it_is_not_said_who(
    load: Callable[..., ModuleType], catalog: Catalog, tmp_path: Path
) -> None:
    app = loaded(load, catalog, tmp_path)
    for method, path in (("POST", "/v1/query"), ("GET", "/v1/tables"), ("GET", "/v1/nowhere")):
        status, _, told = ask(app, method, path, {"sql": "SELECT 1"})
        assert (status, json.loads(told)["error"]) == (401, "unauthorized")


def test_a_readers_key_reads_and_a_senders_does_not(
    load: Callable[..., ModuleType], catalog: Catalog, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "readers").write_text(KEY)
    (tmp_path / "senders").write_text("another-key-of-enough-length")
    config = readers(f"{{by: api_key, secret: 'file:{tmp_path}/readers'}}").replace(
        "    envelope: auto\n", f"    envelope: auto\n    auth: {{by: api_key, secret: 'file:{tmp_path}/senders'}}\n"
    )
    publish(store, config)
    app, ingest = loaded(load, catalog, tmp_path, open_reads=True), load("ingest_http")

    def status_of(key: str | None, name: str = "X-Api-Key") -> int:
        return ask(app, "GET", "/v1/tables", headers={name: key} if key else None)[0]

    assert [status_of(key) for key in (KEY, "another-key-of-enough-length", None)] == [200, 401, 401]
    assert status_of(f"Bearer {KEY}", "Authorization") == 200
    event = {"httpMethod": "POST", "path": "/v1/streams/shop", "headers": {"x-api-key": KEY}, "body": "[]"}
    assert ingest.handler({**event, "requestContext": {}}, None)["statusCode"] == 401


def test_readers_by_iam_are_those_that_aws_lets_through(
    load: Callable[..., ModuleType], catalog: Catalog, store: Store, tmp_path: Path
) -> None:
    publish(store, readers("{by: iam}"))
    app = loaded(load, catalog, tmp_path)
    assert ask(app, "GET", "/v1/tables")[0] == 401
    assert ask(app, "GET", "/v1/tables", context={"identity": {"userArn": "arn:aws:iam::1:user/x"}})[0] == 200


def scoped(tmp_path: Path, more: str = "") -> str:
    (tmp_path / "acme").write_text(f"acme.{KEY}")
    auth = f"{{by: api_key, secret: 'file:{tmp_path}/acme'}}"
    return f"query: {{readers: {{acme: {{auth: {auth}, tables: ['shop.*']{more}}}}}}}\n{CONFIG}"


def test_a_reader_that_has_used_its_seconds_is_told_so(
    load: Callable[..., ModuleType],
    catalog: Catalog,
    store: Store,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    publish(store, scoped(tmp_path, ", seconds: 60"))
    app = loaded(load, catalog, tmp_path)
    key, asked = {"x-api-key": f"acme.{KEY}"}, {"sql": "SELECT count(*) AS n FROM shop.orders"}
    assert ask(app, "POST", "/v1/query", asked, headers=key)[0] == 200
    assert ask(app, "POST", "/v1/query", {"sql": "SELECT nothing"}, headers=key)[0] == 400
    now = datetime.now(UTC)
    used = query_usage.used_in(store, "acme", month_of(now))
    assert used.queries == 2  # what was asked in vain took its time too
    assert 0 < used.seconds < 30
    metrics = [line for text in capsys.readouterr().out.splitlines() if "_aws" in (line := json.loads(text))]
    assert [(line["reader"], line["firn_query_seconds"] > 0) for line in metrics] == [("acme", True)] * 2
    query_usage.add(store, "acme", 60, now)
    for method, path in (("POST", "/v1/query"), ("GET", "/v1/tables")):
        status, headers, body = ask(app, method, path, asked, headers=key)
        assert (status, json.loads(body)["error"]) == (429, "quota_used")
        assert 0 < int(headers["Retry-After"]) <= 86_400
        assert "reader acme has used" in json.loads(body)["message"]
    publish(store, scoped(tmp_path))
    app = loaded(load, catalog, tmp_path)
    assert ask(app, "POST", "/v1/query", asked, headers=key)[0] == 200


def test_a_result_that_was_written_while_its_grant_was_taken_back_is_nobodys(store: Store, tmp_path: Path) -> None:
    config = publish(store, scoped(tmp_path))
    result = query_results.Result(store, "csv", datetime.now(UTC), "acme", config.sha)
    result.write(b"rows")
    publish(store, CONFIG)
    with pytest.raises(query_results.GrantsChanged) as refused:
        result.keep()
    assert (refused.value.status, refused.value.retry_after) == (503, 1)
    other = query_results.Result(store, "csv", datetime.now(UTC), "", config.sha)
    other.write(b"rows")
    assert other.keep().bytes == 4  # of one who reads everything


def test_no_log_holds_what_was_asked_or_answered(app: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.StringIO()
    monkeypatch.setattr(app.logger.registered_handler, "stream", written)
    app.logger.setLevel(logging.DEBUG)
    assert post(app, "SELECT 'sesame' AS s FROM orders WHERE note = ? OR true", parameters=["barley"])[0] == 200
    assert post(app, "SELECT sesame FROM orders WHERE note = ?", parameters=["barley"])[0] == 400
    assert post(app, "SELECT sesame(", format="arrow")[0] == 400
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [line["message"] for line in lines] == ["answered", "refused", "refused"]
    assert lines[0]["rows"] == 2
    assert not any(word in written.getvalue() for word in ("sesame", "barley", "SELECT"))


@pytest.mark.parametrize(
    ("sql", "more"),
    [
        ("SELECT CAST(? AS INTEGER)", {"parameters": ["n" * 1_000_000]}),
        (f"SELECT * FROM {'n' * 150_000}", {}),
        ("SELECT 1", {"n" * 1_000_000: 1}),
        ("SELECT * FROM shop.orders", {"as_of": "n" * 1_000_000}),
    ],
)
def test_no_refusal_is_long_whatever_the_question_names(app: ModuleType, sql: str, more: dict[str, Any]) -> None:
    status, told = post(app, sql, **more)
    assert 400 <= status < 500
    assert len(json.dumps(told)) < 5_000


def test_columns_come_by_page_with_what_they_were(app: ModuleType, catalog: Catalog) -> None:
    table = catalog.load_table("shop.orders")
    with table.update_schema() as change:
        change.rename_column("note", "remark").delete_column("amount")
        change.add_column("_firn_pos", BinaryType())
    table.append(pa.table({"id": [9], "remark": ["z"]}))
    [first], after = paged(app, "limit=1")
    assert (first["name"], first["type"], len(first["history"]), after) == ("id", "long", 1, "1")
    rest, end = paged(app, f"cursor={after}")
    assert ([(one["id"], one["name"]) for one in rest], end) == ([(2, "amount"), (3, "remark")], None)
    assert rest[0]["dropped_at"] is not None
    assert [was["name"] for was in rest[1]["history"]] == ["note", "remark"]
    assert rest[1]["history"][1]["at"] is not None
    assert [one["name"] for one in paged(app, "like=REM")[0]] == ["remark"]
    first_snapshot = str(table.metadata.snapshots[0].snapshot_id)
    assert [one["name"] for one in paged(app, f"as_of={first_snapshot}")[0]] == ["id", "amount", "note"]


def paged(app: ModuleType, query: str) -> tuple[list[dict[str, Any]], str | None]:
    given = dict(pair.split("=") for pair in query.split("&"))
    status, page = get(app, "/v1/tables/shop.orders/columns", **given)
    assert (status, page["key"]) == (200, ["id"])
    return page["columns"], page["next"]


def test_snapshots_come_by_page_in_either_order(app: ModuleType, catalog: Catalog) -> None:
    table = catalog.load_table("shop.orders")
    for _ in range(3):
        table.append(ROWS)
    ids = [one.snapshot_id for one in table.metadata.snapshots]

    def pages(**query: str) -> Iterator[list[int]]:
        cursor: str | None = ""
        while cursor is not None:
            status, page = get(app, "/v1/tables/shop.orders/snapshots", limit="2", cursor=cursor, **query)
            assert (status, page["total"]) == (200, 5)
            yield [one["id"] for one in page["snapshots"]]
            cursor = page["next"]

    assert list(pages()) == [ids[:2], ids[2:4], ids[4:]]
    assert list(pages(order="newest")) == [ids[:2:-1], ids[2:0:-1], ids[:1]]
    one_page = get(app, "/v1/tables/shop.orders/snapshots")[1]
    assert ([one["id"] for one in one_page["snapshots"]], one_page["next"]) == (ids, None)
    for wrong in ({"cursor": "1.2"}, {"cursor": "1.2.x"}, {"cursor": f"1.2.{'9' * 20}"}):
        status, told = get(app, "/v1/tables/shop.orders/snapshots", **wrong)
        assert (status, told["error"]) == (400, "bad_cursor")
    for wrong in ({"limit": "many"}, {"order": "wild"}, {"page": "2"}):
        assert get(app, "/v1/tables/shop.orders/snapshots", **wrong)[1]["error"] == "bad_request"


def test_snapshots_are_summed_up_to_points(app: ModuleType, catalog: Catalog) -> None:
    table = catalog.load_table("shop.orders")
    for number in range(3):
        table.append(ROWS.slice(0, 1 + number % 2))
    ids = [str(one.snapshot_id) for one in table.metadata.snapshots]
    told = get(app, "/v1/tables/shop.orders/timeline", points="2")[1]
    assert (told["snapshots"], told["current"], told["oldest"] <= told["newest"]) == (5, ids[-1], True)
    assert [(one["snapshots"], one["first"], one["last"], one["added"]) for one in told["points"]] == [
        (2, ids[0], ids[1], 5),
        (3, ids[2], ids[4], 4),
    ]
    assert told["points"][1]["rows"] == 6
    part = get(app, "/v1/tables/shop.orders/timeline", **{"from": ids[1], "to": ids[2]})[1]
    assert [(one["operation"], one["first"]) for one in part["points"]][1] == ("append", ids[2])
    assert get(app, "/v1/tables/shop.orders/timeline", **{"from": "12"})[0] == 404
    assert get(app, "/v1/tables/shop.orders/timeline", points="many")[0] == 400
