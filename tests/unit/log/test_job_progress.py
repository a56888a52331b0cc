"""The record of a running commit: who is shown as running, and what a line of it says."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from obstore.store import MemoryStore

from firn.log import cuts, job_progress, layout
from firn.log.job_progress import JobProgress
from firn.log.store import put
from tests.unit.log.storage_faults import FaultyStore

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
RUN = "firn-shop-3-4-1"
ONE = JobProgress(1, RUN, "shop", 3, 4, "folding", 1_200_000, 3_000_000, 0, 1, layout.instant(NOW), layout.instant(NOW))


@dataclass
class Case:
    now: datetime = NOW
    run: str | None = RUN
    cut: int = 2
    body: bytes = msgspec.json.encode(ONE)


GONE = {
    "its job is dead for long": Case(now=NOW + timedelta(seconds=31)),
    "the clock is another": Case(now=NOW - timedelta(minutes=2)),
    "it is of another run: the next try is at work": Case(run="firn-shop-3-4-2"),
    "its epochs are in a cut": Case(cut=4),
    "it is no JSON": Case(body=b"{"),
    "it is of a later format": Case(body=msgspec.json.encode(msgspec.structs.replace(ONE, format=99))),
    "its time is none": Case(body=msgspec.json.encode(msgspec.structs.replace(ONE, at="soon"))),
    "its time has no zone": Case(body=msgspec.json.encode(msgspec.structs.replace(ONE, at="2026-01-31T12:00:00"))),
    "no number of its is that large": Case(body=msgspec.json.encode(ONE).replace(b"null", b"1" + b"0" * 400)),
    "less than nothing is done": Case(body=msgspec.json.encode(msgspec.structs.replace(ONE, rows=-1))),
    "it is of another stream": Case(body=msgspec.json.encode(msgspec.structs.replace(ONE, stream="web"))),
    "its stage is none": Case(body=msgspec.json.encode(ONE).replace(b"folding", b"resting")),
}


def look(case: Case) -> JobProgress | None:
    store = MemoryStore()
    put(store, layout.progress_path("shop"), case.body)
    cuts.write(store, cuts.make("shop", case.cut, layout.instant(NOW), {}))
    return job_progress.running(store, "shop", case.now, case.run)


def test_what_runs_is_shown() -> None:
    assert look(Case()) == ONE
    assert look(Case(run=None, now=NOW + timedelta(seconds=29))) == ONE
    assert job_progress.running(MemoryStore(), "shop", NOW) is None


@pytest.mark.parametrize("why", GONE)
def test_what_does_not_run_is_not_shown(why: str) -> None:
    assert look(GONE[why]) is None


def test_a_storage_that_is_away_hides_the_progress_and_fails_nothing() -> None:
    store = FaultyStore()
    put(store, layout.progress_path("shop"), msgspec.json.encode(ONE))
    store.away = True
    assert job_progress.running(store, "shop", NOW) is None


def test_a_run_that_several_streams_share_is_found_by_the_stream_that_it_commits() -> None:
    store = MemoryStore()
    job_progress.write(store, msgspec.structs.replace(ONE, stream="web"))
    found = job_progress.of_run(store, ("shop", "web"), NOW, RUN)
    assert found is not None
    assert found.stream == "web"


def test_a_line_fits_a_narrow_terminal_and_says_stage_rows_and_what_is_left() -> None:
    assert job_progress.summary(ONE) == "folding 1,200,000 of 3,000,000 rows"
    replaced = msgspec.structs.replace
    assert (
        job_progress.summary(replaced(ONE, seconds_left=40)) == "folding 1,200,000 of 3,000,000 rows, about 40 s left"
    )
    assert job_progress.summary(replaced(ONE, seconds_left=600)).endswith("about 10 min left")
    assert job_progress.summary(replaced(ONE, seconds_left=9_000)).endswith("about 2 h 30 min left")
    assert job_progress.summary(replaced(ONE, tables=1, tables_planned=3)).endswith("rows, 1 of 3 tables")
    assert job_progress.summary(replaced(ONE, rows=0, planned=1)) == "folding 0 of 1 row"
    assert len(job_progress.summary(replaced(ONE, stage="committing", seconds_left=9_000))) < 70
