"""What every Lake must do, whatever holds its tables. `Ground` says how to look into one; each case is a function.

The same cases run over tables in memory (tests/model) and over Spark and Iceberg (tests/integration/spark).
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Protocol, cast

from firn.commit import job as job
from firn.commit.lake import Lake, Range
from firn.config.model import Config, StreamConfig
from firn.config.names import TableName
from firn.ingest import accept
from firn.log import cuts, epochs, holds, layout, published_configs
from firn.log.batches import FORMAT
from firn.log.dead_letters.letters import read_dead
from firn.log.epochs import Epoch
from firn.log.holds import Quarantine
from firn.log.layout import dead_prefix
from firn.log.store import Store, paths
from firn.tables.routing import Target, route
from firn.tables.table_state import TableState

STREAM = "shop"
ORDERS, EVENTS = TableName("lake", "orders"), TableName("lake", "events")
CONFIG = """
streams:
  shop:
    tables:
      app.orders: {to: lake.orders, key: [id]}
      app.other: {to: lake.other, key: [id]}
      app.events: {to: lake.events, mode: append}
      app.typed: {to: lake.typed, key: [id], columns: {id: int}}
      app.no_key: {to: lake.no_key, key: [nowhere]}
"""
START = datetime(2026, 11, 21, tzinfo=UTC)


class Ground(Protocol):
    """A lake under test, empty, with its staging store."""

    store: Store
    lake: Lake

    def rows(self, table: TableName) -> list[dict[str, Any]]:
        """The table's rows, with at least the source's columns."""

    def snapshots(self, table: TableName) -> list[dict[str, str]]:
        """The summaries of the table's snapshots, oldest first."""

    def drop(self, table: TableName) -> None:
        """The table is gone, with what is remembered beside it: somebody's hand."""


def event(op: str, lsn: int, after: Any = None, before: Any = None, table: str = "orders") -> dict[str, Any]:
    """A PostgreSQL event of Debezium's at `lsn`, alone in its transaction."""
    source = {"connector": "postgresql", "schema": "app", "table": table, "ts_ms": 1_700_000_000_000 + lsn}
    source |= {"sequence": json.dumps([None if op == "r" else str(lsn - 1), str(lsn)]), "lsn": lsn}
    return {"op": op, "before": before, "after": after, "source": source, "ts_ms": source["ts_ms"]}


_LOGS = count()


class Stream:
    """The stream `shop` on a ground: post, seal, commit. The clock moves a second with each step."""

    def __init__(self, ground: Ground, text: str = CONFIG) -> None:
        self.ground = ground
        self.store = ground.store
        self.now = START
        self.lines: list[dict[str, Any]] = []
        self._log = next(_LOGS)
        self.config: Config = published_configs.publish(self.store, text)

    def publish(self, text: str) -> None:
        """Another configuration, for what is sealed from now on."""
        self.config = published_configs.publish(self.store, text)

    @property
    def settings(self) -> StreamConfig:
        """The stream's own part of the configuration."""
        return self.config.streams[STREAM]

    def post(self, *events: dict[str, Any]) -> None:
        """Stages the events in one request."""
        if events:
            body = b"\n".join(json.dumps(one).encode() for one in events)
            accept.accept(self.store, self.config, STREAM, body, now=self.tick())

    def seal(self, *events: dict[str, Any]) -> int:
        """Posts the events in one request and seals them. -> the epoch's number."""
        self.post(*events)
        above = cuts.newest(self.store, STREAM)
        found = epochs.candidates(self.store, STREAM, self.tick(), above=above)
        nonce = f"{self._log:08x}{found.next_n:024x}"  # no two logs have one
        sealed = epochs.seal(self.store, STREAM, found, now=self.now, config=self.config.sha, nonce=nonce)
        assert sealed is not None
        return sealed.n

    def commit(
        self,
        first: int,
        last: int | None = None,
        *,
        lake: Lake | None = None,
        store: Store | None = None,
        attempt: int = 1,
    ) -> int:
        """Runs the job. -> its exit code; its log lines are in `lines`."""
        self.lines = []
        return job.run(
            store or self.store, lake or self.ground.lake, STREAM, first, last or first,
            log=self.lines.append, now=self.tick, attempt=attempt,
        )  # fmt: skip

    def land(self, *events: dict[str, Any]) -> None:
        """Posts, seals and commits in one epoch; fails if the job does."""
        assert self.commit(self.seal(*events)) == 0, self.lines

    def line(self, table: TableName) -> dict[str, Any]:
        """What the last job logged about a table."""
        return next(line for line in self.lines if line.get("table") == str(table))

    def cut(self) -> cuts.Cut:
        """The newest cut."""
        found = cuts.read(self.store, STREAM, cuts.newest(self.store, STREAM))
        assert found is not None
        return found

    def values(self, table: TableName = ORDERS) -> list[tuple[Any, Any]]:
        """(id, v) of each row, sorted."""
        return sorted((row["id"], row["v"]) for row in self.ground.rows(table))

    def opened(self, n: int, table: TableName = ORDERS) -> tuple[Range, Target]:
        """Epoch n alone, and its target: for cases that commit by hand."""
        sealed = epochs.read(self.store, STREAM, n)
        assert sealed is not None
        found = self.ground.lake.open(STREAM, self.settings, {n: sealed}, n)
        return found, next(t for t in route(self.settings, found.facts).targets if t.name == table)

    def tick(self) -> datetime:
        """A second later."""
        self.now += timedelta(seconds=1)
        return self.now


