"""Queries over HTTP keep their limits, whatever they ask: memory, CPU, time, and a status that docs/http.md has.

The function runs as the embedded stack runs it, by its own template: a process of its own with the worker below it.
"""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from firn.log.published_configs import publish
from firn.log.store import open_store
from firn_lake.catalogs.catalog import open_catalog
from firn_local.environment import REPOSITORY
from firn_local.functions import FunctionRunner
from firn_local.template import read
from tests.attacks.queries import FUNCTIONS, KNOWN, Attack
from tests.soak import few_cases
from tests.unit.functions.conftest import CONFIG

SOAK: Final = os.environ.get("FIRN_SOAK") == "1"
SECONDS: Final = 8 if SOAK else 2
MEGABYTES: Final = 3008 if SOAK else 1536  # the template's, and one that is sooner full
CODES: Final = {200: None, 400: "bad_query", 413: "too_large", 422: "not_encodable", 500: "query_crashed"}
ATTACKS: Final = {name: one for name, one in {**KNOWN, **FUNCTIONS}.items() if SOAK or one.short}


class Function:
    """The query function, over an empty lake."""

    def __init__(self, folder: Path) -> None:
        publish(open_store(f"file://{folder}/staging"), CONFIG)
        open_catalog(f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse", {}).close()
        (spec,) = (one for one in read(REPOSITORY / "template.yaml").functions if one.name == "query")
        environment = {
            "FIRN_STAGING": f"file://{folder}/staging",
            "FIRN_WAREHOUSE": f"file://{folder}/warehouse",
            "FIRN_CATALOG_URI": f"sqlite:///{folder}/catalog.db",
            "FIRN_OPEN_READS": "1",
            "FIRN_QUERY_SECONDS": str(SECONDS),
        }
        self.logs = folder / "logs"
        self.runner = FunctionRunner(replace(spec, memory_mb=MEGABYTES), environment, self.logs)
        self.warm()

    def warm(self) -> None:
        """Until the worker has opened the lake, which takes the first question's time on a busy machine."""
        ends = time.monotonic() + 60
        while self.ask("SELECT 1 AS one")[0] != 200:
            assert time.monotonic() < ends

    def ask(self, sql: str, form: str = "json") -> tuple[int, Any]:
        event = {
            "httpMethod": "POST",
            "path": "/v1/query",
            "headers": {},
            "body": json.dumps({"sql": sql, "format": form}),
            "requestContext": {},
        }
        told = self.runner.invoke(event)
        return told["statusCode"], told

    @property
    def pid(self) -> int:
        (environment,) = self.runner._all
        return environment._process.pid


class Watch:
    """The most memory that the function and its workers had at once, and the CPU they took, while it is entered."""

    def __init__(self, pid: int) -> None:
        self._pid, self._done = pid, threading.Event()
        self.resident = 0
        self._cpu: dict[int, float] = {}

    def __enter__(self) -> "Watch":
        self._began = {pid: cpu for pid, (_, cpu) in self._look().items()}
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        self._at = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.monotonic() - self._at
        self._done.set()
        self._thread.join()
        self.cpu = sum(cpu - self._began.get(pid, 0.0) for pid, cpu in self._cpu.items())

    def _run(self) -> None:
        ended = False
        while not ended:
            ended = self._done.wait(0.005)
            found = self._look()
            self.resident = max(self.resident, sum(resident for resident, _ in found.values()))
            self._cpu |= {pid: cpu for pid, (_, cpu) in found.items()}

    def _look(self) -> dict[int, tuple[int, float]]:
        found = {}
        for pid in (self._pid, *self._children()):
            with suppress(OSError, IndexError):
                resident = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
                ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
                found[pid] = resident, sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        return found

    def _children(self) -> list[int]:
        children = []
        for task in Path(f"/proc/{self._pid}/task").iterdir():
            with suppress(OSError):
                children += [int(child) for child in (task / "children").read_text().split()]
        return children


@pytest.fixture(scope="module")
def function(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Function]:
    started = Function(tmp_path_factory.mktemp("lake"))
    yield started
    started.runner.close()


@few_cases(3)
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=list(ATTACKS))
def test_a_query_ends_within_its_limits_with_its_status(function: Function, attack: Attack) -> None:
    function.warm()
    with Watch(function.pid) as watch:
        status, told = function.ask(attack.sql, attack.format)
    error = json.loads(told["body"])["error"] if status != 200 else None
    print(f"{status} {error or ''} {watch.seconds:.1f} s, {watch.cpu:.1f} s CPU, {watch.resident / 2**20:.0f} MB")
    assert status in attack.statuses, told["body"][:500]
    assert error in (CODES[status], "bad_request")
    assert watch.resident < MEGABYTES * 2**20
    assert watch.seconds < SECONDS + 10  # one is the grace; the rest is for a machine that is busy with other tests
