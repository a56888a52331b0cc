"""Schemas in firn.yaml and beside it: each wrong one gets its named error, and what is published is whole."""

import json
from pathlib import Path
from typing import Any

import pytest

from firn.changes.decode.types import parse as parse_type
from firn.config import schema_files
from firn.config.reader import parse
from firn.config.schema_changes import check_schemas
from firn.deployment.cloudformation import target_of
from firn.deployment.config_text import Watched, config_text
from firn.errors import ConfigError


def text(schema: Any, more: str = "", envelope: str = "rows", mode: str = "mode: append") -> str:
    told = schema if isinstance(schema, str) else json.dumps(schema)
    return (
        f"streams:\n  w:\n    envelope: {envelope}\n    tables:\n      t: {{to: w.t, {mode}, schema: {told}{more}}}\n"
    )


def field(**said: Any) -> dict[str, Any]:
    return {"fields": [{"name": "a", "type": "string"} | said]}


def nested(depth: int, kind: str) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        inner = (
            {"type": "list", "items": inner}
            if kind == "list"
            else {"type": "struct", "fields": [inner | {"name": "x"}]}
        )
    return {"fields": [inner | {"name": "a"}]}


BAD = [
    ("", "schema: is empty; write schema: {fields:"),
    ([], "schema: is a list"),
    ({}, "is empty; write schema: {fields:"),
    ({"fields": []}, "fields: needs a list of fields"),
    ({"fields": {"a": "string"}}, "fields: needs a list of fields"),
    ({"fields": ["a"]}, "fields[0]: is not a field; write {name: id, type: int64}"),
    ({"fields": [{"type": "string"}]}, "fields[0]: is not a field"),
    ({"fields": [{"name": "", "type": "string"}]}, "is not a field"),
    ({"fields": [{"name": None, "type": "string"}]}, "is not a field"),
    ({"fields": [{"name": ["a"], "type": "string"}]}, "is not a field"),
    ({"fields": [{"name": "a"}]}, "fields[a].type: is missing; write one of string, int32"),
    ({"fields": [{"name": "a", "type": "string"}] * 2}, "'a' is there twice; keep one"),
    ({"fields": [{"name": "a", "type": "string"}], "name": "x"}, "name: is not a setting; write fields"),
    (field(type="strnig"), "'strnig' is not a type; write string"),
    (field(type="integer"), "'integer' is not a type; write"),
    (field(type="bigint"), "'bigint' is not a type; write"),
    (field(type="varchar"), "'varchar' is not a type; write string"),
    (field(type="map"), "'map' is not a type; write one of string"),
    (field(type=7), "'7' is not a type"),
    (field(type=None), "type: is empty"),
    (field(type={"a": 1}), "type: is a mapping"),
    (field(type="list"), "items: is missing, and a list needs it; write items: {type: string}"),
    (field(type="list", items={"type": "strnig"}), "fields[a].items.type: 'strnig' is not a type; write string"),
    (field(type="list", items={"type": "string", "required": True}), "required: is not for items: null may be among"),
    (field(type="list", items=[]), "items: is a list"),
    (field(type="list<string>"), "'list<string>' is for columns:; a schema says it as type: list"),
    (field(type="map<string, int>"), "'map<string, int>' is for columns:; a schema keeps it as json, or as a list"),
    (field(type="struct<a: int>"), "a schema says it as type: struct"),
    (field(type="struct"), "fields: needs a list of fields"),
    (field(type="struct", fields=[{"name": "b", "type": "x"}]), "fields[a].fields[b].type: 'x' is not a type"),
    (field(type="struct", fields=[{"name": "b", "type": "int32"}] * 2), "fields[a].fields[b].name: 'b' is there twice"),
    (field(type="struct", fields=[{"name": name, "type": "int32"} for name in "bB"]),
     "fields[a].fields[B].name: SQL can't tell 'B' from 'b' in a struct; leave one out"),
    (field(items={"type": "string"}), "items: belongs to list, and this is 'string'; leave it out"),
    (field(unit="ms"), "unit: belongs to timestamp or timestamp_ns, and this is 'string'; leave it out"),
    (field(type="timestamp", unit="minute"), "'minute' is not a time unit; write"),
    (field(type="decimal"), "needs precision and scale; write {type: decimal, precision: 12, scale: 2}"),
    (field(type="decimal", precision=39, scale=0), "'39' is not a whole number from 1 to 38"),
    (field(type="decimal", precision=3, scale=4), "decimal(3,4) does not exist"),
    (field(type="decimal(40,2)"), "decimal(40,2) does not exist"),
    (field(type="decimal(12)"), "'decimal(12)' is not a type; write decimal(12,2)"),
    (field(required="maybe"), "required: 'maybe' is neither true nor false"),
    (field(nullable=True), "nullable: is not a setting"),
    (field(defualt="x"), "defualt: is not a setting; write default"),
    (field(default=None), "default: is null, which an absent field is anyway; leave the line out"),
    (field(type="int32", default="x"), "default: is not of the field's type: not an integer"),
    (field(type="int32", default=2**31), "default: is not of the field's type: the number does not fit int"),
    (field(type="bool", default="yes"), "default: is not of the field's type: not true or false"),
    (field(type="float64", default=2**53 + 1), "default: is not of the field's type"),
    (field(type="timestamp", default="2026-02-31T00:00:00Z"), "default: is not of the field's type"),
    (field(type="date", default="31.12.2026"), "default: is not of the field's type"),
    (field(type="uuid", default="x"), "default: is not of the field's type: the text is not a UUID"),
    (field(type="binary", default="a"), "default: is not of the field's type"),
    (field(type="fixed[2]", default="AAAA"), "the value has 3 bytes where fixed[2] has 2"),
    (field(type="fixed"), "'fixed' is not a type; write fixed[16]"),
    (field(type="fixed[0]"), "the length is 1 to 65,535 bytes"),
    (field(type="decimal(4,2)", default=1.234), "more than 2 digits after the point"),
    (field(type="list", items={"type": "int32"}, default=["x"]), "default: is not of the field's type"),
    (field(type="struct", fields=[{"name": "b", "type": "int32", "required": True}], default={}),
     "b: is missing or null"),
    (field(name="_firn_pos"), "'_firn_pos' is a name that Firn keeps for itself"),
    (field(name="x__firn_new"), "is a name that Firn keeps for itself"),
    (field(name="_file"), "'_file' is a name that Iceberg keeps for itself"),
    ({"fields": [{"name": "a", "type": "list", "items": "string"}, {"name": "a.element", "type": "string"}]},
     "'a.element' is there twice: in 'a' and 'a.element'"),
    ({"fields": [{"name": "a", "type": "struct", "fields": [{"name": "b", "type": "string"}]},
                 {"name": "a.b", "type": "string"}]}, "'a.b' is there twice"),
    (nested(21, "list"), "is nested more than 20 deep"),
    (nested(14, "struct"), "is nested more than"),
    ({"fields": [{"name": f"f{n}", "type": "string"} for n in range(5_001)]}, "has more than 5,000 fields"),
    ("users.json", "the file 'users.json' is not there, and this text does not hold it"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "told"), BAD, ids=range(len(BAD)))
