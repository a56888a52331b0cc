"""Files of pipelines in S3, over real HTTP: each is one request that overwrites nothing."""

import random
from typing import Any

import pytest
from moto.s3.models import s3_backends

from firn.commit import sink_turn
from firn.log.store import get, open_store, paths
from firn.sinks import report
from firn.sinks.turn import open_files
from firn_local.aws import ACCOUNT, AwsEndpoint
from tests.unit.spark.test_sink_rows import CONFIG, STREAM, Sinks

pytestmark = pytest.mark.stack


def test_files_of_many_megabytes_are_written_once(cold_endpoint: AwsEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    s3_backends[ACCOUNT]["aws"].create_bucket("archive", "us-east-1")
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
