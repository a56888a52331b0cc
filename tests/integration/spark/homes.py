"""The two homes of the engine: the job's own process, and Spark's tasks by slices of the keys. And the catalogs."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from firn_spark.slices import slice_engine
from firn_spark.tables import deletes
from tests.soak import long_only

HOMES = pytest.mark.parametrize("home", ["driver", "slices"])  # soak.in_turn says which of them CI runs

_OTHERS = (pytest.param("rest", marks=long_only), "hive")  # hive: skipped where there is none
OTHER_CATALOGS = pytest.mark.parametrize("catalog_uri", _OTHERS, indirect=True)
CATALOGS = pytest.mark.parametrize("catalog_uri", ["sql", *_OTHERS], indirect=True)


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


def planned_again(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Gets each data file for which a commit plans its whole table once more than its look-up did."""
    found: list[str] = []
    real = deletes.tasks_of

    def tasks_of(table: Any, files: Iterable[str]) -> Iterator[Any]:
        asked = list(files)
        found.extend(asked)
        return real(table, asked)

    monkeypatch.setattr(deletes, "tasks_of", tasks_of)
    return found


def row(number: int, **more: object) -> dict[str, object]:
    """A row of three columns."""
    return {"id": number, "v": f"v{number}", "w": f"w{number}"} | more