def test_a_wrong_schema_gets_its_named_error(schema: Any, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(text(schema))
    assert told in str(raised.value)
    assert all("streams.w.tables" in line or "nested" in line for line in str(raised.value).splitlines())


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (text(field(), ", invalid: reject"), "invalid: 'reject' is not a treatment; write dead_letter or refuse"),
        (text(field(), ", unknown: ignore"), "unknown: 'ignore' is not a treatment; write keep, drop or reject"),
        (text(field(), ", columns: {a: string}"), "'a' is a field of the schema too; keep it in one of them"),
        (text(field(), envelope="debezium", mode="key: [a]"), "has a schema, which plain rows are held to"),
        (
            text(field(), ", unknown: drop", mode="key: [id]"),
            "key: 'id' is not in the schema, and what is unknown is not",
        ),
        (text(field(type="struct", fields=[{"name": "b", "type": "int32"}]), mode="key: [a]"), "'a' is a struct"),
        (text(field(), ", partition_by: [day(a)]"), "partition_by"),
        (text(field(), ", unknown: drop").replace("schema:", "columns:"), "unknown: is about rows that a schema"),
    ],
    ids=range(8),
)
def test_what_a_rule_says_beside_its_schema_has_to_fit(rule: str, told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(rule)
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("word", "means"),
    [("int32", "int"), ("int64", "long"), ("float32", "float"), ("float64", "double"), ("bool", "boolean"),
     ("json", "string"), ("list<int64>", "list<long>"), ("struct<a:int32,b:list<bool>>",
      "struct<a: int, b: list<boolean>>")],
)  # fmt: skip
def test_the_words_of_schemas_are_types_everywhere(word: str, means: str) -> None:
    assert str(parse_type(word)) == means
    config = parse(f"streams: {{s: {{tables: {{t: {{to: s.t, columns: {{a: '{word}'}}}}}}}}}}")
    assert str(config.streams["s"].tables[0].columns["a"].type) == means


