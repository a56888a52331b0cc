"""`firn rebuild` as people call it, over a lake and a staging area in files; the job itself is played by the test."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firn.deployment import flush_run, rebuild_run
from firn.deployment.stack import Stack
from firn.errors import UnknownOutcome
from firn.log import epochs, holds, layout, published_configs
from firn.log.batches import FORMAT
from firn.log.epochs import Epoch, EpochBatch
from firn.log.holds import Quarantine
from firn.log.store import Store, put
from firn.runs.emr import EmrJobs
from firn.settings import Settings
from firn_cli.main import main
from firn_lake.catalogs.catalog import open_catalog

CONFIG = """
warehouse: file:///w
catalog: {type: sql}
streams:
  shop: {tables: {app.orders: {to: shop.orders, key: [id]}}}
"""
DONE: dict[str, Any] = {
    "table": "shop.orders", "status": "done", "epochs": {"shop": 2}, "events": 4, "merged": 3, "dead": 0, "dead_new": 0,
    "rows": 1, "only_live": 0, "only_rebuilt": 0,
}  # fmt: skip
Run = Callable[..., tuple[int, str, str]]


class Emr:
    """EMR Serverless's client as far as it is called; a job puts `result` (None: it dies before) when it starts."""

    def __init__(self, store: Store, result: dict[str, Any] | None) -> None:
        self.started: list[list[str]] = []
        self.names: list[str] = []
        self.tokens: list[str] = []
        self.active: list[str] = []
        self.lost = 0
        self._store = store
        self._result = result

    def start_job_run(self, **request: Any) -> dict[str, str]:
        self.tokens.append(request["clientToken"])
        if self.lost:
            self.lost -= 1
            raise UnknownOutcome("no answer")
        spark = request["jobDriver"]["sparkSubmit"]
        self.started.append([spark["entryPoint"], *spark["entryPointArguments"]])
        self.names.append(request["name"])
        run = request["clientToken"]
        if self._result is not None:
            put(self._store, layout.rebuild_path(run), json.dumps(self._result).encode())
        return {"jobRunId": "00f1"}

    def list_job_runs(self, **_: Any) -> dict[str, Any]:
        return {"jobRuns": [{"name": name, "id": "00a7"} for name in self.active]}


@pytest.fixture
def folder(tmp_path: Path, store: Store, addresses: dict[str, str]) -> Path:
    """A stack with a table that is at epoch 2, and a log of three epochs."""
    catalog = open_catalog(addresses["catalog_uri"], addresses["warehouse"], {})
    catalog.create_namespace("shop")
    rows = pa.table({"id": [1]})
    table = catalog.create_table("shop.orders", rows.schema, properties={"firn.key": '["id"]'})
    table.append(rows, snapshot_properties={"firn.epoch.shop": "2"})
    catalog.close()
    config = published_configs.publish(store, CONFIG)
    for n in (1, 2, 3):
        batch = f"shop.{n:012x}{n:016x}"
        put(store, layout.staged_path(batch), b"staged")
        found = [EpochBatch(batch, layout.staged_path(batch), 6, 1)]
        epoch = Epoch(FORMAT, "shop", n, "x", f"2026-03-01T00:0{n}:00.000Z", config.sha, found, {"app.orders": 1})
        put(store, layout.epoch_path("shop", n), epochs.encode(epoch))
    return tmp_path