def a_missing_table_has_no_state(stream: Stream) -> None:
    assert stream.ground.lake.state(TableName("lake", "nothing")) is None


def creates_updates_and_deletes_land(stream: Stream) -> None:
    stream.land(event("c", 10, {"id": 1, "v": "a"}), event("c", 11, {"id": 2, "v": "b"}))
    assert stream.values() == [(1, "a"), (2, "b")]
    stream.land(event("u", 20, {"id": 1, "v": "c"}), event("d", 21, None, {"id": 2, "v": "b"}))
    assert stream.values() == [(1, "c")]


def a_stale_change_loses_and_leaves_its_mark(stream: Stream) -> None:
    stream.land(event("c", 50, {"id": 1, "v": "new"}))
    stream.land(event("u", 40, {"id": 1, "v": "old"}))
    assert stream.values() == [(1, "new")]
    assert [found["firn.epoch.shop"] for found in stream.ground.snapshots(ORDERS)] == ["1", "2"]


def a_change_older_than_the_delete_of_its_key_stays_out(stream: Stream) -> None:
    stream.land(event("c", 10, {"id": 1, "v": "a"}), event("c", 11, {"id": 2, "v": "b"}))
    stream.land(event("d", 30, None, {"id": 1, "v": "a"}))
    stream.land(event("u", 20, {"id": 1, "v": "late"}))
    assert stream.values() == [(2, "b")]


def a_dead_letter_gives_no_column_another_type_and_makes_none(stream: Stream) -> None:
    """Whatever comes with it, and when: only what the table takes has a say."""
    bad = event("c", 30, {"v": 5, "odd": "x"}), event("u", 31, {"v": "text", "odd": 1}, {"v": 1})  # they name no key
    n = stream.seal(*bad, event("c", 10, {"id": 1, "v": 1}))
    stream.seal(*bad)
    assert stream.commit(n, n + 1) == 0, stream.lines
    stream.land(*bad, event("u", 20, {"id": 1, "v": 2}))
    state = stream.ground.lake.state(ORDERS)
    assert state is not None
    assert {column.name: str(column.type) for column in state.columns[0]} == {"id": "int53", "v": "int53"}
    assert stream.values() == [(1, 2)]
    stream.land(event("u", 40, {"id": 1, "v": "text"}))
    assert stream.values() == [(1, "text")]


def a_rerun_does_nothing(stream: Stream) -> None:
    stream.land(event("c", 10, {"id": 1, "v": "a"}))
    before = stream.cut()
    assert stream.commit(1) == 0
    assert len(stream.ground.snapshots(ORDERS)) == 1
    assert stream.cut() == before


def an_untouched_table_gets_no_snapshot_and_stands_in_the_cut(stream: Stream) -> None:
    other = TableName("lake", "other")
    stream.land(event("c", 10, {"id": 1, "v": "a"}), event("c", 11, {"id": 1, "v": "x"}, table="other"))
    stream.land(event("c", 20, {"id": 2, "v": "b"}))
    assert (len(stream.ground.snapshots(ORDERS)), len(stream.ground.snapshots(other))) == (2, 1)
    assert stream.cut().progress == {"lake.orders": 2, "lake.other": 1}
    assert stream.cut().tables.keys() == {"lake.orders", "lake.other"}
    assert stream.cut().counts.keys() == {"lake.orders"}


