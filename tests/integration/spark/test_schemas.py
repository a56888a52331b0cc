"""Rows with a schema, from ingest to the table, in both homes: all types come out as they went in."""

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from firn.config import schema_files
from firn.errors import ConfigError
from firn.ingest import accept
from firn.log import published_configs
from firn_lake.audit.row_audit import Depth
from tests.integration.spark.homes import HOMES, commit_in
from tests.integration.spark.spark_lake import Lake, ndjson
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_commit import letters
from tests.integration.spark.test_fresh import reader

pytestmark = pytest.mark.spark

# As Cloudflare Pipelines have it: a field of each of their types.
ELEVEN = {
    "fields": [
        {"name": "s", "type": "string", "required": True},
        {"name": "i", "type": "int32", "required": False},
        {"name": "l", "type": "int64"},
        {"name": "f", "type": "float32"},
        {"name": "d", "type": "float64"},
        {"name": "b", "type": "bool"},
        {"name": "t", "type": "timestamp", "unit": "millisecond"},
        {"name": "bin", "type": "binary"},
        {"name": "j", "type": "json"},
        {"name": "tags", "type": "list", "items": {"type": "string"}},
        {
            "name": "meta",
            "type": "struct",
            "fields": [{"name": "source", "type": "string", "required": True}, {"name": "at", "type": "timestamp"},
                       {"name": "ids", "type": "list", "items": {"type": "uuid"}}],
        },
    ]
}  # fmt: skip
UUID = "0b0f6f6e-93f5-4a8e-8a5e-1e2f3a4b5c6d"
FULL = {
    "s": "x", "i": 7, "l": 2**53 + 1, "f": 0.5, "d": 0.1, "b": True, "t": 1_760_000_000_123, "bin": "aGk=",
    "j": {"a": [1, None]}, "tags": ["a", None],
    "meta": {"source": "web", "at": "2026-01-01T01:00:00+01:00", "ids": [UUID]},
}  # fmt: skip


def config(fields: Any = ELEVEN, more: str = "") -> str:
    text = (
        "streams:\n  spec:\n    envelope: rows\n    op_field: gone\n    delete_when: [true]\n    tables:\n"
        f"      users: {{to: web.users, key: [s], schema: users.json{more}}}\n"
        f"      clicks: {{to: web.clicks, mode: append, schema: users.json{more}}}\n"
    )
    return schema_files.whole(text, lambda _: json.dumps(fields).encode())


def post(one: Lake, table: str, *rows: Any) -> accept.Accepted:
    one.now += timedelta(seconds=1)
    return accept.accept(one.store, one.config, "spec", ndjson(list(rows)), now=one.now, table=table)


def expected(row: dict[str, Any]) -> dict[str, Any]:
    """The row as a table gives it."""
    return row | {
        "t": datetime(2025, 10, 9, 8, 53, 20, 123_000, tzinfo=UTC), "bin": b"hi", "j": '{"a": [1, null]}',
        "meta": {"source": "web", "at": datetime(2026, 1, 1, tzinfo=UTC), "ids": [UUID]},
    }  # fmt: skip


def plain(row: dict[str, Any]) -> dict[str, Any]:
    found = {name: row[name] for name in FULL}
    if found["meta"] is not None:
        found["meta"] = found["meta"] | {"ids": [str(one) for one in found["meta"]["ids"] or ()]}
    return found


def _bare(row: dict[str, Any]) -> str:
    return str({name: row[name] for name in FULL})