def test_a_schema_file_is_put_into_the_text_that_is_published(tmp_path: Path) -> None:
    (tmp_path / "schemas").mkdir()
    file, schema = tmp_path / "firn.yaml", tmp_path / "schemas" / "t.json"
    own = text("schemas/t.json").rstrip("\n")
    file.write_text(own)
    schema.write_bytes(json.dumps(field(name='odd "name" \\ \u0085 \U0001f600: #', default="\x7f- x")).encode())
    whole = config_text(file)
    assert whole.startswith(own)
    found = parse(whole)
    kept = found.streams["w"].tables[0].schema
    assert kept is not None
    assert [(one.name, json.loads(one.written.default or b"")) for one in kept.fields] == [
        ('odd "name" \\ \u0085 \U0001f600: #', "\x7f- x")
    ]
    schema.unlink()
    file.write_text(whole)
    assert config_text(file) == whole, "it needs its files no more"
    schema.write_text(json.dumps(field(type="int64")))
    file.write_text(own)
    assert parse(config_text(file)).sha != found.sha


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "can't be read: No such file"), (b"[]", "is not a JSON object"), (b"{", "is not a JSON object"),
     (b'{"fields": NaN}', "is not a JSON object"), (b"\xff", "is not a JSON object"),
      (b" " * 600_000, "has 600,000 bytes"),
     (b'{"a":' * 5_000, "is not a JSON object")],
)  # fmt: skip
def test_a_schema_file_that_can_not_be_read_is_named(tmp_path: Path, content: bytes | None, told: str) -> None:
    (tmp_path / "firn.yaml").write_text(text("t.json"))
    if content is not None:
        (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(ConfigError, match=r"the schema file t\.json") as raised:
        config_text(tmp_path / "firn.yaml")
    assert told in str(raised.value)


def test_a_text_that_holds_only_some_of_its_files_is_refused() -> None:
    half = schema_files.whole(text("a.json"), lambda _: json.dumps(field()).encode()).replace('"a.json"', '"b.json"')
    with pytest.raises(ConfigError, match=r"schema_files holds some of the schemas and not 'a\.json'"):
        schema_files.whole(half, lambda _: b"{}")


def test_a_change_of_any_of_the_files_is_seen_once(tmp_path: Path) -> None:
    (tmp_path / "firn.yaml").write_text(text("t.json"))
    watched = Watched(tmp_path / "firn.yaml")
    assert not watched.changed()
    (tmp_path / "t.json").write_text(json.dumps(field()))
    assert (watched.changed(), watched.changed()) == (True, False)
    (tmp_path / "firn.yaml").write_text(text("u.json"))
    assert watched.changed()
    (tmp_path / "u.json").write_text("{}")
    assert (watched.changed(), watched.changed()) == (True, False)


@pytest.mark.parametrize(
    ("old", "new", "taken"),
    [
        ("int32", "int64", True), ("int32", "float64", True), ("int32", "decimal(12,2)", True), ("int32", "string",
         True),
        ("float32", "float64", True), ("decimal(9,2)", "decimal(12,2)", True), ("decimal(9,2)", "decimal(12,4)", True),
        ("int64", "int32", False), ("int64", "float64", False), ("string", "int32", False), ("timestamp", "date",
         False),
        ("decimal(9,2)", "decimal(8,2)", False), ("float64", "float32", False), ("date", "string", True),
    ],
)  # fmt: skip
def test_a_schema_may_grow_and_not_shrink(old: str, new: str, taken: bool) -> None:
    both = [parse(text(field(type=kind))) for kind in (old, new)]
    if taken:
        check_schemas(*both, "firn.yaml")
        return
    with pytest.raises(
        ConfigError, match=r"firn.yaml: streams.w.tables.t.schema: a was .* does not hold what the table"
    ):
        check_schemas(*both, "firn.yaml")


def test_parts_of_a_struct_grow_with_it_and_in_lists_as_iceberg_promotes_them() -> None:
    def of(kind: str, *more: str) -> dict[str, Any]:
        parts = [{"name": "x", "type": kind}, *({"name": name, "type": "string"} for name in more)]
        return {"type": "struct", "fields": parts}

    def check(old: Any, new: Any) -> None:
        check_schemas(parse(text(field(**old))), parse(text(field(**new))), "firn.yaml")

    check(of("int32"), of("decimal(12,2)", "y"))
    check({"type": "list", "items": of("int32")}, {"type": "list", "items": of("int64", "y")})
    for bad in ("decimal(12,2)", "string"):
        with pytest.raises(ConfigError, match="a was list<struct"):
            check({"type": "list", "items": of("int32")}, {"type": "list", "items": of(bad)})
    with pytest.raises(ConfigError, match="a was struct"):
        check(of("int32", "y"), of("int32"))


def test_a_command_that_looks_for_its_target_reads_the_files_too(tmp_path: Path) -> None:
    file = tmp_path / "firn.yaml"
    file.write_text("targets: {dev: {stack: firn-dev}}\n" + text("t.json"))
    with pytest.raises(ConfigError, match=r"the schema file t\.json can't be read"):
        target_of("dev", file)
    (tmp_path / "t.json").write_text(json.dumps(field()))
    assert target_of("dev", file).stack == "firn-dev"
