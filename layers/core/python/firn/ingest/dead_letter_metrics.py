"""Telling CloudWatch about the dead letters of a batch, after it was staged."""

import logging
from datetime import datetime
from typing import Final

import msgspec

from firn.config.model import StreamConfig
from firn.errors import TransientError
from firn.log import layout
from firn.log.batches import UnreadableBatch
from firn.log.dead_letters.letters import count_dead
from firn.log.store import Store
from firn.metrics import dead_lines, known_tables

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
