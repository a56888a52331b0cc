"""Mistakes in what the driver does without Spark, on real tables of Iceberg."""

from typing import Final

from tests.mutants.copy import Mutant

_DRIVER: Final = "spark_emr/firn_spark/driver"
_TESTS: Final = "tests/integration/spark"

MUTANTS: Final = (
    Mutant(
        "the driver finds rows that are deleted",
        f"{_DRIVER}/lookup.py",
        "return [place for place in places if place not in gone]",
        "return list(places)",
        (f"{_TESTS}/test_commit.py::test_older_changes_and_deletes_lose_against_newer_rows",),
    ),
    Mutant(
        "the driver remembers deletes after the commit that makes them",
        f"{_DRIVER}/job.py",
        """        small.remember(memory, plan, decoded, decoding, shape, seen, found, decided, truncate, self._last)
        times = {row[told.ORD]: row[told.TS] for row in good}
        summary = outcome.summary(self._stream, self._epochs, self._last)
        small.apply(self._spark, table, decided, shape, found, times, snapshot, summary, self._stream)
""",
        """        times = {row[told.ORD]: row[told.TS] for row in good}
        summary = outcome.summary(self._stream, self._epochs, self._last)
        small.apply(self._spark, table, decided, shape, found, times, snapshot, summary, self._stream)
        small.remember(memory, plan, decoded, decoding, shape, seen, found, decided, truncate, self._last)
""",
        (f"{_TESTS}/test_commit.py::test_a_job_that_dies_after_its_commit_has_remembered_its_deletes",),
    ),
    Mutant(
        "the driver forgets a truncate with its epoch",
        f"{_DRIVER}/deciding.py",
        "newest = max(truncate, before.truncated)",
        "newest = truncate",
        (f"{_TESTS}/test_must_hold.py::test_a_truncate_between_epochs_counts_for_rows_that_come_later",),
    ),
    Mutant(
        "a truncate alone does not meet the moves that the driver knows of",
        f"{_DRIVER}/before.py",
        "linked = linked_keys([*placed, *new_truncate], facts) if creates else set()",
        "linked = linked_keys(placed, facts) if creates else set()",
        (f"{_TESTS}/test_commit.py::test_what_a_move_took_from_a_row_goes_with_a_truncate_that_comes_late",),
    ),
    Mutant(
        "the driver appends again what the table has",
        f"{_DRIVER}/append.py",
        "mine.pop(one, None)",
        "mine.get(one)",
        (f"{_TESTS}/test_lake_contract.py::test_contract[an_append_table_takes_each_event_once-driver]",),
    ),
)
