"""`firn refs` as people call it, over a lake in files."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firn_cli.main import main
from firn_lake.catalogs.catalog import open_catalog


@pytest.fixture
def run(tmp_path: Path, addresses: dict[str, str], capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `firn refs …` on a stopped stack with shop.orders, two snapshots -> (exit code, output, error)."""
    catalog = open_catalog(addresses["catalog_uri"], addresses["warehouse"], {})
    catalog.create_namespace("shop")
    rows = pa.table({"id": [1]})
    table = catalog.create_table("shop.orders", rows.schema, properties={"firn.mode": "mirror", "firn.stream": "shop"})
    for epoch in ("1", "2"):
        table.append(rows, snapshot_properties={"firn.epoch.shop": epoch})
    catalog.close()

    def call(command: str, *arguments: str) -> tuple[int, str, str]:
        code = main([command, *arguments, "--dir", str(tmp_path)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_refs_are_made_listed_moved_and_dropped(run: Any) -> None:
    first, second = (one["id"] for one in json.loads(run("history", "orders", "--json")[1]))
    code, out, _ = run("refs", "tag", "orders", "start", "--at", str(first), "--keep", "30d")
    assert (code, out) == (0, f"start is snapshot {first} of orders: firn query --as-of start …\n")
    assert run("refs", "branch", "orders", "work", "--at", "start")[0] == 0
    assert f"work of orders is at snapshot {second}" in run("refs", "fast-forward", "orders", "work", "main")[1]
    found = json.loads(run("refs", "list", "orders", "--json")[1])
    assert [(one["name"], one["kind"], one["snapshot"], one["keep_seconds"]) for one in found] == [
        ("main", "branch", second, None),
        ("start", "tag", first, 30 * 86_400),
        ("work", "branch", second, None),
    ]
    assert "30 d" in run("refs", "list", "orders")[1]
    assert run("refs", "drop", "orders", "start") == (0, "start of orders is dropped\n", "")
    assert len(json.loads(run("refs", "list", "orders", "--json")[1])) == 2


def test_a_fed_table_is_rolled_back_once_somebody_says_what_becomes_of_the_epochs(run: Any) -> None:
    first = json.loads(run("history", "orders", "--json")[1])[0]["id"]
    code, _, err = run("refs", "rollback", "orders", str(first))
    assert (code, "say then='skip' (--then skip)" in err) == (1, True)
    code, out, _ = run("refs", "rollback", "orders", str(first), "--then", "skip", "--json")
    assert code == 0
    newest = json.loads(run("history", "orders", "--json")[1])[-1]
    assert (newest["id"], newest["total"], newest["parent"] != first) == (json.loads(out)["snapshot"], 1, True)


def test_what_can_not_be_is_told(run: Any) -> None:
    assert run("refs", "rollback", "orders", "main", "--then", "forget")[0] == 2
    assert run("refs", "tag", "orders", "start", "--keep", "soon")[0] == 2
    code, _, err = run("refs", "cherry-pick", "orders", "1")
    assert (code, "fed by stream shop" in err) == (1, True)
