"""Dispatch's part in the accounts of tenants: what was sealed, counted each few minutes, and told as metrics."""

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from firn.config.model import Config
from firn.errors import FirnError
from firn.log.store import Store
from firn.usage import stream_account
from firn.usage.tenant_metrics import print_sent

Log = logging.Logger | Any  # Powertools' logger, which is not a logging.Logger
_MINUTES: Final = 5  # dispatch runs each minute, and a look costs three requests


def has_tenants(config: Config) -> bool:
    """Whether any stream has writers, so that accounts are kept of all: jobs are shared."""
    return any(stream.writers for stream in config.streams.values())


def count_sent(
    store: Store, config: Config, streams: Iterable[str], now: datetime, log: Log, *, force: bool = False
) -> None:
    """Bring the streams' accounts on, each fifth minute or by `force`. Fails nobody."""
    if not has_tenants(config) or not (force or now.minute % _MINUTES == 0):
        return
    for stream in streams:
        try:
            print_sent(config, stream_account.update(store, stream, now))
        except FirnError as error:
            log.warning("what tenants sent is counted later", extra={"stream": stream, "reason": str(error)})
