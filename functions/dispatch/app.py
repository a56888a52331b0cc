"""Scheduled: seal what is staged and start the jobs that commit it.

Event: `{}` from the schedule; `{"stream": "shop"}` for one stream; `{"force": true}` (firn flush) seals at once and
tries stuck epochs again; `{"reconcile": true}` (daily) looks through the whole log.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import MetricUnit, single_metric

from firn.errors import FirnError
from firn.jobs.dispatch import dispatch
from firn.jobs.emr import EmrJobs
from firn.staging.backlog import tell
from firn.staging.ingest import stream_config
from firn.staging.store import Store
from firn.staging.wiring import staging
from firn.streams.config import StreamConfig

logger = Logger(service="dispatch")


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Lambda's entry point -> per stream what was done; one stream's failure doesn't keep the others."""
    logger.append_keys(request_id=getattr(context, "aws_request_id", None))
    settings, store, current, _ = staging()
    config = current()
    # The deployment's own places win over those of firn.yaml, so that `firn up` never writes to the real lake.
    settings = replace(
        settings,
        warehouse=settings.warehouse or config.warehouse,
        catalog_uri=settings.catalog_uri or config.catalog.address,
    )
    jobs = EmrJobs(settings) if settings.emr_application else None
    names = [event["stream"]] if event.get("stream") else list(config.streams)
    force, reconcile = bool(event.get("force")), bool(event.get("reconcile"))
    results: list[dict[str, Any]] = []
    for name in names:
        try:
            done = dispatch(
                store,
                name,
                jobs,
                now=datetime.now(UTC),
                config=config.sha,
                policy=stream_config(config, name).commit,
                generation=stream_config(config, name).generation,
                together=config.sharing(name),
                force=force,
                reconcile=reconcile,
            )
        except FirnError as error:
            logger.error("dispatch failed", extra={"stream": name, "reason": str(error)})
            _count("firn_dispatch_failed", name, 1)
            results.append({"stream": name, "error": str(error)})
            if name in config.streams:
                _tell(store, config.streams[name])
            continue
        logger.info("dispatched", extra=asdict(done))
        _count("firn_epoch_stuck", name, int(done.stuck))
        _count("firn_quarantined", name, len(done.quarantined))
        _tell(store, config.streams[name])
        results.append(asdict(done))
    return {"streams": results}


def _tell(store: Store, settings: StreamConfig) -> None:
    """The backlog, to ingest and to CloudWatch; after a failed dispatch too, when it grows."""
    now = datetime.now(UTC)
    told = tell(store, settings, now)
    if told is not None:
        _count("firn_oldest_uncommitted_seconds", settings.name, told.age(now), MetricUnit.Seconds)
        _count("firn_backlog_bytes", settings.name, told.bytes, MetricUnit.Bytes)
        _count("firn_backlog_events", settings.name, told.events)
        _count("firn_backlog_over", settings.name, int(told.over))


def _count(name: str, stream: str, value: float, unit: MetricUnit = MetricUnit.Count) -> None:
    with single_metric(name=name, unit=unit, value=value, namespace="Firn") as metric:
        metric.add_dimension("service", "dispatch")
        metric.add_dimension("stream", stream)
