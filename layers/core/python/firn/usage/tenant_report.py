"""What each tenant used in a month, and what that costs by list prices.

A tenant is a name: the writers of that name in all streams, and the reader of that name. Jobs commit for many at once:
what they used is shared by bytes of JSON among all streams that they serve. What is no tenant's is OTHERS': senders
that are no writer, tables that no writer names in `stored_in`, the care of tables.
"""

from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from firn.config.model import Config
from firn.config.table_sizes import TableSizes
from firn.log import query_usage
from firn.log.query_usage import Used
from firn.log.store import Store
from firn.log.stored_sizes import stored_sizes
from firn.log.usage_layout import month_of
from firn.usage import job_account, prices, stream_account
from firn.usage.job_account import CARE, Resources
from firn.usage.job_shares import shared
from firn.usage.stream_account import NOBODY, Sent
from firn.usage.tenant_metrics import OTHERS, writers_of

_READS_AT_ONCE: Final = 32


@dataclass(frozen=True)
class TenantUsage:
    """Of one tenant in a month. `tables`: its tables' bytes, as they were measured last; None of a month that is
    over."""

    tenant: str
    sent: Sent = field(default_factory=Sent)
    jobs: Resources = field(default_factory=Resources)
    tables: Mapping[str, int] | None = None
    queries: int = 0
    query_seconds: float = 0.0

    @property
    def stored_bytes(self) -> int | None:
        """Of all its tables."""
        return None if self.tables is None else sum(self.tables.values())

    @property
    def dollars(self) -> dict[str, float]:
        """By what they are paid for."""
        return {
            "requests": prices.of_requests(self.sent.batches),
            "jobs": prices.of_jobs(self.jobs.vcpu_seconds, self.jobs.memory_seconds),
            "storage": prices.of_storage(self.stored_bytes or 0),
            "queries": prices.of_queries(self.queries, self.query_seconds),
        }

    @property
    def together(self) -> float:
        """All dollars."""
        return sum(self.dollars.values())

    def row(self, month: str) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "tenant": self.tenant,
            "month": month,
            "bytes": self.sent.bytes,
            "requests": self.sent.batches,
            **{name: round(value, 3) for name, value in asdict(self.jobs).items()},
            "stored_bytes": self.stored_bytes,
            "tables": None if self.tables is None else dict(self.tables),
            "queries": self.queries,
            "query_seconds": round(self.query_seconds, 3),
            "dollars": {name: round(value, 6) for name, value in self.dollars.items()},
            "dollars_together": round(self.together, 6),
        }


def tenant_usages(store: Store, config: Config, month: str, now: datetime) -> list[TenantUsage]:
    """Of all tenants, the dearest first, and OTHERS. Raises StorageUnavailable, UnreadableBatch."""
    sent = {name: _sent(store, name, month) for name in config.streams}
    used = {name: job_account.total(store, name, month) for name in config.streams}
    jobs = shared(config, sent, used)
    jobs[NOBODY] = jobs.get(NOBODY, Resources()) + job_account.total(store, CARE, month)
    together: defaultdict[str, Sent] = defaultdict(Sent)
    for by_writer in sent.values():
        for name, one in by_writer.items():
            together[name] += one
    stored = _stored(store, config) if month == month_of(now) else None
    asked = _asked(store, config, month)
    names = dict.fromkeys((*writers_of(config), *asked, *together, *jobs, NOBODY))
    found = [
        TenantUsage(
            name or OTHERS, together.get(name, Sent()), jobs.get(name, Resources()),
            None if stored is None else stored.get(name, {}), one.queries, one.seconds,
        )
        for name in names
        for one in [asked.get(name, query_usage.NOTHING)]
    ]  # fmt: skip
    return sorted(found, key=lambda one: (one.tenant == OTHERS, -one.together, one.tenant))


def _sent(store: Store, stream: str, month: str) -> Mapping[str, Sent]:
    account = stream_account.up_to_now(store, stream, month)
    return {} if account is None else account.sent


def _stored(store: Store, config: Config) -> dict[str, Mapping[str, int]]:
    """What the tables of each tenant take, and NOBODY's."""
    sizes = stored_sizes(store, config.streams)
    tables = TableSizes(sizes)
    patterns: defaultdict[str, list[str]] = defaultdict(list)
    for stream in config.streams.values():
        for writer in stream.writers.values():
            patterns[writer.name] += writer.stored_in
    named = {name: tables.named(some) for name, some in patterns.items()}
    named[NOBODY] = sizes.keys() - set().union(*named.values())
    return {name: {table: sizes[table] for table in sorted(some)} for name, some in named.items()}


def _asked(store: Store, config: Config, month: str) -> dict[str, Used]:
    readers = config.scoped.names if config.scoped is not None else ()
    with ThreadPoolExecutor(_READS_AT_ONCE) as pool:
        found = pool.map(lambda reader: query_usage.used_in(store, reader, month), readers)
        return dict(zip(readers, found, strict=True))
