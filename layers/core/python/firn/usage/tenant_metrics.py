"""Metrics of tenants, by name: of the first NAMED in firn.yaml each, of all others together."""

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice
from typing import Final

import msgspec

from firn.config.model import Config
from firn.metrics import Metric, emf

NAMED: Final = 100  # each name of a metric costs by the month
OTHERS: Final = "others"


def print_query(config: Config, reader: str, seconds: float) -> None:
    """Print that a reader of some tables was answered, or refused in the end."""
    readers = config.scoped.names if config.scoped is not None else ()
    values: dict[Metric, float] = {Metric.QUERY_SECONDS: round(seconds, 3)}
    line = emf({"service": "query", "reader": named(reader, readers)}, values, datetime.now(UTC), watched=True)
    print(msgspec.json.encode(line).decode(), flush=True)


def named(name: str, names: Iterable[str]) -> str:
    """The name that a tenant has in metrics. `names`: all, in the file's order. Pure."""
    return name if name in islice(names, NAMED) else OTHERS
