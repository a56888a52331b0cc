"""The verdicts that are found without a fold, and what the full rule says of the rest, are those of the full rule
alone: over random histories with truncates, moves, left-out values, several source tables, repeats and older tables,
and whatever is done to the table's rows."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from firn.audit.plain_changes import PlainChange, plain_of
from firn.audit.row_check import NOTHING, AppendRows, Logged, MirrorRows, RowAccount, Values
from firn.audit.sure_verdicts import PlainRow, SureVerdicts, is_whole, linked
from firn.changes.merge.decide import made_at
from firn.changes.merge.fold import Key, Row, RowChange, fold
from firn.changes.positions import WIDTH
from tests.property.random_histories import case
from tests.property.test_audit import STEPS, World
from tests.property.test_audit_rows import WAYS, Damaged
from tests.soak import times
from tests.unit.audit.audited import row_audited

CASES = times(300, 100_000, 500)
NAMES = ["k", "v", "w"]
DAMAGES = ("lose", "double", "stale", "alter", "invent", "position", "adopt", "another")


def said(found: RowAccount) -> dict[str, Any]:
    """All that is found but which of equal changes is named, and in which order."""
    samples = sorted((one.what, one.row, one.columns) for one in found.samples)
    return asdict(found) | {"samples": samples}


def damaged(dice: random.Random, rows: Sequence[tuple[Key, Row]], keys: int) -> list[tuple[Key, Row]]:
    """The rows after some hand was at them."""
    found = list(rows)
    for _ in range(dice.choice((0, 0, 1, 2))):
        if not found:
            break
        place = dice.randrange(len(found))
        key, row = found[place]
        match dice.choice(DAMAGES):
            case "lose":
                del found[place]
            case "double":
                found.append((key, row))
            case "stale":
                found[place] = key, replace(row, order=dice.choice([one.order for _, one in rows]))
            case "alter":
                found[place] = key, replace(row, values={**row.values, dice.choice(NAMES): "wrong"})
            case "invent":
                found.append(((keys + 1,), row))
            case "position":  # as older tables have it
                found[place] = key, replace(row, order=row.order[: 1 + WIDTH])
            case "adopt":
                found[place] = key, replace(row, order=b"\0")
            case _:
                found.append((key, replace(row, order=row.order[:-1] + b"\7")))
    return found


def bare(change: RowChange) -> RowChange:
    values = None if change.values is None else NOTHING
    return RowChange(change.op, change.key, change.position, change.order, values, source=change.source)


@pytest.mark.parametrize("deep", [False, True])
def test_of_a_mirror_table_they_are_those_of_the_full_rule(deep: bool) -> None:
    settled = 0
    for seed in range(CASES):
        dice, one = random.Random(seed), case(seed)
        came = [change for batch in one.batches for change in batch]
        doubted = {change.identity for change in came if dice.random() < 0.1} if seed % 3 == 0 else set()
        log = [
            Logged(change.key, "b", place, change.identity not in doubted, change if deep else bare(change))
            for place, change in enumerate(came)
        ]
        rows = damaged(dice, list(fold(one.base, one.changes).rows.items()), 4)
        if not deep:
            rows = [(key, replace(row, values=NOTHING, held={})) for key, row in rows]
        rows.sort(key=lambda pair: is_plain(pair[1]))  # of two rows of a key that no change made the first counts
        truncates = [change for change in log if change.change is not None and change.change.op == "t"]
        log = [change for change in log if change not in truncates]
        old, new = RowAccount("t"), RowAccount("t")
        values = Values(NAMES) if deep else None
        how: dict[str, Any] = {"whole": not one.base, "truncates": truncates, "values": values}
        MirrorRows(old, **how).judge(log, rows)
        plain = [plain_of(change, NAMES, deep=deep) for change in log]
        others = [change for change, as_plain in zip(log, plain, strict=True) if as_plain is None]
        there = [plain_row(key, row, deep=deep) for key, row in rows if is_plain(row)]
        odd = [(key, row) for key, row in rows if not is_plain(row)]
        sure = SureVerdicts(new, NAMES, mirror=True, values=values, truncates=truncates)
        changes = [change for change in plain if change is not None]
        moving = made_at(change.change for change in log if change.change is not None)
        left = sure.unsettled(changes, there, linked(moving, others, changes), others, odd)
        settled += new.found
        MirrorRows(new, **how).judge(*left)
        assert said(new) == said(old), seed
    assert settled > CASES / 5, "else this says nothing"


def is_plain(row: Row) -> bool:
    return is_whole(row.order) and not row.held


def plain_row(key: Key, row: Row, *, deep: bool) -> PlainRow:
    return key, row.order, row.source, tuple(row.values.get(name) for name in NAMES) if deep else None


@pytest.mark.parametrize("deep", [False, True])
def test_of_an_append_table_they_are_those_of_the_full_rule(deep: bool) -> None:
    settled = 0
    for seed in range(CASES):
        dice = random.Random(seed)
        names = [str(dice.randrange(6)) for _ in range(dice.randrange(8))]
        log = [
            Logged(name, "b", place, dice.random() < 0.9, values={"v": name} if deep else None)
            for place, name in enumerate(names)
        ]
        rows: list[tuple[str | None, dict[str, Any]]] = [
            (name, {"v": name if dice.random() < 0.8 else "wrong"} if deep else {})
            for name in {*names, "9"}
            for _ in range(dice.choice((0, 1, 1, 1, 1, 2)))
        ]
        rows += [(None, {})] * dice.randrange(2)
        old, new = RowAccount("t"), RowAccount("t")
        values = Values(["v"]) if deep else None
        whole = dice.random() < 0.5
        AppendRows(old, whole=whole, values=values).judge(log, rows)
        plain: list[PlainChange] = [
            (one.name, b"o", "c", None, one.batch, one.place, (one.name,) if deep else None)
            for one in log
            if one.needed
        ]
        there: list[PlainRow] = [
            (name, b"", None, (row["v"],) if deep else None) for name, row in rows if name is not None
        ]
        sure = SureVerdicts(new, ["v"], mirror=False, values=values)
        unnamed = [one for one in rows if one[0] is None]
        left = sure.unsettled(plain, there, set(), [one for one in log if not one.needed], unnamed)
        settled += new.found
        AppendRows(new, whole=whole, values=values).judge(*left)
        assert said(new) == said(old), seed
    assert settled > CASES


@settings(max_examples=times(15, 5_000, 30))
@given(
    seed=st.integers(0, 2**32), steps=st.lists(st.sampled_from(STEPS), min_size=5, max_size=30),
    way=st.sampled_from(WAYS), deep=st.booleans(),
)  # fmt: skip
def test_whatever_happened_to_a_stream_they_are_those_of_the_full_rule(
    seed: int, steps: list[str], way: str, deep: bool
) -> None:
    world = World(seed)
    for step in ("post", *steps, "seal", "commit"):
        getattr(world, step)()
    old, new = (
        row_audited(world.stream, world.ground, deep=deep, damage=Damaged(seed, way), one_by_one=one_by_one)
        for one_by_one in (True, False)
    )
    assert {name: said(found) for name, found in new.items()} == {name: said(found) for name, found in old.items()}
    told = Counter(what for found in new.values() for what in ("found", "missing", "surplus") if getattr(found, what))
    event(", ".join(sorted(told)))
