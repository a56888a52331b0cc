"""`firn doctor --catalog`: what it says of a catalog that works, and of those that Firn must not write to."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import UnauthorizedError
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId
from sqlalchemy import text

from firn.config.catalog_products import PRODUCTS, READ, UNTRIED, product_of
from firn.config.catalogs import KINDS, read_address
from firn.errors import StorageUnavailable
from firn_cli.catalog_check import CatalogCheck
from firn_cli.check_parts import Check
from firn_cli.main import main
from firn_lake.catalogs.catalog import open_catalog

PARTS = ["catalog", "reach", "create", "writers", "conflict", "types", "drop"]


class Losing(SqlCatalog):
    """The last commit wins, whatever was there."""

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        requirements = tuple(rule for rule in requirements if not isinstance(rule, AssertRefSnapshotId))
        staged = self._update_and_stage_table(table, table.name(), requirements, updates)
        self._write_metadata(staged.metadata, staged.io, staged.metadata_location)
        with self.engine.begin() as connection:
            told = {"at": staged.metadata_location, "name": table.name()[-1]}
            connection.execute(text("UPDATE iceberg_tables SET metadata_location = :at WHERE table_name = :name"), told)
        return CommitTableResponse(metadata=staged.metadata, metadata_location=staged.metadata_location)


class Blind(SqlCatalog):
    """What a commit says of the snapshot that it saw is passed over, where it adds none itself."""

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        adds = any(isinstance(update, AddSnapshotUpdate) for update in updates)
        return super().commit_table(table, requirements if adds else (), updates)


class Closed(SqlCatalog):
    def list_namespaces(self, namespace: Any = ()) -> Any:
        raise UnauthorizedError("NotAuthorizedException: who are you?")


def checked(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: type[SqlCatalog]) -> dict[str, Check]:
    warehouse = f"file://{folder}/warehouse"

    def opened(_self: CatalogCheck) -> Catalog:
        return kind("firn", uri=f"sqlite:///{folder}/catalog.db?timeout=30", warehouse=warehouse)

    monkeypatch.setattr(CatalogCheck, "_open", opened)
    return {one.name: one for one in CatalogCheck(f"sqlite:///{folder}/catalog.db", warehouse, {}, "scratch").checks()}


@pytest.fixture
def asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[[str], tuple[int, dict[str, Any]]]:
    """Runs the command with a firn.yaml. -> the exit code, and each part by its name."""

    def run(catalog: str) -> tuple[int, dict[str, Any]]:
        file = tmp_path / "firn.yaml"
        file.write_text(f"{catalog}\nstreams: {{web: {{tables: {{'*': {{to: 'web.{{table}}'}}}}}}}}\n")
        given = ["doctor", "--catalog", "--config", str(file), "--dir", str(tmp_path), "--port", "0", "--json"]
        code = main(given)
        return code, {one["name"]: one for one in json.loads(capsys.readouterr().out)}

    return run


def test_a_catalog_that_works_is_left_as_it_was(
    tmp_path: Path, asked: Callable[[str], tuple[int, dict[str, Any]]]
) -> None:
    address, warehouse = f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse"
    _, found = asked(f"catalog: {{type: sql, uri: '{address}'}}\nwarehouse: {warehouse}")
    assert {name: found[name]["ok"] for name in PARTS} == dict.fromkeys(PARTS, True), found
    assert "3 of 3 commits at once are in the table" in found["writers"]["found"]
    assert found["catalog"]["found"].startswith(f"SQLite at {address}: tried")
    with open_catalog(address, warehouse, {}) as catalog:
        assert catalog.list_namespaces() == []
    assert [path for path in (tmp_path / "warehouse").rglob("*") if path.is_file()] == []


def test_files_that_only_the_catalogs_own_keys_reach_are_told_and_the_check_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> list[str]:
        raise StorageUnavailable("403 Forbidden")

    monkeypatch.setattr("firn.log.store.paths", refused)
    found = checked(tmp_path, monkeypatch, SqlCatalog)
    assert found["drop"].ok is True
    assert "the table is gone; files of refused commits may be left at file:" in found["drop"].found


def test_where_no_catalog_is_named_it_says_so(asked: Callable[[str], tuple[int, dict[str, Any]]]) -> None:
    code, found = asked("")
    assert (code, found["catalog"]["ok"]) == (1, False)
    assert "name one in" in found["catalog"]["advice"]


def test_a_catalog_without_a_warehouse_says_what_to_write(
    asked: Callable[[str], tuple[int, dict[str, Any]]],
) -> None:
    code, found = asked("catalog: {type: hive, uri: 'thrift://127.0.0.1:9'}")
    assert (code, found["catalog"]["ok"]) == (1, False)
    assert "write warehouse: s3://bucket/prefix" in found["catalog"]["found"]


def test_a_catalog_that_is_away_is_said_to_be_so_and_nothing_more_is_tried(
    tmp_path: Path, asked: Callable[[str], tuple[int, dict[str, Any]]]
) -> None:
    code, found = asked(f"catalog: {{type: rest, uri: 'http://127.0.0.1:9'}}\nwarehouse: file://{tmp_path}/w")
    assert (code, found["reach"]["ok"]) == (1, False)
    assert "http://127.0.0.1:9" in found["reach"]["found"]
    assert "host and port" in found["reach"]["advice"]
    assert [found[name]["found"] for name in PARTS[2:]] == ["not tried"] * 5


def test_a_catalog_that_loses_a_commit_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(tmp_path, monkeypatch, Losing)
    assert found["writers"].ok is False
    assert found["writers"].found == "2 of 3 commits that were answered ok are not in the table"
    assert "changes can be lost" in found["writers"].advice
    assert (found["conflict"].ok, found["drop"].ok) == (None, True)


def test_a_catalog_that_compares_nothing_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = checked(tmp_path, monkeypatch, Blind)
    assert found["conflict"].ok is False
    assert "a commit was taken that had seen no snapshot" in found["conflict"].found
    assert found["drop"].ok is True


def test_a_catalog_that_lets_nobody_in_says_where_credentials_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = checked(tmp_path, monkeypatch, Closed)
    assert (found["reach"].ok, found["drop"].found) == (False, "not tried")
    assert "PYICEBERG_CATALOG__FIRN__TOKEN" in found["reach"].advice


def test_what_an_earlier_check_left_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warehouse = f"file://{tmp_path}/warehouse"
    with open_catalog(f"sqlite:///{tmp_path}/catalog.db", warehouse, {}) as catalog:
        catalog.create_namespace("scratch")
        for name in ("firn_check_00000001_abcd", "firn_check_7fffffff_abcd", "firn_checked"):
            catalog.create_table(("scratch", name), _schema())
        checked(tmp_path, monkeypatch, SqlCatalog)
        assert sorted(name for _, name in catalog.list_tables("scratch")) == [
            "firn_check_7fffffff_abcd",
            "firn_checked",
        ]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_of_each_kind_it_is_said_how_it_was_tried(kind: Any) -> None:
    product = product_of(read_address(kind.example))
    assert product.kind == kind.name
    assert (product.state == READ) == (kind.name == "nessie")


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://s3tables.eu-central-1.amazonaws.com/iceberg#warehouse=arn:x", "Amazon S3 Tables"),
        ("https://glue.eu-central-1.amazonaws.com/iceberg", "AWS Glue by Iceberg REST"),
        ("https://org-account.snowflakecomputing.com/polaris/api/catalog", "Snowflake Open Catalog"),
        ("https://polaris.example.org/api/catalog", "Apache Polaris"),
        ("https://lakekeeper.example.org/catalog", "Lakekeeper"),
        ("https://catalog.cloudflarestorage.com/0a1b/lake", "Cloudflare R2 Data Catalog"),
        ("https://dbc-1.cloud.databricks.com/api/2.1/unity-catalog/iceberg-rest", "Unity Catalog"),
        ("https://biglake.googleapis.com/iceberg/v1/restcatalog", "Google BigLake"),
        ("https://catalog.example.org/", "Iceberg REST"),
        ("postgresql://u@sqlite.example.org/c", "PostgreSQL"),
    ],
)
def test_a_catalog_is_known_by_its_address(address: str, name: str) -> None:
    assert product_of(read_address(address)).name == name
    assert len({one.name for one in PRODUCTS}) == len(PRODUCTS)


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([("id", pa.int64())])


def test_the_page_of_catalogs_says_what_the_doctor_says() -> None:
    page = (Path(__file__).parents[3] / "docs/catalogs.md").read_text()
    found = [line for line in page.splitlines() if line.startswith("| ") and line.count("|") == 5][1:]
    assert found == [f"| {one.name} | `{one.kind}` | {one.state} | {one.how} |" for one in PRODUCTS]
    for one in PRODUCTS:
        assert one.state != UNTRIED or f"\n| {one.name} | `https://" in page
