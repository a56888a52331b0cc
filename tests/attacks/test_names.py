"""Source tables and columns that are called what Firn calls its own: refused in firn.yaml, at ingest and at commit,
with the reason, and what else there is goes on.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from firn.changes.decode.row_decoder import META
from firn.config import names
from firn.config.maintenance import Compaction
from firn.config.names import ICEBERGS
from firn.config.reader import parse
from firn.errors import ConfigError
from firn.log import layout, published_configs
from firn.log.store import put, put_if_absent
from firn.maintenance import compaction_trigger as turns
from firn_lake.changes.row_changes import BadColumn
from firn_lake.lake import Lake as Read
from firn_lake.lake import Lake as Reader
from firn_lake.writing.table_creation import CannotCreate
from firn_spark.sources.changes import BadColumn as BadSparkColumn
from firn_spark.sources.changes import changes
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event, letters
from tests.integration.spark.test_compaction import compact
from tests.integration.spark.test_dead_replay import replayed

Make = Callable[[str], Lake]
TAKEN = [
    "zz__deletes",
    "zz__deletes_1_0a1b2c3d",
    "zz__check",
    "zz__check__deletes",
    "zz__firn_new",
    "_firn_zz",
    "ZZ__DELETES",
]
PATTERN = "'app.*': {to: 'lake.{table}', key: [id]}"


def yaml(*rules: str) -> str:
    """One stream with these rules."""
    lines = "".join(f"      {rule}\n" for rule in rules)
    return f"catalog: {{type: sql}}\nstreams:\n  spec:\n    tables:\n{lines}"


@pytest.mark.parametrize("name", TAKEN)
def test_firn_yaml_may_not_name_one(name: str) -> None:
    for rule in (
        f"app.t: {{to: lake.{name}}}",
        f"app.{name}: {{to: 'lake.{{table}}'}}",
        f"'app.*': {{to: lake.{name}, mode: append}}",
    ):
        with pytest.raises(ConfigError) as refused:
            parse(yaml("app.a: {to: lake.a}", rule))
        assert str(refused.value).startswith("firn.yaml:6: streams.spec.tables.app.")
        assert "names that begin with _firn_ or end in __deletes, __check or __firn_new are Firn's own" in str(
            refused.value
        )


@pytest.mark.parametrize(
    "name", ["zz_deletes", "deletes", "zz__deletes2", "__deletes", "zz__checks", "firn_new", "zz_firn_"]
)
def test_firn_yaml_may_name_what_only_looks_like_one(name: str) -> None:
    assert parse(yaml(f"app.t: {{to: lake.{name}}}")).streams["spec"].target("app.t").table == name


def test_columns_may_not_be_declared_by_such_a_name() -> None:
    for name in ("_firn_pos", "_firn_x", "x__firn_new"):
        with pytest.raises(ConfigError, match="which Firn keeps for itself; leave the line out"):
            parse(yaml(f"app.t: {{to: lake.t, columns: {{{name}: long}}}}"))
    for name in ICEBERGS:
        with pytest.raises(ConfigError, match="is a name that Iceberg keeps for itself, and is left out"):
            parse(yaml(f"app.t: {{to: lake.t, columns: {{{name}: long}}}}"))


def test_a_key_is_of_no_such_columns_and_no_column_is_renamed_to_one() -> None:
    for name, whose in (("_firn_x", "Firn"), ("x__firn_new", "Firn"), ("_file", "Iceberg")):
        refused = rf"tables\.app\.t\.key: '{name}' is a name that {whose} keeps for itself, and is left out"
        text = yaml(f"app.t: {{to: lake.t, key: [id, {name}]}}")
        with pytest.raises(ConfigError, match=refused):
            parse(text)
        assert parse(text, published=True)
    renamed = yaml("app.t: {to: lake.t, renames: {_file: path}}")
    with pytest.raises(ConfigError, match="is a name that Firn or Iceberg keeps for itself; write another one"):
        parse(renamed)
    assert parse(renamed, published=True)


@pytest.mark.spark
@pytest.mark.parametrize("way", ["driver", "slices"])
def test_a_source_table_of_such_a_name_comes_first_and_its_neighbour_goes_on(
    lake: Make, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    if way == "slices":
        monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0")
    # What an older version staged: here a rule took the table under another name when it came.
    one = lake(yaml("app.zz__deletes: {to: lake.elsewhere, key: [id]}", PATTERN))
    one.post([event("c", 5, {"id": 0, "v": "staged"}, table="zz__deletes")])
    one.config = published_configs.publish(one.store, yaml(PATTERN))
    (answer,) = one.post([event("c", 10 + n, {"id": 1, "v": "a"}, table=name) for n, name in enumerate([*TAKEN, "zz"])])
    assert (answer.accepted, answer.rejected) == (1, len(TAKEN))
    assert {error.reason for error in answer.errors} == {"reserved_name"}
    assert (
        "give it a rule with another `to` in firn.yaml, such as app.zz__deletes: {to: lake.NAME}"
        in answer.errors[0].message
    )
    assert one.commit(one.seal()) == 0, one.lines
    one.land([event("u", 30, {"id": 1, "v": "b"}, table="zz"), event("c", 31, {"id": 2, "v": "b"}, table="zz")])
    one.land([event("d", 40, None, before={"id": 2, "v": "b"}, table="zz")])
    assert [(row["id"], row["v"]) for row in one.rows("lake.zz")] == [(1, "b")]
    assert one.catalog.load_table("lake.zz__deletes").properties["firn.mode"] == "deletes"
    assert sorted(name for _, name in one.catalog.list_tables("lake")) == ["zz", "zz__deletes"]
    found = [(letter.reason, letter.table) for letter in letters(one)]
    assert sorted(found) == sorted(("reserved_name", f"app.{name}") for name in [*TAKEN, "zz__deletes"])


@pytest.mark.spark
def test_what_was_refused_comes_back_once_its_table_is_mapped(lake: Make) -> None:
    one = lake(yaml(PATTERN))
    one.post([event("c", 10, {"id": 1, "v": "a"}, table="zz__deletes")])
    one.config = published_configs.publish(
        one.store, yaml("app.zz__deletes: {to: lake.zz_deletes, key: [id]}", PATTERN)
    )
    assert [(done.letters, done.dead_again) for done in replayed(one)] == [(1, 0)]
    assert one.commit(one.seal()) == 0, one.lines
    assert [row["v"] for row in one.rows("lake.zz_deletes")] == ["a"]


@pytest.mark.spark
def test_a_table_from_before_its_name_was_reserved_goes_on(lake: Make) -> None:
    """A configuration that an older version took is read; the table whose memory the name is says why it is held."""
    one = lake(yaml(PATTERN))
    text = yaml("app.del: {to: lake.zz__deletes, key: [id], columns: {x__firn_new: long}}", PATTERN)
    sha = parse(text, published=True).sha
    put_if_absent(one.store, layout.config_path(sha), text.encode())
    put(one.store, layout.CONFIG_POINTER, json.dumps({"format": 1, "sha": sha}).encode())
    one.config = published_configs.load(one.store, published_configs.current_sha(one.store))
    with pytest.raises(ConfigError, match="are Firn's own"):
        published_configs.publish(one.store, text)
    one.land([event("c", 10, {"id": 1, "v": "a"}, table="del"), event("c", 11, {"id": 1, "v": "a"}, table="zz")])
    one.post(
        [event("u", 20, {"id": 1, "v": "b"}, table="del"), event("d", 21, None, before={"id": 1, "v": "a"}, table="zz")]
    )
    assert one.commit(one.seal()) == 0, one.lines
    assert [row["v"] for row in one.rows("lake.zz__deletes")] == ["b"]
    assert one.line("lake.zz")["status"] == "quarantined"
    assert "lake.zz__deletes exists and is no memory of deletes" in one.line("lake.zz")["error"]
    one.post([event("u", 30, {"id": 1, "v": "c"}, table="del")])
    assert one.commit(one.seal()) == 0, one.lines
    assert [row["v"] for row in one.rows("lake.zz__deletes")] == ["c"]


@pytest.mark.spark
@pytest.mark.parametrize("way", ["driver", "slices"])
def test_a_sources_columns_of_such_names_are_left_out(lake: Make, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if way == "slices":
        monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0")
    one = lake(yaml("app.t: {to: lake.t, key: [id]}"))

    def row(number: int, v: Any) -> dict[str, Any]:
        return {"id": number, "v": v, "v__firn_new": "wrong", "_firn_pos": "wrong", "_firn_cell": 7, "_FIRN": "mine"}

    one.land([event("c", 10, row(1, 1)), event("c", 11, row(2, 2))])
    one.land([event("u", 20, row(1, "text"))])  # `v` becomes text: a retype, whose own column is v__firn_new
    one.land([event("c", 30, row(3, "more"))])
    assert {n: (found["v"], found["_FIRN"]) for n, found in one.by_key("lake.t", "id").items()} == {
        1: ("text", "mine"), 2: ("2", "mine"), 3: ("more", "mine"),
    }  # fmt: skip
    names = set(one.catalog.load_table("lake.t").schema().column_names)
    assert {name for name in names if "firn" in name} <= {"_firn_pos", "_firn_ts", "_firn_held"}
    assert letters(one) == []


# What code here calls columns, in DataFrames of changes and of rows, and what Spark and Iceberg call theirs in plans.
USED = [
    *META, "_order", "_gone", "_whole", "_write", "_remove", "_told", "_late", "_live", "_held", "_source", "_looked",
    "_kind", "_alive", "_newer", "_since", "_result", "_id", "_in", "_at", "t_file", "t_row", "t_pos", "t_ts", "t_held",
    "t_source", "c0", "c1", "k0", "t0", "x0", "s0", "h0", "f0", "g0", "w", "d", "k", "v0", "x", "there", "at", "number",
    "path", "file", "pos", "file_path", "_path", "_place", "_there", "_row", "_number", "_n", "_one", "_twin", "_o",
    "_c", "_snapshot", "_committed_at", "_change_type", "_change_ordinal", "_commit_snapshot_id", "__row_operation",
]  # fmt: skip
KEPT = [name for name in USED if name not in ICEBERGS]
TEXTS = ("v", "_ts", "_in", "t_row", "__row_operation")  # get another type on the way


def odd(number: int, value: Any, **more: Any) -> dict[str, Any]:
    """A source's row with columns of all these names."""
    return {"id": number, "v": value, **dict.fromkeys([*USED, *ICEBERGS], value), **more}


