"""examples/clickstream: its firn.yaml takes its rows, and its archive holds what the page says."""

import gzip
import json
from pathlib import Path

import pytest

from firn.ingest import accept
from tests.model.lake_contract import Stream
from tests.model.memory_ground import MemoryGround
from tests.unit.spark.test_sink_rows import Lake

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "clickstream"


def test_the_raw_archive_holds_each_click_by_day_and_region(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.model.lake_contract.STREAM", "web")
    ground = MemoryGround()
    ground.lake = Lake(ground.store, ground.catalog)
    text = (EXAMPLE / "firn.yaml").read_text().replace("/tmp/firn-clickstream", str(tmp_path))
    stream = Stream(ground, text)
    accept.accept(
        stream.store, stream.config, "web", (EXAMPLE / "clicks.ndjson").read_bytes(), now=stream.tick(), table="clicks"
    )
    assert stream.commit(stream.seal()) == 0, stream.lines
    files = sorted((tmp_path / "raw").rglob("*.json.gz"))
    found = {
        "/".join(path.relative_to(tmp_path / "raw").parts[:2]): [
            json.loads(line)["id"] for line in gzip.decompress(path.read_bytes()).splitlines()
        ]
        for path in files
    }
    assert found == {
        "dt=2026-11-25/region=eu": [1, 3, 0],
        "dt=2026-11-25/region=us": [2],
        "dt=2026-11-26/region=__null__": [4],
        "dt=2026-11-26/region=a%2Fb": [5],
    }
