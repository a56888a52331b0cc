"""What look-ups were told of data files counts in the snapshot in which they looked."""

from typing import Any

import pytest

from firn_spark.tables import planned_files
from firn_spark.tables.planned_files import PlannedFile, PlannedFiles

HERE: Any = PlannedFile("file", ["vector"])


def test_a_data_file_is_what_it_was_in_the_snapshot_that_was_looked_at() -> None:
    found = PlannedFiles()
    found.keep(1, "a", HERE)
    assert found.of(1, "a") is HERE
    assert found.of(2, "a") is None, "another commit may have added a vector"
    assert found.of(None, "a") is None
    assert found.of(1, "b") is None


def test_of_very_many_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planned_files, "_MOST", 2)
    found = PlannedFiles()
    for path in "abc":
        found.keep(1, path, HERE)
    assert [found.of(1, path) for path in "abc"] == [HERE, HERE, None]
