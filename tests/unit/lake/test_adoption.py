"""What `firn adopt` finds of tables that others made."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from firn.config.names import TableName
from firn.config.reader import parse
from firn_cli.main import main
from firn_lake.adoption import Adoption, adoption
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.lake import Lake

Make = Callable[..., Table]


@pytest.fixture
def make(catalog: Catalog) -> Make:
    """Makes `own.t` of columns, in Arrow's types."""

    def made(columns: dict[str, Any], **properties: str) -> Table:
        catalog.create_namespace_if_not_exists("own")
        rows = pa.table(columns)
        table = catalog.create_table("own.t", rows.schema, properties=properties)
        table.append(rows)
        return table

    return made


def found(catalog: Catalog, *key: str) -> Adoption:
    return adoption(Lake(catalog), "own.t", key or ("id",), "public.t")


def test_a_table_with_a_key_that_holds_fits_and_its_rule_is_told(catalog: Catalog, make: Make) -> None:
    make({"id": [1, 2], 'an od"d': ["a", "b"]})
    one = found(catalog, "id", 'an od"d')
    assert (one.fits, one.rows, one.against) == (True, 2, ())
    assert found(catalog).rule == "public.t: {to: own.t, key: [id]}"
    assert "refs tag" in found(catalog).beware[-1]


def test_keys_that_are_null_or_there_twice_speak_against_it(catalog: Catalog, make: Make) -> None:
    make({"id": [1, 1, 1, 2, 2, 3, None]})
    nulls, doubled = found(catalog).against
    assert nulls.startswith("1 rows have a null in the key (id)")
    assert doubled.startswith("2 keys (id) have several rows")
    assert found(catalog).rows == 7


@pytest.mark.parametrize("name", ["n", "N", "k0", "rows", "nulls"])
def test_a_key_may_be_called_as_it_likes(catalog: Catalog, make: Make, name: str) -> None:
    make({name: [1, 1, 1, 0]})
    one = found(catalog, name)
    assert one.rows == 4
    assert one.against[0].startswith("1 keys")


@pytest.mark.parametrize(
    ("name", "key"), [("order-items", "id"), ("Bé", "a, b"), ("select", "a: b"), ("null", "null"), ("it's", "[x")]
)
def test_the_rule_that_is_told_feeds_the_very_table(catalog: Catalog, name: str, key: str) -> None:
    catalog.create_namespace("own")
    rows = pa.table({key: [1, 2]})
    catalog.create_table(("own", name), rows.schema).append(rows)
    shown = next(str(one.name) for one in Lake(catalog).tables())
    one = adoption(Lake(catalog), shown, [key], "public.t")
    assert (one.fits, one.rows) == (True, 2)
    rule = parse(f"streams: {{shop: {{tables: {{{one.rule}}}}}}}").streams["shop"].targets[0]
    assert rule.feeds(TableName("own", name))
    assert rule.key == (key,)


@pytest.mark.parametrize("name", [("a", "b", "t"), ("a", "b.t"), ("a", "{table}")])
def test_a_name_that_no_rule_can_name_speaks_against_it(catalog: Catalog, name: tuple[str, ...]) -> None:
    catalog.create_namespace("a")
    if len(name) > 2:
        catalog.create_namespace(name[:-1])
    rows = pa.table({"id": [1]})
    catalog.create_table(name, rows.schema).append(rows)
    shown = next(str(one.name) for one in Lake(catalog).tables())
    (why,) = adoption(Lake(catalog), shown, ["id"], "public.t").against
    assert why.startswith(f"no rule can name {shown}")


def test_an_empty_table_fits(catalog: Catalog, make: Make) -> None:
    make({"id": pa.array([], pa.int64())})
    assert (found(catalog).fits, found(catalog).rows) == (True, 0)


@pytest.mark.parametrize(
    ("key", "says"), [("no", "it has no column no: .*id, "), ("m", "type that no key"), ("l", "type that no key")]
)
def test_a_key_that_is_none_speaks_against_it(catalog: Catalog, make: Make, key: str, says: str) -> None:
    make({"id": [1], "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32())), "l": [[1]]})
    one = found(catalog, key)
    assert one.rows is None
    assert len(one.against) == 1
    assert re.search(says, one.against[0])


def test_what_stays_as_it_is_is_told(catalog: Catalog, make: Make) -> None:
    table = make({"id": [1], "t": pa.array([0], pa.time64("us")), "_file": ["x"]}, **{"write.wap.enabled": "true"})
    table.append(table.scan().to_arrow().slice(0, 0), snapshot_properties={"flink.job-id": "abc"})
    said = "\n".join(found(catalog).beware)
    assert "no change can fill: t;" in said
    assert "Firn or Iceberg keeps: _file;" in said
    assert "flink.job-id" in said
    assert "write.wap.enabled" in said
    assert found(catalog).fits


def test_a_table_of_format_1_is_upgraded_by_its_rule(catalog: Catalog, make: Make) -> None:
    make({"id": [1]}, **{"format-version": "1"})
    assert found(catalog).rule == "public.t: {to: own.t, key: [id], format: 2}"
    assert found(catalog).beware[0].startswith("it is of format 1")


def test_a_key_of_floats_would_double_its_rows(catalog: Catalog, make: Make) -> None:
    make({"id": pa.array([0.1], pa.float32()), "d": [0.1]})
    assert "id is a float" in found(catalog).against[0]
    assert found(catalog, "d").fits


def test_a_table_that_a_stream_feeds_is_no_others(catalog: Catalog, make: Make) -> None:
    make({"id": [1]}, **{"firn.mode": "mirror", "firn.stream": "shop"})
    assert found(catalog).against[0].startswith("it is fed by shop already")


def test_the_command_says_it_and_its_exit_code_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, warehouse = f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/w"
    catalog = open_catalog(uri, warehouse, {})
    catalog.create_namespace("own")
    rows = pa.table({"id": [1, 2], "twice": [1, 1]})
    catalog.create_table("own.t", rows.schema).append(rows)
    monkeypatch.setattr("firn.deployment.target.find_stack", lambda *_, **__: None)
    monkeypatch.setattr("firn_lake.catalogs.stack_catalog.catalog_of", lambda _: catalog)
    assert main(["adopt", "own.t", "--key", "id", "--source", "app.t"]) == 0
    out = capsys.readouterr().out
    assert "own.t, 2 rows: it can be adopted" in out
    assert "app.t: {to: own.t, key: [id]}" in out
    assert main(["adopt", "own.t", "--key", "twice", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["fits"] is False
    catalog.close()
