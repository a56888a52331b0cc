"""What a commit job tells about its speed, as metrics in its log: size, seconds by stage, freshness of its cut."""

import logging
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from firn.commit.job_context import Work
from firn.errors import FirnError
from firn.log import layout
from firn.log.freshness import read_commit
from firn.log.store import modified
from firn.metrics import Metric, emf
from firn.tables.outcome import Outcome

_log: Final = logging.getLogger(__name__)


def lines(
    work: Work, outcomes: Sequence[Outcome], first: int, attempt: int, seconds: float, when: datetime
) -> Iterator[dict[str, Any]]:
    """Lines in CloudWatch's embedded metric format, under {stream} and under {stream, stage}.

    `first`, `attempt`: as the run was started; `seconds`: from the job's own start until now. What storage doesn't tell
    is left out: no job fails because of its metrics.
    """
    stream = {"stream": work.stream}
    values: dict[Metric, float] = {
        Metric.JOB_EVENTS: sum(outcome.events for outcome in outcomes),
        Metric.JOB_BYTES: sum(batch.bytes for epoch in work.epochs.values() for batch in epoch.batches),
        Metric.JOB_SECONDS: round(seconds, 3),
    }
    yield emf(stream, values | _by_the_storages_clock(work, first, attempt), when)
    stages: dict[str, float] = {}
    for outcome in outcomes:
        for stage, spent in outcome.stages.items():
            stages[stage] = stages.get(stage, 0.0) + spent
    for stage, spent in stages.items():
        yield emf(stream | {"stage": stage}, {Metric.STAGE_SECONDS: round(spent, 3)}, when)


def _by_the_storages_clock(work: Work, first: int, attempt: int) -> dict[Metric, float]:
    """How long the newest epoch waited for this run to begin, and the freshness of the cut that it made."""
    found: dict[Metric, float] = {}
    try:
        sealed = modified(work.store, layout.epoch_path(work.stream, work.last))
        began = modified(work.store, layout.attempt_path(work.stream, first, work.last, attempt, "started"))
        commit = read_commit(work.store, work.stream, work.last, list(work.epochs.values()))
    except FirnError as error:
        _log.warning("the freshness of cut %d of %s is not known: %s", work.last, work.stream, error)
        return found
    if sealed is not None and began is not None:
        found[Metric.JOB_START] = max(0.0, (began - sealed).total_seconds())
    for metric, share in ((Metric.FRESHNESS_P50, 0.5), (Metric.FRESHNESS_P99, 0.99)):
        lag = commit.lag(share) if commit else None
        if lag is not None:
            found[metric] = lag
    return found
