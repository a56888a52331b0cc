"""What became of a table in several parts of one range, as one, and what is told of a part's changes."""

from firn.config.names import TableName
from firn.config.reader import parse
from firn.tables.batch_facts import TableFacts
from firn.tables.outcome import Outcome, joined
from firn.tables.routing import Target


def test_counts_add_up_and_the_last_part_says_how_the_table_is() -> None:
    first = Outcome(
        "rest.t", ("s.t",), "mirror", progress=3, events=7, merged=5, superseded=1, dead=1, snapshot_id=1,
        dead_by={"s.t": {"bad": 1}}, way={"by": "columns"}, stages={"read": 0.5},
    )  # fmt: skip
    second = Outcome(
        "rest.t", ("s.t",), "mirror", progress=5, events=4, merged=1, ignored=1, dead=2, snapshot_id=2,
        dead_by={"s.t": {"bad": 1, "late": 1}}, way={"by": "rows"}, stages={"read": 0.25, "write": 1.0},
    )  # fmt: skip
    whole = joined([first, second])
    assert (whole.events, whole.merged, whole.superseded, whole.ignored, whole.dead) == (11, 6, 1, 1, 3)
    assert (whole.progress, whole.snapshot_id, whole.status) == (3, 2, "committed")
    assert whole.dead_by == {"s.t": {"bad": 2, "late": 1}}
    assert whole.way == {"by": "rows", "parts": 2}
    assert whole.stages == {"read": 0.75, "write": 1.0}
    # Spark's tasks may have committed all that was left with the first one.
    skipped = Outcome("rest.t", ("s.t",), status="skipped", progress=7, snapshot_id=2)
    assert joined([first, skipped]).status == "committed"
    assert joined([first, skipped]).mode == "mirror"
    assert joined([first]) is first


def test_a_target_counts_its_changes_by_epoch() -> None:
    rule = parse("streams: {s: {tables: {s.t: {to: lake.t, key: [id]}}}}").streams["s"].tables[0]
    counts = {(1, "c"): 2, (2, "u"): 3, (2, "t"): 1, (4, "t"): 5}
    target = Target(TableName.parse("lake.t"), rule, ("s.t",), (TableFacts(events=counts),))
    assert (target.counts(), target.counts("t")) == ({1: 2, 2: 4, 4: 5}, {2: 1, 4: 5})
    assert target.up_to(2).counts() == {1: 2, 2: 4}
    assert target.above(1).up_to(2).events(0) == 4
