"""`firn audit` as people call it, over a log and Iceberg tables in files."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.types import StringType

from firn.audit.row_check import RowAccount
from firn.changes.merge.ordering import Order, plain
from firn.commit.staged_changes import raw_changes
from firn.ingest.accept import accept
from firn.log import cuts, epochs, layout, published_configs
from firn.log.store import Store, get, open_store
from firn_cli.commands.audit import _show_rows
from firn_cli.commands.batch import told
from firn_cli.main import main
from firn_lake.audit.row_audit import Depth
from firn_lake.catalogs.catalog import open_catalog

CONFIG = (
    "streams: {shop: {tables: {public.orders: {to: shop.orders, key: [id]}}}, idle: {tables: {'*': {to: 'i.{table}'}}}}"
)


def event(number: int) -> bytes:
    source = {"connector": "postgresql", "schema": "public", "table": "orders", "sequence": f'["{number}","{number}"]'}
    return json.dumps({"op": "c", "after": {"id": number}, "source": source}).encode()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(f"file://{tmp_path}/staging")


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    opened = open_catalog(f"sqlite:///{tmp_path}/catalog.db", f"file://{tmp_path}/warehouse", {})
    yield opened
    opened.close()


@pytest.fixture
def batches(tmp_path: Path, store: Store, catalog: Catalog) -> list[str]:
    """Three epochs of one batch each, committed, the last of them with a letter; one batch more is pending."""
    (tmp_path / "stack.json").write_text(
        json.dumps(
            {
                "url": "http://127.0.0.1:9", "staging": f"file://{tmp_path}/staging",
                "warehouse": f"file://{tmp_path}/warehouse", "catalog_uri": f"sqlite:///{tmp_path}/catalog.db",
            }
        )
    )  # fmt: skip
    config = published_configs.publish(store, CONFIG)
    now = datetime.now(UTC) - timedelta(hours=1)
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.orders", pa.schema({"id": pa.int64(), "_firn_pos": pa.binary()}))
    found = []
    for n in range(1, 4):
        body = event(n) + (b'\n{"op": "x"}' if n == 3 else b"")
        found.append(accept(store, config, "shop", body, now=now + timedelta(minutes=n)).batch_id)
        when = now + timedelta(minutes=n, seconds=1)
        assert epochs.seal(
            store, "shop", epochs.candidates(store, "shop", when), now=when, config=config.sha, nonce="n"
        )
        counts = {"events": 1, "merged": 1, "superseded": 0, "ignored": 0, "dead": 0}
        summary = {f"firn.{name}": str(count) for name, count in counts.items()}
        staged = raw_changes(get(store, layout.staged_path(found[-1])) or b"", n, found[-1], 0, Order())
        rows = pa.table({"id": [n], "_firn_pos": [plain(staged[0]["ord"])]})
        table.append(rows, snapshot_properties=summary | {"firn.epoch.shop": str(n)})
        snapshot = table.current_snapshot()
        assert snapshot is not None
        tables = {"shop.orders": snapshot.snapshot_id}
        told_ = {"progress": {"shop.orders": n}, "counts": {"shop.orders": counts}}
        cuts.write(store, cuts.make("shop", n, "2026-03-01T00:00:00.000Z", tables, **told_))
    found.append(accept(store, config, "shop", event(9), now=now + timedelta(minutes=9)).batch_id)
    return found


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, batches: list[str]) -> Any:
    """Runs a command on the folder -> (exit code, standard output, standard error)."""

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--dir", str(tmp_path)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_a_stream_that_balances_exits_0(run: Any) -> None:
    code, out, _ = run("audit", "shop")
    assert code == 0
    assert "balanced" in out
    code, out, _ = run("audit", "shop", "--json")
    found = json.loads(out)
    assert (code, found["balanced"], found["difference"], found["differences"]) == (0, True, 0, [])
    names = ("acked", "merged", "superseded", "pending", "dead")
    assert {name: found[name] for name in names} == {
        "acked": 5, "merged": 3, "superseded": 0, "pending": 1, "dead": 1
    }  # fmt: skip


def test_a_table_that_was_rolled_back_by_hand_exits_1_and_names_the_batches(
    run: Any, catalog: Catalog, batches: list[str]
) -> None:
    table = catalog.load_table("shop.orders")
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()
    code, out, _ = run("audit", "shop")
    assert code == 1
    assert "DIFFERENCE rolled_back" in out
    assert batches[1] in out
    assert batches[2] in out
    code, out, _ = run("audit", "shop", "--json")
    (one,) = json.loads(out)["differences"]
    assert (code, one["batches"], one["epochs"]) == (1, batches[1:3], [2, 3])
    assert json.loads(out)["pending"] == 3


def test_a_missing_batch_exits_1_and_is_named(run: Any, store: Store, batches: list[str]) -> None:
    store.delete(layout.staged_path(batches[0]))
    code, out, _ = run("audit", "shop")
    assert (code, batches[0] in out) == (1, True)
    assert run("audit", "shop", "--log-days", "0")[0] == 0


def test_a_missing_letter_exits_1(run: Any, store: Store, batches: list[str]) -> None:
    store.delete(layout.batch_dead_path(batches[2]))
    code, out, _ = run("audit", "shop")
    assert (code, batches[2] in out) == (1, True)
    assert run("audit", "shop", "--dead-letter-days", "0")[0] == 0


def test_expired_snapshots_are_no_difference(run: Any, catalog: Catalog) -> None:
    table = catalog.load_table("shop.orders")
    table.maintenance.expire_snapshots().by_id(table.metadata.snapshots[0].snapshot_id).commit()
    code, out, _ = run("audit", "shop", "--json")
    assert (code, json.loads(out)["merged"], json.loads(out)["uncounted"]) == (0, 3, 0)


def test_a_lost_row_exits_1_and_is_named_with_its_batch_and_what_to_do(
    run: Any, catalog: Catalog, batches: list[str]
) -> None:
    code, out, _ = run("audit", "shop", "--json")
    (rows,) = json.loads(out)["rows"]
    assert (code, rows["expected"], rows["found"], rows["whole"]) == (0, 3, 3, True)
    catalog.load_table("shop.orders").delete("id = 2")
    code, out, _ = run("audit", "shop")
    assert code == 1
    assert "DIFFERENCE rows_missing: 1 of 3 rows that the log makes are not in shop.orders" in out
    assert f"  row     2 by {batches[1]}:0\n" in out
    assert "firn rebuild shop.orders --in-place" in out.replace("--check counts them again; ", "")
    assert (
        max(len(line.rstrip()) for line in out.partition("expected")[2].partition("DIFFERENCE")[0].splitlines()) <= 80
    )
    code, out, _ = run("audit", "shop", "--json")
    (rows,) = json.loads(out)["rows"]
    assert (code, rows["missing"], rows["surplus"]) == (1, 1, 0)
    assert rows["samples"] == [{"what": "missing", "row": ["2"], "batch": batches[1], "index": 0, "columns": []}]
    assert run("audit", "shop", "--counts")[0] == 0


def test_a_wrong_value_is_seen_by_deep_alone_and_the_seed_is_printed(run: Any, catalog: Catalog) -> None:
    table = catalog.load_table("shop.orders")
    with table.update_schema() as update:
        update.add_column("note", StringType())
    table.refresh()
    rows = table.scan("id = 2").to_arrow().to_pylist()
    table.overwrite(pa.Table.from_pylist([{**rows[0], "note": "x"}], table.schema().as_arrow()), "id = 2")
    assert run("audit", "shop")[0] == 0
    code, out, _ = run("audit", "shop", "--deep", "--seed", "7")
    assert (code, "note in 1" in out, "--seed 7" in out) == (1, True, True)
    code, out, _ = run("audit", "shop", "--deep", "--sample", "100%", "--json")
    found = json.loads(out)
    assert (code, found["rows"][0]["differs"], found["rows"][0]["columns"]) == (1, 1, {"note": 1})
    assert isinstance(found["seed"], int)
    for wrong in (
        ["--sample", "5%"],
        ["--deep", "--sample", "many"],
        ["--deep", "--sample", "0"],
        ["--deep", "--counts"],
    ):
        assert run("audit", "shop", *wrong)[0] == 2


def test_a_stream_without_anything_balances_and_one_that_is_not_there_is_a_wrong_command_line(run: Any) -> None:
    assert run("audit", "idle")[0] == 0
    code, _, err = run("audit", "nowhere")
    assert (code, "idle, shop" in err) == (2, True)
    assert run("audit", "../x")[0] == 2


def test_a_batchs_answer_is_told_in_lines() -> None:
    answer = {
        "batch_id": "shop.1", "state": "quarantined", "accepted": 2, "rejected": 0, "ignored": {}, "epoch": 3, "cut": 4,
        "tables": {"public.orders": 2},
        "targets": [
            {"source": "o", "rows": 2, "table": "shop.orders", "state": "committed", "snapshot": 77, "cut": 4},
            {"source": "x", "rows": 1, "table": None, "state": "refused", "why": "no schema"},
        ],
        "dead": [
            {
                "object": "commit-1", "table": None, "reason": "no_key", "letters": 1, "message": "m",
                "advice": "do so", "replayed": 1, "replayed_in": ["shop.2"],
            }
        ],
        "quarantine": "it kills",
    }  # fmt: skip
    text = "\n".join(told(answer))
    for part in ("quarantined, in epoch 3, cut 4", "committed in snapshot 77 (cut 4)", "refused: no schema", "do so"):
        assert part in text
    for part in ("1 replayed in shop.2", "firn dead show commit-1", "it kills"):
        assert part in text


def test_a_table_whose_rows_are_not_judged_is_not_called_right(capsys: pytest.CaptureFixture[str]) -> None:
    _show_rows([RowAccount("a.b"), RowAccount("a.c", "mirror", 1, expected=2, found=2)], Depth())
    one, other = capsys.readouterr().out.splitlines()[2:4]
    assert one.split() == ["a.b", "-", "-", "-", "-", "-", "not", "judged"]
    assert other.split() == ["a.c", "2", "2", "0", "0", "0", "ok"]
