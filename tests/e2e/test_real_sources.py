"""The examples with real sources, as a user runs them. Skipped, with what is missing, where the machine lacks it.

The gate runs the first; kills, the SQS sink, Kafka and the long runs are `make soak`'s.
"""

import json
import subprocess
import sys
from typing import Any

import pytest

from examples.sources.needs import SKIPPED
from tests.e2e.conftest import ROOT
from tests.soak import long_only

pytestmark = pytest.mark.spark


def run(module: str, *arguments: str, seconds: int = 600) -> dict[str, Any]:
    """What the example says of itself. Its processes end with it, also if it takes too long."""
    command = [sys.executable, "-m", f"examples.sources.{module}", "--json", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            out, err = process.communicate(timeout=120)
    if process.returncode == SKIPPED:
        pytest.skip(err)
    assert process.returncode == 0, out + err
    said: dict[str, Any] = json.loads(out)
    print(json.dumps(said, indent=1))
    return said


def all_equal(tables: list[dict[str, Any]]) -> None:
    assert {one["table"] for one in tables} > {"orders", "pgbench_history", "pgbench_accounts"}
    for one in tables:
        assert (one["equal"], one["extra"]) == (one["expected"], 0), one


@long_only
def test_postgres_signed_with_schema_changes_ends_with_every_row_equal() -> None:
    said = run("postgres_to_firn", "--signed", "--transactions", "500", "--rate", "100", "--accounts", "200")
    all_equal(said["tables"])
    assert said["audit"]
    assert said["changes"] > 2_500
    assert said["debezium_starts"] == 1 + len(said["debezium_ended_by_itself"])
    assert sum("schema:" in line for line in said["events"]) == 4


@long_only  # tests/e2e/test_real_kills.py kills the function, tests/integration/stack/test_stack.py the stack
def test_postgres_signed_with_schema_changes_and_kills_ends_with_every_row_equal() -> None:
    said = run(
        "postgres_to_firn", "--signed", "--chaos", "--transactions", "1200", "--rate", "100", "--accounts", "1000"
    )
    all_equal(said["tables"])
    assert said["audit"]
    assert said["changes"] > 6_000
    assert said["debezium_starts"] == 3 + len(said["debezium_ended_by_itself"])
    assert sum("schema:" in line for line in said["events"]) == 4


@long_only
def test_postgres_through_the_sqs_sink_ends_with_every_row_equal() -> None:
    said = run("postgres_to_firn", "--sink", "sqs", "--transactions", "300", "--rate", "30", "--accounts", "200")
    all_equal(said["tables"])
    assert said["audit"]


@long_only
def test_kafka_with_kills_and_more_partitions_and_everything_twice_ends_with_every_row_equal() -> None:
    said = run("kafka_to_firn", "--transactions", "1200", "--rate", "40", "--accounts", "500", "--records", "4000")
    all_equal(said["tables"])
    all_equal(said["tables_after_all_again"])
    assert said["audit"]
    assert said["users_wrong"] == [0, 0]
    assert len(said["events"]) == 4
    assert said["messages"] > 10_000, "all of it was read a second time"


@long_only
def test_100_000_changes_through_kills_of_debezium_and_of_firn() -> None:
    said = run("postgres_to_firn", "--signed", "--chaos", "--transactions", "16000", seconds=1800)
    all_equal(said["tables"])
    assert said["audit"]
    assert said["changes"] > 100_000


@long_only
def test_the_sqs_sink_through_kills_of_debezium_and_of_the_functions() -> None:
    said = run("postgres_to_firn", "--sink", "sqs", "--chaos", "--transactions", "3000", "--rate", "50", seconds=1800)
    all_equal(said["tables"])
    assert said["audit"]
