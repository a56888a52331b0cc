import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from firn.ingest.accept import accept, accept_messages
from firn.log import layout, published_configs
from firn.log.dead_letters.reasons import ADVICE
from firn.log.store import Store, open_store
from firn_cli.main import main

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
WRONG = "streams: {shop: {envelope: flat, tables: {public.orders: {to: shop.orders, key: [id]}}}}"
RIGHT = "streams: {shop: {tables: {public.orders: {to: shop.orders, key: [id]}}}}"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """The staging store of a stack that has stopped."""
    (tmp_path / "catalog.db").touch()
    return open_store(f"file://{tmp_path}/staging")


def event(number: int) -> str:
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "ts_ms": 1}
    source["sequence"] = f'["{number}","{number}"]'
    return json.dumps({"before": None, "after": {"id": number}, "source": source, "op": "c"})


def firn(folder: Path, *arguments: str) -> int:
    return main(["dead", *arguments, "--dir", str(folder)])


def told(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert firn(folder, *arguments, "--json") == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def letters(store: Store) -> str:
    """Three of a wrong envelope, one cut off, one queue message that is not text. -> the first batch."""
    body = "\n".join([event(1), event(2), event(3), '{"op": "c", '])
    first = accept(store, published_configs.publish(store, WRONG), "shop", body.encode(), now=NOW)
    accept_messages(
        store, published_configs.publish(store, RIGHT), "shop", [b"\xff\x00"], now=NOW + timedelta(seconds=1)
    )
    return first.batch_id


def test_letters_are_listed_by_object_table_and_reason(
    tmp_path: Path, letters: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(tmp_path, capsys, "list")
    assert [(one["table"], one["reason"], one["letters"]) for one in found] == [
        ("public.orders", "missing_op", 3), (None, "bad_json", 1), (None, "not_utf8", 1)
    ]  # fmt: skip
    assert found[0]["object"] == found[0]["batch"] == letters
    assert [one["reason"] for one in told(tmp_path, capsys, "list", "shop", "--reason", "bad_json")] == ["bad_json"]
    assert told(tmp_path, capsys, "list", "--since", "2026-02-01") == []
    assert firn(tmp_path, "list", "--table", "public.orders") == 0
    captured = capsys.readouterr()
    assert "missing_op" in captured.out
    assert f"firn dead show {letters}" in captured.err


def test_a_time_that_is_none_is_a_usage_error(tmp_path: Path, letters: str) -> None:
    assert firn(tmp_path, "list", "--since", "yesterday") == 2


def test_a_letter_is_shown_with_what_to_do_and_the_event(
    tmp_path: Path, letters: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert firn(tmp_path, "show", letters, "1") == 0
    shown = capsys.readouterr().out
    assert "missing_op" in shown
    assert ADVICE["missing_op"] in shown
    assert '"sequence": "[\\"2\\",\\"2\\"]"' in shown
    message = told(tmp_path, capsys, "list", "--reason", "not_utf8")[0]["object"]
    assert firn(tmp_path, "show", message) == 0
    assert "ff 00" in capsys.readouterr().out
    assert firn(tmp_path, "show", letters, "77") == 1
    assert f"no dead letter {letters} 77" in capsys.readouterr().err


def test_replay_says_what_it_did_what_stays_and_what_to_run_next(
    tmp_path: Path, letters: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert firn(tmp_path, "replay", "shop", "--dry-run") == 0
    assert "shop: 3 letters can be replayed" in capsys.readouterr().out
    assert firn(tmp_path, "replay", "shop") == 0
    said = capsys.readouterr().out
    assert "shop: 3 letters replayed, 3 events" in said
    assert "1 still dead, bad_json" in said
    assert "Next: firn flush shop" in said
    again = told(tmp_path, capsys, "replay", "shop")
    assert (again["letters"], again["still"]) == (0, {"bad_json": 1, "not_utf8": 1})
    assert [one["reason"] for one in told(tmp_path, capsys, "list")] == ["bad_json", "not_utf8"]
    everything = told(tmp_path, capsys, "list", "--all")
    assert [layout.is_batch_id(one["replayed_in"] or "") for one in everything] == [True, False, False]


def test_originals_corrected_by_hand_are_replayed_once(
    tmp_path: Path, letters: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "letters.ndjson"
    assert firn(tmp_path, "export", "shop", str(file)) == 0
    assert file.stat().st_mode & 0o077 == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [type(line.get("original")) for line in lines] == [dict, dict, dict, str, type(None)]
    lines[3]["original"] = event(4)
    del lines[4]["original_base64"]
    lines[4]["original"] = json.loads(event(5))
    file.write_text("\n".join(json.dumps(line) for line in lines[2:]))
    capsys.readouterr()
    done = told(tmp_path, capsys, "replay", "shop", "--from", str(file))
    assert (done["letters"], done["events"], done["still"]) == (3, 3, {})
    assert told(tmp_path, capsys, "replay", "shop", "--from", str(file))["letters"] == 0
    assert told(tmp_path, capsys, "replay", "shop")["letters"] == 2
    assert told(tmp_path, capsys, "list") == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "letters.ndjson:2: "),
        ('{"object": "x", "row": 0}', "neither `original` nor `original_base64`"),
        ('{"object": "x", "row": 0, "original": {}}', "no dead-letter object 'x'"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(
    tmp_path: Path, letters: str, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    file = tmp_path / "letters.ndjson"
    file.write_text("\n" + line + "\n")
    assert firn(tmp_path, "replay", "shop", "--from", str(file)) == 1
    assert said in capsys.readouterr().err
    assert firn(tmp_path, "replay", "shop", "--from", str(tmp_path / "none")) == 1