def the_summary_and_the_cut_carry_progress_and_balanced_counts(stream: Stream) -> None:
    stream.land(
        event("c", 10, {"id": 1, "v": "a"}), event("u", 20, {"id": 1, "v": "b"}), event("c", 30, {"v": "no key"})
    )
    [summary] = stream.ground.snapshots(ORDERS)
    counts = {name: int(summary[f"firn.{name}"]) for name in ("events", "merged", "superseded", "ignored", "dead")}
    assert (summary["firn.epoch.shop"], counts["events"], counts["dead"]) == ("1", 3, 1)
    assert counts["merged"] + counts["superseded"] + counts["ignored"] + counts["dead"] == 3
    assert stream.cut().counts == {"lake.orders": counts}
    letters = [letter for path in paths(stream.store, dead_prefix(STREAM)) for letter in read_dead(stream.store, path)]
    assert [(letter.reason, letter.index) for letter in letters] == [("no_key", 2)]


def a_twin_with_the_same_epoch_is_refused_and_finds_it_done(stream: Stream) -> None:
    n = stream.seal(event("c", 10, {"id": 1, "v": "a"}))
    mine, target = stream.opened(n)
    twin, _ = stream.opened(n)
    assert mine.commit(target).status == "committed"
    late = twin.commit(target)
    assert (late.status, late.progress) == ("skipped", n)
    assert len(stream.ground.snapshots(ORDERS)) == 1
    mine.close()
    twin.close()


def a_job_that_comes_after_its_successor_adds_nothing(stream: Stream) -> None:
    first = stream.seal(event("c", 10, {"id": 1, "v": "a"}))
    paused, target = stream.opened(first)
    second = stream.seal(event("c", 20, {"id": 2, "v": "b"}))
    assert stream.commit(first, second) == 0
    assert paused.commit(target).status == "skipped"
    paused.close()
    assert stream.values() == [(1, "a"), (2, "b")]
    assert [found["firn.epoch.shop"] for found in stream.ground.snapshots(ORDERS)] == ["2"]


def an_append_table_takes_each_event_once(stream: Stream) -> None:
    row = event("c", 10, {"a": 1}, table="events")
    stream.land(row, row, event("c", 11, {"a": 2}, table="events"))
    stream.land(row, row, event("d", 12, None, {"a": 2}, table="events"))
    assert sorted(found["a"] for found in stream.ground.rows(EVENTS)) == [1, 1, 2, 2]
    assert stream.line(EVENTS) | {"events": 3, "merged": 1, "superseded": 2} == stream.line(EVENTS)


def a_table_of_which_all_changes_are_dead_is_accounted_and_not_made(stream: Stream) -> None:
    stream.land(event("c", 10, {"id": "no number"}, table="typed"))
    assert stream.ground.lake.state(TableName("lake", "typed")) is None
    assert stream.cut().tables == {}
    counts = stream.cut().counts["lake.typed"]
    assert counts | {"events": 1, "dead": 1} == counts


def a_table_that_fails_leaves_the_others_and_the_cut_waits(stream: Stream) -> None:
    stream.land(event("c", 1, {"id": 1, "v": "a"}, table="other"))
    stream.publish(CONFIG.replace("lake.other, key: [id]", "lake.other, key: [v]"))
    n = stream.seal(event("c", 10, {"id": 1, "v": "a"}), event("c", 11, {"id": 2, "v": "b"}, table="other"))
    bad, good = (TableName("lake", name) for name in ("other", "orders"))
    opened, target = stream.opened(n, bad)
    failed = opened.commit(target)
    assert (failed.status, failed.failure) == ("failed", "key_changed")
    assert "[v] in firn.yaml" in (failed.error or "")
    _, target = stream.opened(n, good)
    assert opened.commit(target).status == "committed"
    opened.close()
    assert cuts.newest(stream.store, STREAM) == 1