@HOMES
def test_eleven_types_come_out_as_they_went_in(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch, events=3)
    one = lake(config())
    empty = {"s": "empty"}
    for table in ("users", "clicks"):
        done = post(one, table, FULL, empty, {"s": 5}, {"i": 1})
        assert (done.accepted, [e.reason for e in done.errors]) == (2, ["type_mismatch", "missing_field"])
    post(one, "users", {"s": "empty", "gone": True}, *({"s": f"n{n}"} for n in range(8)))
    assert one.commit(one.seal()) == 0, [(line.get("error"), line.get("trace")) for line in one.lines]
    for table in ("users", "clicks"):
        rows = {row["s"]: plain(row) for row in one.rows(f"web.{table}")}
        assert rows["x"] == expected(FULL), table
        if table == "clicks":
            assert rows["empty"] == dict.fromkeys(FULL) | empty
    assert "empty" not in {row["s"] for row in one.rows("web.users")}
    assert {letter.reason for letter in letters(one)} == {"type_mismatch", "missing_field"}
    schema = one.catalog.load_table("web.users").schema()
    kinds = {field.name: str(field.field_type) for field in schema.fields if field.name in FULL}
    assert kinds == {
        "s": "string", "i": "int", "l": "long", "f": "float", "d": "double", "b": "boolean", "t": "timestamptz",
        "bin": "binary", "j": "string", "tags": "list<string>", "meta": kinds["meta"],
    }  # fmt: skip
    assert kinds["meta"].startswith("struct<")
    # A row that is written again takes its struct along, and one that changes it gets another.
    post(one, "users", FULL | {"meta": {"source": "app"}}, {"s": "n1", "meta": FULL["meta"]})
    assert one.commit(one.seal()) == 0, [(line.get("error"), line.get("trace")) for line in one.lines]
    rows = {row["s"]: plain(row) for row in one.rows("web.users")}
    assert rows["x"]["meta"] == {"source": "app", "at": None, "ids": []}
    assert rows["n1"]["meta"] == expected(FULL)["meta"]
    # Deleted, remembered, and there again; a fresh read says the same before the commit.
    post(one, "users", {"s": "x", "gone": True}, {"s": "n1", "gone": True})
    assert one.commit(one.seal()) == 0, [(line.get("error"), line.get("trace")) for line in one.lines]
    post(one, "users", FULL, {"s": "n2", "meta": {"source": "late", "ids": [UUID, None]}})
    pending = {row["s"]: row for row in fresh(one, "web.users")}
    assert one.commit(one.seal()) == 0, [(line.get("error"), line.get("trace")) for line in one.lines]
    found = {row["s"]: row for row in one.rows("web.users")}
    assert found["n2"]["meta"]["ids"][1] is None
    assert {s: _bare(row) for s, row in pending.items()} == {s: _bare(row) for s, row in found.items()}
    assert plain(found["x"]) == expected(FULL)
    assert "n1" not in found


