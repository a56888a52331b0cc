"""A range that kills its jobs is narrowed to one epoch after another, also where a table is ahead of them already."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

import obstore
import pytest

from firn.config.names import TableName
from firn.dispatch.dispatcher import Terms, dispatch
from firn.log import cuts, epochs, holds
from firn.log.published_configs import CurrentConfig
from firn.log.store import paths
from tests.faults.calls import Died
from tests.model.memory_lake import Catalog, Table
from tests.model.world import STREAM, World

AHEAD: Final = TableName("lake", "items")  # committed first
HEAVY: Final = TableName("lake", "orders")


class HeavyCatalog(Catalog):
    """A job dies when it commits more than one row to lake.orders at once, or the row `poison`."""

    poison = 0

    def commit(
        self, base: Table, stream: str, expected: int, rows: Mapping[Any, Any], summary: Mapping[str, str]
    ) -> None:
        """As in every catalog, unless the job dies of it."""
        ids = [row.values["id"] for row in rows.values() if row]
        if base.name == HEAVY and (len(ids) > 1 or self.poison in ids):
            raise Died
        super().commit(base, stream, expected, rows, summary)


def of_epochs(most: int, poison: int) -> World:
    """Epochs 1 to `most` are sealed, and each has the row of its number for each table."""
    world = World()
    catalog = HeavyCatalog()
    catalog.poison, catalog.around, catalog.clock = poison, world.catalog.around, world.catalog.clock
    world.catalog = catalog
    for key in range(1, most + 1):
        for table in ("orders", "items"):
            world.source.insert(table, key)
        world.post(world.parcel(world.source.log[-2:]))
        seal(world)
    assert epochs.numbers(world.disk, STREAM) == list(range(1, most + 1))
    return world


def seal(world: World) -> None:
    config = CurrentConfig(world.disk)().sha
    dispatch(world.store(), STREAM, None, now=world.now, terms=Terms(config), force=True, random=world.random)


def ticks(world: World, most: int) -> int:
    """Dispatch and its runs, until nothing is left to run -> how often."""
    for n in range(most):
        world.dispatch()
        if not (runs := world.emr.active()):
            return n
        for run in runs:
            try:
                world.job(run)
            except Died:
                world.emr.told(run, "FAILED")
    return most


def ids(world: World, table: TableName) -> set[int]:
    return {row["id"] for row in world.catalog.tables[table].rows()}


@pytest.mark.parametrize("poison", [0, 1, 2, 3])
def test_a_range_whose_jobs_die_after_one_table_goes_on_epoch_by_epoch(poison: int) -> None:
    world = of_epochs(3, poison)
    assert ticks(world, 3) == 3  # each dies after lake.items is committed up to epoch 3
    assert ids(world, AHEAD) == {1, 2, 3}
    assert cuts.newest(world.disk, STREAM) == 0

    assert ticks(world, 9) < 9
    assert holds.read_all(world.disk, STREAM).held_epochs() == [poison] * bool(poison)
    assert ids(world, HEAVY) == {1, 2, 3} - {poison}
    cut = cuts.read(world.disk, STREAM, cuts.newest(world.disk, STREAM))
    assert cut is not None
    assert cut.n >= 3
    assert set(cut.tables) == {str(AHEAD), str(HEAVY)}


def test_epochs_that_come_meanwhile_wait_for_their_turn() -> None:
    world = of_epochs(3, 2)
    ticks(world, 4)
    for table in ("orders", "items"):
        world.source.insert(table, 4)
    world.post(world.parcel(world.source.log[-2:]))
    seal(world)
    assert ticks(world, 12) < 12
    assert holds.read_all(world.disk, STREAM).held_epochs() == [2]
    assert (ids(world, HEAVY), ids(world, AHEAD)) == ({1, 3, 4}, {1, 2, 3, 4})


def test_an_epoch_that_can_not_be_read_is_held_once_another_one_comes() -> None:
    """By itself it does not tell whether it is its fault, or that of what reads it."""
    world = of_epochs(1, 0)
    (batch,) = paths(world.disk, "staged/")
    body = bytes(obstore.get(world.disk, batch).bytes())
    obstore.put(world.disk, batch, body[:4] + b"\xff" * 300 + body[304:])
    assert ticks(world, 9) == 3
    assert world.dispatched[-1] is not None
    assert world.dispatched[-1].stuck

    world.source.insert("orders", 2)
    world.post(world.parcel(world.source.log[-1:]))
    world.now += timedelta(minutes=5)
    assert ticks(world, 9) < 4
    assert holds.read_all(world.disk, STREAM).held_epochs() == [1]
    assert ids(world, HEAVY) == {2}
