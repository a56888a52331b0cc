"""What readers of some tables ask is held against their quota, and counted."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

from firn.config.model import Config
from firn.config.reader_scopes import Everything, Scope
from firn.log import query_usage
from firn.log.store import Store
from firn.usage.tenant_metrics import print_query


def expect_seconds_left(store: Store, config: Config, scope: Everything | Scope, now: datetime) -> str:
    """The reader of some tables who asks, "" if it is not one. Raises QuotaUsed, StorageUnavailable."""
    if not isinstance(scope, Scope):
        return ""
    known = config.scoped.named(scope.reader) if config.scoped is not None else None
    query_usage.check(store, scope.reader, known.seconds if known is not None else None, now)
    return scope.reader


@contextmanager
def metered(store: Store, config: Config, reader: str, now: datetime) -> Iterator[None]:
    """Counts the time of what is done within for the reader, however it ends; for "" nothing. `now`: its beginning."""
    began = time.monotonic()
    try:
        yield
    finally:
        if reader:
            seconds = time.monotonic() - began
            query_usage.add(store, reader, seconds, now)
            print_query(config, reader, seconds)