@pytest.fixture
def play(folder: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Emr]:
    """Plays EMR Serverless: a job with this result that ends in this state."""
    settings = Settings(staging="", emr_application="app", job_entry_point="s3://code/commit.py")

    def emr(result: dict[str, Any] | None = None, state: str = "SUCCESS") -> Emr:
        client = Emr(store, result)
        monkeypatch.setattr(Stack, "jobs", lambda _: EmrJobs(settings, client))
        monkeypatch.setattr(flush_run, "run_state", lambda _stack, _run: (state, "details"))
        for module in (flush_run, rebuild_run):
            monkeypatch.setattr(module, "_POLL_SECONDS", 0.01)
        return client

    return emr


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], folder: Path) -> Run:
    """Runs firn rebuild on the folder -> (exit code, standard output, standard error)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(["rebuild", *arguments, "--dir", str(folder)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_view_is_made_again_in_place_alone_without_a_look_at_the_log(
    run: Run, play: Callable[..., Emr], store: Store, addresses: dict[str, str], capsys: pytest.CaptureFixture[str],
    folder: Path,
) -> None:  # fmt: skip
    catalog = open_catalog(addresses["catalog_uri"], addresses["warehouse"], {})
    catalog.create_table("shop.sums", pa.schema([("n", pa.int64())]), properties={"firn.key": '["_firn_id"]'})
    catalog.close()
    published_configs.publish(store, CONFIG + "views:\n  shop.sums: {sql: SELECT count(*) AS n FROM shop.orders}\n")
    done = {"table": "shop.sums", "status": "done", "epochs": {}, "events": 0, "dead": 0, "rows": 1}
    emr = play(done)
    code, out, err = run("shop.sums", "--in-place")
    assert (code, err.strip()) == (0, ""), err
    assert "shop.sums made again out of the tables that it rests on: 1 row" in out
    assert "--in-place" in emr.started[0]
    assert main(["views", "rebuild", "sums", "--dir", str(folder)]) == 0
    assert "shop.sums made again" in capsys.readouterr().out
    assert len(emr.started) == 2
    for how in (["--check"], ["--into", "shop.again"]):
        code, _, err = run("shop.sums", *how)
        assert code == 1
        assert "shop.sums is the SQL of a view over shop.orders, not of the log" in err


def test_a_rebuild_into_a_table_starts_its_job_and_says_how_to_compare_and_to_switch(
    run: Run, play: Callable[..., Emr]
) -> None:
    emr = play(DONE | {"into": "shop.again"})
    emr.lost = 2  # answers that got lost: asked again with the same token
    code, out, err = run("orders", "--into", "shop.again", "--to", "2")
    assert (code, err.strip()) == (0, "")
    assert len(emr.tokens) == 3
    assert len(set(emr.tokens)) == 1
    (words,) = emr.started
    assert words[0] == "s3://code/rebuild.py"
    given = dict(zip(words[1::2], words[2::2], strict=True))
    assert (given["--table"], given["--into"], given["--to"]) == ("shop.orders", "shop.again", "2")
    assert emr.names[0].endswith(given["--run"])
    assert "shop.orders rebuilt into shop.again, up to epoch shop 2: 1 row from 4 changes" in out
    assert """firn query 'SELECT "id" FROM shop.orders EXCEPT ALL SELECT "id" FROM shop.again'""" in out
    assert "`to: shop.again`" in out


def test_in_place_says_where_the_old_state_is_and_how_to_release_the_table(
    run: Run, play: Callable[..., Emr], store: Store
) -> None:
    held = Quarantine(FORMAT, "shop", 3, "2026-03-01T00:00:00.000Z", "key_changed", "m", "a", table="shop.orders")
    holds.hold(store, held)
    emr = play(DONE | {"tag": "before-rebuild-1", "branch": "rebuild-1", "dead": 2})
    code, out, _ = run("shop.orders", "--in-place")
    assert code == 0
    assert emr.started[0][emr.started[0].index("--in-place") :][:3] == ["--in-place", "--number", "1"]
    assert 'firn query --as-of before-rebuild-1 "SELECT …"' in out
    assert "firn resume shop shop.orders" in out
    assert "2 changes became dead letters: firn dead list" in out


def test_a_table_of_format_3_is_rebuilt_in_place_too(
    run: Run, play: Callable[..., Emr], addresses: dict[str, str]
) -> None:
    catalog = open_catalog(addresses["catalog_uri"], addresses["warehouse"], {})
    file = Path(catalog.load_table("shop.orders").metadata_location.removeprefix("file://"))
    catalog.close()
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format-version": 3, "next-row-id": 1}))
    emr = play(DONE)
    assert run("orders", "--in-place")[0] == 0
    assert "--in-place" in emr.started[0]


def test_a_check_that_finds_differences_exits_1_with_their_number(run: Run, play: Callable[..., Emr]) -> None:
    play(DONE | {"status": "differs", "only_live": 3, "only_rebuilt": 1}, "FAILED")
    code, out, _ = run("orders", "--check")
    assert (code, "3 rows are only in the table, 1 only in the rebuild" in out) == (1, True)
    code, out, _ = run("orders", "--check", "--json")
    assert (code, json.loads(out)["only_live"], json.loads(out)["run"]) == (1, 3, "00f1")
    play(DONE)
    code, out, _ = run("orders", "--check")
    assert (code, "equals its rebuild row for row" in out) == (0, True)


def test_the_same_work_that_is_under_way_is_watched_and_not_started_again(
    run: Run, play: Callable[..., Emr], store: Store
) -> None:
    first = play(DONE)
    assert run("orders", "--check")[0] == 0
    again = play(None)
    again.active = first.names
    assert run("orders", "--check")[0] == 0
    assert again.started == []


def test_a_failed_job_says_why_and_that_it_goes_on(run: Run, play: Callable[..., Emr]) -> None:
    play(DONE | {"status": "failed", "error": "epochs up to 2 of shop: KeyChanged: no"}, "FAILED")
    code, _, err = run("orders", "--in-place")
    assert code == 1
    assert "shop.orders was not rebuilt: epochs up to 2 of shop: KeyChanged: no" in err
    assert "it goes on where it was" in err
    play(None, "FAILED")
    assert "job run 00f1 ended FAILED: details" in run("orders", "--in-place")[2]


def test_a_log_with_holes_is_told_before_any_job_is_started(run: Run, play: Callable[..., Emr], store: Store) -> None:
    emr = play(DONE)
    store.delete(layout.epoch_path("shop", 1))
    code, _, err = run("orders", "--in-place")
    assert (code, emr.started) == (1, [])
    assert "epochs 1 are not in storage" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "one of --into NAME, --in-place, --check"),
        (("--check", "--in-place"), "one of"),
        (("--in-place", "--to", "3"), "--into NAME"),
        (("--check", "--partial"), "--into NAME"),
        (("--into", "again"), "write namespace.table"),
    ],
)
def test_a_wrong_command_line_is_told(run: Run, arguments: tuple[str, ...], said: str) -> None:
    code, _, err = run("orders", *arguments)
    assert code == 2
    assert said in " ".join(err.split())
