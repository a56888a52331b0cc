"""Mistakes of file sinks."""

from typing import Final

from tests.mutants.copy import Mutant

_SINKS: Final = "layers/core/python/firn/sinks"
_JOB: Final = "tests/unit/sinks/test_sinks_of_a_job.py"

MUTANTS: Final = (
    Mutant(
        "a job writes its own plan beside a twin's",
        f"{_SINKS}/turn.py",
        "if plans.propose(self.log.store, plan):",
        "if plans.propose(self.log.store, plan) or True:",
        (f"{_JOB}::test_twins_that_plan_at_once_leave_one_set_of_files",),
    ),
    Mutant(
        "a batch of a quarantined epoch is written with the epoch that it is sealed into again",
        f"{_SINKS}/standing.py",
        "return sorted(had & self._batches(taken)) if had else []",
        "return []",
        (f"{_JOB}::test_batches_of_an_epoch_that_is_quarantined_after_its_plan_are_not_written_again",),
    ),
    Mutant(
        "a sink begins behind the newest cut, whatever that says of it",
        f"{_SINKS}/standing.py",
        "begins = dict(before.files) if before else {}",
        "begins: dict[str, int] = {}",
        (f"{_JOB}::test_dispatch_wakes_a_job_that_died_between_the_cut_and_the_files",),
    ),
    Mutant(
        "the log goes though files lack it",
        "layers/core/python/firn/maintenance/log_retention.py",
        "for name, upto in files.items()]",
        "for name, upto in files.items() if not name]",
        (f"{_JOB}::test_the_log_is_kept_until_the_files_have_it",),
    ),
    Mutant(
        "a value may be a folder's .. or look like null",
        "layers/core/python/firn/config/sink_path.py",
        'start = 1 if data[:1] == b"." or data[:2] == b"__" else 0',
        "start = 0",
        ("tests/unit/config/test_sink_path.py::test_no_two_values_give_one_folder",),
    ),
)
