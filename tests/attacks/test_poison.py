"""One event that fails in decoding, ordering, facts, folding or writing is one dead letter; its batch, table and stream
go on: by columns, by rows, by Spark, and in fresh reads."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from firn.changes.decode.row_decoder import MirrorDecoder
from firn.log.dead_letters.letters import DeadLetter, read_dead
from firn.log.layout import dead_prefix
from firn.log.store import paths
from firn_lake.lake import Lake as Reader
from firn_spark import ranges
from tests.attacks.poisons import Raw, change, stage
from tests.integration.spark.conftest import lake, spark
from tests.integration.spark.spark_lake import Lake
from tests.integration.spark.test_audit import audited
from tests.integration.spark.test_dead_replay import replayed
from tests.soak import LONG

__all__ = ["lake", "spark"]  # fixtures
pytestmark = pytest.mark.spark
Make = Callable[[str], Lake]

CONFIG = """
warehouse: file:///set/by/the/deployment
catalog: {type: sql}
streams:
  spec:
    tables:
      app.log: {to: lake.log, mode: append}
      app.*: {to: 'lake.{table}', key: [id]}
  other:
    tables: {'app.good': {to: lake.elsewhere, key: [id]}}
"""
DIGITS = "9" * 5000
DEEP = "[" * 900 + "]" * 900
DECIMAL = "org.apache.kafka.connect.data.Decimal"


def schema(name: str, kind: str, semantics: str | None = None, **parameters: str) -> str:
    """An inline Connect schema: `id` and one column more."""
    more = {"field": name, "type": kind, "optional": True, "name": semantics, "parameters": parameters}
    row = {"field": "after", "type": "struct", "fields": [{"field": "id", "type": "int32", "optional": True}, more]}
    return json.dumps({"type": "struct", "fields": [row]})


def with_schema(text: str, value: Any = "AQ==") -> dict[str, Any]:
    return {"after": {"id": 9, "x": value}, "schema": text}


# What a staged log may hold, by a name; and the reason of its dead letter.
POISONS: dict[str, tuple[str, dict[str, Any]]] = {
    "an op that is none": ("unknown_op", {"op": "m"}),
    "no op at all": ("unknown_op", {"op": ""}),
    "a time beyond 64 bits of microseconds": ("bad_event", {"ts": 2**63 - 1}),
    "a time before all of them": ("bad_event", {"ts": -(2**63)}),
    "an order beyond 64 bits": ("bad_position", {"order": f'["{"9" * 400}","1"]'}),
    "an order of more digits than Python reads": ("bad_position", {"order": f'["{DIGITS}","1"]'}),
    "an order that is nested": ("bad_position", {"order": DEEP}),
    "half a surrogate pair in a key's name": ("internal", {"key": '{"\\ud800": 1}'}),
    "half a surrogate pair in a value": ("bad_image", {"after": '{"id":9,"x":"\\ud800"}'}),
    "a column without a name": ("bad_image", {"after": {"id": 9, "": "x"}}),
    "an image that is not an object": ("bad_image", {"after": "[9]"}),
    "a number beyond a double": ("type_mismatch", {"after": '{"id":9,"x":1e999}'}),
    "a key of more digits than Python reads": ("bad_image", {"after": f'{{"id":{DIGITS}}}'}),
    "an image before that is cut off": ("bad_image", {"op": "u", "before": "[1"}),
    "a row that is nested": ("too_deep", {"after": f'{{"id":9,"x":{DEEP}}}'}),
    "a deleted key that is nested": (
        "too_deep",
        {"op": "d", "after": None, "key": f'{{"id":{DEEP}}}', "schema": schema("x", "string")},
    ),
    "a schema that is none": ("bad_schema", {"schema": "5"}),
    "a schema that is nested": ("bad_schema", {"schema": f'{{"type":"struct","fields":{DEEP}}}'}),
    "a schema with a column without a name": ("bad_schema", with_schema(schema("", "string"))),
    "a scale beyond reason": ("bad_schema", with_schema(schema("x", "bytes", DECIMAL, scale="9" * 11))),
    "a scale of very many digits": ("bad_schema", with_schema(schema("x", "bytes", DECIMAL, scale=DIGITS))),
    "bytes that are not base64": ("type_mismatch", with_schema(schema("x", "bytes"), "@@")),
}  # fmt: skip
# What looks like poison, and is a row.
HARMLESS: dict[str, Any] = {
    "names that differ by case": {"id": 9, "Id": 8, "V": "w"},
    "odd names": {"id": 9, "a.b": 1, 'q"`\\': 2, "n\0": 3, "l\n": 4, " ": 5, "c0": 6, "_op": 7, "_file": 8, "_pos": 9},
    "a long name": {"id": 9, "n" * 100_000: 1},
    "nested": f'{{"id":9,"x":{"[" * 799 + "]" * 799}}}',
    "digits": f'{{"id":9,"x":{DIGITS}}}',
}


def ways(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """driver: in the job's process; readers: in those beside it; spark."""
    monkeypatch.setenv("FIRN_DRIVER_EVENTS", "0" if way == "slices" else "100000")
    monkeypatch.setattr(ranges, "ALONE", 0 if way == "readers" else 10**9)
    monkeypatch.setattr(ranges, "cores", lambda: 2)


