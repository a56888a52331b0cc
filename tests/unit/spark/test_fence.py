"""What of the fence needs no JVM."""

import time
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
