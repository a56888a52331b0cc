"""`writers` of a stream, from the YAML tree."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from firn.config import quantities
from firn.config.auth_reader import read_auth
from firn.config.model import StreamConfig
from firn.config.problems import Section
from firn.config.reader_scopes import read_table_pattern
from firn.config.secret_addresses import SecretPlaces
from firn.config.writers import MOST_WRITERS, Outside, Writer

if TYPE_CHECKING:
    from firn.changes.row_condition import RowCondition

_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_STORED_IN: Final = "stored_in: ['acme.*']"
_MOST_STORED_IN: Final = 100
_KEYS: Final = ("auth", "tables", "rows", "outside", "rate", "backlog", "storage", "stored_in")


def read_writers(section: Section) -> Mapping[str, Writer]:
    """`writers`, each problem noted."""
    below = section.section("writers")
    if below.is_missing:
        section.note("writers", "is empty; name a writer, or leave the line out")
    if len(below.names) > MOST_WRITERS:
        section.note("writers", f"names {len(below.names):,} writers, and a stream has at most {MOST_WRITERS:,}")
        return {}
    writers = {name: _writer(name, below.section(name)) for name in below.names}
    for name in writers:
        if not _NAME.fullmatch(name):
            below.note(name, "is not a writer's name; write a-z, 0-9, _ and - only, acme for example")
    return {name: writer for name, writer in writers.items() if writer is not None}


def _writer(name: str, section: Section) -> Writer | None:
    section.allow_only(_KEYS)
    auth = read_auth(section.section("auth"), "api_key", queue=True)
    if auth is None:
        if section.section("auth").is_missing:
            section.note("auth", "is missing; write auth: {by: api_key, secret: PLACE}, or what else tells it")
        return None
    if not auth.knows_senders:
        section.note("auth", "lets in whomever AWS does; write iam: and the ARNs of this writer")
    says = section.text("rows", "a condition, tenant_id = 7 for example")
    quoted = section.texts("tables", "tables: [public.orders], or patterns: ['public.*']")
    outside: Outside = section.choice("outside", Outside, "treatment", "refuse")
    return Writer(
        name,
        auth,
        tuple(one.text for one in quoted) if section.has("tables") else None,
        None if says is None else _condition(section, says),
        says or "",
        outside,
        section.parsed("rate", quantities.rate, None, "1MB/s"),
        section.parsed("backlog", quantities.size, None, "500MB"),
        section.parsed("storage", quantities.size, None, "10GB"),
        _stored_in(section),
    )


def _stored_in(section: Section) -> tuple[str, ...]:
    """The tables whose size is the writer's: Firn can't tell whose rows a table holds, so they are named."""
    found = []
    for item in section.texts("stored_in", _STORED_IN):
        try:
            found.append(read_table_pattern(item.text))
        except ValueError as error:
            section.problems.add(item.line, section.below("stored_in"), str(error))
    if section.has("storage") and not found:
        section.note("storage", f"is of no table; name those that hold this writer's rows alone: {_STORED_IN}")
    if len(found) > _MOST_STORED_IN:
        section.note("stored_in", f"names more than {_MOST_STORED_IN}; write * for those of a namespace")
    return tuple(dict.fromkeys(found))


def _condition(section: Section, text: str) -> "RowCondition | None":
    from firn.changes.writer_bounds import not_bounding
    from firn.config.condition_text import parse
    from firn.config.sql_text import SqlRefused

    try:
        found = parse(text)
    except SqlRefused as refused:
        section.note("rows", f"is a condition: {refused}")
        return None
    if (why := not_bounding(found)) is not None:
        section.note("rows", f"{why}; write such as tenant_id = 7, or region IN ('eu', 'us') AND tenant_id = 7")
    return found


def check_writers(section: Section, stream: StreamConfig) -> None:
    """Notes what of a stream's writers does not go together, with each other or with its tables. `section`: the
    stream's."""
    below = section.section("writers")
    _check_told_apart(below, stream)
    if stream.writers and stream.accept is not None and "sqs" in stream.accept and not _has_queue(stream):
        section.note(
            "accept", "takes queue messages, and nobody may send them; list who, as queue: [AROA…] of a writer"
        )
    found: dict[tuple[tuple[str, ...] | None, frozenset[str]], list[str]] = {}
    for writer in stream.writers.values():
        if writer.rows is None:
            continue
        alike = writer.tables, writer.rows.fields  # of ten thousand tenants most are
        if alike not in found:
            found[alike] = list(_unbounded(writer, stream))
        for text in found[alike]:
            below.section(writer.name).note("rows", text)


def _unbounded(writer: Writer, stream: StreamConfig) -> Iterator[str]:
    """Why the writer's rows are not bounded in some tables by what it says of them."""
    fields = writer.rows.fields if writer.rows is not None else frozenset()
    for rule in stream.tables:
        if rule.ignore or not writer.may_meet(rule.source):
            continue
        if rule.keyed and (lacking := writer.lacks_in_key(rule.key)):
            yield (
                f"is of {', '.join(lacking)}, which is not in the key of {rule.source}: the writer could overwrite and "
                f"delete rows of others by their key; write key: [{', '.join(lacking)}, …] there, or mode: append, or "
                "leave the table out of its tables"
            )
        if renamed := sorted(fields & {*rule.renames, *rule.renames.values()}):
            yield f"is of {renamed[0]}, which {rule.source} renames: it has two names; bound by another column"


def _has_queue(stream: StreamConfig) -> bool:
    return any(auth.queue for _, auth in stream.auths())


def _check_told_apart(below: Section, stream: StreamConfig) -> None:
    """No two senders of a stream may be one."""
    secrets, told = SecretPlaces(), dict[str, str]()
    for whose, auth in stream.auths():
        name = "" if auth is stream.auth else whose.split(" ")[2]
        if auth.secret:
            if (other := secrets.holder(auth.secret)) is not None:
                below.section(name).section("auth").note(
                    "secret", f"is the secret of {other} too, and who has it could be either; make another secret"
                )
            secrets.add(auth.secret, whose)
        for one in (*auth.queue, *auth.callers):
            if (other := told.setdefault(one, whose)) != whose:
                place = "queue" if one in auth.queue else "iam"
                below.section(name).section("auth").note(place, f"names {one}, which is {other} too; write it once")
