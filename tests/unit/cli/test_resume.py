"""`firn resume STREAM`: a quarantine ends."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from firn.log import holds, published_configs
from firn.log.batches import FORMAT
from firn.log.holds import Quarantine
from firn.log.store import Store, open_store
from firn.quarantine.lifting import NotResumed, resume
from firn.status.stream_status import stream_statuses
from firn_cli.main import main
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.tables import list_tables

NOW = datetime(2026, 3, 1, tzinfo=UTC)
AT = "2026-03-01T00:00:00.000Z"
CONFIG = "streams: {shop: {tables: {public.orders: {to: shop.orders, key: [id]}}}}"


@pytest.fixture
def store() -> Store:
    return with_quarantines(MemoryStore())


def with_quarantines(store: Store) -> Store:
    held = [
        Quarantine(FORMAT, "shop", 5, AT, "rolled_back", "it was rolled back", "say how", "shop.orders", 3, 4, 5),
        Quarantine(FORMAT, "shop", 5, AT, "failed", "bad", "fix it", "shop.lines", 5, 5, 5),
        Quarantine(FORMAT, "shop", 4, AT, "killed", "it kills", "more memory", epoch=4, last=4),
        Quarantine(FORMAT, "shop", 9, AT, "source_restored", "it went back", "raise it", epoch=6, last=9),
    ]
    for one in held:
        assert holds.hold(store, one)
    return store


def test_status_names_what_is_held_with_reason_and_command(store: Store, tmp_path: Path) -> None:
    published_configs.publish(store, CONFIG)
    catalog = open_catalog(f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/warehouse", {})
    (shop,) = stream_statuses(store, list_tables(catalog), NOW)
    catalog.close()
    assert shop.quarantined == ("stream", "epoch 4", "shop.lines", "shop.orders")
    assert "shop.orders is quarantined (rolled_back): it was rolled back; say how" in shop.notes


def test_each_kind_is_resumed_once(store: Store) -> None:
    assert "it gets what it lacks" in resume(store, "shop", "shop.lines", None, "retry", NOW)
    assert "epochs 3 to 4 stay out" in resume(store, "shop", "shop.orders", None, "skip", NOW)
    assert "sealed again" in resume(store, "shop", None, 4, "retry", NOW)
    assert "its epochs are committed" in resume(store, "shop", None, None, "retry", NOW)
    known = holds.read_all(store, "shop")
    assert known.all_held(0) == {}
    assert known.skipped == {"shop.orders": 4}
    with pytest.raises(NotResumed, match=r"shop\.lines of stream shop is not quarantined; nothing is"):
        resume(store, "shop", "shop.lines", None, "retry", NOW)


def test_a_table_that_was_rolled_back_has_to_be_told_how(store: Store) -> None:
    with pytest.raises(NotResumed, match="say --replay or --skip"):
        resume(store, "shop", "shop.orders", None, "retry", NOW)
    assert "shop.orders" in holds.read_all(store, "shop").held()


def test_what_is_not_held_is_named_with_what_is(store: Store) -> None:
    with pytest.raises(NotResumed, match=r"stream, epoch 4, shop\.lines, shop\.orders is"):
        resume(store, "shop", "shop.nothing", None, "retry", NOW)
    resume(store, "shop", None, None, "retry", NOW)
    with pytest.raises(NotResumed, match=r"^stream shop itself is not quarantined.* firn resume shop shop\.lines$"):
        resume(store, "shop", None, None, "retry", NOW)


def stack(folder: Path) -> Store:
    """A stack in `folder`, for the command."""
    staging = f"file://{folder}/staging"
    about = {"url": "http://127.0.0.1:1", "staging": staging, "warehouse": f"file://{folder}/warehouse"}
    (folder / "stack.json").write_text(json.dumps(about))
    return with_quarantines(open_store(staging))


def test_the_command_resumes_and_says_so_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = stack(tmp_path)
    assert main(["resume", "shop", "--epoch", "4", "--json", "--dir", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["epoch"] == 4
    assert holds.read_all(store, "shop").held_epochs() == []


@pytest.mark.parametrize(
    "arguments", [("--skip",), ("--epoch", "4"), ("shop", "--skip"), ("shop", "t", "--replay", "--skip")]
)
def test_what_makes_no_sense_is_refused(arguments: tuple[str, ...], tmp_path: Path) -> None:
    store = stack(tmp_path)
    before = holds.read_all(store, "shop")
    assert main(["resume", *arguments, "--dir", str(tmp_path)]) == 2
    assert holds.read_all(store, "shop") == before
