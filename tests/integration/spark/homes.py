"""The two homes of the engine: the job's own process, and Spark's tasks by slices of the keys."""

from collections.abc import Iterable

import pytest

from firn_spark.slices import slice_engine
from tests.soak import long_only

_NAMES = ("driver", "slices")
HOMES = pytest.mark.parametrize("home", _NAMES)


def homes_in_turn(name: str, values: Iterable[object]) -> pytest.MarkDecorator:
    """Each value of a parameter in both homes; in CI in one of them, by turns: where each value is of the same kind,
    and what the homes differ in is shown beside it."""
    return pytest.mark.parametrize(
        (name, "home"),
        [
            pytest.param(value, home, marks=[] if (place + turn) % 2 else [long_only])
            for place, value in enumerate(values)
            for turn, home in enumerate(_NAMES)
        ],
    )


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
