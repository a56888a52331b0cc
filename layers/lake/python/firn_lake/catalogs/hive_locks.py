"""Waiting for a Hive Metastore's lock on a table: not for ever, and not for a committer that was killed.

PyIceberg's own wait is 2, 4 and 8 seconds: too long for a lock that is given back at once, and too short for others.
"""

import time
from typing import Any, Final

from hive_metastore.ttypes import (
    CheckLockRequest,
    LockResponse,
    LockState,
    NoSuchLockException,
    ShowLocksRequest,
    TxnOpenException,
    UnlockRequest,
)
from pyiceberg.exceptions import CommitFailedException, WaitingForLockException

from firn.tables.abandoned_locks import DEFAULT_TIMEOUT, TIMEOUT, Lock, abandoned

_PAUSES: Final = (0.05, 0.5)  # seconds between two looks: at first, and at most
_BETWEEN: Final = 2.0  # seconds before it is asked who holds it, and again


def wait(client: Any, database: str, table: str, lock: int, seconds: float) -> LockResponse:
    """The lock, once it is ours. `client`: an open session with the metastore.

    Raises WaitingForLockException if it is not within `seconds`, CommitFailedException if it never will be.
    """
    until, pause, look = time.monotonic() + seconds, _PAUSES[0], time.monotonic() + _BETWEEN
    while True:
        answer: LockResponse = client.check_lock(CheckLockRequest(lockid=lock))
        if answer.state == LockState.ACQUIRED:
            return answer
        if answer.state != LockState.WAITING:
            raise CommitFailedException(f"the lock of {database}.{table} was not given: state {answer.state}")
        now = time.monotonic()
        if now >= until:
            raise WaitingForLockException(f"the lock of {database}.{table} was held for {seconds:g} s by others")
        if now >= look:
            release_abandoned(client, database, table, lock)
            look = now + _BETWEEN
        time.sleep(min(pause, max(0.0, until - now)))
        pause = min(pause * 1.5, _PAUSES[1])


def release_abandoned(client: Any, database: str, table: str, lock: int) -> list[int]:
    """Gives back the locks of a table whose holders have said nothing for the metastore's own time. `lock`: one of
    ours, which tells its clock. -> their ids"""
    timeout = client.get_config_value(TIMEOUT, DEFAULT_TIMEOUT)
    there = client.show_locks(ShowLocksRequest(dbname=database, tablename=table, isExtended=False)).locks or []
    locks = (Lock(one.lockid, one.lastheartbeat or 0, one.txnid or 0) for one in there)
    found = abandoned(locks, lock, timeout)
    for one in found:
        try:
            client.unlock(UnlockRequest(lockid=one))
        except (NoSuchLockException, TxnOpenException):
            continue  # it has ended by itself, or is a transaction's by now
    return found
