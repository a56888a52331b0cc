"""Columns with defaults, in Iceberg's format 3: what rows have that no change told a value of. Other engines add them,
and firn.yaml declares them.

Rows from before the column have its initial default, whatever reads them and writes them again; new rows that name no
value have its write default.
"""

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from firn.dispatch.schema_ranges import of_one_schema
from firn.log import published_configs
from firn.log.epochs import read_range
from firn_lake.catalogs import nano_defaults  # noqa: F401 (as it is imported)
from firn_lake.lake import Lake as Reader
from firn_spark.driver import small_files
from tests.integration.spark.homes import HOMES, commit_in, row
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import GONE, config, event, letters
from tests.integration.spark.test_format_3 import THREE, loaded
from tests.soak import few_cases, long_only

pytestmark = pytest.mark.spark
PIPELINE = (
    "warehouse: file:///x\ncatalog: {type: sql}\nstreams:\n  spec:\n    tables:\n"
    f"      app.t: {{to: lake.t, {THREE}}}\n"
    "    pipelines:\n      wide: {mode: mirror, sql: INSERT INTO lake.wide SELECT * FROM app.t}\n"
)
Make = Callable[[str], Lake]
Found = dict[int, tuple[Any, ...]]


def added(one: Lake, name: str, kind: str, value: Any, *, inside: str | None = None) -> None:
    """A column with a default, as other engines add it: Spark itself has no statement for that (Iceberg 1.11)."""
    jvm: Any = one.spark._jvm
    types = jvm.org.apache.iceberg.types.Types
    told = value if isinstance(value, int | float) else str(value)
    literal = jvm.org.apache.iceberg.expressions.Literal.of(told).to(types.fromPrimitiveString(kind))
    loaded(one).java.updateSchema().addColumn(inside, name, types.fromPrimitiveString(kind), literal).commit()


def default_of(one: Lake, name: str, kind: str, value: Any) -> None:
    """Another write default for new rows."""
    jvm: Any = one.spark._jvm
    types = jvm.org.apache.iceberg.types.Types
    literal = jvm.org.apache.iceberg.expressions.Literal.of(value).to(types.fromPrimitiveString(kind))
    loaded(one).java.updateSchema().updateColumnDefault(name, literal).commit()


def told(one: Lake, *names: str) -> Found:
    """The rows by key, alike to Spark, to PyIceberg, to Firn's SQL and its fresh reads."""
    by_spark = one.spark.table("firn.lake.t").select("id", *names).toArrow().to_pylist()
    read = Reader(one.catalog, lambda: one.store)
    columns = ", ".join(("id", *names))
    found = [by_spark, one.rows("lake.t")]
    found += [read.sql(f"SELECT {columns} FROM lake.t", fresh=fresh).pylist() for fresh in (False, True)]
    each = [{one["id"]: tuple(plain(one[name]) for name in names) for one in rows} for rows in found]
    assert each == [each[0]] * len(each)
    assert [len(rows) for rows in found] == [len(each[0])] * len(each)
    return each[0]


def plain(value: Any) -> Any:
    """A value as each engine's has it: to Spark a UUID is a text."""
    return str(value) if isinstance(value, UUID) else value


def count(one: Lake, where: str) -> int:
    read = Reader(one.catalog, lambda: one.store)
    found: int = read.sql(f"SELECT count(*) AS n FROM lake.t WHERE {where}").pylist()[0]["n"]
    return found


@few_cases(1)
@HOMES
@pytest.mark.parametrize("write", ["", ", write: copy-on-write"])
def test_rows_from_before_a_column_have_its_default_and_so_do_changes_that_do_not_name_it(
    lake: Make, monkeypatch: pytest.MonkeyPatch, home: str, write: str
) -> None:
    commit_in(home, monkeypatch, events=3, one_task=3)
    one = lake(config(f"{THREE}{write}"))
    one.land([event("c", 10 + n, row(n)) for n in range(8)])
    added(one, "x", "int", 5)
    assert told(one, "x") == dict.fromkeys(range(8), (5,))
    assert (count(one, "x = 5"), count(one, "x IS NULL"), count(one, "x > 5")) == (8, 0, 0)
    changes = [
        event("u", 100, row(1, v="new", w=GONE)), event("c", 101, row(9)), event("d", 102, None, row(2)),
        event("u", 103, row(3, v="new") | {"x": 6}), event("u", 104, row(4) | {"x": None}),
        event("u", 105, row(10), row(5)),
    ]  # fmt: skip
    one.post(changes)
    read = Reader(one.catalog, lambda: one.store)
    expected = {0: 5, 1: 5, 3: 6, 4: None, 6: 5, 7: 5, 9: 5, 10: 5}
    assert {each["id"]: each["x"] for each in read.sql("SELECT id, x FROM lake.t", fresh=True).pylist()} == expected
    assert one.commit(one.seal()) == 0, one.lines
    way = one.line("lake.t")["way"]
    assert (way["lookup"], way.get("foreign_files")) == (home, None), "no file need be rewritten for it"
    assert {key: value for key, (value,) in told(one, "x").items()} == expected
    default_of(one, "x", "int", 8)
    one.land([event("u", 200, row(6, v="newer")), event("u", 201, row(7, v=GONE))])
    assert {key: value for key, (value,) in told(one, "x").items()} == expected | {6: 8, 7: 8}


