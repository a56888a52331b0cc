"""Bodies that cost a server more than they cost their sender, and mutations of good ones. Each is (body, headers)."""

import gzip
import json
import random
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import zstandard

Body = tuple[bytes, Mapping[str, str]]
MB: Final = 1_000_000


def event(number: int, table: str = "orders", **row: Any) -> dict[str, Any]:
    """A good one."""
    source = {"connector": "postgresql", "schema": "public", "table": table, "sequence": f'["{number}","{number}"]'}
    return {"op": "c", "before": None, "after": {"id": number, **row}, "source": source, "ts_ms": 1}


def flat(number: int) -> dict[str, Any]:
    """A good one, flattened."""
    return {"id": number, "__op": "c", "__table": "orders", "__schema": "public", "__lsn": number}


def cloudevent(number: int) -> dict[str, Any]:
    """A good one as a CloudEvent."""
    return {
        "specversion": "1.0",
        "iodebeziumop": "c",
        "iodebeziumconnector": "postgresql",
        "iodebeziumschema": "public",
        "iodebeziumtable": "orders",
        "data": {"before": None, "after": {"id": number}},
    }


def encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def array(one: bytes, count: int, *others: bytes) -> bytes:
    first = b",".join([*others, one])
    return b"[" + first + (b"," + one) * (count - 1) + b"]"


def zstd(data: bytes) -> Body:
    return zstandard.ZstdCompressor(level=3).compress(data), {"Content-Encoding": "zstd"}


def zipped(data: bytes, level: int = 1) -> Body:
    return gzip.compress(data, level), {"Content-Encoding": "gzip"}


GOOD: Final = encoded(event(1))
INFLATED: Final = 62 * MB
_SENT: Final = 4_190_000


def plain(body: bytes) -> Body:
    return body, {}


