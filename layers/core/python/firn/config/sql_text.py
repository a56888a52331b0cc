"""The SQL of pipelines and views as text: its words, and the tables that it names. Pure, without a parser of SQL.

Ingest and dispatch go by these names. What the SQL may say is checked by firn_sql.configured, which refuses a text
whose parsed names are others than these.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

MAX_BYTES: Final = 100_000
MAX_TOKENS: Final = 20_000
TIME_WINDOWS: Final = frozenset({"tumble", "hop", "session"})  # of a table, whose name stands in their brackets
_MOST_PARTS: Final = 3  # of a source table's name: database.schema.table
_A_VIEW: Final = "SELECT … FROM namespace.table"
_LEADS: Final = frozenset({"WHERE", "GROUP", "HAVING", "WINDOW", "QUALIFY", "ORDER", "LIMIT", "OFFSET", "UNION"})


class SqlRefused(ValueError):
    """A SQL of firn.yaml is not taken. `line` and `column` count from 1 within the SQL; `reason` says what is wrong
    there, `instead` what to write."""

    def __init__(self, line: int, column: int, reason: str, instead: str) -> None:
        super().__init__(f"line {line}, column {column}: {reason}; {instead}")
        self.line = line
        self.column = column
        self.reason = reason
        self.instead = instead


class Kind(Enum):
    """What a token is."""

    WORD = "word"
    QUOTED = "quoted name"
    STRING = "string"
    NUMBER = "number"
    MARK = "mark"


@dataclass(frozen=True)
class Token:
    """`text`: the word or mark as written; of a quoted name and a string, what is between the quotes."""

    kind: Kind
    text: str
    line: int
    column: int

    @property
    def word(self) -> str:
        """A word in capitals; "" for anything else, quoted names too."""
        return self.text.upper() if self.kind is Kind.WORD else ""

    @property
    def mark(self) -> str:
        """A mark; "" for anything else, texts that look like one too."""
        return self.text if self.kind is Kind.MARK else ""

    @property
    def is_name(self) -> bool:
        """Whether it can be a part of a name."""
        return self.kind in (Kind.WORD, Kind.QUOTED)

    def refuse(self, reason: str, instead: str) -> SqlRefused:
        """An error at this place."""
        return SqlRefused(self.line, self.column, reason, instead)


@dataclass(frozen=True)
class Names:
    """`target`: what INSERT INTO names, its two parts; None if there is none. `source`: what FROM names; `joins`: the
    tables that JOIN names, namespace and name, each once."""

    target: tuple[str, str] | None
    source: str
    joins: tuple[tuple[str, str], ...] = ()


# Possessive, so that no text is looked at twice. Every alternative of one character comes last.
_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\n]++) | (?P<line_comment>--[^\n]*+) | (?P<comment>/\*(?:[^*/]|\*(?!/)|/(?!\*))*+(?P<ends>\*/)?)
    | (?P<escaped>[eExXbB]'|[uU]&['"]) | '(?P<string>(?:[^']|'')*+)(?P<string_ends>')?
    | "(?P<quoted>(?:[^"]|"")*+)(?P<quoted_ends>")? | (?P<number>(?:[0-9]|\.[0-9])[\w.]*+)
    | (?P<word>[^\W\d]\w*+) | (?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_LONE: Final = re.compile("[\ud800-\udfff]")
_MARKS: Final = frozenset("()[]{},;.:=<>!+-*/%|&^~@")


def tokens(sql: str) -> list[Token]:
    """Its tokens, without comments. Raises SqlRefused: over MAX_BYTES or MAX_TOKENS, a quote or comment that does not
    end, a character that two readers of SQL could take differently."""
    size = len(sql.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise SqlRefused(1, 1, f"the SQL has {size:,} bytes, and {MAX_BYTES:,} are the most", "write less of it")
    if bad := _LONE.search(sql):
        raise _at(sql, bad.start(), "half a character stands here", "save the file as UTF-8 text")
    text = sql.replace("\r\n", " \n")
    found: list[Token] = []
    line, begins, place = 1, 0, 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise AssertionError("a mark is any character")
        token = _token(match, text, line, place - begins + 1)
        if token is not None:
            found.append(token)
        if len(found) > MAX_TOKENS:
            raise found[-1].refuse(f"the SQL has more than {MAX_TOKENS:,} words and marks", "write less of it")
        if breaks := text.count("\n", place, match.end()):
            line, begins = line + breaks, text.rindex("\n", place, match.end()) + 1
        place = match.end()
    return found


def _at(text: str, place: int, reason: str, instead: str) -> SqlRefused:
    line = text.count("\n", 0, place) + 1
    return SqlRefused(line, place - text.rfind("\n", 0, place), reason, instead)


def _token(match: re.Match[str], text: str, line: int, column: int) -> Token | None:
    def refuse(reason: str, instead: str) -> SqlRefused:
        return SqlRefused(line, column, reason, instead)

    if "\0" in match.group():
        raise _at(text, text.index("\0", match.start()), "the character NUL is no part of SQL", "take it out")
    kind = match.lastgroup if match.lastgroup not in ("ends", "string_ends", "quoted_ends") else ""
    if match["comment"] is not None:
        if match["ends"] is None:
            why = "a comment begins here and holds another one, or does not end"
            raise refuse(why, "write */ at its end, and no /* in it")
        return None
    if match["string"] is not None:
        if match["string_ends"] is None:
            raise refuse("a text begins here and does not end", "write ' at its end, and '' for a ' in it")
        return Token(Kind.STRING, match["string"].replace("''", "'"), line, column)
    if match["quoted"] is not None:
        if match["quoted_ends"] is None:
            raise refuse("a quoted name begins here and does not end", 'write " at its end, and "" for a " in it')
        if not match["quoted"]:
            raise refuse("a name is empty", "write a name between the quotes")
        return Token(Kind.QUOTED, match["quoted"].replace('""', '"'), line, column)
    if kind == "escaped":
        raise refuse(
            f"a text that begins with {match.group()!r} has escapes of its own", "write '…', with the characters in it"
        )
    if kind == "number":
        return Token(Kind.NUMBER, match.group(), line, column)
    if kind == "word":
        return Token(Kind.WORD, match.group(), line, column)
    if kind == "mark":
        if match.group() not in _MARKS:
            raise refuse(*_strange(match.group()))
        return Token(Kind.MARK, match.group(), line, column)
    return None


def _strange(mark: str) -> tuple[str, str]:
    if mark in "?$":
        return f"{mark} is for parameters and quoting that SQL does not have here", "write the value itself, in '…'"
    if mark == "`":
        return "` quotes no name here", 'write "name"'
    if mark in "“”„‘’‚«»":
        return f"{mark} is a quote of typography", "write ' around texts and \" around names"
    if mark.isspace() or not mark.isprintable():
        return f"the character U+{ord(mark):04X} looks like a space or like nothing", "write a plain space"
    return f"the character {mark} is no part of SQL", "take it out, or write it in a text or a quoted name"


def names(sql: str) -> Names:
    """The tables that the SQL of a pipeline names.

    Raises SqlRefused as `tokens`, and where it is no `[INSERT INTO namespace.table] SELECT … FROM source`.
    """
    return names_in(tokens(sql))


def names_in(found: Sequence[Token]) -> Names:
    """`names` of what `tokens` told."""
    rest = _one_statement(found, "INSERT INTO namespace.table SELECT … FROM source", "a pipeline")
    target, start = _target(rest)
    first = rest[start] if start < len(rest) else rest[-1]
    if first.word not in ("SELECT", "WITH"):
        raise first.refuse(
            f"a pipeline can't begin with {first.text[:30]}",
            "write INSERT INTO namespace.table SELECT … FROM source, or SELECT … FROM source for files",
        )
    own = {name.upper() for name in _with_names(rest[start:])}
    sources: dict[str, Token] = {}
    joins: dict[tuple[str, str], None] = {}
    for parts, token, joined in _from_names(rest[start:]):
        if joined and len(parts) == 2:
            joins.setdefault((parts[0], parts[1]))
        elif joined:
            why = f"{'.'.join(parts)[:60]!r} is no table that a pipeline joins"
            raise token.refuse(why, "write JOIN namespace.table, a mirror or a view of this file")
        elif len(parts) > 1 or parts[0].upper() not in own:
            sources.setdefault(".".join(parts), token)
    if not sources:
        why = "nothing says which source table it reads"
        raise first.refuse(why, "write SELECT … FROM clicks, with the name of a source table of this stream")
    if len(sources) > 1:
        one, other = list(sources)[:2]
        raise sources[other].refuse(
            f"it reads {one[:60]} and {other[:60]}, and a pipeline reads one source table",
            "write a pipeline for each, or JOIN namespace.table … ON … for a table of Firn",
        )
    ((source, token),) = sources.items()
    if "*" in source or not source.strip(". ") or source.startswith(".") or source.endswith("."):
        raise token.refuse(f"{source[:60]!r} is no source table", "write one name, as events have it: public.orders")
    return Names(target, source, tuple(joins))


def tables_in(sql: str) -> tuple[tuple[tuple[str, str], Token], ...]:
    """The tables that the SQL of a view names: namespace and table as written, each once with where it is first.

    Raises SqlRefused as `tokens`, and where it is no `SELECT … FROM namespace.table`.
    """
    rest = _one_statement(tokens(sql), _A_VIEW, "a view")
    if rest[0].word == "INSERT":
        raise rest[0].refuse("a view is a table by its own name, and names no other target", f"write {_A_VIEW}")
    if rest[0].word not in ("SELECT", "WITH"):
        raise rest[0].refuse(f"a view can't begin with {rest[0].text[:30]}", f"write {_A_VIEW}")
    own = {name.upper() for name in _with_names(rest)}
    tables: dict[tuple[str, str], Token] = {}
    for parts, token, _ in _from_names(rest):
        if len(parts) == 2:
            tables.setdefault((parts[0], parts[1]), token)
        elif len(parts) > 2 or parts[0].upper() not in own:
            why = "has no namespace" if len(parts) == 1 else "has more than a namespace and a name"
            instead = 'write namespace.table, and quotes where a dot belongs to a name: shop."a.b"'
            raise token.refuse(f"{'.'.join(parts)[:60]!r} {why}", instead)
    if not tables:
        raise rest[0].refuse("nothing says which tables it reads", f"write {_A_VIEW}")
    return tuple(tables.items())


def _one_statement(found: Sequence[Token], instead: str, each: str) -> Sequence[Token]:
    if not found:
        raise SqlRefused(1, 1, "there is no SQL", f"write {instead}")
    end = next((place for place, token in enumerate(found) if token.mark == ";"), None)
    if end is None:
        return found
    after = next((token for token in found[end:] if token.mark != ";"), None)
    if after is not None:
        raise after.refuse("a second statement begins here", f"write one statement, and {each} for each other one")
    if end == 0:
        raise found[0].refuse("there is no SQL before the ;", f"write {instead}")
    return found[:end]


def _target(found: Sequence[Token]) -> tuple[tuple[str, str] | None, int]:
    """What INSERT INTO names, and where the rest begins."""
    if found[0].word != "INSERT":
        return None, 0
    if len(found) < 2 or found[1].word != "INTO":
        raise found[min(1, len(found) - 1)].refuse("INSERT is followed by INTO here", "write INSERT INTO web.clean …")
    parts, end = _name(found, 2)
    at = found[min(2, len(found) - 1)]
    if len(parts) != 2 or any("." in part or not part.strip() for part in parts):
        raise at.refuse(
            f"{'.'.join(parts)[:60] or at.text[:30]!r} names no table with its namespace", "write namespace.table"
        )
    if end < len(found) and found[end].mark == "(":
        raise found[end].refuse("a list of columns is not read here", "write SELECT expression AS column")
    return (parts[0], parts[1]), end


def _name(found: Sequence[Token], start: int) -> tuple[list[str], int]:
    """The parts of a name that begins at `start`, none if there is no name; and where it ends."""
    parts: list[str] = []
    place = start
    while place < len(found) and found[place].is_name:
        parts.append(found[place].text)
        place += 1
        if place >= len(found) or found[place].mark != ".":
            break
        place += 1
    return parts, place


def _with_names(found: Sequence[Token]) -> Iterator[str]:
    """The names that WITH gives: a name before AS (, after WITH or a comma."""
    for place, token in enumerate(found):
        before = found[place - 1] if place else token
        if not token.is_name or place == 0 or not (before.word in ("WITH", "RECURSIVE") or before.mark == ","):
            continue
        after = [one.word or one.mark for one in found[place + 1 : place + 5]]
        if after[:1] == ["AS"] and "(" in (after[1:2] or [""]) + (after[2:4] if after[1:2] != ["("] else []):
            yield token.text


def _from_names(found: Sequence[Token]) -> Iterator[tuple[list[str], Token, bool]]:
    """What FROM and JOIN name, and whether it is JOIN that does: not what is in brackets there, nor functions, nor the
    FROM of extract(year FROM x)."""
    levels: list[str] = [""]  # of each open bracket: "", "select" once that was seen, "from" while in its FROM
    for place, token in enumerate(found):
        if token.mark and token.mark in "([{":
            levels.append("")
        elif token.mark and token.mark in ")]}":
            levels[-2:] = levels[-2:-1] or levels  # one bracket too many is for the parser to tell
        elif token.word == "SELECT":
            levels[-1] = "select"
        elif token.word in _LEADS:
            levels[-1] = "select" if levels[-1] else ""
        elif _names_follow(token, found[place - 1] if place else token, levels[-1]):
            levels[-1] = "from"
            parts, end = _name(found, place + 1)
            calls = end < len(found) and found[end].mark == "("
            if calls and len(parts) == 1 and parts[0].lower() in TIME_WINDOWS:
                parts, _ = _name(found, end + 1)
                place = end
            elif calls and len(parts) == 1:
                continue
            if not parts:
                continue
            if len(parts) > _MOST_PARTS:
                why = f"a source table's name has at most {_MOST_PARTS} parts"
                raise found[place + 1].refuse(why, 'write "a.b.c" in quotes if the dots belong to it')
            yield parts, found[place + 1], token.word == "JOIN"


def _names_follow(token: Token, before: Token, level: str) -> bool:
    if token.word == "FROM":
        return level != "" and before.word != "DISTINCT"
    return level == "from" and (token.word == "JOIN" or token.mark == ",")
