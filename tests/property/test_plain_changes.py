"""Changes that an audit decodes by columns are those that the decoder of rows gives: for drawn images, and for every
corpus in every encoding."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.audit.plain_changes import PlainDecoder, as_logged
from firn.audit.row_check import Logged
from firn.changes.change import STEPS
from firn.changes.decode.codec import DecodeSettings
from firn.changes.decode.row_decoder import AppendDecoder, Decoder, Decoding, MirrorDecoder
from firn.changes.decode.types import Column
from firn.changes.decode.types import parse as parse_type
from firn.changes.envelopes.parser import parse
from firn.changes.merge import decoded_rows
from firn.changes.merge.ordering import Order
from firn.changes.metadata_columns import BEFORE, OP
from firn.commit.staged_changes import raw_columns
from firn.log.batches import BatchMeta, write_batch
from tests.property.test_codec import SETTINGS
from tests.property.test_columnar import DECODERS, READ_SCHEMA, batches, columns, decodings, lines, raw_of
from tests.soak import few_cases, times

Staged = Mapping[str, Sequence[Any]]
NO_DEAD: frozenset[int] = frozenset()


def by_rows(staged: Staged, places: Sequence[int], decoder: Decoder) -> list[str]:
    """Good changes, as text."""
    raw = [{name: column[place] for name, column in staged.items()} for place in places]
    good, _ = decoded_rows.decoded_by(decoder, raw)
    return [told(one, decoder) for one in good]


def told(row: Sequence[Any], decoder: Decoder) -> str:
    decoding = decoder.decoding
    if isinstance(decoder, MirrorDecoder):
        change = decoded_rows.row_change(row, decoding)
        assert not (change.unavailable and change.op in "dr")
        parts = [change.key, change.order, change.op, change.source, change.unavailable, change.stepped]
        return repr([row[decoded_rows.INDEX], *parts, change.values])
    values = decoded_rows.values_of(row, decoding) | {OP: row[decoded_rows.OP], BEFORE: row[decoded_rows.BEFORE]}
    return repr([row[decoded_rows.INDEX], decoded_rows.identity(row, "shop"), values])


def told_of_plain(one: Logged) -> str:
    change = one.change
    if change is None:
        return repr([one.place, one.name, one.values])
    parts = [change.key, change.order, change.op, change.source, change.unavailable, change.stepped]
    return repr([one.place, *parts, change.values])


def both_ways(staged: Staged, places: Sequence[int], decoder: Decoder) -> tuple[int, int]:
    """How many of the changes are plain, and how many there are."""
    mirror = isinstance(decoder, MirrorDecoder)
    names = [*(column.name for column in decoder.decoding.columns), *([] if mirror else [OP, BEFORE])]
    plain, left = PlainDecoder(decoder, "shop", names).split(staged, places, NO_DEAD)
    found = [told_of_plain(as_logged(one, names, mirror=mirror)) for one in plain]
    expected = by_rows(staged, places, decoder)
    assert sorted([*found, *by_rows(staged, left, decoder)]) == sorted(expected)
    # Without values they are the same changes.
    bare, again = PlainDecoder(decoder, "shop", None).split(staged, places, NO_DEAD)
    assert [one[:6] for one in bare] == [one[:6] for one in plain]
    assert (sorted(again), {one[6] for one in bare}) == (sorted(left), {None} if bare else set())
    return len(plain), len(expected)


@settings(max_examples=times(10, 5_000, 20))
@given(st.data(), SETTINGS, st.sampled_from(DECODERS), st.booleans())
def test_whatever_the_images_hold_plain_changes_say_what_rows_say(
    data: Any, settings: DecodeSettings, decoder: Callable[[Decoding], Decoder], snapshot_reads: bool
) -> None:
    target = tuple(data.draw(columns(settings)))
    no_key = data.draw(st.sampled_from([None, None, None, "there is none"]))
    decoding = Decoding(target, (0,), settings, snapshot_reads=snapshot_reads, no_key=no_key)
    staged = data.draw(batches(list(target))).to_pydict()
    both_ways(staged, range(len(staged["op"])), decoder(decoding))


ID, NAME = Column("id", parse_type("long")), Column("v", parse_type("string"))
HUGE = "9" * 5_000  # no integer to Python's JSON
ODD: dict[str, tuple[type[MirrorDecoder] | type[AppendDecoder], tuple[Column, ...], dict[str, Any]]] = {
    "a delete whose first image names a part of the key": (
        MirrorDecoder, (ID, NAME), {"op": "d", "key": '{"id":1}', "before": '{"id":2,"v":"b"}'},
    ),
    "a delete whose first image no reader of keys takes": (
        MirrorDecoder, (ID,), {"op": "d", "key": f'{{"id":1,"n":{HUGE}}}', "before": '{"id":2}'},
    ),
    "a delete that names the key as it was called before": (
        MirrorDecoder, (replace(ID, earlier=("old",), silent=True),), {"op": "d", "before": '{"old":1}'},
    ),
    "a part of a value in an append table": (
        AppendDecoder, (ID, NAME),
        {"op": "u", "connector": "mongodb_patch", "after": json.dumps({"id": 1, "v": f"{STEPS}[]"})},
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_what_is_odd_is_left_to_the_decoder_of_rows(what: str) -> None:
    decoder, target, change = ODD[what]
    common = {
        "epoch": 1, "batch": "b", "index": 0, "ts": 0, "pos": b"p", "ord": b"\1\0", "occurrence": 0, "flat": False,
    }  # fmt: skip
    staged = pa.RecordBatch.from_pylist([common | change], READ_SCHEMA).to_pydict()
    decoding = Decoding(target, tuple(range(len(target))), DecodeSettings())
    plain, _ = both_ways(staged, [0], decoder(decoding))
    assert plain == 0


@few_cases(2)
@pytest.mark.parametrize("file", ["plain", "schema", "flat", "cloudevents"])
def test_every_corpus_in_every_encoding_is_the_same_both_ways(file: str) -> None:
    events = lines(f"{file}.ndjson.gz")
    body = b"[" + b",".join(events) + b"]"
    meta = BatchMeta(1, "shop", "shop.0", "2026-03-01T12:30:00.000Z", "sha", 1, 0, {}, {})
    staged = raw_columns(write_batch(parse(body, "auto"), meta), 1, "shop.0", 0, Order())
    _, facts = raw_of(f"{file}.ndjson.gz")
    plain = every = 0
    for table, said in facts.items():
        places = [place for place, one in enumerate(staged["table"]) if one == table]
        for decoding in decodings(table, said):
            for decoder in DECODERS if decoding.key else [AppendDecoder]:
                some, of = both_ways(staged, places, decoder(decoding))
                plain, every = plain + some, every + of
    assert every > 100
    assert plain > every / 2
