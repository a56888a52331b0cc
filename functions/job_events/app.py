"""A job run has ended: what waits for it goes on at once, not with the next tick of the schedule.

Event: "EMR Serverless Job Run State Change" of EventBridge. It names the run and not its stream, comes late, twice or
never, and says nothing that dispatch could rely on: so this asks for the run's name and then does what the schedule
does, for the streams that the run served. Dispatch is idempotent, and the schedule finds what no event told.
https://docs.aws.amazon.com/emr/latest/EMR-Serverless-UserGuide/using-eventbridge.html
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger

from firn.dispatch import scheduled_rounds
from firn.function_context import staging
from firn.log.usage_layout import month_of
from firn.maintenance import launcher
from firn.metrics import Metric
from firn.runs.emr import EmrJobs
from firn.runs.job_runs import ENDED, stream_of
from firn.usage import job_account, tenant_rounds

logger = Logger(service="job_events")


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point -> as dispatch answers; no streams where nothing is to be done."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    detail = event.get("detail") or {}
    run, state = str(detail.get("jobRunId") or ""), detail.get("state")
    settings, store, current, _ = staging()
    if state not in ENDED or not run or detail.get("applicationId") != settings.emr_application:
        logger.info("not an end of a run of ours", extra={"run": run, "state": state})
        return {"streams": []}
    config = current()
    name, used = EmrJobs(settings).ended(run)
    stream = stream_of(name)
    ended = _ended(event)
    if stream is not None:
        tenant_rounds.count_job(store, config, stream, run, used, ended, logger)
    elif name.startswith(launcher.PREFIX):
        job_account.note(store, job_account.CARE, run, used, month_of(ended))
    if state == "FAILED" and name.startswith(launcher.PREFIX):
        scheduled_rounds.count(Metric.JOB_FAILED, "care", 1)
        logger.error("a job that cares for tables failed", extra={"run": run, "reason": detail.get("stateDetails")})
    if stream is None:
        logger.info("no commit job", extra={"run": run, "state": state})
        return {"streams": []}
    if state == "FAILED":
        scheduled_rounds.count(Metric.JOB_FAILED, stream, 1)
        logger.error("a job failed", extra={"run": run, "stream": stream, "reason": detail.get("stateDetails")})
    # A stream that firn.yaml names no more has nothing that could go on.
    names = [name for name in config.sharing(stream) if name in config.streams]
    return {"streams": scheduled_rounds.run(names, settings, store, config, logger)}


def _ended(event: Mapping[str, Any]) -> datetime:
    """When the run ended, which is the same however late or often that is told; now, if it is not said."""
    try:
        return datetime.fromisoformat(str(event.get("time"))).astimezone(UTC)
    except (ValueError, OverflowError):
        return datetime.now(UTC)
