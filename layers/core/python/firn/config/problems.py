"""Typed reading of a YAML tree that collects what is wrong instead of stopping at the first problem."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from typing import Final, TypeVar, get_args

from firn.config.yaml_tree import Entries, Items, Node, Scalar
from firn.errors import ConfigError

T = TypeVar("T")

_MOST_SHOWN: Final = 100
_TRUE: Final = {"true", "yes", "on"}
_FALSE: Final = {"false", "no", "off"}


def words(values: Collection[str]) -> str:
    """`a, b or c`."""
    *first, last = values
    return f"{', '.join(first)} or {last}" if first else last


def shown(text: str) -> str:
    """What the user wrote, in quotes, cut to a line's worth."""
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _kind(node: Node) -> str:
    match node:
        case Items():
            return "a list"
        case Entries():
            return "a mapping"
        case _:
            return "empty" if node.is_null else "a text"


class Problems:
    """Everything that is wrong with one file, to be raised together."""

    def __init__(self, filename: str, *, published: bool = False) -> None:
        """`published`: see firn.config.reader.parse."""
        self.published = published
        self._filename = filename
        self._found: list[tuple[int, int, str]] = []

    def add(self, line: int, path: str, text: str) -> None:
        """`text` says what is wrong and what to write instead; `path` is dotted, "" for the file itself."""
        where = f"{self._filename}:{line}: {path}: " if path else f"{self._filename}:{line}: "
        self._found.append((line, len(self._found), where + text))

    def raise_any(self) -> None:
        """Raises ConfigError with a line for each problem, in the file's order, if there is one."""
        if not self._found:
            return
        lines = list(dict.fromkeys(text for _, _, text in sorted(self._found)))
        if len(lines) > _MOST_SHOWN:
            lines[_MOST_SHOWN:] = [f"{self._filename}: and {len(lines) - _MOST_SHOWN} more"]
        raise ConfigError("\n".join(lines))


