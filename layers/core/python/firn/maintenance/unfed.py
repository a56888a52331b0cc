"""The care of tables that no stream feeds, where firn.yaml names them: what is due, and what is left alone. Pure.

Other writers keep their own progress in the summaries of snapshots, as Firn does. Expiry keeps the newest snapshot that
tells each of them, and all that is newer: whoever walks down from main's head finds it there.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from firn.config.maintenance import Expiry
from firn.config.model import Config
from firn.config.names import TableName
from firn.log import layout
from firn.log.table_health import Health, age_seconds
from firn.maintenance.schedule import Kind, tables_due

HEALTH: Final = "_unfed"
"""In whose place of a stream the health of these tables lies. No stream of firn.yaml begins with `_`."""
LOOK_EVERY: Final = timedelta(hours=6)
"""Nobody tells when others commit: a job looks."""
_LOOK: Final = "look:"
# How writers resume: from main's head down they look for the newest snapshot of theirs (FlinkSink, Kafka Connect's
# Coordinator, SparkWrite in Iceberg's sources), whom the values of some tell apart.
WRITERS: Final = ("flink.", "kafka.connect.", "spark.sql.streaming.")
_WHOSE: Final = ("flink.job-id", "flink.operator-id", "spark.sql.streaming.queryId")
# Types that Iceberg's TypeToSparkType (Spark 4.0) has none for.
_UNREADABLE: Final = ("time", "timestamp_ns", "timestamptz_ns", "geometry", "geography")


def due(
    known: Mapping[str, Health], config: Config, kinds: Sequence[Kind], now: datetime
) -> dict[str, dict[Kind, str]]:
    """Table -> what of `kinds` is due of it and why, by the health that a job left (`known`); and name or pattern of
    firn.yaml -> that a job is to look, which goes with the kind `compact`."""
    mine = {name: one for name, one in tables(known).items() if config.care.also.names(TableName.parse(name))}
    found = tables_due(mine, dict.fromkeys(mine, config.care), tuple(kinds), now)
    for pattern in config.care.also.patterns if "compact" in kinds else ():
        looked = known.get(_LOOK + pattern)
        at = looked.measured_at if looked else None
        if age_seconds(at, now) >= LOOK_EVERY.total_seconds():
            found.setdefault(pattern, {})["compact"] = f"last looked at {at}" if at else "never looked at"
    return found


def looked(pattern: str, now: datetime) -> Health:
    """The mark of a look at a name or a pattern."""
    return Health(_LOOK + pattern, layout.instant(now))


def tables(known: Mapping[str, Health]) -> dict[str, Health]:
    """The health of tables, without the marks of looks."""
    return {name: one for name, one in known.items() if not name.startswith(_LOOK)}


def reach(expiry: Expiry, newest_first: Iterable[Mapping[str, str]]) -> Expiry:
    """The rule of expiry for a table with such summaries on main: main stays down to the newest snapshot that tells
    each thing which a writer resumes by. `at_most` wins: who has not committed for so long begins anew."""
    seen: set[tuple[str, tuple[str | None, ...]]] = set()
    furthest = 0
    for place, summary in enumerate(newest_first):
        whose = tuple(summary.get(name) for name in _WHOSE)  # together: Flink's operators are named alike in each job
        told = {(name, whose) for name in summary if name.startswith(WRITERS)}
        if told - seen:
            seen |= told
            furthest = place + 1
    return replace(expiry, at_least=max(expiry.at_least, min(furthest, expiry.at_most)))


def unreadable(fields: Iterable[Mapping[str, Any]]) -> str | None:
    """Why a table with these fields (Iceberg's JSON) is left alone; None if Spark can look at it."""
    for field in fields:
        # A geometry's reference system, and a geography's way between its points, stand behind it in parentheses.
        told = json.dumps(field["type"])
        found = [kind for kind in _UNREADABLE if f'"{kind}"' in told or f'"{kind}(' in told]
        if found:
            return f"its column {field['name']} holds a {found[0]}, and Spark opens no table with such a column"
    return None
