"""Files of pipelines in S3, over real HTTP: each is one request that overwrites nothing."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from firn.commit import sink_turn
from firn.log.store import get, open_store, paths
from firn.sinks import report
from firn.sinks.turn import open_files
from tests.s3_servers import RIGHT, s3_environment
from tests.unit.spark.test_sink_rows import CONFIG, STREAM, Sinks

pytestmark = pytest.mark.stack


@pytest.fixture(params=RIGHT)
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    with s3_environment(request.param, tmp_path, "archive"):
        yield


@pytest.mark.usefixtures("archive")
def test_files_of_many_megabytes_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks = Sinks()
    sinks.publish(
        CONFIG.format(sql="SELECT * FROM clicks", files="format: json, compression: none, roll: {every: 1s, size: 1GB}")
        .replace("file:///sinks/out", "s3://archive/web")
    )  # fmt: skip
    dice = random.Random(1)
    opened: list[Any] = []

    def watched(to: str) -> Any:
        opened.append(to)
        return open_files(to)

    monkeypatch.setattr(sink_turn, "open_files", watched)
    for _ in range(4):
        sinks.post(*({"id": n, "region": dice.randbytes(1_000).hex()} for n in range(900)))
    sinks.land()
    (found,) = report.of(sinks.store, f"{STREAM}.out").manifests
    (file,) = found.files
    assert opened == ["s3://archive/web"]
    assert file.bytes > 7_000_000
    assert file.rows == 3_600
    store = open_store("s3://archive")
    assert paths(store, "") == [f"web/{file.path}"]
    assert (get(store, f"web/{file.path}") or b"").count(b"\n") == 3_600
    assert list(report.check(sinks.store, report.of(sinks.store, f"{STREAM}.out"), open_files)) == []
