"""Care after a commit: of the tables whose turn it is, several at once, and what is told of each."""

from datetime import UTC, datetime
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import pytest

from firn.commit import care_turn
from firn.config.names import TableName

TABLES = [TableName("lake", name) for name in ("a", "b", "c")]


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Any:
    """It is the turn of a and c, and the care of each goes on once that of the other has begun."""
    monkeypatch.setattr(care_turn, "is_due", lambda table, _: table.table != "b")
    both = Barrier(2)

    def care(stream: str, table: TableName, how: str, now: datetime) -> list[dict[str, Any]]:
        both.wait(20)
        return [{"of": stream, "how": how}]

    return SimpleNamespace(
        stream="shop",
        touched=TABLES[:2],
        mirrors=[(None, None, TABLES[2]), (None, None, TABLES[0])],
        states={},
        config=SimpleNamespace(care_of=lambda table: f"care of {table}"),
        lake=SimpleNamespace(looks_at_once=4, care=care),
    )


def test_tables_whose_turn_it_is_are_cared_for_at_once_and_told_of_one_after_the_other(work: Any) -> None:
    lines: list[dict[str, Any]] = []
    care_turn.take(work, lines.append, lambda: datetime.now(UTC))
    assert lines == [
        {"stream": "shop", "table": str(one), "of": "shop", "how": f"care of {one}"} for one in (TABLES[0], TABLES[2])
    ]
