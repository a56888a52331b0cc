"""All metrics, a line of `Metric` each, and how they are printed: as lines in CloudWatch's embedded metric format.

The functions and the commit job print such a line each; CloudWatch Logs makes metrics of them, and a line is plain JSON
for everybody else. `dlq_total{stream,table,reason}` also counts under {stream} alone and, as all that is `watched`,
once more without any dimension: that is what an alarm looks at, which can't know the streams. Two environments in one
account differ in their namespace, which is Powertools' own setting.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum, unique
from typing import Any, Final, Literal

from firn.config.model import StreamConfig
from firn.errors import EventError
from firn.log.dead_letters.letters import Counts

NAMESPACE: Final = os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or "Firn"
UNKNOWN: Final = "unknown"
Unit = Literal["Count", "Bytes", "Seconds"]
Kind = Literal["counter", "gauge"]
Shown = Literal["", "alarm", "dashboard", "alarm, dashboard"]


@unique
class Metric(Enum):
    """Every metric there is.

    value  its name in CloudWatch. The embedded stack shows all of them to Prometheus (firn_local.prometheus)
    unit   CloudWatch's
    kind   counter: what happened, and adds up; gauge: how things are, of which the newest counts
    shown  where else: in an alarm, on the dashboard (infra/monitoring.yaml)
    says   what it says, as in the table of docs/operations.md
    """

    unit: Unit
    kind: Kind
    shown: Shown
    says: str

    def __new__(cls, name: str, unit: Unit, kind: Kind, shown: Shown, says: str) -> "Metric":
        """One line of the registry; `name` becomes the value."""
        one = object.__new__(cls)
        one._value_ = name
        one.unit, one.kind, one.shown, one.says = unit, kind, shown, says
        return one

    # fmt: off
    # ingest
    ACCEPTED = "accepted", "Count", "counter", "dashboard", "changes staged"
    REJECTED = "rejected", "Count", "counter", "dashboard", "events that became dead letters"
    IGNORED = "ignored", "Count", "counter", "", "events that change no row of a configured table"
    BYTES = "bytes", "Bytes", "counter", "", "size of what was taken, as it was sent"
    THROTTLED = "throttled", "Count", "counter", "dashboard", "requests, messages refused over the backlog limit"
    DUPLICATE_MESSAGES = "duplicate_messages", "Count", "counter", "", "queue messages that had been staged before"
    MESSAGES_AGAIN = "messages_again", "Count", "counter", "", "queue messages left in the queue, to come again"
    REFUSED_MESSAGES = "refused_messages", "Count", "counter", "dashboard", "messages for streams that take none"
    # dispatch
    OLDEST = "firn_oldest_uncommitted_seconds", "Seconds", "gauge", "alarm, dashboard", "longest wait for a commit"
    BACKLOG_BYTES = "firn_backlog_bytes", "Bytes", "gauge", "", "size of the batches that wait for their commit"
    BACKLOG_EVENTS = "firn_backlog_events", "Count", "gauge", "dashboard", "changes that wait for their commit"
    BACKLOG_OVER = "firn_backlog_over", "Count", "gauge", "", "1 while the backlog is over its limit, else 0"
    EPOCH_STUCK = "firn_epoch_stuck", "Count", "gauge", "alarm, dashboard", "1 if an epoch has no attempt left"
    QUARANTINED = "firn_quarantined", "Count", "gauge", "alarm, dashboard", "tables, epochs, streams left out"
    DISPATCH_FAILED = "firn_dispatch_failed", "Count", "counter", "", "rounds of dispatch that failed"
    ALERTS_UNTOLD = "firn_alerts_untold", "Count", "counter", "alarm", "messages of alerts that reached nobody"
    # job events
    JOB_FAILED = "firn_job_failed", "Count", "counter", "alarm, dashboard", "runs that failed (`care`: maintenance)"
    # the commit job
    JOB_EVENTS = "firn_job_events", "Count", "counter", "", "commit job: changes of its epochs"
    JOB_BYTES = "firn_job_bytes", "Bytes", "counter", "", "commit job: size of the batches of its epochs"
    JOB_SECONDS = "firn_job_seconds", "Seconds", "counter", "dashboard", "commit job: from its start to its end"
    JOB_START = "firn_job_start_seconds", "Seconds", "gauge", "", "commit job: from its last epoch's seal to start"
    FRESHNESS_P50 = "firn_freshness_p50_seconds", "Seconds", "gauge", "", "commit job: freshness of cut, median"
    FRESHNESS_P99 = "firn_freshness_p99_seconds", "Seconds", "gauge", "dashboard", "commit job: freshness of cut, p99"
    VIEWS_REFRESHED = "firn_views_refreshed", "Count", "counter", "", "commit job: views brought to a cut"
    VIEWS_FAILED = "firn_views_failed", "Count", "counter", "", "commit job: views that could not be refreshed"
    STAGE_SECONDS = "firn_stage_seconds", "Seconds", "counter", "", "commit job: each stage, all tables together"
    # sources that Firn reads itself
    SLOT_LAG = "firn_slot_lag_bytes", "Bytes", "gauge", "", "pull: WAL between a source's slot and its end"
    SLOT_KEPT = "firn_slot_kept_bytes", "Bytes", "gauge", "", "pull: WAL that a source's database keeps for the slot"
    PULL_STOPPED = "firn_pull_stopped", "Count", "gauge", "alarm", "1 while a source is not read on, else 0"
    # tenants: writers of one name, and the reader of that name
    TENANT_BYTES = "firn_tenant_bytes", "Bytes", "counter", "", "JSON of a tenant that was sealed"
    TENANT_REQUESTS = "firn_tenant_requests", "Count", "counter", "", "batches that hold changes of a tenant"
    TENANT_VCPU = "firn_tenant_vcpu_seconds", "Seconds", "counter", "", "a tenant's share of what jobs were billed"
    QUERY_SECONDS = "firn_query_seconds", "Seconds", "counter", "", "queries of a reader of some tables"
    # dead letters
    DEAD = "dlq_total", "Count", "counter", "alarm, dashboard", "dead letters"
    INTERNAL = "dlq_internal", "Count", "counter", "alarm", "those that are Firn's own mistakes: reason `internal`"
    # the embedded stack
    API_REQUESTS = "firn_api_requests_total", "Count", "counter", "", "requests to the embedded stack, by status"
    # fmt: on


def emf(
    dimensions: Mapping[str, str],
    values: Mapping[Metric, float],
    when: datetime,
    also: Sequence[str] = (),
    *,
    watched: bool = False,
) -> dict[str, Any]:
    """One line: `values` under all `dimensions`, and once more under those of `also` alone.

    `watched`: and once more without dimensions, all streams together.
    """
    return {
        "_aws": {
            "Timestamp": int(when.timestamp() * 1000),
            "CloudWatchMetrics": [
                {
                    "Namespace": NAMESPACE,
                    "Dimensions": [list(dimensions), *([list(also)] if also else []), *([[]] if watched else [])],
                    "Metrics": [{"Name": metric.value, "Unit": metric.unit} for metric in values],
                }
            ],
        },
        **dimensions,
        **named(values),
    }


def named(values: Mapping[Metric, float]) -> dict[str, float]:
    """`values` by the metrics' names."""
    return {metric.value: value for metric, value in values.items()}


