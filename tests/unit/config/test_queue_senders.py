"""Who may send to a stream by queue, and what of that does not go together."""

from itertools import product

import pytest

from firn.config.model import StreamConfig
from firn.config.reader import parse
from firn.config.secret_addresses import SecretPlaces, is_same_place
from firn.config.writers import asks_queue_senders, may_meet, open_by_queue, refuses_queue
from firn.errors import ConfigError
from firn.ingest.writer_scope import QueueSenders

ROLE, USER = "AROAEXAMPLEEXAMPLE000", "AIDAEXAMPLEEXAMPLE000"
KEY = "by: api_key, secret: 'ssm:/x'"


def text(settings: str) -> str:
    return f"streams: {{shop: {{{settings}, tables: {{'*': {{to: 'shop.{{table}}', key: [id]}}}}}}}}"


def stream(settings: str) -> StreamConfig:
    return parse(text(settings)).streams["shop"]


@pytest.mark.parametrize(
    ("settings", "ways", "asks"),
    [
        ("commit: {}", ("http", "sqs"), False),
        (f"auth: {{{KEY}}}", ("http",), False),
        (f"auth: {{{KEY}, queue: [{ROLE}]}}", ("http", "sqs"), True),
        (f"auth: {{queue: [{ROLE}]}}", ("sqs",), True),
        (f"auth: {{by: queue, queue: {USER}}}", ("sqs",), True),
        ("auth: {by: iam}", ("http", "sqs"), False),
        (f"auth: {{by: iam, queue: [{ROLE}]}}", ("http", "sqs"), True),
        (f"auth: {{{KEY}}}, accept: [http, sqs]", ("http", "sqs"), False),
        (f"auth: {{{KEY}, queue: [{ROLE}]}}, accept: [sqs]", ("sqs",), True),
        (f"writers: {{a: {{auth: {{{KEY}}}}}}}", ("http",), True),
        (f"writers: {{a: {{auth: {{queue: [{ROLE}]}}}}}}", ("sqs",), True),
        (f"auth: {{by: iam}}, writers: {{a: {{auth: {{queue: [{ROLE}]}}}}}}", ("http", "sqs"), True),
        (f"auth: {{{KEY}, queue: [{USER}]}}, kinesis: 'arn:aws:kinesis:us-east-1:123456789012:stream/s'", (), True),
    ],
)
def test_by_which_ways(settings: str, ways: tuple[str, ...], asks: bool) -> None:
    found = stream(settings)
    assert (found.ways, asks_queue_senders(found)) == (ways, asks)


def test_a_message_is_its_senders() -> None:
    senders = QueueSenders(stream(f"auth: {{queue: [{USER}]}}, writers: {{a: {{auth: {{queue: [{ROLE}]}}}}}}"))
    for sender, name in ((USER, None), (ROLE, "a"), (f"{ROLE}:any", "a")):
        writer, why = senders.of(sender)
        assert (writer and writer.name, why) == (name, None)
    _, why = senders.of("123456789012")
    assert why is not None
    assert (why.code, "'123456789012'" in str(why)) == ("sender_not_allowed", True)
    assert QueueSenders(stream("commit: {}")).of("anybody") == (None, None)


