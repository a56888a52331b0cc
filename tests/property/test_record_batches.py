"""Any history of records, brought in any parts, again and again, while storage fails as it likes, makes the rows of the
plain replay; and no bytes make a delivery crash, or a record vanish without an account."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from obstore.store import MemoryStore

from firn.changes.positions import position
from firn.config.reader import parse
from firn.errors import TransientError
from firn.ingest.bodies import Limits
from firn.log.store import Store
from firn.triggers.deliveries import read_delivery
from firn.triggers.schema_registry import AnySchema
from firn.triggers.staging import Outcome, take
from tests.soak import times
from tests.unit.triggers.conftest import CONFIG, staged
from tests.unit.triggers.lambda_events import FIRST, kafka, kinesis

NOW = datetime(2026, 3, 1, tzinfo=UTC)
KNOWN = parse(CONFIG)
CHANGES = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=30)
"""Key, and whether its row goes."""
CUTS = st.lists(st.integers(0, 30), max_size=6)


def no_schema(_number: int) -> AnySchema:
    raise TransientError("the registry is away")


def deliver(store: Store, event: dict[str, Any]) -> Outcome:
    return take(
        store, KNOWN, read_delivery(event), now=NOW, limits=Limits(), registries=lambda _registry: no_schema
    )  # fmt: skip


def parts(changes: Sequence[Any], cuts: Sequence[int]) -> list[Sequence[Any]]:
    """Consecutive parts, and some of them again: from each cut to the end, then the whole."""
    whole = list(enumerate(changes))
    return [whole[cut:] for cut in cuts] + [whole[:cut] for cut in cuts] + [whole]


def mirror(store: Store, stream: str) -> dict[Any, Any]:
    newest: dict[Any, tuple[bytes, Any]] = {}
    for one in staged(store, stream):
        image = json.loads(one["after"] or one["before"])
        where = position(one.get("connector") or "", one["op"], one["order"], 0)
        assert where is not None
        value = None if one["op"] == "d" else image["v"]
        newest[image["id"]] = max(newest.get(image["id"], (b"", None)), (where, value), key=lambda it: it[0])
    return {key: value for key, (_, value) in newest.items() if value is not None}


def replayed(changes: Sequence[tuple[int, bool]]) -> dict[int, int]:
    rows: dict[int, int] = {}
    for number, (key, gone) in enumerate(changes):
        rows.pop(key, None)
        rows |= {} if gone else {key: number}
    return rows


@given(CHANGES, CUTS, st.randoms(use_true_random=False))
def test_a_partition_brought_in_any_parts_any_number_of_times_is_its_replay(
    changes: list[tuple[int, bool]], cuts: list[int], random: Any
) -> None:
    store = MemoryStore()
    brought = parts(changes, cuts)
    random.shuffle(brought)
    for part in brought:
        records = [
            (0, number, b"%d" % key, None if gone else json.dumps({"v": number}).encode())
            for number, (key, gone) in part
        ]
        assert deliver(store, kafka(records)).failed is None
    assert mirror(store, "crm") == replayed(changes)


@given(CHANGES, CUTS, st.randoms(use_true_random=False))
def test_a_shard_brought_in_any_parts_any_number_of_times_is_its_replay(
    changes: list[tuple[int, bool]], cuts: list[int], random: Any
) -> None:
    store = MemoryStore()
    brought = parts(changes, cuts)
    random.shuffle(brought)
    for part in brought:
        records = [(FIRST + number, json.dumps({"id": key, "v": number}).encode()) for number, (key, _) in part]
        if records:
            assert deliver(store, kinesis(records)).failed is None
    assert mirror(store, "clicks") == replayed([(key, False) for key, _ in changes])


VALUES = st.one_of(
    st.binary(max_size=40),
    st.binary(max_size=30).map(lambda tail: b"\0\0\0\0\1" + tail),
    st.binary(max_size=30).map(lambda tail: b"\x1f\x8b" + tail),
    st.binary(max_size=40).map(lambda tail: b"\xf3\x89\x9a\xc2" + tail),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    ).map(lambda value: json.dumps(value).encode()),
    st.text(max_size=10).map(lambda text: ('{"id": 1, "' + text).encode("utf-8", "replace")),
)


@settings(max_examples=times(13, 5_000, 200))
@given(st.lists(VALUES, min_size=1, max_size=5), st.lists(st.none() | VALUES, min_size=5, max_size=5))
def test_no_bytes_make_a_delivery_crash_and_each_record_has_its_account(
    values: list[bytes], keys: list[bytes | None]
) -> None:
    store = MemoryStore()
    events = [kinesis([(FIRST + n, value) for n, value in enumerate(values)])]
    for topic in ("users", "notes", "timed", "bank.x"):
        records = [(0, n, keys[n], value or None) for n, value in enumerate(values)]
        events.append(kafka(records, topic))
    for event in events:
        done = deliver(store, event)
        taken = len(values) if done.failed is None else done.failed
        assert done.failed is None or isinstance(done.why, TransientError)
        told = [one for part in done.staged for one in part.accepted]
        # A value may hold several events, or be an empty list of them.
        empty = sum(value.strip() in (b"[]", b"") for value in values[:taken])
        assert sum(one.accepted + one.rejected + sum(one.ignored.values()) for one in told) >= taken - empty
