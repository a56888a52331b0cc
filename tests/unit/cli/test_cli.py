"""The command line as people call it: main(arguments) in this process, over a lake in files and a small ingress."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ingress import Ingress

from firn.client import Retry
from firn.config.reader import parse
from firn_cli.main import main
from firn_lake.catalogs.catalog import open_catalog

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def folder(tmp_path: Path, ingress: Ingress) -> Path:
    """A stack's folder: a lake with one table of two snapshots, and the ingress as its HTTP side."""
    folder = tmp_path / "stack"
    folder.mkdir()
    described: dict[str, Any] = {
        "pid": os.getpid(),
        "url": ingress.url,
        "staging": f"file://{folder}/staging",
        "warehouse": f"file://{folder}/warehouse",
        "catalog_uri": f"sqlite:///{folder}/catalog.db",
        "queues": {},
        "env": {},
    }
    (folder / "stack.json").write_text(json.dumps(described))
    catalog = open_catalog(described["catalog_uri"], described["warehouse"], {})
    catalog.create_namespace("shop")
    rows = pa.table({"id": [1, 2], "note": ["[bold]a", "b"]})
    properties = {"firn.key": '["id"]', "firn.stream": "shop", "firn.mode": "mirror", "firn.source": "public.orders"}
    table = catalog.create_table("shop.orders", rows.schema, properties=properties)
    table.append(rows, snapshot_properties={"firn.epoch.shop": "1"})
    table.append(pa.table({"id": [3], "note": ["c"]}), snapshot_properties={"firn.epoch.shop": "2"})
    catalog.close()
    return folder


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_tables_shows_rows_and_origin(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, out, _ = run(capsys, "tables", "--dir", folder)
    assert code == 0
    assert "shop.orders" in out
    assert "public.orders" in out
    code, out, _ = run(capsys, "tables", "--dir", folder, "--json", "--exact")
    (table,) = json.loads(out)
    assert (table["name"], table["rows"], table["snapshots"], table["key"]) == ("shop.orders", 3, 2, ["id"])


def test_history_shows_each_snapshot_with_its_epoch(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, out, _ = run(capsys, "history", "orders", "--dir", folder)
    assert code == 0
    assert "shop 2" in out
    _, out, _ = run(capsys, "history", "shop.orders", "--dir", folder, "--json")
    assert [(one["added"], one["total"], one["epochs"]) for one in json.loads(out)] == [
        (2, 2, {"shop": 1}),
        (1, 3, {"shop": 2}),
    ]


def change_orders(folder: Path) -> None:
    """The second order gets another note, the third goes."""
    catalog = open_catalog(f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse", {})
    table = catalog.load_table("shop.orders")
    with table.transaction() as both:
        both.delete("id in (2, 3)")
        both.append(pa.table({"id": [2], "note": ["[bold]new"]}))
    catalog.close()


def test_diff_tells_what_was_and_what_is(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    first, second = json.loads(run(capsys, "history", "shop.orders", "--dir", folder, "--json")[1])
    assert json.loads(run(capsys, "history", "shop.orders", "--dir", folder, "--json", "--last", "1")[1]) == [second]
    change_orders(folder)
    code, out, err = run(capsys, "diff", "orders", second["id"], "--dir", folder)
    assert code == 0
    assert [line.split() for line in out.splitlines() if line.strip()][2:] == [
        ["update", "2", "note:", "b", "->", "[bold]new"],
        ["delete", "3", "note:", "c"],
    ]
    assert err.strip() == "2 changes: 1 update, 1 delete"
    _, out, _ = run(capsys, "diff", "orders", second["id"], "main", "--dir", folder, "--json")
    new = {"id": 2, "note": "[bold]new"}
    assert sorted(json.loads(out), key=lambda one: one["key"]["id"]) == [
        {"change": "update", "key": {"id": 2}, "before": {"id": 2, "note": "b"}, "after": new},
        {"change": "delete", "key": {"id": 3}, "before": {"id": 3, "note": "c"}, "after": None},
    ]
    _, out, err = run(capsys, "diff", "orders", first["id"], "--dir", folder, "--steps", "--limit", 1)
    assert str(second["id"]) in out
    assert "1 shown (--limit 0 shows all)" in err
    assert run(capsys, "diff", "orders", first["id"], first["id"], "--dir", folder)[2].strip() == "0 changes"
    assert "1 delete" in run(capsys, "diff", "orders", second["id"], "--columns", "id", "--dir", folder)[2]


def test_prune_tells_what_a_filter_reads_and_why_not(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, out, err = run(capsys, "explain", "shop.orders", "id >= 3", "--dir", folder)
    assert code == 0
    assert "id: 1..2, not >= 3" in out
    assert "1 of 1" in out
    assert err.startswith("1 of 2 files (")
    found = json.loads(run(capsys, "explain", "orders", "id >= 3", "--dir", folder, "--no-footers", "--json")[1])
    assert {one["verdict"]: one["row_groups"] for one in found["files"]} == {"read": None, "bounds": None}
    assert (
        "1 shown (--limit 0 shows all)"
        in run(capsys, "explain", "orders", "id = 1", "--as-of", "main", "--limit", 1, "--dir", folder)[2]
    )
    code, _, err = run(capsys, "explain", "orders", "nowhere = 1", "--dir", folder)
    assert (code, "Its columns: id (long)" in err) == (1, True)


def test_follow_prints_changes_and_cursors_and_goes_on_from_one(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    code, out, _ = run(capsys, "follow", "orders", "--until", "main", "--dir", folder)
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert sorted(line["key"]["id"] for line in lines[:-1]) == [1, 2, 3]
    change_orders(folder)
    cursor = json.dumps(lines[-1]["cursor"])
    _, out, _ = run(capsys, "follow", "orders", "--from", cursor, "--until", "main", "--dir", folder)
    lines = [json.loads(line) for line in out.splitlines()]
    assert sorted(line["change"] for line in lines[:-1]) == ["delete", "update"]
    code, _, err = run(capsys, "follow", "orders", "--from", '{"table": "x", "snapshot": 1}', "--dir", folder)
    assert (code, "of another table" in err) == (1, True)


def test_diff_of_what_is_not_there_says_what_is(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, _, err = run(capsys, "diff", "orders", "yesterday", "--dir", folder)
    assert (code, "has no such tag or branch (it has: main)" in err) == (1, True)
    code, _, err = run(capsys, "diff", "orders", "main", "--columns", "nota", "--dir", folder)
    assert (code, "do you mean 'note'?" in err) == (1, True)


def test_query_now_and_as_of(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    _, out, _ = run(capsys, "history", "shop.orders", "--dir", folder, "--json")
    first = json.loads(out)[0]["id"]
    sql = "SELECT count(*) AS n FROM shop.orders"
    assert json.loads(run(capsys, "query", sql, "--dir", folder, "--json")[1]) == [{"n": 3}]
    assert json.loads(run(capsys, "query", sql, "--as-of", first, "--dir", folder, "--json")[1]) == [{"n": 2}]


def test_query_shows_values_as_they_are(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, out, err = run(capsys, "query", "SELECT id, note FROM shop.orders ORDER BY id", "--dir", folder, "--limit", 2)
    assert code == 0
    assert "[bold]a" in out
    assert "3 rows, 2 shown" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("query", "DROP TABLE shop.orders"), "a query only reads"),
        (("query", "SELECT * FROM shop.nothing"), "no table 'shop.nothing' in the lake; tables: shop.orders"),
        (("history", "nothing"), "no table 'nothing'"),
    ],
)
def test_what_went_wrong_is_told_in_words(
    capsys: pytest.CaptureFixture[str], folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, out, err = run(capsys, *arguments, "--dir", folder)
    assert code == 1
    assert out == ""
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    "command", [("tables",), ("status",), ("flush",), ("send", "shop", os.devnull), ("batch", "x")]
)
def test_without_a_stack_the_answer_says_how_to_start_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: tuple[str, ...]
) -> None:
    code, _, err = run(capsys, *command, "--dir", tmp_path / "none")
    assert code == 1
    assert "start one with `firn up`" in err


def test_the_tables_of_a_stopped_stack_are_read_from_its_files(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "stack.json").unlink()
    assert json.loads(run(capsys, "tables", "--dir", folder, "--json")[1])[0]["rows"] == 3
    code, _, err = run(capsys, "flush", "--dir", folder)
    assert (code, "no stack runs here" in err) == (1, True)


def test_a_wrong_command_line_is_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "query")[0] == 2
    assert run(capsys, "no-such-command")[0] == 2
    assert run(capsys, "send", "shop", "x", "--split", "0")[0] == 2


@pytest.mark.parametrize(
    "command",
    [
        "init",
        "up",
        "send",
        "flush",
        "query",
        "tables",
        "history",
        "diff",
        "follow",
        "status",
        "batch",
        "doctor",
        "demo",
        "pause",
        "resume",
        "leftovers",
        "deploy",
        "upload",
    ],
)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert "Usage: firn" in out


def test_send_posts_the_file_and_a_second_run_stages_nothing_new(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, ingress: Ingress
) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text("".join(f'{{"n":{number}}}\n' for number in range(100)))
    code, out, _ = run(capsys, "send", "shop", file, "--dir", folder, "--split", 3, "--json")
    sent = json.loads(out)
    assert code == 0
    assert (sent["events"], sent["batches"], sent["accepted"], sent["duplicates"]) == (100, 3, 100, 0)
    assert [event["n"] for event in ingress.events] == list(range(100))
    code, out, _ = run(capsys, "send", "shop", file, "--dir", folder, "--split", 3)
    assert code == 0
    assert "3 batches staged before" in out
    assert len(ingress.staged) == 3


def test_send_needs_no_folder_when_a_url_is_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ingress: Ingress
) -> None:
    file = tmp_path / "events.ndjson"
    file.write_text('{"n":1}\n')
    code, out, _ = run(capsys, "send", "shop", file, "--url", ingress.url, "--dir", tmp_path / "none")
    assert code == 0
    assert "1 event to shop in 1 batch," in out


def test_send_tells_which_events_were_rejected_and_fails(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, ingress: Ingress
) -> None:
    errors = [{"index": 0, "reason": "missing_op", "message": "the event has no op"}]
    ingress.planned = [
        (202, {}, {"batch_id": "b1", "accepted": 0, "rejected": 1, "duplicate": False, "errors": errors})
    ]
    file = tmp_path / "events.ndjson"
    file.write_text('{"n":1}\n')
    code, out, _ = run(capsys, "send", "shop", file, "--dir", folder)
    assert code == 1
    assert "batch b1, event 0: the event has no op" in out


def test_send_names_the_batch_that_was_refused(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, ingress: Ingress
) -> None:
    ingress.planned = [(404, {}, {"error": "unknown_stream", "message": "there is no stream 'nope'"})]
    file = tmp_path / "events.ndjson"
    file.write_text('{"n":1}\n')
    code, _, err = run(capsys, "send", "nope", file, "--dir", folder)
    assert code == 1
    assert "batch 1 (1 events): HTTP 404: there is no stream 'nope'" in err


def test_an_interrupted_send_says_that_a_rerun_is_safe(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, ingress: Ingress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Retry, "wait", lambda *_: 0.0)
    ingress.planned = [None] + [(503, {}, {})] * 20
    file = tmp_path / "events.ndjson"
    file.write_text("1\n2\n")
    code, _, err = run(capsys, "send", "shop", file, "--dir", folder, "--split", 2)
    assert code == 1
    assert "1 events are in: run the same command again" in err


def test_batch_prints_the_stacks_answer(capsys: pytest.CaptureFixture[str], folder: Path, ingress: Ingress) -> None:
    ingress.answers["/v1/batches/shop.1"] = {"batch_id": "shop.1", "state": "staged", "tables": {"public.orders": 2}}
    code, out, _ = run(capsys, "batch", "shop.1", "--dir", folder)
    assert code == 0
    assert "public.orders 2" in out
    assert json.loads(run(capsys, "batch", "shop.1", "--dir", folder, "--json")[1])["state"] == "staged"
    code, _, err = run(capsys, "batch", "other", "--dir", folder)
    assert (code, "HTTP 404" in err) == (1, True)


def test_doctor_checks_the_configuration_by_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    config = tmp_path / "firn.yaml"
    config.write_text("streams:\n  shop:\n    envelop: debezium\n")
    code, out, _ = run(capsys, "doctor", "--config", config, "--dir", tmp_path, "--port", 0, "--json")
    check = next(one for one in json.loads(out) if one["name"] == "config")
    assert code == 1
    assert check["ok"] is False
    assert f"{config}:3" in check["found"]


def test_doctor_asks_the_running_stack(capsys: pytest.CaptureFixture[str], folder: Path, ingress: Ingress) -> None:
    ingress.answers["/v1/health"] = {"status": "ok"}
    _, out, _ = run(capsys, "doctor", "--dir", folder, "--json")
    checks = {one["name"]: one for one in json.loads(out)}
    assert checks["stack"] == {"name": "stack", "ok": True, "found": f"answers at {ingress.url}", "advice": ""}
    assert checks["python"]["ok"] is True


@pytest.mark.parametrize(("rate", "said"), [("5", "'5' is not a size; write 5MB"), ("fast", "'fast' is not a size")])
def test_up_wants_a_rate_in_bytes(capsys: pytest.CaptureFixture[str], rate: str, said: str) -> None:
    code, _, err = run(capsys, "up", "--rate", rate)
    assert (code, said in err) == (2, True), err


@pytest.mark.parametrize(("rate", "bytes_"), [("0", 0), ("20MB", 20_000_000), (None, 10_000_000)])
def test_up_hands_its_rate_to_the_stack(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, rate: str | None, bytes_: int
) -> None:
    given: list[Any] = []
    monkeypatch.setattr("firn_local.up", lambda options: given.append(options) or 0)
    monkeypatch.chdir(ROOT)
    assert run(capsys, "up", *(["--rate", rate] if rate else []))[0] == 0
    assert given[0].rate == bytes_


def test_up_keeps_tables_in_another_catalog_where_it_is_told_to_and_never_in_a_nessie(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(ROOT)
    code, _, err = run(capsys, "up", "--dir", tmp_path / "a", "--catalog", "nessie+https://nessie.example.org/iceberg")
    assert (code, "Firn only reads from it" in err) == (2, True), err
    code, _, err = run(capsys, "up", "--dir", tmp_path / "a", "--catalog", "ftp://host:21")
    assert (code, "ftp:// is the address of no catalog" in err) == (2, True), err
    assert not (tmp_path / "a").exists()
    given: list[Any] = []
    monkeypatch.setattr("firn_local.up", lambda options: given.append(options) or 0)
    assert run(capsys, "up", "--dir", tmp_path / "a", "--catalog", "thrift://metastore:9083")[0] == 0
    assert given[0].catalog == "thrift://metastore:9083"


def test_up_in_a_new_folder_begins_with_a_firn_yaml_for_own_rows(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[Any] = []
    monkeypatch.setattr("firn_local.up", lambda options: given.append(options) or 0)
    monkeypatch.chdir(tmp_path)
    _, out, _ = run(capsys, "up")
    written = tmp_path / given[0].config
    stream = parse(written.read_text(), str(written)).streams["web"]
    assert "wrote firn.yaml" in out
    assert (stream.envelope, str(stream.target("users"))) == ("rows", "web.users")
    written.write_text("mine")
    assert "wrote" not in run(capsys, "up")[1]
    assert written.read_text() == "mine"


@pytest.mark.parametrize("before", [".firn", "other.yaml"])
def test_up_writes_no_firn_yaml_where_data_came_under_another_or_another_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, before: str
) -> None:
    monkeypatch.setattr("firn_local.up", lambda _options: 0)
    monkeypatch.chdir(tmp_path)
    if before == ".firn":
        (tmp_path / ".firn").mkdir()
    run(capsys, "up", *(["--config", before] if before == "other.yaml" else []))
    assert not list(tmp_path.glob("*.yaml"))


@pytest.mark.parametrize("group", [(), ("dead",), ("cut",), ("refs",), ("views",), ("shards",)])
def test_each_command_says_what_it_does_in_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, group: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*group, "--help"]) == 0
    commands = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
    assert len(commands) >= 3
    assert [line for line in commands if "..." in line or len(line.split()) < 3] == []