def first_changes_that_all_lack_the_key_are_dead_and_later_ones_make_the_table(stream: Stream) -> None:
    name = TableName("lake", "no_key")
    stream.land(
        event("c", 10, {"id": 1}, table="no_key"), event("d", 11, None, {"id": 2}, table="no_key"),
        event("t", 12, table="no_key"), event("c", 13, {"id": 1, "v": "a"}),
    )  # fmt: skip
    assert stream.values() == [(1, "a")]
    assert stream.ground.lake.state(name) is None
    assert stream.cut().quarantined == {}
    counts = {"events": 3, "merged": 0, "superseded": 0, "ignored": 1, "dead": 2}
    assert stream.cut().counts["lake.no_key"] == counts
    letters = [letter for path in paths(stream.store, dead_prefix(STREAM)) for letter in read_dead(stream.store, path)]
    assert [(letter.reason, letter.index) for letter in letters] == [("no_key", 0), ("no_key", 1)]
    assert "nowhere" in letters[0].message
    stream.land(event("c", 20, {"nowhere": 7, "id": 1}, table="no_key"), event("c", 21, {"id": 1}, table="no_key"))
    assert [(row["nowhere"], row["id"]) for row in stream.ground.rows(name)] == [(7, 1)]
    assert (stream.cut().quarantined, stream.cut().counts["lake.no_key"]["dead"]) == ({}, 1)


def a_table_in_append_mode_takes_changes_without_its_key_from_the_first_on(stream: Stream) -> None:
    stream.publish(CONFIG.replace("lake.events, mode: append", "lake.events, mode: append, key: [id]"))
    stream.land(event("c", 10, {"a": 1}, table="events"))
    stream.land(event("c", 11, {"a": 2, "id": 5}, table="events"))
    assert sorted((row["a"], row["id"]) for row in stream.ground.rows(EVENTS)) == [(1, None), (2, 5)]
    assert stream.cut().quarantined == {}


def a_changed_key_quarantines_its_table_and_a_release_brings_it_up(stream: Stream) -> None:
    stream.land(event("c", 10, {"id": 1, "v": "a"}))
    stream.publish(CONFIG.replace("lake.orders, key: [id]", "lake.orders, key: [v]"))
    stream.land(event("c", 20, {"id": 2, "v": "b"}))
    assert stream.cut().quarantined == {"lake.orders": "key_changed"}
    held = holds.read_all(stream.store, STREAM).held()["lake.orders"]
    holds.lift(stream.store, held, "retry", layout.instant(stream.tick()))
    stream.publish(CONFIG)
    stream.land(event("c", 30, {"id": 3, "v": "c"}))
    assert stream.values() == [(1, "a"), (2, "b"), (3, "c")]
    assert [found["firn.epoch.shop"] for found in stream.ground.snapshots(ORDERS)] == ["1", "2", "3"]
    assert (stream.cut().quarantined, stream.cut().counts["lake.orders"]["events"]) == ({}, 2)


def a_source_that_goes_back_in_position_and_on_in_time_holds_the_stream(stream: Stream) -> None:
    late = 60 * 60_000
    stream.land(event("c", 1_000, {"id": 1, "v": "a"}), event("r", 5_000, {"id": 2, "v": "read"}))
    assert stream.cut().high is not None
    assert stream.cut().high[1] == 1_700_000_001_000  # type: ignore[index]
    read, again = event("r", 500, {"id": 3, "v": "read"}), event("c", 1_000, {"id": 1, "v": "a"})
    read["source"]["ts_ms"] += late
    stream.land(read, again)
    back = event("u", 900, {"id": 1, "v": "restored"})
    back["source"]["ts_ms"] += late
    assert stream.commit(stream.seal(back)) == 0
    assert stream.lines[-1]["status"] == "quarantined"
    assert stream.values() == [(1, "a"), (2, "read"), (3, "read")]
    assert stream.cut().n == 2


RAISED = CONFIG.replace("  shop:\n", "  shop:\n    generation: 1\n", 1)


def a_change_that_comes_again_after_the_generation_was_raised_keeps_its_own(stream: Stream) -> None:
    old = event("u", 100, {"id": 1, "v": "old"})
    row = event("c", 50, {"a": 1}, table="events")
    stream.land(old, row, row, event("u", 200, {"id": 1, "v": "newer"}), event("r", 210, {"id": 3, "v": "read"}))
    stream.publish(RAISED)
    stream.land(event("r", 20, {"id": 1, "v": "by the new snapshot"}), event("r", 21, {"id": 3, "v": "again"}))
    stream.land(old, row, row, event("r", 210, {"id": 3, "v": "read"}), event("c", 30, {"id": 2, "v": "new"}))
    assert stream.values() == [(1, "by the new snapshot"), (2, "new"), (3, "again")]
    assert [found["a"] for found in stream.ground.rows(EVENTS)] == [1, 1]
    # At one place in the log, and another event: the restored source goes its own way.
    stream.land(event("u", 100, {"id": 1, "v": "of the restored one"}))
    assert stream.values()[0] == (1, "of the restored one")


