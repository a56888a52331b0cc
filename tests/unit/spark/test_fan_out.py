"""Events of which each is joined with many rows: what a process holds of them is bounded, whatever they give."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from obstore.store import MemoryStore

from firn.changes.decode.row_decoder import Decoding
from firn.changes.decode.types import LONG, STRING, Column
from firn.commit.staged_changes import facts_of, raw_changes, said_by
from firn.config.reader import parse
from firn.ingest import accept
from firn.log import layout
from firn.log.store import get
from firn.tables.joined_snapshots import Joined
from firn.tables.routing import route
from firn_spark.driver import staged_changes
from firn_spark.driver.staged_changes import too_many
from firn_spark.merge.append_columns import AppendColumns
from firn_spark.merge.shared_decoding import beside
from firn_spark.not_eligible import Unfit
from firn_spark.pipelines import feed_columns
from firn_spark.pipelines.feed_columns import FAILED, FeedColumns
from firn_spark.staged.packed import CHANGES
from firn_sql import transform
from firn_sql.feed_plan import plan_feeds
from firn_sql.isolation import TooLarge
from tests.soak import few_cases, times

CONFIG = """
streams:
  web:
    envelope: rows
    pipelines:
      rich: {sql: "INSERT INTO web.rich SELECT k.id, c.name FROM clicks k JOIN web.people c ON k.pid = c.pid"}
      plain: {sql: "INSERT INTO web.rich SELECT id FROM clicks"}
    tables:
      web.people: {to: web.people, key: [pid]}
