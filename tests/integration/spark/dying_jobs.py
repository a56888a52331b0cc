"""A history whose jobs die at any commit or lose its answer, among expiries that keep as little as they may."""

import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from firn.config.maintenance import Expiry
from firn.log import cuts
from firn.maintenance import expiry as expiry_rules
from firn.tables.shard_cut import map_of
from firn_spark.maintenance.expiry import Expired, expire_all
from firn_spark.tables import fence
from firn_spark.tables.evolve import Tables
from tests.integration.spark.committing import Died, Loss
from tests.integration.spark.spark_lake import Lake

FEW: Final = Expiry(keep_seconds=1, at_least=1, at_most=1)


def let_go(lake: Lake) -> dict[str, Expired]:
    """Lets all snapshots go that may, of the rest first; -> what became of each table's."""
    tables, later = Tables(lake.spark), datetime.now(UTC) + timedelta(days=1)
    rest = tables.load(lake.config.streams[lake.stream].tables[0].target("app.t"))
    if rest is None or (made := map_of(rest.state)) is None:
        return {}
    found: dict[str, Expired] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expiry_rules, "FEWEST_SNAPSHOTS", 1)
        for name in (rest.name, *(place for place in made.tables.values() if place != rest.name)):
            if table := tables.load(name):
                told = expire_all(lake.spark, lake.store, table, FEW, later)
                found |= {str(name): one for one in told if isinstance(one, Expired) and one.table == str(name)}
    return found


def delivered(
    lake: Lake,
    events: list[dict[str, Any]],
    dice: random.Random,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    check: Callable[[list[dict[str, Any]]], object],
    sealed_one: Callable[[], bool] = lambda: False,
) -> dict[str, Counter[str]]:
    """Sends events in parts of `size`, some of them late and a quarter twice, until all are in the newest cut. -> what
    happened.

    check       is called at each new cut with what is in it
    sealed_one  is called after each part; -> whether it did something
    """
    sent = events + dice.choices(events, k=len(events) // 4)
    late = {id(one): dice.random() < 0.3 for one in sent}
    sent.sort(key=lambda one: one["source"]["lsn"] + (dice.randrange(100) if late[id(one)] else 0))
    parts = [sent[first : first + size] for first in range(0, len(sent), size)]
    sealed: dict[int, list[dict[str, Any]]] = {}
    loss, seen = Loss(fence.commit, dice, 0.3), Counter[str]()
    while parts or (cut := cuts.last(lake.store, lake.stream)) is None or cut.n < max(sealed):
        for _ in range(dice.choice((0, 1, 1, 2)) if sealed else 1):
            if parts:
                lake.post(part := parts.pop(0))
                sealed[lake.seal()] = part
                seen["beside"] += sealed_one()
        done = cuts.last(lake.store, lake.stream)
        first = done.n + 1 if done else 1
        if first > max(sealed):
            continue
        with monkeypatch.context() as patch, suppress(Died):
            if seen["tries"] < 6 * len(sealed):
                patch.setattr(fence, "commit", loss)
            seen["tries"] += 1
            seen["well"] += lake.commit(first, max(sealed)) == 0
        new = cuts.last(lake.store, lake.stream)
        if new is not None and new != done:
            check([one for n, part in sealed.items() if n <= new.n for one in part])
        if dice.random() < 0.3:
            seen["let go"] += sum(one.snapshots for one in let_go(lake).values())
    for slow in loss.slow:
        slow.join()
    check(sent)
    return {"jobs": seen, "commits": loss.happened}
