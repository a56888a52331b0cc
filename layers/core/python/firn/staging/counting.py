"""Telling CloudWatch about the dead letters of a batch, after it was staged."""

import logging
from datetime import datetime
from typing import Final

import msgspec

from firn.errors import TransientError
from firn.staging import layout
from firn.staging.batch import UnreadableBatch
from firn.staging.dead import count_dead
from firn.staging.metrics import dead_lines, known_tables
from firn.staging.store import Store
from firn.streams.config import StreamConfig

_log: Final = logging.getLogger(__name__)


def print_dead(store: Store, settings: StreamConfig, batch: str, when: datetime) -> None:
    """Print `dlq_total` of a batch to standard output, a line for each table and reason. Never fails a request."""
    try:
        _, counts = count_dead(store, layout.batch_dead_path(batch))
    except (TransientError, UnreadableBatch) as error:
        _log.warning("dead letters of %s were not counted: %s", batch, error)
        return
    for line in dead_lines(settings.name, known_tables(counts, settings), when):
        print(msgspec.json.encode(line).decode(), flush=True)
