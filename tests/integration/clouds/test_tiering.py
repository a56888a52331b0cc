"""Cold files on each cloud: moved, read, brought back, and the same after each step that was cut off."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table

from firn.config import reader as configuration
from firn.config.maintenance import Tiering
from firn.errors import ArchivedObject, ConfigError, TerminalError, TransientError
from firn.log import tiering_state
from firn.log.store import Store, open_store, put
from firn.log.tiering_state import TierState
from firn_lake.catalogs.catalog import open_catalog
from firn_lake.reading.files import Source, read_file
from firn_lake.tiering import cloud_calls
from firn_lake.tiering.azure_classes import AzureClasses
from firn_lake.tiering.class_port import Classes
from firn_lake.tiering.round import apply_all, tier_all
from firn_lake.tiering.storages import open_classes
from firn_lake.tiering.tagging import Tiered, Warmed, name_of, tier, warm
from firn_lake.tiering.views import explain

DAY = timedelta(days=1)
POLICY = Tiering(cold_seconds=40 * 86_400)
ROWS = pa.table({"id": pa.array(range(30_000), pa.int64()), "text": [uuid.uuid4().hex for _ in range(30_000)]})
FIRST = {"azure": "Cool", "google": "NEARLINE"}
DEEPER = {"azure": "Cold", "google": "ARCHIVE"}


class Ground:
    """A warehouse on one cloud, with a table of two files."""

    def __init__(self, cloud: Any, folder: Path) -> None:
        self.warehouse = cloud.url(f"tiering {uuid.uuid4().hex}")
        self.cloud = "azure" if self.warehouse.startswith("abfss") else "google"
        self.catalog: Catalog = open_catalog(f"sqlite:///{folder}/catalog.db", self.warehouse)
        self.catalog.create_namespace("shop")
        self.table: Table = self.catalog.create_table("shop.events", ROWS.schema)
        for _ in range(2):
            self.table.append(ROWS)
        self.store: Store = open_store("memory://" + uuid.uuid4().hex)
        self.classes: Classes = open_classes(self.warehouse)
        self.now = datetime.now(UTC)

    def tier(self, after: timedelta, policy: Tiering = POLICY, **more: Any) -> Tiered:
        return tier(self.table, policy, None, self.store, self.now + after, force=True, **more)

    def warm(self) -> Warmed:
        return warm(self.table, "all", None, self.store)

    def known(self) -> TierState:
        return tiering_state.read(self.store, "shop.events", name_of(self.table).slug)

    def kinds(self) -> list[str]:
        """The classes of the data files."""
        return sorted(one.kind for path, one in self._listed().items() if path.endswith(".parquet"))

    def others(self) -> set[str]:
        """The classes of everything else: metadata."""
        return {one.kind for path, one in self._listed().items() if not path.endswith(".parquet")}

    def _listed(self) -> Any:
        place = self.classes.place(self.table.location() + "/")
        assert place is not None
        return self.classes.listing(place)

    def rows(self) -> int:
        return self.catalog.load_table("shop.events").scan().to_arrow().num_rows


@pytest.fixture
def ground(cloud: Any, tmp_path: Path) -> Ground:
    return Ground(cloud, tmp_path)


def test_what_nobody_touched_is_moved_once_is_read_and_comes_back(ground: Ground) -> None:
    hot, first = ground.classes.table.hot, FIRST[ground.cloud]
    assert ground.tier(10 * DAY).tagged == 0
    planned = ground.tier(60 * DAY, dry_run=True)
    assert (planned.tagged, ground.kinds()) == (2, [hot, hot])
    done = ground.tier(60 * DAY)
    assert (done.kind, done.tagged, done.on_their_way, done.cold_files, done.refused) == (first, 2, 0, 2, 0)
    assert (ground.kinds(), ground.others()) == ([first, first], {hot})
    assert ground.rows() == 60_000
    again = ground.tier(61 * DAY)
    assert (again.tagged, again.cold_files, again.cold_bytes) == (0, 2, done.cold_bytes)
    lazy = tier(ground.table, POLICY, None, ground.store, ground.now + 61 * DAY)
    assert lazy.same
    known = ground.known()
    assert (len(known.cold_paths), known.tagged) == (2, {})
    (view,) = explain(ground.table, POLICY, None, ground.store, ground.now + 61 * DAY)
    assert (view.classes, view.cold, view.on_their_way) == ({first: 2}, 2, 0)
    assert view.saving > 0
    back = ground.warm()
    assert (back.files, back.asked, ground.kinds()) == (2, 0, [hot, hot])
    assert ground.warm().files == 0
    assert ground.rows() == 60_000


def test_what_came_back_is_as_new(ground: Ground) -> None:
    ground.tier(60 * DAY)
    ground.warm()
    assert ground.tier(39 * DAY).tagged == 0
    assert ground.tier(41 * DAY).tagged == 2


def test_a_move_is_no_touch_so_that_what_is_cold_moves_on_by_another_policy(ground: Ground) -> None:
    """Google's moved object is a new one: it has to know when it was written."""
    ground.tier(60 * DAY)
    deeper = replace(POLICY, storage_class=DEEPER[ground.cloud])
    (view,) = explain(ground.table, deeper, None, ground.store, ground.now + 61 * DAY)
    assert view.touched is not None
    assert view.touched < ground.now + DAY
    done = ground.tier(61 * DAY, deeper)
    assert (done.tagged, ground.kinds()) == (2, [DEEPER[ground.cloud]] * 2)
    # And never back to a class before it.
    assert ground.tier(62 * DAY).tagged == 0
    assert ground.rows() == 60_000


