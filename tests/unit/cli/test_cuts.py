"""`firn cut` and `firn query --cut` as people call them, over a lake and a staging area in files."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from firn.log import cuts
from firn.log.store import Store
from firn_cli.main import main
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.tables import history

COUNT = "SELECT (SELECT count(*) FROM shop.orders) AS orders, (SELECT count(*) FROM shop.lines) AS lines"


@pytest.fixture
def folder(tmp_path: Path, store: Store, addresses: dict[str, str]) -> Path:
    """A stopped stack's folder with two tables, cut 1 with one row in each, and cut 3 with two."""
    catalog = open_catalog(addresses["catalog_uri"], addresses["warehouse"], {})
    catalog.create_namespace("shop")
    snapshots = []
    for name in ("shop.orders", "shop.lines"):
        rows = pa.table({"id": [1]})
        table = catalog.create_table(name, rows.schema)
        table.append(rows)
        table.append(rows)
        snapshots.append([one.id for one in history(table)])
    for n, place in ((1, 0), (3, 1)):
        tables = {"shop.orders": snapshots[0][place], "shop.lines": snapshots[1][place]}
        cuts.write(store, cuts.make("shop", n, "2026-03-01T00:00:00.000Z", tables))
    catalog.close()
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], folder: Path) -> Any:
    """Runs a command on the folder -> (exit code, standard output, standard error)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--dir", str(folder)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_query_reads_all_tables_at_a_cut_or_at_a_kept_name(run: Any) -> None:
    for cut, rows in (("1", 1), ("3", 2)):
        code, out, _ = run("query", COUNT, "--cut", cut, "--json")
        assert (code, json.loads(out)) == (0, [{"orders": rows, "lines": rows}])
    code, out, _ = run("cut", "keep", "before", "--cut", "1")
    assert (code, "cut 1 of shop is kept as before, in 2 tables" in out) == (0, True)
    code, out, _ = run("query", COUNT, "--cut", "before", "--json")
    assert (code, json.loads(out)) == (0, [{"orders": 1, "lines": 1}])


def test_a_kept_cut_is_dropped(run: Any) -> None:
    run("cut", "keep", "before", "--cut", "1")
    code, out, _ = run("cut", "drop", "before", "--json")
    assert (code, json.loads(out)["cut"], len(json.loads(out)["tables"])) == (0, 1, 2)
    code, _, err = run("cut", "drop", "before")
    assert (code, "no cut is kept as 'before' (kept: none)" in err) == (1, True)


def test_the_newest_cut_is_kept_unless_another_is_named(run: Any) -> None:
    code, out, _ = run("cut", "keep", "now", "--stream", "shop", "--json")
    assert (code, json.loads(out)["cut"]) == (0, 3)
    assert run("cut", "keep", "now")[0] == 0
    code, _, err = run("cut", "keep", "now", "--cut", "1")
    assert code == 1
    assert "now" in err


def test_the_cuts_are_listed_with_their_names(run: Any) -> None:
    run("cut", "keep", "before", "--cut", "1")
    _, out, _ = run("cut", "list", "--json", "--limit", "1")
    assert [(one["stream"], one["cut"], one["kept_as"]) for one in json.loads(out)] == [
        ("shop", 1, ["before"]),
        ("shop", 3, []),
    ]
    code, out, _ = run("cut", "list")
    assert code == 0
    assert "before" in out
    assert json.loads(run("cut", "list", "--stream", "other", "--json")[1]) == []


def test_a_cut_that_is_not_there_is_told_with_those_that_are(run: Any) -> None:
    code, _, err = run("query", COUNT, "--cut", "2")
    assert code == 1
    assert "The next one that holds it is 3 of shop" in err
    code, _, err = run("query", COUNT, "--cut", "nowhere")
    assert (code, "no cut is kept as 'nowhere'" in err) == (1, True)
    code, _, err = run("cut", "keep", "x", "--stream", "other")
    assert (code, "other has no cut yet" in err) == (1, True)


def test_a_cut_of_a_number_that_two_streams_have_needs_the_stream(run: Any, store: Store, folder: Path) -> None:
    lines = cuts.read(store, "shop", 1)
    assert lines is not None
    cuts.write(store, cuts.make("crm", 1, lines.made_at, lines.tables))
    code, _, err = run("query", COUNT, "--cut", "1")
    assert (code, "could be of crm, shop: name one with --stream" in err) == (1, True)
    assert run("query", COUNT, "--cut", "1", "--stream", "shop")[0] == 0


def test_a_table_that_the_cut_leaves_behind_is_told(run: Any, store: Store) -> None:
    newest = cuts.read(store, "shop", 3)
    assert newest is not None
    left = {"shop.lines": "the key changed"}
    cuts.write(store, cuts.make("shop", 4, newest.made_at, newest.tables, quarantined=left))
    code, _, err = run("query", COUNT, "--cut", "4")
    assert (code, "cut 4 leaves shop.lines behind, it is older than the others: the key changed" in err) == (0, True)


def test_without_any_cut_the_list_says_how_to_get_one(run: Any, store: Store) -> None:
    for n in (1, 3):
        store.delete(f"cuts/shop/{n:020d}.json")
    code, out, err = run("cut", "list")
    assert (code, out, "no cuts yet" in err) == (0, "", True)


@pytest.mark.parametrize("options", [("--cut", "1", "--as-of", "main"), ("--stream", "shop")])
def test_options_that_do_not_go_together_are_a_wrong_command_line(run: Any, options: tuple[str, ...]) -> None:
    assert run("query", COUNT, *options)[0] == 2