def table(number: int) -> str:
    return f"app.t{number}"


def sent(number: int, poison: Raw) -> list[Raw]:
    """A good event, the poison and another good one, which also says what comes later."""
    more = dict(poison)
    name = table(number)
    return [
        change(name, 10, {"id": 1, "v": "a"}),
        change(name, 20, more.pop("after", {"id": 9, "v": "p"}), **more),
        change(name, 30, {"id": 2, "v": "b"}),
    ]


def letters(one: Lake) -> list[DeadLetter]:
    return [letter for path in paths(one.store, dead_prefix("spec")) for letter in read_dead(one.store, path)]


def ids(one: Lake, name: str, *, fresh: bool = False) -> list[Any]:
    found = Reader(one.catalog, lambda: one.store).sql(f"SELECT id FROM {name.replace('app.', 'lake.')}", fresh=fresh)
    return sorted(str(row["id"]) for row in found.pylist())


@pytest.mark.parametrize("way", ["driver", "slices", *(["readers"] if LONG else [])])
def test_each_poison_is_one_dead_letter_and_all_else_commits(
    lake: Make, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    ways(monkeypatch, way)
    one = lake(CONFIG)
    # A table each takes Spark a while: of each reason one, unless there is time.
    poisons = dict(POISONS.values()) if way == "slices" and not LONG else {}
    numbered = dict(enumerate(poisons.items() or POISONS.values()))
    for number, (_, poison) in numbered.items():
        stage(one, sent(number, poison))
    for number in numbered:
        assert ids(one, table(number), fresh=True) == ["1", "2"]
    assert one.commit(one.seal()) == 0, one.lines
    for number in numbered:
        assert ids(one, table(number)) == ["1", "2"]
    found = {letter.table: (letter.reason, letter.index) for letter in letters(one)}
    assert found == {table(number): (reason, 1) for number, (reason, _) in numbered.items()}
    counted = [line for line in one.lines if "dlq_total" in line]
    assert Counter(line["reason"] for line in counted) == Counter(reason for reason, _ in numbered.values())
    assert audited(one).balanced, audited(one).differences
    # The stream goes on.
    stage(one, [change(table(0), 40, {"id": 3, "v": "c"})])
    assert one.commit(one.seal()) == 0, one.lines
    assert ids(one, table(0)) == ["1", "2", "3"]
    # What nothing has healed comes back as a letter of its new batch, and stops nothing either.
    staged = sum(part.letters for part in replayed(one) if part.batch)
    assert staged
    assert one.commit(one.seal()) == 0, one.lines
    assert len(letters(one)) == len(numbered) + staged
    assert audited(one).balanced, audited(one).differences


@pytest.mark.parametrize("way", ["driver", "slices"])
def test_a_letter_keeps_the_schema_that_says_how_its_row_is_read(
    lake: Make, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    ways(monkeypatch, way)
    one = lake(CONFIG)
    text = schema("x", "bytes")
    good = change("app.good", 10, {"id": 1, "x": "AQ=="}, schema=text)
    stage(one, [good, change("app.good", 20, {"id": 2, "x": "@@"}, schema=text)])
    assert one.commit(one.seal()) == 0, one.lines
    assert one.rows("lake.good")[0]["x"] == b"\x01"
    (letter,) = letters(one)
    assert letter.change is not None
    assert letter.change.schema == text
    assert json.loads(letter.original)["schema"] == json.loads(text)


@pytest.mark.parametrize("way", ["driver", "slices"])
def test_what_only_looks_like_poison_is_a_row(lake: Make, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    ways(monkeypatch, way)
    one = lake(CONFIG)
    for number, row in enumerate(HARMLESS.values()):
        stage(one, sent(number, {"after": row}))
    fresh = [ids(one, table(number), fresh=True) for number in range(len(HARMLESS))]
    assert one.commit(one.seal()) == 0, one.lines
    assert [ids(one, table(number)) for number in range(len(HARMLESS))] == fresh == [["1", "2", "9"]] * len(HARMLESS)
    assert letters(one) == []


@pytest.mark.parametrize("way", ["driver", "slices"])
def test_an_append_table_leaves_the_poison_out_too(lake: Make, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    ways(monkeypatch, way)
    one = lake(CONFIG)
    stage(one, [change("app.log", n, {"id": n}, op="m" if n == 2 else "c") for n in range(4)])
    assert one.commit(one.seal()) == 0, one.lines
    assert ids(one, "app.log") == ["0", "1", "3"]
    assert [letter.index for letter in letters(one)] == [2]
    assert audited(one).balanced


class Fails(Exception):
    """A mistake of Firn's own."""


def failing(real: Any, wrong: Callable[[Any], bool]) -> Callable[..., Any]:
    """The step, which fails on what `wrong` says."""

    def step(*arguments: Any, **more: Any) -> Any:
        if any(wrong(one) for one in arguments):
            raise Fails("this one")
        return real(*arguments, **more)

    return step


@pytest.mark.parametrize("step", ["order", "facts", "decode"])
def test_a_mistake_of_ours_costs_the_event_that_meets_it(
    lake: Make, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """In the job's process, where the step can be made to fail: ADR 37 says why the others are alike."""
    ways(monkeypatch, "driver")
    match step:
        case "order":
            monkeypatch.setattr(
                "firn.changes.merge.ordering.order_key", failing_on_image("firn.changes.merge.ordering.order_key")
            )
        case "facts":
            monkeypatch.setattr("firn.tables.batch_facts.seen_in", failing_on_image("firn.tables.batch_facts.seen_in"))
        case _:
            real: Any = MirrorDecoder._rows
            monkeypatch.setattr(MirrorDecoder, "_rows", failing(real, lambda one: "poison" in str(one)))
            monkeypatch.setattr("firn_spark.staged.columnar.Columnar._plain", failing(None, lambda one: True))
    one = lake(CONFIG)
    for n in range(3):
        stage(one, [change("app.good", 10 * n + i, {"id": 10 * n + i, "v": "p"}) for i in range(10)])
    stage(one, [change("app.good", 100 + i, {"id": 100 + i, "v": "poison" if i == 5 else "p"}) for i in range(10)])
    assert len(ids(one, "app.good", fresh=True)) == 39
    assert one.commit(one.seal()) == 0, one.lines
    assert len(ids(one, "app.good")) == 39
    (letter,) = letters(one)
    assert (letter.reason, letter.index) == ("internal", 5)
    assert "Fails: this one" in letter.message
    assert json.loads(letter.original)["after"] == {"id": 105, "v": "poison"}
    assert audited(one).balanced
    # Fixed, it is replayed into its old place.
    monkeypatch.undo()
    ways(monkeypatch, "driver")
    (done,) = replayed(one)
    assert (done.letters, done.events) == (1, 1)
    assert one.commit(one.seal()) == 0, one.lines
    assert len(ids(one, "app.good")) == 40
    assert audited(one).balanced


def failing_on_image(name: str) -> Callable[..., Any]:
    module, _, function = name.rpartition(".")
    real = getattr(__import__(module, fromlist=[function]), function)
    return failing(real, lambda one: b"poison" in one if isinstance(one, bytes) else "poison" in str(one))
