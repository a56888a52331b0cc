"""What of the fence needs no JVM."""

import threading
import time
import weakref
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from firn_spark.tables import fence


def test_no_table_commits_before_java_can_call_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, known = SimpleNamespace(), []

    def starts(found: SimpleNamespace) -> None:
        """As PySpark does: there is a server, and only then Java hears where."""
        if "_callback_server" not in vars(found):
            found._callback_server = object()
            time.sleep(0.1)
            known.append(True)

    def commits(_: int) -> bool:
        fence.answers_java(gateway)
        return bool(known)

    monkeypatch.setattr(fence, "ensure_callback_server_started", starts)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(commits, range(4))) == [True] * 4


class _Connection:
    """What py4j keeps of a thread: its socket closes when nobody has it any more."""

    open = 0

    def __init__(self) -> None:
        _Connection.open += 1

    def __del__(self) -> None:
        _Connection.open -= 1


def test_who_asks_java_while_java_asks_him_leaves_no_connection_behind() -> None:
    of_thread, kept = threading.local(), deque[_Connection]()
    client = SimpleNamespace(deque=kept, get_thread_connection=lambda: of_thread.connection())

    def commits(_: int) -> None:
        one = _Connection()
        of_thread.connection = weakref.ref(one)
        kept.extend([one, one])  # once by the call, once by the one inside of it
        del one
        fence.kept_once(SimpleNamespace(_gateway_client=client))
        kept.remove(of_thread.connection())  # as py4j does when the thread ends

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(commits, range(10)))
    assert (_Connection.open, len(kept)) == (0, 0)
