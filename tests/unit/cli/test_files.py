"""`firn files`, `firn status` and `firn audit` about a pipeline into files."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from firn.log.store import Store
from firn_cli.main import main
from tests.model.lake_contract import Stream, event
from tests.model.memory_ground import MemoryGround
from tests.model.memory_lake import MemoryLake

CONFIG = """
streams:
  shop:
    tables: {{app.orders: {{to: lake.orders, key: [id]}}}}
    pipelines:
      raw:
        sql: SELECT * FROM app.orders
        files: {{to: "{to}", format: json, compression: none, roll: {{every: 24h, size: {size}}}}}
"""


@pytest.fixture
def stream(store: Store, addresses: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stream:
    monkeypatch.chdir(tmp_path)
    ground = MemoryGround()
    ground.store = store
    ground.lake = MemoryLake(store, ground.catalog)
    made = Stream(ground, CONFIG.format(to=(tmp_path / "files").as_uri(), size="1KB"))
    made.land(event("c", 1, {"id": 1}), event("c", 2, {"id": 2}))
    return made


def told(capsys: pytest.CaptureFixture[str], *command: str, code: int = 0) -> Any:
    assert main([*command, "--dir", os.getcwd(), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_it_lists_the_files_and_what_waits(stream: Stream, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stream.publish(CONFIG.format(to=(tmp_path / "files").as_uri(), size="1GB"))
    stream.land(event("c", 3, {"id": 3}))
    found = told(capsys, "files", "shop.raw", "--check")
    assert [(one["rows"], one["first_epoch"], one["last_epoch"]) for one in found["files"]] == [(1, 1, 1)] * 2
    for one in found["files"]:
        assert Path(one["path"].removeprefix("file://")).stat().st_size == one["bytes"]
    assert (found["upto_epoch"], found["waiting"]["events"], found["differences"]) == (1, 1, [])
    assert main(["files", "shop.raw", "--check", "--dir", os.getcwd()]) == 0
    said = capsys.readouterr().out
    assert "1 change to write" in said
    assert "all 2 files are as they were written" in said


def test_a_file_that_is_not_as_it_was_written_is_named(stream: Stream, capsys: pytest.CaptureFixture[str]) -> None:
    file, _ = told(capsys, "files", "shop.raw")["files"]
    place = Path(file["path"].removeprefix("file://"))
    place.write_bytes(b"{}\n")
    name = place.name
    assert told(capsys, "files", "shop.raw", "--check", code=1)["differences"] == [
        f"{name} is another file than the one that was written"
    ]
    place.unlink()
    assert told(capsys, "files", "shop.raw", "--check", code=1)["differences"] == [f"{name} is gone"]


def test_a_pipeline_that_writes_no_files_is_a_wrong_name(stream: Stream, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("shop.other", "shop", "x", ""):
        assert main(["files", name, "--dir", os.getcwd()]) == 1
        assert "shop.raw does: write firn files STREAM.PIPELINE" in capsys.readouterr().err


def test_status_says_why_files_are_not_written(stream: Stream, capsys: pytest.CaptureFixture[str]) -> None:
    stream.land(event("c", 4, {"id": 4, "kills": True}))
    (shop,) = told(capsys, "status")
    (note,) = shop["notes"]
    assert note.startswith("the files of raw are not written above epoch 1 (1 try, the next after 2026-11-21T00:01:")
    assert note.endswith("): TerminalError: this row can't be read; nothing else waits for them")
    assert main(["files", "shop.raw", "--dir", os.getcwd()]) == 0
    assert "not written: TerminalError: this row can't be read; tried 1 times" in capsys.readouterr().out
