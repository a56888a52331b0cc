import pytest

from firn.changes.envelopes.table_hint import table_named_in


@pytest.mark.parametrize(
    ("event", "table"),
    [
        (b'{"op":"x","source":{"connector":"postgresql","schema":"public","table":"orders"}}', "public.orders"),
        (b'{"op":"c","source":{"connector":"mysql","db":"shop","table":"orders","ts_ms":"noon"}}', "shop.orders"),
        (b'{"op":"c","source":{"connector":"mongodb","db":"shop","collection":"orders"}}', "shop.orders"),
        (b'{"value":{"op":"c","source":{"table":"orders"}},"key":null}', "orders"),
        (b'{"schema":{},"payload":{"source":{"schema":"a","table":"b"}}}', "a.b"),
        (b'{"id":1,"__table":"orders","__schema":"public"}', "public.orders"),
        (b'{"specversion":"1.0","iodebeziumschema":"public","iodebeziumtable":"orders"}', "public.orders"),
        (b'{"source":{"schema":7,"table":"orders"}}', "orders"),
        (b'{"source":{"schema":"public"}}', None),
        (b'{"source":"orders"}', None),
        (b'{"op":"c", ', None),
        (b"\xff\xfe", None),
        (b'{"\xff":1}', None),
        (b'{"destination":"\xff","value":{"op":"c"}}', None),
        (b"[" * 100_000, None),
        (b"[1]", None),
        (b"null", None),
        (b'{"source":{"table":"\\ud800"}}', None),
    ],
)
def test_the_table_of_a_broken_event_is_told_where_it_can_be(event: bytes, table: str | None) -> None:
    assert table_named_in(event) == table