def fails(monkeypatch: pytest.MonkeyPatch, when: str, moves: int) -> None:
    """The move of that number fails: `before` it is asked, `after` it was done and the answer is lost."""
    real, count = cloud_calls.call, iter(range(1_000))

    def call(method: str, url: str, headers: Any, body: Any = None, **more: Any) -> Any:
        is_move = "comp=tier" in url or "/rewriteTo/" in url
        number = next(count) if is_move else -1
        if number == moves and when == "before":
            raise TransientError("cut off")
        answer = real(method, url, headers, body, **more)
        if number == moves and when == "after":
            raise TransientError("cut off")
        return answer

    for module in ("azure_classes", "google_classes"):
        monkeypatch.setattr(f"firn_lake.tiering.{module}.call", call)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("moves", [0, 1])
def test_a_run_that_was_cut_off_is_finished_by_the_next(
    ground: Ground, when: str, moves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        fails(patched, when, moves)
        with pytest.raises(TransientError):
            ground.tier(60 * DAY)
        assert ground.known().looked_at == ""
    assert ground.rows() == 60_000
    done = ground.tier(60 * DAY)
    assert (done.cold_files, ground.kinds()) == (2, [FIRST[ground.cloud]] * 2)
    with monkeypatch.context() as patched:
        fails(patched, when, moves)
        with pytest.raises(TransientError):
            ground.warm()
    ground.warm()
    assert ground.kinds() == [ground.classes.table.hot] * 2
    assert ground.rows() == 60_000


def test_a_run_that_was_killed_before_it_noted_what_it_did_is_done_again(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException):
        pass

    def kill(*_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(tiering_state, "write", kill)
        with pytest.raises(Killed):
            ground.tier(60 * DAY)
    done = ground.tier(60 * DAY)
    assert (done.tagged, done.cold_files, ground.kinds()) == (0, 2, [FIRST[ground.cloud]] * 2)


def test_files_that_are_gone_meanwhile_are_no_error(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = next(iter(ground.table.scan().plan_files())).file.file_path
    real = type(ground.classes).move

    def move(self: Any, where: Any, kind: Any) -> bool:
        if gone.endswith(where.key.rpartition("/")[2]):
            ground.table.io.delete(gone)
        return bool(real(self, where, kind))

    monkeypatch.setattr(type(ground.classes), "move", move)
    done = ground.tier(60 * DAY)
    assert (done.tagged, done.refused) == (1, 1)


def test_an_archived_file_is_named_and_brought_back_by_firn_tier(ground: Ground) -> None:
    if ground.cloud != "azure":
        pytest.skip("Google's archive is read at once")
    file = next(iter(ground.table.scan().plan_files())).file
    place = ground.classes.place(file.file_path)
    assert place is not None
    assert ground.classes.move(place, "Archive"), "as a rule of somebody else's would"
    with pytest.raises(ArchivedObject, match="firn tier TABLE --warm all"):
        ground.table.scan().to_arrow()
    source = Source(ground.table.io, ground.table.metadata, "shop.events", 7)
    with pytest.raises(ArchivedObject, match=r"which snapshot 7 of shop.events needs, .*firn tier shop.events --warm"):
        list(read_file(source, file, ground.table.schema()))
    assert ground.tier(60 * DAY).archived == 1
    back = ground.warm()
    assert (back.asked, ground.kinds()) == (1, ["Hot", "Hot"])
    assert ground.rows() == 60_000


def test_a_signature_that_may_write_is_enough_to_move_on_azure(ground: Ground, cloud: Any) -> None:
    if ground.cloud != "azure":
        pytest.skip("Azure's alone")
    store = open_store(ground.warehouse.replace(" ", ""))
    put(store, "x", b"x")
    signed = obstore.sign(store, "PUT", "x", timedelta(minutes=5)).partition("?")[2]
    mine = {name: value for name, value in cloud.environment.items() if not name.endswith("_KEY")}
    by_signature = AzureClasses(mine | {"AZURE_STORAGE_SAS_TOKEN": f"?{signed}"})
    place = by_signature.place(ground.warehouse.replace(" ", "") + "/x")
    assert place is not None
    assert by_signature.move(place, "Cold")
    found = ground.classes.look(place)
    assert found is not None
    assert found.kind == "Cold"
    with pytest.raises(TerminalError, match="AuthorizationPermissionMismatch; check the credentials") as told:
        by_signature.look(place)
    assert "sig" not in str(told.value)


def test_a_class_of_another_storage_is_refused_by_name(ground: Ground) -> None:
    with pytest.raises(ConfigError, match="'STANDARD_IA' is a storage class of S3, and the tables are in"):
        ground.tier(60 * DAY, replace(POLICY, storage_class="STANDARD_IA"))
    nowhere: Callable[[], Any] = lambda: open_classes(ground.warehouse).listing(  # noqa: E731
        ground.classes.place(ground.warehouse.replace("lake", "nobody-made-this", 1) + "/")  # type: ignore[arg-type]
    )
    with pytest.raises(TerminalError, match="check that the bucket exists"):
        nowhere()


def test_a_round_moves_what_has_a_policy_and_needs_no_s3(ground: Ground) -> None:
    config = configuration.parse(
        f"warehouse: {ground.warehouse.replace(' ', '%20')}\n"
        f"care: {{tier: {{cold_after: 40d, class: {DEEPER[ground.cloud]}}}}}\n"
        "streams: {shop: {tables: {public.events: {to: shop.events, key: [id]}}}}\n"
    )
    assert apply_all(config, ground.warehouse, ground.warehouse, None) == []
    (line,) = tier_all(config, lambda: ground.catalog, None, ground.store, ground.now + 60 * DAY)
    assert (line["table"], line["tagged"], line["tier"]) == ("shop.events", 2, DEEPER[ground.cloud])
