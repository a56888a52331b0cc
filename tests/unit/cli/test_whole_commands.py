"""The commands that read tables, of all shards as one."""

import json
from pathlib import Path
from typing import Any

import pytest

from firn_cli.main import main
from tests.sharded_lake import ShardedLake
from tests.unit.lake.test_whole_tables import CONFIG, TENANTS, row


@pytest.fixture
def made(tmp_path: Path, addresses: dict[str, str]) -> ShardedLake:
    assert addresses["catalog_uri"].endswith(f"{tmp_path}/catalog.db")
    found = ShardedLake(tmp_path, TENANTS, config=CONFIG)
    found.commit(row(1, "acme", 1), row(2, "umbrella", 2), row(3, None, 3))
    found.commit(row(1, "umbrella", 1))
    return found


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_commands_know_all_shards_as_one(capsys: pytest.CaptureFixture[str], made: ShardedLake, tmp_path: Path) -> None:
    at = ("--dir", str(tmp_path))
    for exact in ((), ("--exact",)):
        tables = {one["name"]: one for one in told(capsys, "tables", *at, *exact)}
        assert (tables["shop.orders"]["rows"], len(tables["shop.orders"]["shards"])) == (3, 3)
        assert [tables[f"{one}.orders"]["rows"] for one in ("acme", "umbrella", "rest")] == [0, 2, 1]
    assert main(["tables", *at]) == 0
    assert "3 shards" in capsys.readouterr().out
    assert told(capsys, "query", "SELECT id FROM shop.orders WHERE w = 'umbrella' ORDER BY id", *at) == [
        {"id": 1}, {"id": 2}
    ]  # fmt: skip
    explained = told(capsys, "explain", "shop.orders", "w = 'acme'", *at)
    assert explained["shards"] == ["rest.orders", "acme.orders"]
    history = told(capsys, "history", "shop.orders", *at)
    assert {(one["added"], one["total"]) for one in history} == {(None, None)}
    (first, _), _ = made.cuts
    (changed,) = told(capsys, "diff", "shop.orders", str(first), *at)
    assert (changed["change"], changed["before"]["w"], changed["after"]["w"]) == ("update", "acme", "umbrella")
    assert main(["history", "shop.orders", *at]) == 0
    assert main(["refs", "tag", "shop.orders", "x", *at]) == 1
    assert "is the shards of a table, and no Iceberg table itself" in capsys.readouterr().err