class Section:
    """One mapping of the file. Each reader returns the value, or its default after noting the problem."""

    def __init__(self, node: Node | None, path: str, problems: Problems, line: int = 1) -> None:
        self.path = path
        self.line = node.line if node else line
        self.problems = problems
        self._entries: dict[str, tuple[Scalar, Node]] = {}
        self._unreadable = False
        if node is None or (isinstance(node, Scalar) and node.is_null):
            return
        if not isinstance(node, Entries):
            self._unreadable = True
            problems.add(node.line, path, f"is {_kind(node)}; write a mapping of `name: value` lines")
            return
        for key, value in node.entries:
            if key.text in self._entries:
                first = self._entries[key.text][0].line
                problems.add(key.line, self.below(key.text), f"is written twice (first on line {first}); keep one")
                continue
            self._entries[key.text] = (key, value)

    def below(self, key: str) -> str:
        """The dotted path of `key` in this section."""
        return f"{self.path}.{key}" if self.path else key

    @property
    def names(self) -> Sequence[str]:
        """The keys, in the file's order."""
        return tuple(self._entries)

    @property
    def is_missing(self) -> bool:
        """Nothing is written here, and nothing unreadable either: that is a problem already noted."""
        return not self._entries and not self._unreadable

    def has(self, key: str) -> bool:
        """Whether `key` is written, with or without a value. True if nothing was readable: it may have been there."""
        return key in self._entries or self._unreadable

    def is_list(self, key: str) -> bool:
        """Whether what is under `key` is written as a list."""
        return key in self._entries and isinstance(self._entries[key][1], Items)

    def is_mapping(self, key: str) -> bool:
        """Whether what is under `key` is written as a mapping."""
        return key in self._entries and isinstance(self._entries[key][1], Entries)

    def line_of(self, key: str) -> int:
        """Where `key` is, else where the section begins."""
        return self._entries[key][0].line if key in self._entries else self.line

    def note(self, key: str, text: str) -> None:
        """Adds a problem with `key`."""
        self.problems.add(self.line_of(key), self.below(key), text)

    def allow_only(self, known: Sequence[str], moved: Mapping[str, str] | None = None) -> None:
        """Notes every key that is not in `known`. `moved` says for keys people try what to write instead."""
        for key in self._entries:
            if key in known:
                continue
            if moved and key in moved:
                self.note(key, moved[key])
            elif key == "<<":
                self.note(key, "merge keys are not read; write the settings out, or give several tables one '*' rule")
            elif close := get_close_matches(key.lower(), known, 1, 0.6):
                self.note(key, f"is not a setting; write {close[0]}")
            else:
                self.note(key, f"is not a setting; write {'one of ' if len(known) > 1 else ''}{words(known)}")

    def node(self, key: str) -> Node | None:
        """What stands under `key`, None if it is absent or empty."""
        value = self._entries[key][1] if key in self._entries else None
        return None if isinstance(value, Scalar) and value.is_null else value

    def section(self, key: str) -> "Section":
        """The mapping under `key`; an empty one if it is absent."""
        section = Section(self.node(key), self.below(key), self.problems, self.line_of(key))
        section._unreadable |= self._unreadable
        return section

    def text(self, key: str, instead: str) -> str | None:
        """The text under `key`, None if it is absent. `instead` is an example of what to write."""
        if key not in self._entries:
            return None
        value = self._entries[key][1]
        if isinstance(value, Scalar) and not value.is_null and value.text.strip():
            return value.text
        self.note(key, f"is {_kind(value) if not isinstance(value, Scalar) else 'empty'}; write {instead}")
        return None

    def texts(self, key: str, instead: str) -> list[Scalar]:
        """The texts under `key`: a list of them, or one alone."""
        value = self._entries[key][1] if key in self._entries else None
        if value is None:
            return []
        items = value.items if isinstance(value, Items) else [value]
        good = [item for item in items if isinstance(item, Scalar) and not item.is_null and item.text.strip()]
        if not items or len(good) < len(items):
            self.note(key, f"needs texts; write {instead}")
        return good

    def each_once(self, key: str, instead: str) -> tuple[str, ...]:
        """The same, of columns that are named: each once."""
        names = [item.text for item in self.texts(key, instead)]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            self.note(key, f"names {', '.join(twice)} twice; write each column once")
        return tuple(dict.fromkeys(names))

    def choice(self, key: str, kind: object, noun: str, default: T, later: Mapping[str, str] | None = None) -> T:
        """One of the words of `kind`, a Literal or a tuple. `later` explains words that are not taken yet."""
        options: tuple[str, ...] = kind if isinstance(kind, tuple) else get_args(kind)
        value = self.text(key, words(options))
        if value is None:
            return default
        if value in options:
            return value  # type: ignore[return-value]
        if later and value in later:
            self.note(key, f"{shown(value)} {later[value]}; write {words(options)}")
        else:
            # All the words where they are few: the likeliest may still be the wrong one.
            close = get_close_matches(value.lower(), options, 1, 0.6) if len(options) > 3 else []
            article = "an" if noun[0] in "aeiou" else "a"
            self.note(key, f"{shown(value)} is not {article} {noun}; write {words(close or options)}")
        return default

    def integer(self, key: str, low: int, high: int, default: int) -> int:
        """A whole number from `low` to `high`."""
        value = self.text(key, f"a whole number from {low} to {high}")
        if value is None:
            return default
        if re.fullmatch(r"[+-]?\d{1,18}", value) and low <= int(value) <= high:
            return int(value)
        self.note(key, f"{shown(value)} is not a whole number from {low} to {high}; write {default}")
        return default

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        value = self.text(key, "true or false")
        if value is None:
            return default
        if value.lower() not in _TRUE | _FALSE:
            self.note(key, f"{shown(value)} is neither true nor false; write true or false")
            return default
        return value.lower() in _TRUE

    def parsed(self, key: str, how: Callable[[str], T], default: T, instead: str) -> T:
        """What `how` makes of the text; its ValueError says what is wrong and what to write."""
        value = self.text(key, instead)
        if value is None:
            return default
        try:
            return how(value)
        except ValueError as error:
            self.note(key, str(error))
            return default