def test_a_stream_that_is_open_by_queue_alone_is_named() -> None:
    config = parse(text(f"auth: {{{KEY}}}, accept: [http, sqs]"))
    (line,) = open_by_queue(config)
    assert line.startswith("shop: whoever may send to the queue may write all of it")
    for settings in ("commit: {}", f"auth: {{{KEY}}}", f"auth: {{{KEY}, queue: [{ROLE}]}}, accept: [http, sqs]"):
        assert open_by_queue(parse(text(settings))) == []
    assert "queue: [AROA…]" in str(refuses_queue(parse(text(f"auth: {{{KEY}}}")), "shop", ""))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ("auth: {queue: ['arn:aws:iam::123456789012:role/r']}", "aws iam get-role"),
        ("auth: {queue: [AROA]}", "is not the id of a sender"),
        ("auth: {queue: [aidaexampleexample000]}", "is not the id of a sender"),
        ("auth: {queue: ['12345678901']}", "is not the id of a sender"),
        ("auth: {queue: {a: 1}}", "needs texts"),
        ("auth: {by: queue}", "queue: is missing"),
        ("auth: {}", "is empty, and would let anybody post"),
        ("auth: null", "is empty, and would let anybody post"),
        (f"auth: {{queue: [{ROLE}], secret: 'ssm:/x'}}", "by: is missing"),
        (f"auth: {{by: queue, queue: [{ROLE}], secret: 'ssm:/x'}}", "not used by queue"),
        (f"auth: {{{KEY}, queue: [{ROLE}]}}, accept: [http]", "takes no queue messages"),
        (f"auth: {{queue: [{ROLE}]}}, accept: [http, sqs]", "lets nobody post"),
        (f"writers: {{a: {{auth: {{{KEY}}}}}}}, accept: [http, sqs]", "nobody may send them"),
        (f"auth: {{{KEY}}}, writers: {{a: {{auth: {{{KEY}}}}}}}", "could be either"),
        (f"auth: {{{KEY}, queue: [{ROLE}]}}, writers: {{a: {{auth: {{queue: [{ROLE}]}}}}}}", "write it once"),
        ("writers: {a: {auth: {by: api_key, secret: k4nary}}}", "is not a place of a secret"),
        ("writers: {a: {auth: {}}}", "is missing"),
        ("writers: [a]", "is a list"),
        (f"writers: {{a: {{auth: {{{KEY}}}, row: x}}}}", "is not a setting; write rows"),
    ],
)
def test_what_does_not_go_together_is_said(settings: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(text(settings))
    assert why in str(caught.value)
    assert "k4nary" not in str(caught.value)


def test_who_reads_may_not_have_a_writers_secret() -> None:
    with pytest.raises(ConfigError, match="the writer a of the stream shop"):
        parse(text(f"writers: {{a: {{auth: {{{KEY}}}}}}}") + f"\nquery: {{auth: {{{KEY}}}}}\n")


def test_a_signing_secret_of_two_streams_writers_is_an_error() -> None:
    signed = "by: signature, secret: 'ssm:/x'"
    for one, other, ok in ((signed, signed, False), (signed, KEY, False), (KEY, signed, False), (KEY, KEY, True)):
        named = {
            name: f"{{writers: {{a: {{auth: {{{how}}}}}}}, tables: {{'*': {{to: '{name}.{{table}}', key: [id]}}}}}}"
            for name, how in (("s", one), ("t", other))
        }
        both = ", ".join(f"{name}: {settings}" for name, settings in named.items())
        if ok:
            assert parse(f"streams: {{{both}}}")
        else:
            with pytest.raises(ConfigError, match="a signature does not say which stream"):
                parse(f"streams: {{{both}}}")


def test_one_look_finds_what_a_look_at_each_would() -> None:
    arn = "secretsmanager:arn:aws:secretsmanager:eu-central-1:123456789012:secret:"
    places = [
        "secretsmanager:x", "secretsmanager:x-AbCdEf", "secretsmanager:x-AbCdEf-GhIjKl", f"{arn}x", f"{arn}x-AbCdEf",
        f"{arn}x-AbCdEf-GhIjKl", f"{arn.replace('1234', '9999')}x-AbCdEf", "ssm:/x", "ssm:x", "ssm:/x:3", "file:/x",
        "ssm:arn:aws:ssm:eu-central-1:123456789012:parameter/x", "file:/y/../x", "file:/x-AbCdEf",
    ]  # fmt: skip
    for one, other in product(places, places):
        known = SecretPlaces()
        known.add(one, "holder")
        assert (known.holder(other) is not None) == is_same_place(one, other), (one, other)


def test_patterns_that_may_meet() -> None:
    assert may_meet("public.orders", "public.*")
    assert may_meet("public.*", "public.orders")
    assert may_meet("public.*", "*")
    assert may_meet("a*", "ab*")
    assert not may_meet("public.orders", "public.order")
    assert not may_meet("public.*", "private.orders")
    assert not may_meet("a.*", "b.*")
