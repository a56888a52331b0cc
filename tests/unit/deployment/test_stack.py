import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from firn.deployment.stack import NoStack, Stack
from firn.deployment.target import find_stack
from firn_lake.catalogs.stack_catalog import catalog_of


def describe(folder: Path, **more: object) -> None:
    described = {"pid": os.getpid(), "url": "http://127.0.0.1:1/", "warehouse": "s3://w", **more}
    (folder / "stack.json").write_text(json.dumps(described))


def test_a_running_stack_is_found_by_its_folder(tmp_path: Path) -> None:
    describe(tmp_path, env={"AWS_REGION": "us-east-1"})
    stack = find_stack(tmp_path)
    assert stack.url == "http://127.0.0.1:1"
    assert stack.env == {"AWS_REGION": "us-east-1"}
    assert find_stack(tmp_path, "http://other:9/").url == "http://other:9"


def test_a_stack_that_was_killed_is_told_from_one_that_runs(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    describe(tmp_path, pid=ended.pid)
    with pytest.raises(NoStack, match="has ended: start it again"):
        find_stack(tmp_path)
    with pytest.raises(NoStack):  # its tables were in memory
        find_stack(tmp_path, running=False)
    describe(tmp_path, pid=ended.pid, dispatch="firn-local-dispatch")
    with pytest.raises(NoStack, match="again with `make deploy-local`"):
        find_stack(tmp_path)
    describe(tmp_path, pid=ended.pid, warehouse=f"file://{tmp_path}/warehouse")
    assert find_stack(tmp_path, running=False).warehouse.startswith("file:")


def test_a_broken_stack_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text("{")
    with pytest.raises(NoStack, match=r"stack\.json can't be read"):
        find_stack(tmp_path)


def test_queues_of_what_was_given_up_take_no_events(tmp_path: Path) -> None:
    queues = {"Queue": "q", "DeadLetterQueue": "d", "changes-dlq": "e", "Deadlines": "f", "GivenUpQueue": "g"}
    assert Stack(tmp_path, "u", queues=queues).ingress_queues() == {"Queue": "q", "Deadlines": "f"}


def test_only_the_url_is_not_enough_to_read_tables(tmp_path: Path) -> None:
    with pytest.raises(NoStack, match="not its catalog"):
        catalog_of(find_stack(tmp_path, "http://127.0.0.1:1"))