VALUES = {
    "boolean": False, "long": 2**40, "double": 2.5, "decimal(9,2)": Decimal("1.50"), "date": date(2024, 2, 29),
    "timestamp": datetime(2024, 2, 29, 1, 2, 3, 456789), "timestamptz": datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC),
    "string": "ä, 'b'", "uuid": "f79c3e09-677c-4bbd-a479-3f349cb785e7",
}  # fmt: skip


def literal(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else value


@long_only
def test_small_files_become_one_with_the_defaults_of_columns_and_of_parts_of_structs(lake: Make) -> None:
    one = lake(config("key: [id], columns: {id: long, s: 'struct<a: int>'}, format: 3"))
    for n in range(8):
        one.land([event("c", 10 + n, {"id": n, "s": {"a": n} if n else None})])
    names = {kind: f"c{n}" for n, kind in enumerate(VALUES)}
    for kind, value in VALUES.items():
        added(one, names[kind], kind, literal(value))
    added(one, "b", "int", 7, inside="s")
    before = told(one, *names.values(), "s")
    assert before[3][-1] == {"a": 3, "b": 7}
    assert before[0][-1] is None
    merged = small_files.merge(one.spark, loaded(one), "spec")
    assert merged is not None
    assert (merged.files, merged.into) == (8, 1)
    assert told(one, *names.values(), "s") == before
    one.land([event("c", 100, {"id": 9}), event("u", 101, {"id": 3, "s": {"a": 30}})])
    found = told(one, *names.values(), "s")
    assert found[9] == (*before[0][:-1], None)
    assert found[3][:-1] == before[0][:-1]
    assert None not in before[0][:-1]


@HOMES
def test_a_key_that_a_change_does_not_name_has_no_default(
    lake: Make, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch, events=3, one_task=3)
    one = lake(config(THREE))
    one.land([event("c", 10 + n, row(n)) for n in range(3)])
    default_of(one, "id", "long", 2)
    one.land([event("c", 20, {"v": "no key"}), event("u", 21, row(1, v="new"))])
    assert [letter.reason for letter in letters(one)] == ["no_key"]
    assert told(one, "v") == {0: ("v0",), 1: ("new",), 2: ("v2",)}


@long_only
def test_a_mirror_over_a_mirror_reads_the_defaults_of_its_base(lake: Make) -> None:
    one = lake(PIPELINE)
    one.land([event("c", 10 + n, row(n)) for n in range(4)])
    added(one, "x", "int", 5)
    one.land([event("u", 100, row(1, v="new")), event("u", 101, row(2) | {"x": 7})])
    one.land([event("u", 102, row(3, v="newer"))])
    found = {each["id"]: (each["v"], each["x"]) for each in one.rows("lake.wide")}
    assert found == {0: ("v0", 5), 1: ("new", 5), 2: ("v2", 7), 3: ("newer", 5)}


def declared(columns: str) -> str:
    return config(f"key: [id], format: 3, columns: {{id: long, {columns}}}")


def declares(one: Lake, columns: str) -> None:
    """From now on."""
    one.config = published_configs.publish(one.store, declared(columns))


def field(one: Lake, name: str) -> dict[str, Any]:
    """The column as the table's metadata has it."""
    return next(dict(field) for field in loaded(one).state.fields if field["name"] == name)


@HOMES
def test_a_column_that_is_declared_with_a_default_comes_with_it(
    lake: Make, monkeypatch: pytest.MonkeyPatch, home: str
) -> None:
    commit_in(home, monkeypatch, events=3, one_task=3)
    one = lake(config(THREE))
    one.land([event("c", 10 + n, row(n)) for n in range(8)])
    declares(one, "x: {type: int, default: 5}")
    changes = [
        event("u", 100, row(1, v="new", w=GONE)), event("c", 101, row(9)), event("d", 102, None, row(2)),
        event("u", 103, row(3, v="new") | {"x": 6}), event("u", 104, row(4) | {"x": None}),
        event("u", 105, row(10), row(5)),
    ]  # fmt: skip
    one.post(changes)
    expected = {0: 5, 1: 5, 3: 6, 4: None, 6: 5, 7: 5, 9: 5, 10: 5}
    read = Reader(one.catalog, lambda: one.store)
    assert {each["id"]: each["x"] for each in read.sql("SELECT id, x FROM lake.t", fresh=True).pylist()} == expected
    assert one.commit(one.seal()) == 0, one.lines
    way = one.line("lake.t")["way"]
    assert (way["lookup"], way.get("foreign_files")) == (home, None), "no file need be rewritten for it"
    assert {key: value for key, (value,) in told(one, "x").items()} == expected
    assert (field(one, "x")["initial-default"], field(one, "x")["write-default"]) == (5, 5)
    # Another default is for what comes from then on. Epochs of before are judged by theirs, though they wait.
    one.post([event("u", 200, row(6, v="newer"))])
    before = one.seal()
    declares(one, "x: {type: long, default: 8}")
    one.post([event("u", 201, row(7, v=GONE)), event("c", 202, row(11))])
    after = one.seal()
    assert of_one_schema(one.store, "spec", read_range(one.store, "spec", before, after))[-1].n == before
    assert [one.commit(n) for n in (before, after)] == [0, 0]
    assert {key: value for key, (value,) in told(one, "x").items()} == expected | {6: 5, 7: 8, 11: 8}
    assert (field(one, "x")["initial-default"], field(one, "x")["write-default"]) == (5, 8)
    assert field(one, "x")["type"] == "long"
    declares(one, "v: string")
    one.land([event("u", 300, row(0, v="newest"))])
    assert told(one, "x")[0] == (8,), "what is declared no more stays in the table"


@long_only
def test_a_column_of_each_type_may_be_declared_with_a_default(lake: Make, tmp_path: Path) -> None:
    told_of = {
        "boolean": ("false", False), "long": (str(2**40), 2**40), "float": ("0.5", 0.5), "double": ("-0.0", -0.0),
        "decimal(9,2)": ("1.5", Decimal("1.50")), "date": ("2024-02-29", date(2024, 2, 29)),
        "timestamp": ("'2024-02-29T01:02:03.456789'", datetime(2024, 2, 29, 1, 2, 3, 456789)),
        "timestamptz": ("'2024-02-29T01:02:03+01:00'", datetime(2024, 2, 29, 0, 2, 3, tzinfo=UTC)),
        "string": ("'5'", "5"), "uuid": (VALUES["uuid"].upper(), VALUES["uuid"]),
        "binary": ("'AP8='", b"\0\xff"), "fixed[2]": ("'AP8='", b"\0\xff"), "time": ("'01:02:03'", "01:02:03.000000"),
        "unsigned long": (str(2**64 - 1), Decimal(2**64 - 1)),
        "wkb": ("0020000001000010E6" + "00" * 16, bytes.fromhex("0000000001" + "00" * 16)),
    }  # fmt: skip
    names = {kind: f"c{n}" for n, kind in enumerate(told_of)}
    columns = ", ".join(f"{names[kind]}: {{type: '{kind}', default: {text}}}" for kind, (text, _) in told_of.items())
    expected = tuple(value for _, value in told_of.values())
    one = lake(config(THREE))
    one.land([event("c", 10, row(0))])
    declares(one, columns)
    one.land([event("c", 20, row(1)), event("c", 21, row(2) | {"c0": None})])
    assert told(one, *names.values()) == {0: expected, 1: expected, 2: (None, *expected[1:])}
    fields = loaded(one).state.fields
    made = Lake(one.spark, tmp_path / "made", declared(columns))
    made.land([event("c", 20, row(1))])
    assert told(made, *names.values()) == {1: expected}
    same = [
        [f | {"id": 0} for f in some if f["name"] in names.values()] for some in (fields, loaded(made).state.fields)
    ]
    assert same[0] == same[1], "it is one table, whether the column is older than its rows or not"
