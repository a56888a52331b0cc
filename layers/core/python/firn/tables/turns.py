"""Whose turn it is among many tables, told by their names: the same for whoever asks, and without a memory.

A job looks at the tables that its range does not touch as well: somebody may have rolled one back, dropped it, or given
it another snapshot of the same rows. Else the next cut says of it what the one before did. A stream of thousands of
tables would look at nothing else, so they have turns, by the numbers of epochs.
"""

import hashlib
from collections.abc import Collection
from typing import Final

from firn.config.names import TableName

MOST: Final = 50  # tables an epoch, about


def in_turn(tables: Collection[TableName], above: int, last: int) -> frozenset[TableName]:
    """Those of a stream's tables whose turn is in one of the epochs above `above` up to `last`: all, unless they are
    more than MOST. Each has its turn once in as many epochs as there are MOST among them."""
    turns = max(1, -(-len(tables) // MOST))
    if last - above >= turns:
        return frozenset(tables)
    now = {n % turns for n in range(above + 1, last + 1)}
    return frozenset(name for name in tables if own_number(name) % turns in now)


def own_number(table: TableName) -> int:
    """A number of the table's own."""
    return int.from_bytes(hashlib.blake2b(str(table).encode(), digest_size=8).digest())
