"""`firn tier`, and the records that `firn query` leaves."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from firn.log import published_configs, read_records
from firn.log.store import paths
from firn_cli.main import main
from firn_lake.tiering.lifecycle import current_rules
from tests.integration.stack.cold_ground import CONFIG, Ground

pytestmark = pytest.mark.stack


def run(folder: Path, *arguments: str) -> int:
    return main(["tier", *arguments, "--dir", str(folder)])


def test_the_command_explains_tags_and_warms(
    ground: Ground, cold_stack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(cold_stack, "events", "--explain") == 0
    told = capsys.readouterr()
    assert f"{ground.day(-100)} " in told.out
    assert "not touched for 9" in told.out
    assert "list prices of us-east-1, 2026-11-22" in told.err
    assert run(cold_stack, "shop.events", "--dry-run") == 0
    told = capsys.readouterr()
    assert "1 file of" in told.out
    assert "would be tagged for GLACIER_IR" in told.out
    assert f"{ground.lake}: lifecycle rules would be changed: firn-cold-GLACIER_IR warehouse/" in told.out
    assert current_rules(ground.s3, ground.lake) == []
    assert run(cold_stack, "shop.events", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["tiered"]["tagged"] == 1
    assert {one["bucket"]: len(one["changed"]) for one in answer["rules"]} == {ground.lake: 1, ground.staged: 8}
    ground.endpoint.run_lifecycle(datetime.now(UTC))
    assert ground.cold() == {ground.day(-100)}
    assert run(cold_stack, "shop.events", "--explain", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["classes"] == {"GLACIER_IR": 1}
    assert run(cold_stack, "shop.events", "--warm", ground.day(-100)) == 0
    assert "shop.events: 1 file of" in capsys.readouterr().out
    assert ground.cold() == set()


def test_the_command_says_what_is_wrong(cold_stack: Path, ground: Ground, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cold_stack, "shop.events", "--warm", "yesterday") == 1
    assert f"it has {ground.day(-100)}, {ground.day(0)}, or write all" in capsys.readouterr().err
    assert run(cold_stack, "shop.events", "--warm", "all", "--explain") == 2
    assert run(cold_stack, "shop.nothing") == 1
    assert "tables: shop.events" in capsys.readouterr().err
    rule = {"ID": "all", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}}
    ground.s3.put_bucket_lifecycle_configuration(Bucket=ground.lake, LifecycleConfiguration={"Rules": [rule]})
    published_configs.publish(ground.store, CONFIG.replace("cold_after: 40d, ", ""))
    assert run(cold_stack, "shop.events") == 0
    told = capsys.readouterr().err
    assert "tiering is off" in told
    assert f"bucket {ground.lake}: the lifecycle rule all removes objects below warehouse/" in told


def test_queries_are_recorded_where_the_policy_asks_for_it(
    ground: Ground, cold_stack: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["query", "SELECT count(*) AS n FROM shop.events", "--dir", str(cold_stack)]
    assert main(asked) == 0
    assert paths(ground.store, "reads") == []
    published_configs.publish(ground.store, CONFIG.replace("cold_after: 40d", "predictive: true"))
    assert main(asked) == 0
    (path,) = paths(ground.store, "reads")
    assert path.startswith("reads/shop/events/")
    found, _ = read_records.settled(ground.store, "shop/events", "", datetime.now(UTC) + timedelta(hours=4))
    assert [one.partitions for one in found] == [("*",)]
    ground.s3.delete_object(Bucket=ground.staged, Key="config/current.json")
    assert main(asked) == 0, "a read never fails for its record"
    assert "12000" in capsys.readouterr().out