def fresh(one: Lake, table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = reader(one).table(table).read(fresh=True).pylist()
    return rows


FIRST = {"fields": [
    {"name": "s", "type": "string", "required": True}, {"name": "n", "type": "int32", "default": 7},
    {"name": "meta", "type": "struct", "fields": [{"name": "a", "type": "int32"}]},
]}  # fmt: skip
WIDER = {"fields": [
    {"name": "s", "type": "string", "required": True}, {"name": "n", "type": "int64", "default": 8},
    {"name": "meta", "type": "struct", "fields": [{"name": "a", "type": "int64"}, {"name": "b", "type": "date"}]},
    {"name": "price", "type": "decimal", "precision": 9, "scale": 2, "default": "1.50"},
]}  # fmt: skip


@HOMES
def test_a_schema_grows_and_the_rows_of_before_stay(
    lake: Callable[[str], Lake], monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch, events=3)
    one = lake(config(FIRST, ", unknown: drop"))

    def publish(fields: Any, more: str) -> None:
        one.config = published_configs.publish(one.store, config(fields, more))

    old = [{"s": "a", "meta": {"a": 1}, "extra": 5}, {"s": "b", "n": None}, {"s": "c", "n": 3}, {"s": "d"}]
    post(one, "users", *old)
    assert one.commit(one.seal()) == 0, [(line.get("error"), line.get("trace")) for line in one.lines]
    found = {row["s"]: row for row in one.rows("web.users")}
    assert [found[s]["n"] for s in "abcd"] == [7, None, 3, 7]
    assert "extra" not in found["a"]
    publish(WIDER, ", unknown: keep")
    done = post(one, "users", {"s": "a", "n": 2**40, "meta": {"a": 2**40, "b": "2026-02-28"}, "extra": 6}, {"s": "e"},
                {"s": "f", "price": 12.345})  # fmt: skip
    assert [e.message for e in done.errors] == [
        "column price: more than 2 digits after the point do not fit decimal(9,2)"
    ]
    post(one, "users", *({"s": f"n{n}"} for n in range(4)))
    pending = sorted((row["s"], row["n"], row["meta"], row["price"]) for row in fresh(one, "web.users"))
    assert one.commit(one.seal()) == 0, [(line.get("error"), line.get("trace")) for line in one.lines]
    rows = sorted((row["s"], row["n"], row["meta"], row["price"]) for row in one.rows("web.users"))
    assert rows[:5] == [
        ("a", 2**40, {"a": 2**40, "b": date(2026, 2, 28)}, Decimal("1.50")), ("b", None, None, None),
        ("c", 3, None, None), ("d", 7, None, None), ("e", 8, None, Decimal("1.50")),
    ]  # fmt: skip
    assert pending == rows
    assert {row["s"]: row["extra"] for row in one.rows("web.users")}["a"] == 6
    # Rows that were taken under a looser schema are judged by that of their epoch.
    post(one, "users", {"s": "g"}, {"s": "h", "n": 1, "extra": 9})
    strict = {"fields": [field | {"required": True} if field["name"] == "meta" else field for field in WIDER["fields"]]}
    publish(strict, ", unknown: reject")
    assert one.commit(one.seal()) == 0, [(line.get("error"), line.get("trace")) for line in one.lines]
    told = sorted((letter.reason, letter.message) for letter in letters(one) if letter.reason != "type_mismatch")
    assert told == [
        ("missing_field", "column meta: is missing or null, and the schema requires it"),
        ("unknown_field", "the row: it has the field 'extra', which the schema does not name"),
    ]
    assert audited(one, Depth(deep=True)).balanced
    with pytest.raises(ConfigError, match="schema: n was long and would be int, which does not hold"):
        publish(FIRST, "")


def test_what_waits_is_read_as_the_schema_of_each_epoch_will_have_it(lake: Callable[[str], Lake]) -> None:
    one = lake(config(FIRST))
    for table in ("users", "clicks"):
        post(one, table, {"s": "a", "n": 1, "meta": {"a": 1}})
    assert one.commit(one.seal()) == 0, [(line.get("error"), line.get("trace")) for line in one.lines]
    post(one, "clicks", {"s": "b"})
    post(one, "users", {"s": "a", "n": 2})
    first = one.seal()
    post(one, "clicks", {"s": "c"}, {"s": "d", "meta": {"a": 4}})
    strict = [field | {"required": True, "default": 9} if field["name"] == "n" else field for field in FIRST["fields"]]
    required = [field | {"required": True} if field["name"] == "meta" else field for field in strict]
    one.config = published_configs.publish(one.store, config({"fields": required}))
    pending = [sorted(map(_told, fresh(one, table))) for table in ("web.users", "web.clicks")]
    second = one.seal()
    assert pending == [sorted(map(_told, fresh(one, table))) for table in ("web.users", "web.clicks")]
    for epoch in (first, second):
        assert one.commit(epoch) == 0, [(line.get("error"), line.get("trace")) for line in one.lines]
    assert pending == [sorted(map(_told, one.rows(table))) for table in ("web.users", "web.clicks")]
    assert pending == [[("a", 2, None)], [("a", 1, {"a": 1}), ("b", 7, None), ("d", 9, {"a": 4})]]


def _told(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["s"], row["n"], row["meta"]


def test_parts_of_a_struct_get_types_that_iceberg_does_not_promote_to(lake: Callable[[str], Lake]) -> None:
    def fields(single: str, at: str) -> Any:
        parts = [{"name": "it's", "type": single}, {"name": "at", "type": "timestamp"}, {"name": "n", "type": at}]
        whole = {"name": "all", "type": "list", "items": {"type": "struct", "fields": parts[1:2]}}
        return {"fields": [{"name": "s", "type": "string"}, {"name": "m", "type": "struct", "fields": parts}, whole]}

    one = lake(config(fields("float32", "int32")))
    part = {"it's": 0.1, "at": "2026-01-01T00:00:00Z", "n": 5}
    post(one, "users", {"s": "a", "m": part, "all": [{"at": part["at"]}, None]}, {"s": "b"})
    assert one.commit(one.seal()) == 0, [(line.get("error"), line.get("trace")) for line in one.lines]
    one.config = published_configs.publish(one.store, config(fields("float64", "decimal(12,1)")))
    post(one, "users", {"s": "c", "m": part | {"n": 5.5}})
    assert one.commit(one.seal()) == 0, [(line.get("error"), line.get("trace")) for line in one.lines]
    found = {row["s"]: row for row in one.rows("web.users")}
    wide = {"it's": 0.1, "at": datetime(2026, 1, 1, tzinfo=UTC), "n": Decimal("5.0")}
    assert [found[s]["m"] for s in "abc"] == [wide, None, wide | {"n": Decimal("5.5")}]
    assert found["a"]["all"] == [{"at": wide["at"]}, None]
