"""Metrics of tenants, by name: of the first NAMED in firn.yaml each, of all others together."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Final, TypeVar

import msgspec

from firn.config.model import Config
from firn.metrics import Metric, emf
from firn.usage.job_account import Resources
from firn.usage.stream_account import NOBODY, Sent

T = TypeVar("T", Sent, Resources)
NAMED: Final = 100  # each name of a metric costs by the month
OTHERS: Final = "(others)"
"""No writer and no reader can be called so."""


def print_query(config: Config, reader: str, seconds: float) -> None:
    """Print that a reader of some tables was answered, or refused in the end."""
    name = named(reader, config.scoped.names if config.scoped is not None else ())
    _print({"service": "query", "reader": name}, {Metric.QUERY_SECONDS: round(seconds, 3)})


def print_sent(config: Config, sent: Mapping[str, Sent]) -> None:
    """Print what writers sent; of those who are none nothing."""
    for name, one in _by_name(config, sent, Sent()).items():
        values: dict[Metric, float] = {Metric.TENANT_BYTES: one.bytes, Metric.TENANT_REQUESTS: one.batches}
        _print({"service": "dispatch", "tenant": name}, values)


def print_jobs(config: Config, used: Mapping[str, Resources]) -> None:
    """Print what jobs were billed for writers; of those who are none nothing."""
    for name, one in _by_name(config, used, Resources()).items():
        _print({"service": "job_events", "tenant": name}, {Metric.TENANT_VCPU: round(one.vcpu_seconds, 3)})


def _by_name(config: Config, some: Mapping[str, T], nothing: T) -> dict[str, T]:
    known = set(islice(writers_of(config), NAMED))
    found: dict[str, T] = {}
    for writer, one in some.items():
        if writer != NOBODY:
            name = writer if writer in known else OTHERS
            found[name] = found.get(name, nothing) + one
    return found


def writers_of(config: Config) -> Iterator[str]:
    """The names of all writers, each once, in the file's order."""
    return iter(dict.fromkeys(name for stream in config.streams.values() for name in stream.writers))


def named(name: str, names: Iterable[str]) -> str:
    """The name that a tenant has in metrics. `names`: all, in the file's order. Pure."""
    return name if name in islice(names, NAMED) else OTHERS


def _print(dimensions: Mapping[str, str], values: Mapping[Metric, float]) -> None:
    print(msgspec.json.encode(emf(dimensions, values, datetime.now(UTC), watched=True)).decode(), flush=True)