# name -> (the statuses that it may be answered with, what makes it)
ATTACKS: Final[dict[str, tuple[set[int], Callable[[], Body]]]] = {
    "4 M numbers in 756 bytes of zstd": ({413}, lambda: zstd(array(b"1", 4 * MB))),
    "31 M numbers, gzip": ({413}, lambda: zipped(array(b"1", INFLATED // 2))),
    "12 M nulls after an event": ({413}, lambda: zipped(array(b"null", INFLATED // 5, GOOD))),
    "numbers after an event": ({413}, lambda: zipped(array(b"1", INFLATED // 2, GOOD))),
    "numbers after a flattened row": ({413}, lambda: zipped(array(b"1", INFLATED // 2, encoded(flat(1))))),
    "20 M empty objects": ({413}, lambda: zipped(array(b"{}", INFLATED // 3))),
    "empty objects after an event": ({413}, lambda: zipped(array(b"{}", INFLATED // 3, GOOD))),
    "empty objects after a flattened row": ({413}, lambda: zipped(array(b"{}", INFLATED // 3, encoded(flat(1))))),
    "empty objects after a CloudEvent": ({413}, lambda: zipped(array(b"{}", INFLATED // 3, encoded(cloudevent(1))))),
    "empty objects, as they are": ({413}, lambda: plain(array(b"{}", _SENT // 3, GOOD))),
    "empty rows after one, as they are": ({413}, lambda: plain(array(b"{}", _SENT // 3, encoded(flat(1))))),
    "empty CloudEvents, as they are": ({413}, lambda: plain(array(b"{}", _SENT // 3, encoded(cloudevent(1))))),
    "numbers, as they are": ({413}, lambda: plain(array(b"1", _SENT // 2))),
    "empty sources": ({413}, lambda: zipped(array(b'{"source":{},"transaction":{}}', 1_900_000, GOOD))),
    "many strings an event": (
        {413},
        lambda: zipped(
            array(b'{"op":"ab","source":{"connector":"ab","schema":"ab","table":"ab","sequence":"ab"}}', 700_000, GOOD)
        ),
    ),
    "strings after each other": ({413}, lambda: zipped(b'""' * (INFLATED // 2))),
    "objects without line breaks": ({413}, lambda: zipped(b"{}" * (INFLATED // 2))),
    "objects without line breaks after one": ({413}, lambda: zipped(GOOD + b"{}" * (INFLATED // 2))),
    "empty lines": ({202}, lambda: zipped(GOOD + b"\n" * INFLATED)),
    "empty lines and no event": ({400}, lambda: zipped(b"\n" * INFLATED)),
    "lines of a space": ({202}, lambda: zipped(GOOD + b" \n" * (INFLATED // 2) + b"x")),
    "carriage returns": ({413}, lambda: zipped(b"\r".join([GOOD] * 300_000))),
    "marks of the byte order": ({413}, lambda: zipped(b"\xef\xbb\xbf" * (INFLATED // 3))),
    "lines of one bracket": ({413}, lambda: zipped(b"{\n" * (INFLATED // 2))),
    "60,000 broken lines": ({413}, lambda: plain(b"{\n" * 60_000)),
    "50,000 broken lines": ({202}, lambda: plain(GOOD + b"\n{" * 49_999)),
    "50,000 empty objects": ({202}, lambda: plain(array(b"{}", 50_000))),
    "20,000 refused events": ({202}, lambda: plain(b"\n".join(encoded(event(n, "x\n")) for n in range(20_000)))),
    "200,000 events without order": (
        {413},
        lambda: zipped(array(b'{"op":"t","source":{"connector":"postgresql","table":"orders"}}', 200_000)),
    ),
    "brackets": ({413}, lambda: plain(b"[" * _SENT)),
    "60 MB of brackets": ({413}, lambda: zipped(b"[" * INFLATED)),
    "brackets in a row": ({413}, lambda: zipped(GOOD[:-1] + b',"x":' + b"[" * INFLATED)),
    "brackets after half a pair": ({413}, lambda: zipped(b'["\\ud800",' + b"[" * INFLATED)),
    "a string that never ends": ({202}, lambda: plain(b'"\\u0000' * (_SENT // 7))),
    "escaped zeros": ({413}, lambda: zipped(encoded(event(1, v="\0" * (INFLATED // 6))))),
    "backslashes": ({413}, lambda: zipped(b'{"op":"' + b"\\" * INFLATED + b'"}')),
    "backslashes after half a pair": ({413}, lambda: zipped(b'["\\ud800","' + b"\\" * INFLATED + b'"]')),
    "half pairs": ({413}, lambda: zipped(array(b'"\\ud800"', INFLATED // 9))),
    "one half pair, many events": ({413}, lambda: zipped(array(GOOD, 300_000, b'"\\ud800"'))),
    "a number of 4 M digits": ({202}, lambda: plain(b'{"ts_ms":' + b"1" * (_SENT - 100) + b"}")),
    "a number of 60 M digits as time": (
        {413},
        lambda: zipped(GOOD.replace(b'"sequence"', b'"ts_ms":' + b"9" * INFLATED + b',"sequence"')),
    ),
    "a fraction of 60 M digits": (
        {413},
        lambda: zipped(GOOD.replace(b'"sequence"', b'"ts_ms":0.' + b"9" * INFLATED + b',"sequence"')),
    ),
    "infinity": ({202}, lambda: plain(GOOD.replace(b'"id":1', b'"id":1e999999'))),
    "a sequence of 60 MB": (
        {413},
        lambda: zipped(GOOD.replace(b'["1","1"]'.replace(b'"', b'\\"'), b"9" * INFLATED)),
    ),
    "a million columns": (
        {413},
        lambda: zipped(GOOD.replace(b'"id":1', b'"id":1,' + b",".join(b'"c%d":%d' % (n, n) for n in range(MB)))),
    ),
    "columns without end": ({413}, lambda: zipped(GOOD[:-1] + b',"after":{"a":1' + b',"":1' * 10 * MB + b"}}")),
    "one column, twelve million times": (
        {413},
        lambda: zipped(GOOD.replace(b'"id":1', b'"a":1' + b',"a":1' * 10 * MB)),
    ),
    "two million columns in 15 MB": (
        {413},
        lambda: zipped(GOOD.replace(b'"id":1', b'"a":1' + b',"a":1' * 2_400_000)),
    ),
    "a nested document of 9 M values": (
        {413},
        lambda: zipped(GOOD.replace(b'"id":1', b'"id":1,"a":[{"b":1' + b',"b":1' * 9 * MB + b"}]")),
    ),
    "many columns of 5,100 nested values": (
        {202},
        lambda: zipped(array(GOOD.replace(b'"id":1', b'"a":{' + b'"b":1,' * 5_100 + b'"c":1}'), 1_900)),
    ),
    "a schema of a million fields": (
        {413},
        lambda: zipped(b'{"schema":{"fields":[' + b'{"field":"a"},' * MB + b'{}]},"payload":' + GOOD + b"}"),
    ),
    "10,000 tables": ({413}, lambda: zipped(b"\n".join(encoded(event(n, f"t{n}")) for n in range(10_000)))),
    "a table's name of 16 MB": ({202}, lambda: zipped(encoded(event(1, "x" * 16 * MB)))),
    "a table's name of 60 MB": ({413}, lambda: zipped(encoded(event(1, "x" * INFLATED)))),
    "a record of 20 M headers": (
        {413},
        lambda: zipped(b'{"value":' + GOOD + b',"headers":[' + b"{}," * (INFLATED // 3) + b"{}]}"),
    ),
    "60 MB of nothing known": ({413}, lambda: zipped(b"x" * INFLATED)),
    "64 MB of zeros out of 64 KB": ({413}, lambda: zipped(bytes(64 * MB), 6)),
    "800 MB of zeros": ({413}, lambda: (gzip.compress(bytes(200 * MB), 1) * 4, {"Content-Encoding": "gzip"})),
    "4 MB of empty gzip members": (
        {413},
        lambda: (gzip.compress(b"") * (_SENT // 20), {"Content-Encoding": "gzip"}),
    ),
    "990 members and zeros between": (
        {400},
        lambda: ((zlib.compress(b" ", wbits=31) + bytes(4_000)) * 990, {"Content-Encoding": "gzip"}),
    ),
    "4 MB of empty zstd frames": (
        {413},
        lambda: (zstandard.compress(b"") * (_SENT // 9), {"Content-Encoding": "zstd"}),
    ),
    "a zstd window of 2 GB": (
        {400},
        lambda: (b"\x28\xb5\x2f\xfd\x00" + bytes([21 << 3]) + b"\x01\x00\x00", {"Content-Encoding": "zstd"}),
    ),
    "gzip of gzip of gzip": (
        {415},
        lambda: (gzip.compress(gzip.compress(GOOD)), {"Content-Encoding": "gzip, gzip"}),
    ),
    "deflate": ({415}, lambda: (zlib.compress(GOOD), {"Content-Encoding": "deflate"})),
    "brotli": ({415}, lambda: (GOOD, {"Content-Encoding": "br"})),
    "48 MB of broken events": (
        {413},
        lambda: zipped(b"\n".join(encoded({**event(n, v="x" * 1_000), "op": "x"}) for n in range(40_000))),
    ),
    "16 MB of broken events": (
        {202},
        lambda: zipped(b"\n".join(encoded({**event(n, v="x" * 1_000), "op": "x"}) for n in range(13_000))),
    ),
    "48 MB of events of a table that can't be": (
        {413},
        lambda: zipped(b"\n".join(encoded(event(n, "x\n", v="x" * 1_000)) for n in range(40_000))),
    ),
    "16 MB of events of a table that can't be": (
        {202},
        lambda: zipped(b"\n".join(encoded(event(n, "x\n", v="x" * 1_000)) for n in range(14_000))),
    ),
    "three events of 16 MB": ({202}, lambda: zipped(array(encoded(event(1, v="x" * 16 * MB)), 3))),
    "three events of 16 MB that are broken": (
        {413},
        lambda: zipped(array(encoded({**event(1, v="x" * 16 * MB), "op": "x"}), 3)),
    ),
    "an honest body of 60 MB": (
        {202},
        lambda: zipped(b"\n".join(encoded(event(n, v="ä" * 150)) for n in range(60_000))),
    ),
    "an honest array of 60 MB": ({202}, lambda: zipped(b"[" + b",".join([GOOD] * 190_000) + b"]")),
}


BY_RATIO: Final = ("4 M numbers in 756 bytes of zstd", "64 MB of zeros out of 64 KB")


def mutated(seed: int) -> Body:
    """A good body in any format, with something done to it."""
    dice = random.Random(seed)
    lines = [encoded(dice.choice(KINDS)(n)) for n in range(dice.choice((1, 3, 20, 300)))]
    body = b"\n".join(lines) if dice.random() < 0.5 else b"[" + b",".join(lines) + b"]"
    for _ in range(dice.randint(1, 6)):
        body = dice.choice(MUTATIONS)(body, dice)
    body = body[: 8 * MB]
    kind = dice.random()
    if kind < 0.6:
        return plain(body[:_SENT])
    sent, headers = zipped(body) if kind < 0.8 else zstd(body)
    if dice.random() < 0.3:
        sent = dice.choice(MUTATIONS)(sent, dice)
    return sent[:_SENT], headers


KINDS: Final = (
    event,
    flat,
    cloudevent,
    lambda n: {"schema": {"type": "struct"}, "payload": event(n)},
    lambda n: {"value": event(n)},
)


def _places(body: bytes, dice: random.Random) -> tuple[int, int]:
    one, other = dice.randint(0, len(body)), dice.randint(0, min(len(body), 2_000))
    return one, min(len(body), one + other)


def _cut(body: bytes, dice: random.Random) -> bytes:
    one, other = _places(body, dice)
    return body[:one] + body[other:]


def _double(body: bytes, dice: random.Random) -> bytes:
    one, other = _places(body, dice)
    return body[:one] + body[one:other] * dice.choice((2, 2, 10, 1_000)) + body[other:]


def _insert(body: bytes, dice: random.Random) -> bytes:
    one, _ = _places(body, dice)
    return body[:one] + dice.choice(PIECES) * dice.choice((1, 1, 1, 100, 20_000)) + body[one:]


def _flip(body: bytes, dice: random.Random) -> bytes:
    changed = bytearray(body)
    for _ in range(dice.choice((1, 3, 30)) if body else 0):
        changed[dice.randrange(len(changed))] = dice.randrange(256)
    return bytes(changed)


def _replace(body: bytes, dice: random.Random) -> bytes:
    return body.replace(dice.choice(PIECES), dice.choice(PIECES), dice.choice((1, -1)))


def _again(body: bytes, dice: random.Random) -> bytes:
    return dice.choice((b"", b"\n", b",")).join([body] * dice.choice((2, 5, 50)))[: 8 * MB]


MUTATIONS: Final = (
    _cut, _double, _insert, _flip, _replace, _again,
)  # fmt: skip
PIECES: Final = (
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\n", b"\r", b"null", b"1", b"1e999999", b"9" * 400, b"-", b"{}",
    b"[]", b"true", b'"op":"c"', b'"op":"m"', b'"__op":"d",', b'"__op":"m",', b'"table":"orders"', b'"table":"x"',
    b'"table":null', b'"specversion":"1.0",', b"\\ud800", b"\\u0000", b"\xff", b"\xef\xbb\xbf", b"\0", b'"a":{"a":',
    b'"key":{"id":1},', b'"before":{"id":1}', b'"before":null', b'"connector":"mysql"', b'"connector":"mongodb"',
)  # fmt: skip
