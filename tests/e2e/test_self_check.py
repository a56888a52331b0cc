"""`firn doctor --deep`: changes go through the whole stack and leave nothing behind."""

import json
from typing import Any

import pytest

from firn.config.reader import parse
from firn.errors import FirnError
from firn.log import published_configs
from firn.log.store import open_store, paths
from firn_cli.check_parts import SELF_CHECK, Check
from firn_cli.self_check import SelfCheck, with_stream
from tests.e2e.conftest import Stack
from tests.soak import long_only

pytestmark = pytest.mark.spark

CONFIG = """
# 'no', 010 and null are texts here
streams:
  shop:
    commit: {fresh: 1s}
    tables:
      "no.010": {to: 'shop."null"', key: ["1e3"]}
"""
PARTS = ["publish", "post", "commit", "queue", "change", "care", "query", "remove"]


def deep(stack: Stack, *options: str) -> dict[str, dict[str, Any]]:
    done = stack.firn("doctor", "--deep", "--json", *options, check=False)
    return {one["name"]: one for one in json.loads(done.stdout)}


@long_only  # tests/e2e/test_deploy_local.py does it in a deployment
def test_changes_go_through_the_stack_and_leave_nothing_behind(stack: Stack) -> None:
    store = open_store(stack.about["staging"])
    before = published_configs.current_sha(store)
    found = deep(stack)
    assert {name: found[name]["ok"] for name in PARTS} == dict.fromkeys(PARTS, True), [found[name] for name in PARTS]
    assert "3 rows are right" in found["change"]["found"]
    assert published_configs.current_sha(store) == before
    assert stack.catalog().list_namespaces() == []
    assert [path for path in paths(store, "") if SELF_CHECK in path] == []


def test_what_is_wrong_is_named_with_what_to_do_and_the_rest_is_not_tried(stack: Stack) -> None:
    done = stack.firn("doctor", "--deep", "--timeout", "1", check=False)  # a job takes longer
    assert done.returncode == 1
    lines = [
        line for line in done.stdout.splitlines() if line.startswith(("wrong", "-     qu", "-     ch", "-     ca"))
    ]
    assert lines[0].startswith("wrong commit")
    assert "not committed after 1 s" in lines[0]
    assert lines[1:] == [f"-     {name:<10}not tried" for name in ("queue", "change", "care", "query")]
    store = open_store(stack.about["staging"])
    assert published_configs.load(store, published_configs.current_sha(store)).streams.keys() == {"shop"}
    # The job was stopped before it could make anything.
    assert done.stdout.splitlines()[-1].startswith("ok    remove")
    assert [path for path in paths(store, "") if SELF_CHECK in path] == []
    assert stack.catalog().list_namespaces() == []


def test_a_stream_is_added_and_all_else_means_what_it_meant() -> None:
    made = parse(with_stream(CONFIG, "scratch", "ns.scratch"))
    old = parse(CONFIG)
    assert made.streams["shop"] == old.streams["shop"]
    assert made.streams.keys() == {"shop", "scratch"}


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("GlueException: AccessDeniedException: glue:CreateTable", "GlueDatabases"),
        ("AccessDenied: s3:PutObject", "compare docs/deploy-aws.md"),
        ("UnknownHostException: db.internal", "Networks"),
        ("something else", "the log"),
    ],
)
def test_a_failure_comes_with_what_to_change(said: str, advice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_self: SelfCheck) -> str:
        raise FirnError(said)

    for part in ("_publish", "_remove"):
        monkeypatch.setattr(SelfCheck, part, fails)
    first, *others = SelfCheck(None, "ns", 1, lambda _part: None).checks()  # type: ignore[arg-type]
    assert (first.name, first.ok) == ("publish", False)
    assert advice in first.advice
    assert others[:-1] == [Check(name, None, "not tried") for name in PARTS[1:-1]]
