"""When small files are looked at: every sixteenth commit since rows were last moved."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from firn.log import layout
from firn.log.table_health import Health
from firn.maintenance.compaction_trigger import EVERY, MANY_FILES, is_due, may_look, since_merge
from firn.tables.table_state import TableState

COMMIT = {"operation": "overwrite", "firn.epoch.shop": "1"}
MERGE = {"operation": "replace"}


def state(*newest_first: Mapping[str, str]) -> TableState:
    return TableState("file:///t", {}, (), 1, newest_first)


@pytest.mark.parametrize(
    ("commits", "due"),
    [(0, False), (1, False), (EVERY - 1, False), (EVERY, True), (EVERY + 1, False), (2 * EVERY, True)],
)
@pytest.mark.parametrize("before", [(), (MERGE, *[COMMIT] * 5)])
def test_every_sixteenth_commit_since_the_last_merge_is_a_turn(
    commits: int, due: bool, before: tuple[Mapping[str, str], ...]
) -> None:
    one = state(*[COMMIT] * commits, *before)
    assert since_merge(one.ancestry) == commits
    assert is_due(one) == due


def test_a_table_that_is_not_there_needs_none() -> None:
    assert not is_due(None)


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
