"""Profiles of hypothesis. Shared machines stall: a slow example is no failure. The examples are the same in every run,
so that a red run is about the change at hand; HYPOTHESIS_PROFILE=soak looks further, at random.
"""

import atexit
import gc
import os
import sqlite3
import sys
from collections.abc import Callable, Generator, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.soak import in_turn

settings.register_profile(
    "firn", deadline=None, derandomize=True, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("soak", settings.get_profile("firn"), derandomize=False, max_examples=5_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "firn"))


@pytest.fixture(autouse=True)
def no_credentials_of_another_test() -> None:
    """boto3's default session remembers the first credentials that it finds, for as long as the process lives."""
    if "boto3" in sys.modules:
        sys.modules["boto3"].DEFAULT_SESSION = None
    return


@pytest.fixture(scope="session", autouse=True)
def models_of_aws_are_read_once() -> Iterator[None]:
    """Each session of botocore would read megabytes of JSON about AWS again: most of what a client of it costs."""
    from botocore.loaders import JSONFileLoader  # most runs of a single test have no use for it

    read = cache(partial(JSONFileLoader.load_file, JSONFileLoader()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JSONFileLoader, "load_file", lambda _loader, path: read(path))
        yield


def pytest_collection_finish() -> None:
    """What a table's metadata are made of is frozen, and PyIceberg copies it through and through whenever a step of a
    commit looks at it: most of what a commit costs. In pytest's own process it is shared, until the next step; all
    processes that tests start copy it. Nor does SQLite wait for the disk there: who is killed loses nothing by that."""
    if "pyiceberg.table" in sys.modules:
        from pyiceberg.partitioning import PartitionSpec
        from pyiceberg.schema import Schema
        from pyiceberg.table import Transaction
        from pyiceberg.table.refs import SnapshotRef
        from pyiceberg.table.snapshots import MetadataLogEntry, Snapshot, SnapshotLogEntry
        from pyiceberg.table.sorting import SortOrder

        for frozen in (Schema, Snapshot, SnapshotLogEntry, MetadataLogEntry, SnapshotRef, PartitionSpec, SortOrder):
            assert frozen.model_config["frozen"]
            frozen.__deepcopy__ = lambda self, _memo=None: self  # type: ignore[method-assign,assignment,misc]
        Transaction.table_metadata = property(partial(_made_once, Transaction.table_metadata.fget))  # type: ignore[method-assign,assignment]
    if "sqlalchemy" in sys.modules:
        from sqlalchemy import Engine, event

        event.listen(Engine, "connect", _wait_for_no_disk)


def _made_once(make: Callable[[Any], Any], transaction: Any) -> Any:
    """The metadata after the steps that it has: made again where there is another step, or another table below."""
    steps, below = transaction._updates, transaction._table.metadata
    known = transaction.__dict__.get("_made_once")
    if known is None or known[0] is not steps or known[1] is not below:
        known = transaction.__dict__["_made_once"] = (steps, below, make(transaction))
    return known[2]


def _wait_for_no_disk(connection: object, _record: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF").close()


# They start stacks, whose functions and jobs are processes of their own, out of one package that they share: they run
# one after the other, in one process of pytest and always in the same order. The deployment waits for most of its time,
# and has a process of its own.
_DEPLOYMENT = "tests/e2e/test_deploy_local.py"
_STACKS = ("tests/integration/stack", "tests/e2e", "tests/integration/spark/test_packaged_job.py")
# Two processes of pytest take the files of Spark, with a JVM each that lives as long as they do, and one takes what
# needs none. First what takes longest, so that the small files at the end keep all processes busy.
_SPARK = ("tests/integration/spark", "tests/attacks")
_JVMS = 2
_ORDER = (
    "stacks",
    _DEPLOYMENT,
    "tests/integration",
    "tests/attacks/test_events",
    "tests/attacks/test_bodies",
    "tests/attacks/test_names",
    "tests/attacks/test_wrong_events",
    "tests/attacks",
    "tests/mutants",
    "tests/faults",
    "tests/model",
    "tests/property",
)


_NICE = os.getpriority(os.PRIO_PROCESS, 0) + 5


class _InOrder(LoadScopeScheduling):
    """`--dist loadscope`, where a group, and otherwise a file, stays in one process."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        self._with_jvm: set[WorkerController] = set()

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(_STACKS) and not nodeid.startswith(_DEPLOYMENT):
            return "stacks"
        return nodeid.partition("::")[0]

    def _assign_work_unit(self, node: WorkerController) -> None:
        enough = node not in self._with_jvm and len(self._with_jvm) >= _JVMS

        def turn(scope: str) -> tuple[bool, int]:
            place = next((n for n, one in enumerate(_ORDER) if scope.startswith(one)), len(_ORDER))
            return enough and scope.startswith(_SPARK), place

        scope = min(self.workqueue, key=turn)
        if scope.startswith(_SPARK):
            self._with_jvm.add(node)
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The stacks come first: what runs in their process waits for them, and the others have no such queue."""
    if "PYTEST_XDIST_WORKER" in os.environ and not item.nodeid.startswith(_STACKS):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)


def _compile_share(config: pytest.Config) -> None:
    """In a fresh checkout all processes would rewrite and compile all files of tests, side by side. So each does its
    share of them first, where pytest keeps them, and finds those of the others there."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None or sys.dont_write_bytecode:
        return
    processes = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    for file in files[int(worker.removeprefix("gw")) % processes :: processes]:
        kept = rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"
        if not kept.exists() and rewrite.try_makedirs(kept.parent):
            source, code = rewrite._rewrite_test(file, config)
            rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source, kept)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Nine thousand tests are made, and none is thrown away: to look for some takes as long as to make them. Nor is it
    done later, while the tests run."""
    gc.disable()
    _compile_share(session.config)
    try:
        return (yield)
    finally:
        gc.freeze()
        atexit.register(gc.unfreeze)
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What CI leaves to `make soak`; a test that is named is run."""
    if not any("::" in one for one in config.args):
        in_turn(items)


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """What `-n 4 --dist loadscope` runs where."""
    return _InOrder(config, log)