def dead_lines(stream: str, counts: Mapping[str, Mapping[str, int]], when: datetime) -> Iterator[dict[str, Any]]:
    """A line for each source table and reason. `counts`: table ("": not known) -> reason -> letters; `when`: aware."""
    for table, reasons in counts.items():
        for reason, letters in reasons.items():
            names = {"stream": stream, "table": table or UNKNOWN, "reason": reason}
            values = {Metric.DEAD: letters}
            if reason == "internal":
                values[Metric.INTERNAL] = letters
            yield emf(names, values, when, also=["stream"], watched=True)


def known_tables(counts: Counts, settings: StreamConfig) -> dict[str, dict[str, int]]:
    """Letters as `dead_lines` takes them, under the names of tables that a rule or a pipeline takes.

    All others count as one: each name is a metric that costs money, and these names are whatever somebody sends.
    """
    found: dict[str, dict[str, int]] = {}
    for (table, reason), letters in counts.items():
        name = table if table and _is_known(table, settings) else ""
        of_table = found.setdefault(name, {})
        of_table[reason] = of_table.get(reason, 0) + letters
    return found


def _is_known(table: str, settings: StreamConfig) -> bool:
    try:
        rule = settings.rule_for(table)
        return bool(rule.target(table)) if rule is not None else settings.wants(table)
    except EventError:
        return False
