"""A table whose engine takes its changes in parts: each once, and all of them counted."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from firn.changes.decode.row_decoder import ChangeId, Why
from firn.changes.decode.types import LONG, Column
from firn.config.names import TableName
from firn.config.reader import parse
from firn.tables.batch_facts import TableFacts
from firn.tables.outcome import Outcome
from firn.tables.routing import Target
from firn_spark.committer import Committer
from firn_spark.not_eligible import InParts, Unfit
from firn_spark.table_commit import RangeContext, TableCommit

STREAM = parse("streams: {s: {tables: {s.t: {to: lake.t, key: [id]}}}}").streams["s"]
EPOCHS: Any = {n: SimpleNamespace(nonce=f"n{n}") for n in (3, 4, 5, 6)}


class Parts:
    """An Engine. `ends`: what it commits first, by the epoch above which changes are left; `fails`: what it raises once
    in a part that ends there; `done`: what it committed."""

    name = "home"

    def __init__(self, ends: Mapping[int, int], fails: Mapping[int, Exception] | None = None) -> None:
        self.ends = ends
        self.fails = dict(fails or {})
        self.done: list[tuple[int, int | None, int]] = []
        self.told_of: list[tuple[int, int | None]] = []

    def commit(self, one: TableCommit) -> None:
        upto = one.context.upto
        if upto is None and one.above in self.ends:
            raise InParts(self.ends[one.above])
        if upto is not None and upto in self.fails:
            raise self.fails[upto]
        one.outcome.merged = one.outcome.events
        self.done.append((one.above, upto, one.context.last))

    def rejected(self, one: TableCommit) -> Mapping[ChangeId, Why]:
        return {}

    def told(
        self, target: Target, above: int, without: frozenset[ChangeId], upto: int | None
    ) -> Mapping[str, TableFacts]:
        self.told_of.append((above, upto))
        return {"s.t": TableFacts(seen=[(Column("id", LONG),)])}


def committed(engine: Parts, otherwise: Any = None) -> Any:
    none: Any = None
    tables: Any = SimpleNamespace(load=lambda _: None)  # what is made of it none of this asks
    context = RangeContext(none, none, "s", STREAM, "", EPOCHS, 7, tables)
    counts = {(3, "c"): 2, (4, "u"): 3, (4, "t"): 1, (5, "u"): 4, (6, "d"): 1}
    facts = TableFacts(events=counts, seen=[(Column("id", LONG),)])
    target = Target(TableName.parse("lake.t"), STREAM.tables[0], ("s.t",), (facts,))
    return Committer(context, engine, otherwise).commit(target, 0)


def test_parts_are_committed_in_order_and_counted_as_one() -> None:
    outcome = committed(engine := Parts({0: 3, 3: 5}))
    assert engine.done == [(0, 3, 3), (3, 5, 5), (5, None, 7)]
    assert (outcome.status, outcome.events, outcome.merged, outcome.way) == ("committed", 11, 11, {"parts": 3})
    # What a part's changes say of columns, those after it do not.
    assert {upto for _, upto in engine.told_of} == {None, 3, 5}


def test_a_part_that_is_for_spark_is_all_that_is_left() -> None:
    asked: list[tuple[int, int]] = []

    def otherwise(target: Target, above: int) -> Outcome:
        asked.append((above, target.events(above)))
        return Outcome("lake.t", ("s.t",), "mirror", events=11, merged=11)

    outcome = committed(Parts({0: 3}, {3: Unfit("a process that reads died")}), otherwise)
    assert asked == [(0, 11)]
    assert outcome.way["home"] == "a process that reads died"
