"""The two homes of the engine: the job's own process, and Spark's tasks by slices of the keys."""

from collections.abc import Iterable

import pytest

from firn_spark.slices import slice_engine
from tests.soak import long_only

_NAMES = ("driver", "slices")
HOMES = pytest.mark.parametrize("home", _NAMES)


def in_turn(tests: Iterable[pytest.Item]) -> None:
    """Of a test that has other parameters beside HOMES, each of their values takes place in one home in CI, by turns,
    and in both in `make soak` and for a mutant. Which home is first differs from test to test, so that each kind of
    value meets both somewhere."""
    for test in tests:
        given = getattr(test, "callspec", None)
        if given is None or given.params.get("home") not in _NAMES or len(given.params) == 1:
            continue
        name = test.nodeid.partition("[")[0].rpartition("::")[2]
        if (len(name) + sum(given.indices.values())) % 2:
            test.add_marker(long_only)


def commit_in(
    home: str, monkeypatch: pytest.MonkeyPatch, *, events: int | None = None, one_task: int | None = None
) -> None:
    """Has ranges committed in this home. `events`: about so many of a slice; `one_task`: more than these are decoded
    by several tasks."""
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0" if home == "slices" else "20000")
    if events is not None:
        monkeypatch.setattr(slice_engine, "EVENTS", events)
    if one_task is not None:
        monkeypatch.setattr(slice_engine, "_ONE_TASK", one_task)


def row(number: int, **more: object) -> dict[str, object]:
    """A row of three columns."""
    return {"id": number, "v": f"v{number}", "w": f"w{number}"} | more
