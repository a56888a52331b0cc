"""In which order shards are read: one that others were split or merged into after all of these."""

import threading
import time
from typing import Any, cast

import pytest

from firn_local import stream_pollers
from firn_local.functions import FunctionRunner
from firn_local.stream_pollers import _Kinesis, _Source
from firn_local.template import StreamMapping


class Merged(_Kinesis):
    """Two shards and the one that they were merged into. What was begun is in `begun`."""

    def __init__(self) -> None:
        self.arn, self.begun = "arn:aws:kinesis:eu-central-1:123456789012:stream/clicks", list[str]()
        self.ended = threading.Event()

    def shards(self) -> dict[str, set[str]]:
        return {"both": {"left", "right"}, "left": {"expired"}, "right": set()}

    def iterator(self, shard: str) -> str:
        self.begun.append(shard)
        return shard

    def records(self, iterator: str, most: int) -> tuple[list[Any], str | None]:
        ends = iterator == "left" or (iterator == "right" and self.ended.is_set())
        return [], None if ends else iterator


def test_a_shard_that_two_were_merged_into_is_read_once_both_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_pollers, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(stream_pollers, "_POLL_SECONDS", 0.01)
    merged = Merged()
    source = _Source(merged, cast(FunctionRunner, None), cast(StreamMapping, _Mapping()))
    source.start()
    time.sleep(0.3)
    assert sorted(merged.begun) == ["left", "right"]
    merged.ended.set()
    deadline = time.monotonic() + 10
    while "both" not in merged.begun:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    source.stop()


class _Mapping:
    batch_size, window = 10, 0.0
