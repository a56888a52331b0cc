"""The shell completes tables, streams and kept cuts, and is silent where there is no stack."""

import subprocess
import sys
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from firn.log import published_configs
from firn.log.store import Store
from firn_cli.main import main
from firn_lake.catalogs.catalog import open_catalog


@pytest.fixture
def folder(tmp_path: Path, store: Store, addresses: dict[str, str]) -> Path:
    published_configs.publish(
        store, "streams: {shop: {tables: {t: {to: shop.t, key: [id]}}}, web: {tables: {u: {to: web.u, key: [id]}}}}"
    )
    catalog = open_catalog(addresses["catalog_uri"], addresses["warehouse"], {})
    catalog.create_namespace("shop")
    for name in ("orders", "odd name"):
        catalog.create_table(("shop", name), Schema(NestedField(1, "id", LongType())))
    catalog.close()
    return tmp_path


def completed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str) -> list[str]:
    monkeypatch.setenv("_FIRN_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    main([])
    return [name for name in capsys.readouterr().out.split("\n") if name]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("history --dir {} shop.o", ["shop.orders"]),
        ("history --dir {} ", ['shop."odd name"', "shop.orders"]),
        ("flush --dir {} s", ["shop"]),
        ("dead replay --dir {} ", ["shop", "web"]),
        ("dead list --dir {} s", ["shop"]),
        ("send --dir {} w", ["web"]),
        ("backfill --dir {} s", ["shop"]),
        ("resume --dir {} s", ["shop"]),
        ("resume --dir {} shop shop.o", ["shop.orders"]),
        ("cut list --dir {} --stream s", ["shop"]),
        ("compact --dir {} shop.o", ["shop.orders"]),
        ("audit --dir {}/nothing ", []),
        ("--target prod history --dir {} ", []),
    ],
)
def test_names_of_the_stack_are_completed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: str, names: list[str]
) -> None:
    assert completed(capsys, monkeypatch, f"firn {words.format(folder)}") == names


def test_completion_loads_no_lake_until_it_is_asked() -> None:
    program = "import sys, firn_cli.main; assert 'pyiceberg' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
