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
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.gate import STACKS, InOrder, TestFile, draw_the_same_constants, tell_less
from tests.soak import in_turn

settings.register_profile(
    "firn", deadline=None, derandomize=True, max_examples=20, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("soak", settings.get_profile("firn"), derandomize=False, max_examples=5_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "firn"))


_SHARED: set[str] = set()


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
    """Before the first test."""
    _share_what_is_frozen()


def _share_what_is_frozen() -> None:
    """What a table's metadata are made of is frozen, and PyIceberg copies it through and through whenever a step of a
    commit looks at it: most of what a commit costs. In pytest's own process it is shared, until the next step; all
    processes that tests start copy it. Nor does SQLite wait for the disk there: who is killed loses nothing by that."""
    if "pyiceberg.table" in sys.modules and "pyiceberg.table" not in _SHARED:
        _SHARED.add("pyiceberg.table")
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
    if "sqlalchemy" in sys.modules and "sqlalchemy" not in _SHARED:
        _SHARED.add("sqlalchemy")
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


_NICE = os.getpriority(os.PRIO_PROCESS, 0) + 5


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The stacks come first: what runs in their process waits for them, and the others have no such queue."""
    if "PYTEST_XDIST_WORKER" in os.environ and not item.nodeid.startswith(STACKS):
        os.setpriority(os.PRIO_PROCESS, 0, _NICE)


def _takes_files(config: pytest.Config) -> bool:
    """Whether this is a process of the gate, which takes the files of tests one by one. A test that is named, or words
    of names, are looked for by pytest."""
    chosen = config.option.keyword or config.option.markexpr or any("::" in one for one in config.args)
    return "PYTEST_XDIST_WORKER" in os.environ and not chosen


def pytest_sessionstart(session: pytest.Session) -> None:
    """In a process of the gate."""
    if _takes_files(session.config):
        draw_the_same_constants()
        tell_less(session.config.pluginmanager.get_plugins())


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(parent: pytest.Collector) -> Generator[None, list[pytest.Collector], list[Any]]:
    """In a process of the gate a file's tests are made when its turn has come."""
    found = yield
    return [TestFile.of(file) for file in found] if _takes_files(parent.config) else found


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Its turn has come."""
    if not isinstance(item, TestFile):
        return None
    item.run_all(nextitem, before=_share_what_is_frozen)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests are made, and none is thrown away: to look for some takes as long as to make them. Nor is it
    done later, while the tests run."""
    gc.disable()
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
    return InOrder(config, log)
