"""What a commit job says about its speed, and that it opens the gate again: over tables in memory."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from firn.commit import job_metrics
from firn.commit.job_context import Work
from firn.config.model import BacklogLimit
from firn.log import backlog_gate, layout
from firn.log.backlog_gate import judged
from firn.log.store import put
from firn.tables.outcome import Outcome
from tests.faults.calls import Counting, WatchedStore
from tests.model.lake_contract import START, STREAM, Stream, event
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import MemoryLake


@pytest.fixture
def stream() -> Stream:
    return Stream(MemoryGround())


def metrics(stream: Stream) -> dict[str, Any]:
    """All metrics of the last job, by name; those of a stage by stage."""
    found: dict[str, Any] = {}
    for line in stream.lines:
        for group in line.get("_aws", {}).get("CloudWatchMetrics", []):
            assert group["Namespace"] == "Firn"
            assert line["stream"] == STREAM
            for metric in group["Metrics"]:
                if group["Dimensions"] == [["stream", "stage"]]:
                    found.setdefault(line["stage"], line[metric["Name"]])
                elif group["Dimensions"] == [["stream"]]:
                    found[metric["Name"]] = line[metric["Name"]]
    return found


def test_a_job_tells_its_size_its_time_and_the_freshness_of_its_cut(stream: Stream) -> None:
    stream.land(event("c", 10, {"id": 1}), event("c", 11, {"id": 2}))
    found = metrics(stream)
    assert set(found) == {
        "firn_job_events", "firn_job_bytes", "firn_job_seconds", "firn_job_start_seconds",
        "firn_freshness_p50_seconds", "firn_freshness_p99_seconds",
    }  # fmt: skip
    assert found["firn_job_events"] == 2
    assert found["firn_job_bytes"] > 1_000
    assert 0 <= found["firn_job_start_seconds"] <= found["firn_freshness_p50_seconds"] < 60
    assert stream.lines[-1]["status"] == "committed", "the last line is the job's own"


def test_the_seconds_of_a_stage_are_the_sum_over_the_tables(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(work: Work, outcomes: Sequence[Outcome], *more: Any) -> Iterator[dict[str, Any]]:
        for outcome in outcomes:
            outcome.stages = {"fold": 1.25, "write": 0.5}
        return lines(work, outcomes, *more)

    lines = job_metrics.lines
    monkeypatch.setattr(job_metrics, "lines", timed)
    stream.land(event("c", 10, {"id": 1}), event("c", 11, {"id": 2}, table="other"))
    found = metrics(stream)
    assert (found["fold"], found["write"]) == (2.5, 1.0)


def test_a_job_that_failed_tells_no_freshness(stream: Stream) -> None:
    epoch = stream.seal(event("c", 10, {"id": 1}))
    stream.ground.catalog.around = refused  # type: ignore[attr-defined]
    assert stream.commit(epoch) == 1
    assert metrics(stream) == {}


def refused(call: Any, effect: Callable[[], Any]) -> Any:
    raise ConnectionError("no catalog")


def test_storage_that_does_not_tell_the_time_fails_no_job(stream: Stream) -> None:
    epoch = stream.seal(event("c", 10, {"id": 1}))
    ground = stream.ground
    assert isinstance(ground, MemoryGround)
    gate = Counting("head epochs", "refused", "name")
    store = WatchedStore(ground.store, gate)  # type: ignore[arg-type]
    assert stream.commit(epoch, store=store, lake=MemoryLake(store, ground.catalog)) == 0
    assert gate.hit == "head epochs"
    assert set(metrics(stream)) == {"firn_job_events", "firn_job_bytes", "firn_job_seconds"}


def test_a_cut_opens_the_gate_that_the_backlog_had_shut(stream: Stream) -> None:
    epoch = stream.seal(event("c", 10, {"id": 1}))
    limit = BacklogLimit(bytes=1_000)
    put(stream.store, layout.state_path(STREAM), backlog_gate.encode(judged(STREAM, 1, 1, 9_000, None, limit, START)))
    assert stream.commit(epoch) == 0
    told = backlog_gate.read(stream.store, STREAM)
    assert told is not None
    assert (told.over, told.batches) == (False, 0)
    assert told.limit == BacklogLimit(), "the configuration's, as it is now"
