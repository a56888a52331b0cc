"""Dispatch's part in the accounts of tenants: what was sealed, counted each few minutes, and told as metrics."""

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

from firn.config.model import Config
from firn.errors import FirnError
from firn.log.store import Store
from firn.log.usage_layout import month_of
from firn.usage import job_account, stream_account
from firn.usage.job_account import Resources
from firn.usage.job_shares import shared
from firn.usage.tenant_metrics import print_jobs, print_sent

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


def count_job(store: Store, config: Config, stream: str, run: str, used: Resources, now: datetime, log: Log) -> None:
    """Note what a commit job of the stream used, and print it by tenant, by what was sent this month. Fails nobody."""
    month = month_of(now)
    if not job_account.note(store, stream, run, used, month) or not has_tenants(config):
        return
    try:
        accounts = {name: stream_account.read(store, name, month) for name in config.sharing(stream)}
    except FirnError as error:
        log.warning("whose a job was is not told", extra={"stream": stream, "reason": str(error)})
        return
    sent = {name: one.sent for name, one in accounts.items() if one is not None}
    print_jobs(config, shared(config, sent, {stream: used}))