def rest(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("_firn")}


@pytest.mark.spark
@pytest.mark.parametrize("way", ["driver", "slices"])
def test_a_sources_columns_may_be_called_as_any_in_between(
    lake: Make, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """In keys, deletes, files rewritten and an UPDATE; what Iceberg keeps for itself is left out."""
    if way == "slices":
        monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0")
    tables = {"t": "key: [id]", "cow": "key: [id], write: copy-on-write", "keyed": "key: [_op, _ord, t_file, id]"}
    one = lake(yaml(*(f"app.{name}: {{to: lake.{name}, {rule}}}" for name, rule in tables.items())))

    def events(*changes: tuple[str, int, int, Any]) -> list[dict[str, Any]]:
        found = []
        for name in tables:
            key = {"_op": "a", "_ord": "b", "t_file": "c"} if name == "keyed" else {}
            for op, order, number, value in changes:
                row = odd(number, value, **key) | (dict.fromkeys(TEXTS, f"{value} in words") if order == 30 else {})
                sides = (None, row) if op == "d" else (row, None)
                found.append(event(op, order, sides[0], before=sides[1], table=name))
        return found

    one.land(events(("c", 10, 1, 1), ("c", 11, 2, 2), ("c", 12, 4, 4)))
    one.land(events(("u", 20, 1, 9), ("d", 21, 2, 2), ("c", 22, 3, 3)))
    one.land(events(("u", 15, 2, 7), ("u", 30, 3, 5)))  # a late change of a deleted row; and another type
    for name in tables:
        found = {row["id"]: rest(row) for row in one.rows(f"lake.{name}")}
        key = {"_op": "a", "_ord": "b", "t_file": "c"} if name == "keyed" else {}
        assert found == {
            number: {"id": number, **dict.fromkeys(KEPT, value), **dict.fromkeys(TEXTS, text), **key}
            for number, value, text in ((1, 9, "9"), (3, 5, "5 in words"), (4, 4, "4"))
        }, name
    assert letters(one) == []


@pytest.mark.spark
def test_rows_with_columns_of_such_names_are_compacted_and_their_changes_read(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "EVERY", 10**9)  # no care by the commits themselves
    one = lake(yaml("app.t: {to: lake.t, key: [id]}"))
    for number in range(7):
        one.land([event("c", 10 * number + 10, odd(number, number)), event("u", 10 * number + 11, odd(0, 50 + number))])
    before = {row["id"]: row for row in one.rows("lake.t")}
    done = compact(one, Compaction(zorder_by=("_in", "t_file")))
    assert (done.into, done.lost) == (1, 0)
    assert {row["id"]: row for row in one.rows("lake.t")} == before
    assert sorted(rest(before[0])) == sorted(["id", "v", *KEPT])
    with changes(one.spark, "lake.t", None, columns=["id", "_in"]) as found:
        assert {row["_in"] for row in found.collect()} == {*range(1, 7), 56}


@pytest.mark.spark
@pytest.mark.parametrize("steps", [False, True])
def test_columns_that_changes_have_too_are_refused_by_every_reader_and_others_are_read(lake: Make, steps: bool) -> None:
    one = lake(yaml("app.t: {to: lake.t, key: [id]}"))
    one.land([event("c", 10, {"id": 1, "v": "a", "_change": "x", "_committed_at": "x"})])
    read, said = (
        Reader(one.catalog).table("lake.t"),
        "_(change|committed_at)', which changes have too: name the columns",
    )
    with pytest.raises(BadColumn, match=said):
        read.changes(None, steps=steps)
    with pytest.raises(BadSparkColumn, match=said), changes(one.spark, "lake.t", None, steps=steps):
        pass
    assert [row["v"] for row in read.changes(None, steps=steps, columns=["v"]).pylist()] == ["a"]
    with changes(one.spark, "lake.t", None, steps=steps, columns=["v"]) as found:
        assert [(row["_change"], row["id"], row["v"]) for row in found.collect()] == [("insert", 1, "a")]


@pytest.mark.spark
def test_a_table_that_has_a_column_that_iceberg_keeps_goes_on_and_renamed_is_one_as_others(
    lake: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = yaml("app.t: {to: lake.t, key: [id]}", "app.new: {to: lake.new, key: [id]}")
    one = lake(plain)
    with monkeypatch.context() as before:
        before.setattr(names, "ICEBERGS", frozenset())
        one.land([event("c", 10, {"id": 1, "_file": "a"}), event("c", 11, {"id": 2, "_file": "a"})])
    one.land([event("u", 20, {"id": 1, "_file": "b"}), event("d", 21, None, before={"id": 2, "_file": "a"})])
    assert [rest(row) for row in one.rows("lake.t")] == [{"id": 1, "_file": "b"}]
    renamed = "renames: {path: _file}"
    both = yaml(f"app.t: {{to: lake.t, key: [id], {renamed}}}", f"app.new: {{to: lake.new, key: [id], {renamed}}}")
    one.config = published_configs.publish(one.store, both)
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0")
    one.land([event("c", 30, {"id": 3, "_file": "c"}), event("c", 31, {"id": 3, "_file": "c"}, table="new")])
    one.land([event("u", 40, {"id": 1, "_file": "d"}), event("u", 41, {"id": 3, "_file": "d"}, table="new")])
    assert {row["id"]: rest(row) for row in one.rows("lake.t")} == {
        1: {"id": 1, "path": "d"}, 3: {"id": 3, "path": "c"},
    }  # fmt: skip
    assert [rest(row) for row in one.rows("lake.new")] == [{"id": 3, "path": "d"}]


def test_the_small_way_makes_no_table_of_such_a_name(tmp_path: Path) -> None:
    mine = Read(SqlCatalog("firn", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}"))
    with pytest.raises(CannotCreate, match="are Firn's own; choose another name"):
        mine.create("lake.zz__deletes", pa.schema([("id", pa.int64())]))
