"""When small files are looked at: every sixteenth commit since rows were last moved."""

from collections.abc import Mapping

import pytest

from firn.maintenance.compaction_trigger import EVERY, is_due, since_merge
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
