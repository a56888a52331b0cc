"""Records of what is read, for tables whose tiering asks for them (`predictive`)."""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from firn.config.model import Config
from firn.config.names import TableName
from firn.errors import FirnError
from firn.log import read_records
from firn.log.store import Store

_log: Final = logging.getLogger(__name__)

OnRead = Callable[[tuple[str, ...]], None]
"""Hears of each table that is read, by its identifier."""


def recorder(store: Store, config: Callable[[], Config]) -> OnRead:
    """Leaves a record of each read table with a predictive policy. What can't be recorded is a line in the log: a read
    never fails for it. `config` is asked for once, with the first table."""
    known: list[Config] = []

    def on_read(identifier: tuple[str, ...]) -> None:
        try:
            known[:] = known or [config()]
            name = TableName(".".join(identifier[:-1]), identifier[-1])
            if known[0].care_of(name).tiering.predictive:
                # Which partitions a query left out is not looked at: warm for longer is the smaller harm.
                read_records.record(store, str(name), name.slug, [read_records.EVERYTHING], datetime.now(UTC))
        except (FirnError, ValueError) as error:
            _log.warning("that %s was read can't be recorded: %s", ".".join(identifier), error)

    return on_read