"""


@dataclass(frozen=True)
class People:
    """A table with `each` rows of each value. A JoinedRows."""

    each: int
    table = "web.people"
    at = Joined("uuid", 1)
    columns = (Column("pid", LONG), Column("name", STRING))

    def rows(self, columns: Sequence[str], keys: pa.Table, most: int) -> pa.Table:
        count = {pid: pid * self.each for pid in keys["pid"].to_pylist()}
        pids = pa.concat_arrays([pa.repeat(pa.scalar(pid, pa.int64()), n) for pid, n in count.items()])
        names = pa.concat_arrays([pa.arange(0, n) for n in count.values()]).cast(pa.string())
        found = pa.table({"pid": pids, "name": names})
        if found.nbytes > most:
            raise TooLarge(f"it is joined with more than {most:,} bytes of {self.table}")
        return found.select(list(columns))


def fed(pids: Sequence[int], each: int, pipelines: int = 1) -> tuple[FeedColumns, pa.Table, Decoding]:
    """Clicks of these people."""
    config = parse(CONFIG if pipelines == 2 else "\n".join(one for one in CONFIG.split("\n") if "plain" not in one))
    store, settings = MemoryStore(), config.streams["web"]
    body = b"\n".join(json.dumps({"id": n, "pid": pid}).encode() for n, pid in enumerate(pids))
    done = accept.accept(store, config, "web", body, now=datetime(2026, 11, 25, tzinfo=UTC), table="clicks")
    changes = raw_changes(get(store, layout.staged_path(done.batch_id)) or b"", 1, done.batch_id, 0, settings.order)
    said = [fact | {"epoch": 1, "batch": done.batch_id} for fact in said_by(changes)]
    facts = facts_of({("clicks", 1, "c"): len(changes)}, said)
    target = next(one for one in route(settings, facts).targets if str(one.name) == "web.rich")
    plan = plan_feeds(target, settings, None, lambda one: (People(each),) if one.joins else ())
    columns = FeedColumns(AppendColumns("web", False), plan.feeds)
    rows = pa.Table.from_pylist([{name: one.get(name) for name in CHANGES.names} for one in changes], CHANGES)
    return columns, rows, plan.planned.decoding


def bounded(monkeypatch: pytest.MonkeyPatch, together: int, of_one: int = 10**9) -> None:
    monkeypatch.setattr(transform, "MOST_TOGETHER", together)
    monkeypatch.setattr(feed_columns, "MOST_TOGETHER", together)
    monkeypatch.setattr(transform, "MOST_OF_ONE", of_one)


@few_cases(2)
@pytest.mark.parametrize("pipelines", [1, 2])
@pytest.mark.parametrize("shared", [False, True])
def test_in_parts_the_rows_are_those_of_one_run(monkeypatch: pytest.MonkeyPatch, pipelines: int, shared: bool) -> None:
    columns, changes, decoding = fed([n % 5 for n in range(60)], 20, pipelines)
    whole = pa.concat_tables(rows for rows, _ in columns.split([changes], decoding))
    assert len(whole) == 12 * 20 * (1 + 2 + 3 + 4) + (60 if pipelines == 2 else 0)
    assert columns.changes_in(whole) == (60 if pipelines == 2 else 48)
    bounded(monkeypatch, 100 * transform.BYTES_OF_A_ROW)
    by = columns.shared(decoding)
    given = beside(changes, by) if shared and by is not None else changes
    parts = [rows for rows, _ in columns.split([given], decoding)]
    assert len(parts) > 20
    assert max(map(len, parts)) <= 130
    assert pa.concat_tables(parts).equals(whole)


def test_one_that_gives_too_much_is_a_dead_letter_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    columns, changes, decoding = fed([1, 2, 100, 3, 60], 10)
    bounded(monkeypatch, 50 * transform.BYTES_OF_A_ROW, 700 * transform.BYTES_OF_A_ROW)
    found = list(columns.split([changes], decoding))
    assert [len(rows) for rows, _ in found if len(rows)] == [30, 30, 600]
    odd = pa.concat_tables(bad for _, bad in found)
    assert odd["index"].to_pylist() == [2]
    (why,) = columns.why(odd, decoding).values()
    assert why == (FAILED, "pipeline rich: it gives more than 700 rows or 89,600 bytes")
    columns, changes, decoding = fed([1, 100, 400], 10)
    monkeypatch.setattr(transform, "MOST_OF_ONE", 20_000)
    found = list(columns.split([changes], decoding))
    odd = pa.concat_tables(bad for _, bad in found)
    text = "pipeline rich: it is joined with more than 20,000 bytes of web.people"
    assert [one[1] for one in columns.why(odd, decoding).values()][-1] == text


def test_of_too_many_together_those_that_give_much_are_dead_letters_and_each_has_a_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns, changes, decoding = fed([50] * 8 + [1, 0, 2] + [50] * 8, 10)
    bounded(monkeypatch, 100 * transform.BYTES_OF_A_ROW)
    monkeypatch.setattr(feed_columns, "MOST_GIVEN", 150_000)
    monkeypatch.setattr(feed_columns, "SHARE", 50 * transform.BYTES_OF_A_ROW)
    found = list(columns.split([changes], decoding))
    rows, odd = (pa.concat_tables(one[place] for one in found) for place in (0, 1))
    assert 150_000 <= rows.nbytes < 300_000
    merged = columns.changes_in(rows)
    assert sum(len(one) for one, _ in found if len(one) < 500) == 30  # those with few partners
    assert merged + len(odd) == 18  # one has no partner
    why = columns.why(odd, decoding)
    assert len(why) == len(odd)  # whatever they give by themselves
    assert all("firn dead replay brings it without them" in text for _, text in why.values())
    # A rebuild has all that any commit had; a replay brings those that are as few as these.
    again = replace(columns, letters=False)
    assert again.changes_in(pa.concat_tables(rows for rows, _ in again.split([changes], decoding))) == 18
    assert len(list(columns.split([odd.slice(0, 3)], decoding))) == 3


def test_many_rows_of_few_changes_are_for_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_changes, "MOST_MADE", 100)
    too_many(20, 1_000, 5)
    too_many(21, 100, 5)
    with pytest.raises(Unfit, match="5 changes give more than 100 bytes of rows"):
        too_many(21, 101, 5)


_LIMITED = """
import resource
import pyarrow
from firn_spark.pipelines import feed_columns
from firn_sql import transform
from tests.unit.spark.test_fan_out import fed

def grown():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

transform.MOST_TOGETHER = feed_columns.MOST_TOGETHER = {together}
columns, changes, decoding = fed([1] * {clicks}, 20_000)
list(columns.split([changes.slice(0, 1)], decoding))
before = grown()
rows = size = 0
for some, odd in columns.split([changes], decoding):
    assert not len(odd)
    rows, size = rows + len(some), size + some.nbytes
    del some
print(rows, size, pyarrow.default_memory_pool().max_memory(), grown() - before)
"""


def test_memory_is_bounded_whatever_the_partners_are() -> None:
    clicks, together = times(40, 1_000), times(8_000_000, transform.MOST_TOGETHER)
    code = _LIMITED.format(clicks=clicks, together=together)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    rows, size, arrow, grown = map(int, done.stdout.split())
    print(f"{rows} rows of {size / 1e6:.0f} MB; Arrow had at most {arrow / 1e6:.0f} MB")
    print(f"the process grew by {grown / 1e6:.0f} MB")
    assert rows == clicks * 20_000
    assert arrow < 4 * together < size
    assert grown < 8 * together
