"""Metrics as lines in CloudWatch's embedded metric format.

The functions and the commit job print such a line each; CloudWatch Logs makes metrics of them, and a line is plain JSON
for everybody else. `dlq_total{stream,table,reason}` also counts under {stream} alone and, as all that is `watched`,
once more without any dimension: that is what an alarm looks at, which can't know the streams. Two environments in one
account differ in their namespace, which is Powertools' own setting.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from firn.config.model import StreamConfig
from firn.errors import EventError
from firn.log.dead_letters.letters import Counts

NAMESPACE: Final = os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or "Firn"
DEAD: Final = "dlq_total"
INTERNAL: Final = "dlq_internal"  # those of them that are Firn's own mistakes (firn.changes.decode.poison)
UNKNOWN: Final = "unknown"
Unit = Literal["Count", "Bytes", "Seconds"]


def emf(
    dimensions: Mapping[str, str],
    values: Mapping[str, tuple[float, Unit]],
    when: datetime,
    also: Sequence[str] = (),
    *,
    watched: bool = False,
) -> dict[str, Any]:
    """One line: `values` (name -> number, unit) under all `dimensions`, and once more under those of `also` alone.

    `watched`: and once more without dimensions, all streams together.
    """
    return {
        "_aws": {
            "Timestamp": int(when.timestamp() * 1000),
            "CloudWatchMetrics": [
                {
                    "Namespace": NAMESPACE,
                    "Dimensions": [list(dimensions), *([list(also)] if also else []), *([[]] if watched else [])],
                    "Metrics": [{"Name": name, "Unit": unit} for name, (_, unit) in values.items()],
                }
            ],
        },
        **dimensions,
        **{name: value for name, (value, _) in values.items()},
    }


def dead_lines(stream: str, counts: Mapping[str, Mapping[str, int]], when: datetime) -> Iterator[dict[str, Any]]:
    """A line for each source table and reason. `counts`: table ("": not known) -> reason -> letters; `when`: aware."""
    for table, reasons in counts.items():
        for reason, letters in reasons.items():
            names = {"stream": stream, "table": table or UNKNOWN, "reason": reason}
            values: dict[str, tuple[float, Unit]] = {DEAD: (letters, "Count")}
            if reason == "internal":
                values[INTERNAL] = (letters, "Count")
            yield emf(names, values, when, also=["stream"], watched=True)


def known_tables(counts: Counts, settings: StreamConfig) -> dict[str, dict[str, int]]:
    """Letters as `dead_lines` takes them, under the names of tables that a rule takes.

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
        return rule is not None and bool(rule.target(table))
    except EventError:
        return False
