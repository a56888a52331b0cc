"""`query.readers` from the YAML tree: who reads only some tables, and what of them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from firn.config.auth_reader import read_auth
from firn.config.callers import exact_caller
from firn.config.model import Auth, StreamConfig
from firn.config.names import is_own_column
from firn.config.problems import Section, shown, words
from firn.config.readable_rows import check_rows
from firn.config.reader_scopes import ALL_TABLES, Scope, ScopedReader, ScopedReaders, read_table_pattern
from firn.config.secret_addresses import SecretPlaces
from firn.config.sql_text import SqlRefused

if TYPE_CHECKING:
    from firn.config.console_access import ConsoleAccess

MOST_READERS: Final = 10_000
_MOST_TABLES: Final = 1_000
_MOST_COLUMNS: Final = 10_000
_MOST_CALLER_PATTERNS: Final = 1_000
_MOST_SECONDS: Final = 10_000_000  # a day: of some hundred functions at once
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_TABLES: Final = "tables: ['acme.*', shop.orders]"


def read_scoped_readers(
    section: Section, all_readers: Auth | None, console: "ConsoleAccess", streams: Mapping[str, StreamConfig]
) -> ScopedReaders | None:
    """`query.readers`. `all_readers`, `console`, `streams`: who else has keys."""
    if section.is_missing:
        section.problems.add(section.line, section.path, "names nobody; write a reader, or leave the line out")
    if len(section.names) > MOST_READERS:
        text = f"has {len(section.names):,} readers; at most {MOST_READERS:,} are looked up quickly"
        section.problems.add(section.line, section.path, f"{text}: put those who may read the same under one name")
        return None
    found = {name: reader for name in section.names if (reader := _reader(section, name)) is not None}
    seeing = (
        ("query.auth", all_readers),
        ("console.auth", console.look),
        ("console.events.auth", console.events),
        ("console.actions.auth", console.act),
    )
    posting = (sender for stream in streams.values() for sender in stream.auths())
    _check_secrets(section, found, (*seeing, *posting))
    _check_callers(section, found, seeing)
    return ScopedReaders(found)


def _reader(readers: Section, name: str) -> ScopedReader | None:
    section = readers.section(name)
    if _NAME.fullmatch(name) is None:
        readers.note(
            name[:80], "is not a reader's name; write letters, digits, - and _, as its key begins with it and a point"
        )
    section.allow_only(("auth", "tables", "columns", "rows", "seconds"))
    place = section.section("auth")
    auth = read_auth(place, "api_key")
    if auth is None:
        section.note(
            "auth", "is missing; write who this is: auth: {by: api_key, secret: PLACE} or {by: iam, iam: [ARN]}"
        )
    elif auth.by == "signature":
        place.note(
            "by", "is for posting: a signature is over a body, and reads have none; write by: api_key or by: iam"
        )
    elif auth.by == "iam" and not auth.callers:
        place.note("iam", "is missing, and without it every caller of AWS is this reader; write iam: [ARN, …]")
    tables = _tables(section)
    columns, rows = _columns(section, tables), _rows(section, tables)
    seconds = section.integer("seconds", 1, _MOST_SECONDS, 3600) if section.has("seconds") else None
    return None if auth is None else ScopedReader(auth, Scope(name, tables, columns, rows), seconds)


def _tables(section: Section) -> tuple[str, ...]:
    found = []
    for item in section.texts("tables", _TABLES):
        try:
            found.append(read_table_pattern(item.text))
        except ValueError as error:
            section.problems.add(item.line, section.below("tables"), str(error))
    if not section.has("tables"):
        section.note("tables", f"is missing: this reader would read nothing; write {_TABLES}")
    if len(found) > _MOST_TABLES:
        section.note("tables", f"names more than {_MOST_TABLES:,}; write * for those of a namespace")
    return tuple(dict.fromkeys(found))


def _columns(section: Section, tables: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    below = section.section("columns")
    found = {}
    for name in _narrowed(below, tables):
        columns = below.each_once(name, f"columns: {{{name}: [id, status]}}")
        if own := [one for one in columns if is_own_column(one)]:
            below.note(name, f"names {own[0]}, which is Firn's own: a narrowed table has none; leave it out")
        found[name] = columns
    if sum(map(len, found.values())) > _MOST_COLUMNS:
        section.note("columns", f"names more than {_MOST_COLUMNS:,}; make a view of the table and grant that")
    return found


def _rows(section: Section, tables: tuple[str, ...]) -> Mapping[str, str]:
    if section.has("rows") and not section.is_mapping("rows"):
        text = section.text("rows", "rows: 'tenant_id = 7', or a condition for each table")
        return {} if text is None or not _is_condition(section, "rows", text) else {ALL_TABLES: text}
    below = section.section("rows")
    found = {}
    for name in _narrowed(below, tables):
        text = below.text(name, f"rows: {{{name}: 'tenant_id = 7'}}")
        if text is not None and _is_condition(below, name, text):
            found[name] = text
    return found


def _narrowed(below: Section, tables: tuple[str, ...]) -> Iterator[str]:
    """The tables that are narrowed. One that is not written so in `tables` may be mistyped, and the table that is meant
    be open in full."""
    for name in below.names:
        if name in tables:
            yield name
        elif tables:
            said = words([shown(one) for one in tables[:5]])
            below.note(name[:80], f"stands not in `tables`; write a name as it stands there, such as {said}")


def _is_condition(section: Section, key: str, text: str) -> bool:
    try:
        check_rows(text)
    except SqlRefused as refused:
        section.note(key, f"is no condition of rows: {refused}")
        return False
    return True


def _check_secrets(
    section: Section, readers: Mapping[str, ScopedReader], others: Iterable[tuple[str, Auth | None]]
) -> None:
    places = SecretPlaces()
    for whose, auth in others:
        if auth is not None:
            places.add(auth.secret, whose)
    for name, reader in readers.items():
        if (holder := places.holder(reader.auth.secret)) is not None:
            section.section(name).section("auth").note(
                "secret", f"is the secret of {holder} too, whose holders would read as {name}; make another key"
            )
        places.add(reader.auth.secret, f"the reader {name}")


def _check_callers(
    section: Section, readers: Mapping[str, ScopedReader], others: Iterable[tuple[str, Auth | None]]
) -> None:
    whose: dict[str, str] = {}
    patterns = 0
    by_iam = {name: reader for name, reader in readers.items() if reader.auth.by == "iam"}
    for name, reader in by_iam.items():
        place = section.section(name).section("auth")
        for text in reader.auth.callers:
            key = exact_caller(text)
            patterns += key is None
            if (other := whose.setdefault(key or text, name)) != name:
                place.note("iam", f"names {text}, which is the reader {other} too; write each caller once")
    if patterns > _MOST_CALLER_PATTERNS:
        text = f"has {patterns:,} ARNs with *, which are compared one by one; write at most {_MOST_CALLER_PATTERNS:,}"
        section.problems.add(section.line, section.path, text)
    for right, auth in others:
        if by_iam and auth is not None and auth.by == "iam" and not auth.callers:
            text = f"has {min(by_iam)} by iam, and {right} lets every caller of AWS in; name them with iam: [ARN, …]"
            section.problems.add(section.line, section.path, text)
