"""When small files are looked at: every sixteenth commit, from one of the table's own on since rows were last moved."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from firn.config.names import TableName
from firn.log import layout
from firn.log.table_health import Health
from firn.maintenance.compaction_trigger import EVERY, MANY_FILES, first_turn, is_due, may_look, since_merge
from firn.tables.table_state import TableState

TABLE = TableName("lake", "t")
COMMIT = {"operation": "overwrite", "firn.epoch.shop": "1"}
MERGE = {"operation": "replace"}


def state(*newest_first: Mapping[str, str]) -> TableState:
    return TableState("file:///t", {}, (), 1, newest_first)


@pytest.mark.parametrize("before", [(), (MERGE, *[COMMIT] * 5)])
def test_every_sixteenth_commit_from_the_first_turn_on_is_one(before: tuple[Mapping[str, str], ...]) -> None:
    first = first_turn(TABLE)
    for commits in range(first + 2 * EVERY + 1):
        one = state(*[COMMIT] * commits, *before)
        assert since_merge(one.ancestry) == commits
        assert is_due(TABLE, one) == (commits in (first, first + EVERY, first + 2 * EVERY))


def test_tables_that_are_committed_together_have_their_turns_apart() -> None:
    tables = [TableName("bank", f"accounts_{n}") for n in range(1_000)]
    first = Counter(map(first_turn, tables))
    assert min(first) == EVERY - EVERY // 2
    assert len(first) == EVERY
    assert max(first.values()) < 2 * len(tables) / EVERY
    # No more turns in all than one each sixteenth commit.
    assert sum(map(first_turn, tables)) / len(tables) == pytest.approx(EVERY, abs=1)


def test_a_table_that_is_not_there_needs_none() -> None:
    assert not is_due(TABLE, None)


@pytest.mark.parametrize(
    ("files", "deletes", "minutes", "may"),
    [
        (MANY_FILES, 0, 1, True),
        (MANY_FILES, 1, 1, False),
        (MANY_FILES, 1, 59, False),
        (MANY_FILES, 1, 60, True),
        (10 * MANY_FILES, 0, None, True),
    ],
)
def test_a_table_of_many_files_is_looked_at_once_an_hour(
    files: int, deletes: int, minutes: int | None, may: bool
) -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    one = state({**COMMIT, "total-data-files": str(files), "total-delete-files": str(deletes)}, COMMIT)
    then = None if minutes is None else Health("shop.a", layout.instant(now - timedelta(minutes=minutes)))
    assert may_look(one, then, now) == may
    assert may_look(state(), then, now)
