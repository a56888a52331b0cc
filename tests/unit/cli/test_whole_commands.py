"""The commands that read tables, of all shards as one."""

import json
from pathlib import Path
from typing import Any

import pytest

from firn.client import StreamClient
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


def test_all_shards_are_followed_and_read_fresh_by_command(
    capsys: pytest.CaptureFixture[str], made: ShardedLake, tmp_path: Path
) -> None:
    at = ("--dir", str(tmp_path))
    assert main(["follow", "shop.orders", "--until", "main", *at]) == 0
    *rows, cursor = map(json.loads, capsys.readouterr().out.splitlines())
    assert [one["change"] for one in rows] == ["insert"] * 3
    assert cursor["cursor"]["table"].startswith("shards of ")
    assert main(["follow", "shop.orders", "--from", json.dumps(cursor["cursor"]), "--until", "main", *at]) == 0
    assert capsys.readouterr().out == ""
    assert told(capsys, "query", "--fresh", "SELECT id FROM shop.orders ORDER BY id", *at) == [
        {"id": 1}, {"id": 2}, {"id": 3}
    ]  # fmt: skip


def test_what_became_of_a_batch_in_a_table_and_its_letters_are_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    dead = [{"reason": "bad_key", "letters": 2, "replayed": 1}]
    answers = {
        "batch": {"table": "shop.orders", "batch_id": "b", "received_at": "now", "rows": 3, "state": "committed",
                  "snapshot": 7, "cut": 1, "dead": dead},
        "dead": {"letters": [{"day": "2026-11-21", "reason": "bad_key", "letters": 2}], "partial": True,
                 "next": "2026-11-20"},
    }  # fmt: skip

    def request(_: StreamClient, method: str, path: str) -> Any:
        asked.append(f"{method} {path}")
        return answers[path.partition("?")[0].rpartition("/")[2]]

    monkeypatch.setattr(StreamClient, "request", request)
    url = ("--url", "http://127.0.0.1:1")
    assert main(["batch", "a b", "--table", "shop.orders", *url]) == 0
    shown = capsys.readouterr().out
    assert "committed in snapshot 7 (cut 1)" in shown
    assert "2 letters, bad_key, 1 replayed" in shown
    assert main(["dead", "count", "shop.orders", "--day", "2026-11-21", *url]) == 0
    counted = capsys.readouterr()
    assert "2026-11-21" in counted.out
    assert "firn dead count shop.orders --day 2026-11-20" in counted.err
    assert asked == ["GET /v1/tables/shop.orders/batch?id=a%20b", "GET /v1/tables/shop.orders/dead?day=2026-11-21"]
    assert told(capsys, "batch", "b", "--table", "shop.orders", *url)["rows"] == 3