def an_epoch_counts_under_the_generation_that_it_was_sealed_under(stream: Stream) -> None:
    first = stream.seal(event("u", 100, {"id": 1, "v": "before"}), event("c", 101, {"id": 2, "v": "before"}))
    stream.publish(RAISED)
    second = stream.seal(event("r", 20, {"id": 1, "v": "after"}))
    assert stream.commit(first, second) == 0
    assert stream.values() == [(1, "after"), (2, "before")]


def a_batch_that_is_sealed_again_keeps_the_generation_of_its_first_epoch(stream: Stream) -> None:
    row, old = event("c", 100, {"a": 1}, table="events"), event("u", 100, {"id": 1, "v": "old"})
    del row["source"]["ts_ms"], old["source"]["ts_ms"]  # nothing but the epochs tells that it came before
    n = stream.seal(row, old)
    opened, target = stream.opened(n, EVENTS)
    assert opened.commit(target).status == "committed"
    opened.close()
    held = Quarantine(FORMAT, STREAM, n, layout.instant(stream.tick()), "killed", "m", "a", epoch=n, last=n)
    assert holds.hold(stream.store, held)
    stream.publish(RAISED)
    stream.land(event("r", 20, {"id": 1, "v": "new"}))
    assert holds.lift(stream.store, held, "retry", layout.instant(stream.tick()))
    stream.land(event("c", 22, {"a": 2}, table="events"))
    assert sorted(found["a"] for found in stream.ground.rows(EVENTS)) == [1, 2]
    assert stream.values() == [(1, "new")]


def marks(stream: Stream, table: TableName = ORDERS) -> list[str]:
    """What the table's snapshots that no epoch made say of its alterations."""
    told = stream.ground.snapshots(table)
    return [one["firn.schema"] for one in told if "firn.schema" in one and "firn.epoch.shop" not in one]


def a_column_that_needs_another_type_has_its_values_and_the_table_is_marked(stream: Stream) -> None:
    stream.land(event("c", 10, {"id": 1, "v": 1}), event("c", 11, {"a": 1}, table="events"))
    stream.land(event("c", 20, {"id": 2, "v": 2}), event("c", 21, {"a": 2}, table="events"))
    assert marks(stream) == []
    stream.land(event("c", 30, {"id": 3, "v": "x"}), event("c", 31, {"a": "x"}, table="events"))
    assert stream.values() == [(1, "1"), (2, "2"), (3, "x")]
    assert sorted(row["a"] for row in stream.ground.rows(EVENTS)) == ["1", "2", "x"]
    assert marks(stream) == marks(stream, EVENTS) == ["1"]
    stream.land(event("d", 40, None, {"id": 1}), event("u", 25, {"id": 2, "v": 5}))
    assert stream.values() == [(2, "5"), (3, "x")]
    state = stream.ground.lake.state(ORDERS)
    assert state is not None
    assert (state.basis.altered, stream.ground.snapshots(ORDERS)[-1]["firn.schema"]) == (1, "1")


def a_renamed_column_keeps_its_values_and_the_table_is_marked(stream: Stream) -> None:
    stream.land(event("c", 10, {"id": 1, "old": "a"}))
    stream.publish(CONFIG.replace("orders, key: [id]", "orders, key: [id], renames: {v: old}"))
    stream.land(event("c", 20, {"id": 2, "v": "b"}))
    assert stream.values() == [(1, "a"), (2, "b")]
    stream.land(event("u", 30, {"id": 1, "old": "c"}))
    assert stream.values() == [(1, "c"), (2, "b")]
    assert marks(stream) == ["1"]


