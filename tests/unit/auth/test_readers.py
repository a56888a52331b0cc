"""Who reads everything, who reads some tables, and who nothing."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from firn.auth.readers import NotAReader, Readers
from firn.auth.senders import Request, Senders, Unauthorized
from firn.config.reader import parse
from firn.config.reader_scopes import Everything, Scope

NOW = datetime(2026, 1, 31, tzinfo=UTC)
STREAMS = "streams: {shop: {tables: {'*': {to: 'shop.{table}'}}}}\n"
ROLE = "arn:aws:sts::123456789012:assumed-role/"
KEYS = {"all": "a" * 20, "acme": "acme." + "k" * 30, "other": "other." + "k" * 30, "bare": "k" * 30}


@pytest.fixture
def text(tmp_path: Path) -> str:
    for name, key in KEYS.items():
        (tmp_path / name).write_text(key)
    keyed = ", ".join(
        f"{name}: {{auth: {{by: api_key, secret: 'file:{tmp_path}/{name}'}}, tables: ['{name}.*']}}"
        for name in ("acme", "other", "bare")
    )
    role = "arn:aws:iam::123456789012:role/"
    return (
        f"query: {{auth: {{by: iam, iam: ['{role}all', '{role}both']}}, readers: {{{keyed}, "
        f"r: {{auth: {{by: iam, iam: ['{role}r', '{role}both', '{role}t*']}}, tables: [r.r]}}, "
        f"s: {{auth: {{by: iam, iam: ['{role}*s']}}, tables: [s.s]}}}}}}\n{STREAMS}"
    )


def who(text: str, key: str | None = None, caller: str = "", *, header: str = "x-api-key", opened: bool = True) -> str:
    request = Request({} if key is None else {header: key}, b"", caller and f"{ROLE}{caller}/session")
    try:
        found = Readers().scope(parse(text), request, NOW, opened)
    except NotAReader as error:
        return f"nobody: {error.reason}"
    return found.reader if isinstance(found, Scope) else "everything" if isinstance(found, Everything) else "?"


def test_each_is_who_its_key_or_signature_says(text: str) -> None:
    assert who(text, KEYS["acme"]) == "acme"
    assert who(text, f"Bearer {KEYS['other']}", header="authorization") == "other"
    assert who(text, caller="r") == "r"
    assert who(text, caller="xs") == "s"
    assert who(text, caller="all") == "everything"


@pytest.mark.parametrize(
    ("key", "caller"),
    [
        (None, ""), ("acme.", ""), ("acme.x", "all"), ("acme.x", "r"), (KEYS["acme"][:-1], ""), (KEYS["bare"], ""),
        ("bare." + KEYS["bare"], ""), ("other." + KEYS["acme"][5:] + "x", ""), ("r.x", ""), ("ACME." + "k" * 30, ""),
        (None, "stranger"),
    ],
)  # fmt: skip
def test_nobody_else_reads(text: str, key: str | None, caller: str) -> None:
    assert who(text, key, caller).startswith("nobody: ")


def test_the_narrower_of_two_rights_counts(text: str) -> None:
    assert who(text, caller="both") == "r"
    assert who(text, KEYS["acme"], "all") == "acme"
    assert who(text, "no-readers-key-at-all", "r") == "r"


def test_one_who_fits_two_readers_reads_nothing(text: str) -> None:
    assert "fits the readers r and s" in who(text, caller="tells")


def test_with_readers_of_some_tables_nothing_is_open(text: str) -> None:
    some = "query: {readers: {r: {auth: {by: iam, iam: ['arn:aws:iam::123456789012:role/r']}, tables: [r.r]}}}\n"
    assert who(some + STREAMS) == "nobody: not one of query.readers, and firn.yaml has no query.auth"
    assert who(some + STREAMS, caller="r") == "r"
    assert who(STREAMS) == "everything"
    assert who(STREAMS, opened=False).startswith("nobody")


def test_a_readers_key_posts_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "sender").write_text("s" * 20)
    auth = f"auth: {{by: api_key, secret: 'file:{tmp_path}/sender'}}, tables"
    found = parse(text.replace("{shop: {tables", f"{{shop: {{{auth}"))
    for key in (KEYS["acme"], KEYS["acme"].partition(".")[2]):
        with pytest.raises(Unauthorized):
            Senders().check(found, "shop", Request({"x-api-key": key}, b""), NOW)
    assert who(text, "s" * 20).startswith("nobody")
