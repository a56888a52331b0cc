"""Very many new tables or columns: a commit and a fresh read stay bounded, and the stream goes on."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from firn.audit.ledger import read
from firn.audit.verdict import audit
from firn.log import holds, layout
from firn.log.dead_letters.letters import count_dead
from firn.log.store import paths
from firn_lake.audit.table_histories import histories
from tests import soak
from tests.attacks.measuring import cost
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_commit import event
from tests.integration.spark.test_fresh import reader
from tests.soak import few_cases

pytestmark = pytest.mark.spark
Make = Callable[[str], Lake]

TABLES, MADE = soak.times(200, 10_000), soak.times(5, 1_000)
MOST_MEMORY = 512.0  # MB of the job's own process, without Spark's JVM
CONFIG = f"""
warehouse: file:///x
catalog: {{type: sql}}
streams:
  spec:
    max_tables: {MADE}
    tables:
      app.orders: {{to: lake.orders, key: [id]}}
      '*': {{to: 'lake.{{table}}', key: [id]}}
"""


def of(table: str, number: int, **row: Any) -> dict[str, Any]:
    return event("c", number, {"id": number, **row}, table=table)


def dead(lake: Lake) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in paths(lake.store, layout.dead_prefix(lake.stream)):
        for (_, reason), number in count_dead(lake.store, path)[1].items():
            found[reason] += number
    return found


@few_cases(1)
@pytest.mark.parametrize("by_driver", [True, False])
def test_new_tables_over_the_limit_are_dead_letters_and_the_commit_is_as_long_as_for_those_that_are_made(
    lake: Make, by_driver: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", "1500000" if by_driver else "0")
    one = lake(CONFIG)
    one.land([of("orders", 1)])
    names = [f"t{n:05d}" for n in range(TABLES)]
    one.post([of(name, 10 + n) for n, name in enumerate(names)])
    sealed = one.seal()
    fresh = cost(lambda: reader(one).sql("SELECT count(*) AS n FROM lake.t00001", fresh=True).pylist())
    assert fresh.result == [{"n": 1}]
    began = time.monotonic()
    found = cost(lambda: one.commit(sealed))
    seconds = time.monotonic() - began
    print(
        f"{TABLES} new tables, {MADE} may be: {seconds:.1f} s, {found.cpu:.1f} s of CPU, {found.megabytes:.0f} MB; "
        f"a fresh look {fresh.cpu:.1f} s, {fresh.megabytes:.0f} MB"
    )
    assert found.result == 0, one.lines
    assert dead(one) == {"too_many_tables": TABLES - MADE}
    assert sum(1 for name in names if one.catalog.table_exists(("lake", name))) == MADE
    assert found.megabytes < MOST_MEMORY
    one.land([of("orders", 2)])
    assert sorted(one.by_key("lake.orders", "id")) == [1, 2]
    account = audit(read(one.store, one.stream, lambda some: histories(one.catalog, one.stream, some)), one.now)
    assert account.balanced, account.differences


def test_a_table_that_would_get_250_000_columns_is_held_and_the_stream_goes_on(lake: Make) -> None:
    count, width = soak.times(3, 50), 4_900
    one = lake(CONFIG)
    one.land([of("orders", 1)])
    wide = [of("wide", 10 + n, **{f"c{n}_{i}": i for i in range(width)}) for n in range(count)]
    one.post([*wide, of("orders", 2)], at_once=10)
    sealed = one.seal()
    found = cost(lambda: one.commit(sealed))
    print(f"{count * width:,} columns: {found.cpu:.1f} s of CPU, {found.megabytes:.0f} MB")
    assert found.result == 0, one.lines
    held = holds.read_all(one.store, one.stream).held()
    assert list(held) == ["lake.wide"]
    assert "a table may have 5,000" in held["lake.wide"].message
    assert found.megabytes < MOST_MEMORY
    assert sorted(one.by_key("lake.orders", "id")) == [1, 2]