def another_partitioning_keeps_the_rows_and_marks_the_table(stream: Stream) -> None:
    stream.land(event("c", 10, {"id": 1, "v": "a"}))
    stream.publish(CONFIG.replace("orders, key: [id]", "orders, key: [id], partition_by: ['bucket(2, id)']"))
    stream.land(event("c", 20, {"id": 2, "v": "b"}), event("u", 21, {"id": 1, "v": "c"}))
    assert stream.values() == [(1, "c"), (2, "b")]
    stream.publish(CONFIG)
    stream.land(event("c", 30, {"id": 3, "v": "d"}))
    assert stream.values() == [(1, "c"), (2, "b"), (3, "d")]
    assert marks(stream) == ["1", "2"]


def a_table_that_was_dropped_is_held_and_made_again_from_the_log(stream: Stream) -> None:
    stream.land(event("c", 10, {"id": 1, "v": "a"}))
    before = stream.ground.lake.state(ORDERS)
    stream.ground.drop(ORDERS)
    stream.land(event("c", 20, {"id": 2, "v": "b"}))
    assert stream.cut().quarantined == {"lake.orders": "rolled_back"}
    held = holds.read_all(stream.store, STREAM).held()["lake.orders"]
    holds.lift(stream.store, held, "replay", layout.instant(stream.tick()))
    stream.land(event("c", 30, {"id": 3, "v": "c"}))
    assert stream.values() == [(1, "a"), (2, "b"), (3, "c")]
    after = stream.ground.lake.state(ORDERS)
    assert before is not None
    assert after is not None
    assert before.basis.uuid != after.basis.uuid


@dataclass(frozen=True)
class _Dropping:
    """A lake of which a table is dropped after the job has chosen its epochs."""

    ground: Ground

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ground.lake, name)

    def state(self, table: TableName) -> TableState | None:
        """As the lake's."""
        return self.ground.lake.state(table)

    def open(self, stream: str, settings: StreamConfig, epochs: Mapping[int, Epoch], last: int) -> Range:
        """The same, behind the drop."""
        self.ground.drop(ORDERS)
        return self.ground.lake.open(stream, settings, epochs, last)


def a_table_that_is_dropped_while_a_job_is_at_it_is_not_made_of_what_is_new_alone(stream: Stream) -> None:
    stream.land(event("c", 10, {"id": 1, "v": "a"}))
    sealed = stream.seal(event("c", 20, {"id": 2, "v": "b"}))
    assert stream.commit(sealed, lake=cast("Lake", _Dropping(stream.ground))) == 1
    assert "was set back or made again while a job was at it" in stream.line(ORDERS)["error"]
    assert stream.ground.lake.state(ORDERS) is None
    assert stream.commit(sealed, attempt=2) == 0
    assert stream.cut().quarantined == {"lake.orders": "rolled_back"}


CASES: list[Callable[[Stream], None]] = [
    a_missing_table_has_no_state,
    creates_updates_and_deletes_land,
    a_stale_change_loses_and_leaves_its_mark,
    a_change_older_than_the_delete_of_its_key_stays_out,
    a_dead_letter_gives_no_column_another_type_and_makes_none,
    a_rerun_does_nothing,
    an_untouched_table_gets_no_snapshot_and_stands_in_the_cut,
    the_summary_and_the_cut_carry_progress_and_balanced_counts,
    a_twin_with_the_same_epoch_is_refused_and_finds_it_done,
    a_job_that_comes_after_its_successor_adds_nothing,
    an_append_table_takes_each_event_once,
    a_table_of_which_all_changes_are_dead_is_accounted_and_not_made,
    a_table_that_fails_leaves_the_others_and_the_cut_waits,
    first_changes_that_all_lack_the_key_are_dead_and_later_ones_make_the_table,
    a_table_in_append_mode_takes_changes_without_its_key_from_the_first_on,
    a_changed_key_quarantines_its_table_and_a_release_brings_it_up,
    a_source_that_goes_back_in_position_and_on_in_time_holds_the_stream,
    a_change_that_comes_again_after_the_generation_was_raised_keeps_its_own,
    an_epoch_counts_under_the_generation_that_it_was_sealed_under,
    a_batch_that_is_sealed_again_keeps_the_generation_of_its_first_epoch,
    a_column_that_needs_another_type_has_its_values_and_the_table_is_marked,
    a_renamed_column_keeps_its_values_and_the_table_is_marked,
    another_partitioning_keeps_the_rows_and_marks_the_table,
    a_table_that_was_dropped_is_held_and_made_again_from_the_log,
    a_table_that_is_dropped_while_a_job_is_at_it_is_not_made_of_what_is_new_alone,
]
