"""Metrics of tenants, by name: of the first NAMED in firn.yaml each, of all others together."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Final

import msgspec

from firn.config.model import Config
from firn.metrics import Metric, emf
from firn.usage.stream_account import NOBODY, Sent

NAMED: Final = 100  # each name of a metric costs by the month
OTHERS: Final = "(others)"
"""No writer and no reader can be called so."""


def print_query(config: Config, reader: str, seconds: float) -> None:
    """Print that a reader of some tables was answered, or refused in the end."""
    name = named(reader, config.scoped.names if config.scoped is not None else ())
    _print({"service": "query", "reader": name}, {Metric.QUERY_SECONDS: round(seconds, 3)})


def print_sent(config: Config, sent: Mapping[str, Sent]) -> None:
    """Print what writers sent; of those who are none nothing."""
    known = set(islice(writers_of(config), NAMED))
    by_name: dict[str, Sent] = {}
    for writer, one in sent.items():
        if writer != NOBODY:
            name = writer if writer in known else OTHERS
            by_name[name] = by_name.get(name, Sent()) + one
    for name, one in by_name.items():
        values: dict[Metric, float] = {Metric.TENANT_BYTES: one.bytes, Metric.TENANT_REQUESTS: one.batches}
        _print({"service": "dispatch", "tenant": name}, values)


def writers_of(config: Config) -> Iterator[str]:
    """The names of all writers, each once, in the file's order."""
    return iter(dict.fromkeys(name for stream in config.streams.values() for name in stream.writers))


def named(name: str, names: Iterable[str]) -> str:
    """The name that a tenant has in metrics. `names`: all, in the file's order. Pure."""
    return name if name in islice(names, NAMED) else OTHERS


def _print(dimensions: Mapping[str, str], values: Mapping[Metric, float]) -> None:
    print(msgspec.json.encode(emf(dimensions, values, datetime.now(UTC), watched=True)).decode(), flush=True)
