"""YAML to a tree that remembers its lines. Reads events, builds plain nodes, and constructs no Python object, ever.

Hostile text is bounded: its size, its depth, and the size it would have with its aliases written out. Scalars keep
their text: what a word means (`no`, `60`, `null`) is decided by the place that expects something there.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

import yaml

MAX_BYTES: Final = 1_000_000
MAX_DEPTH: Final = 30
MAX_NODES: Final = 200_000

# libyaml's parser is 10 times faster; PyYAML without it reads the same.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PLAIN_TAGS: Final = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "int", "float", "bool", "null", "seq", "map")}

# What YAML 1.1 allows, section 5.1 "Character Set".
_NOT_PRINTABLE: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class YamlProblem(Exception):
    """The text can't be read as YAML; reading.py turns it into a ConfigError. `line` counts from 1."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


@dataclass(frozen=True, slots=True)
class Scalar:
    """One word or text. `quoted`: it stood in quotes or a block, so an empty one is meant, and `null` is a text."""

    line: int
    text: str
    quoted: bool = False

    @property
    def is_null(self) -> bool:
        """Nothing was written, or YAML's null."""
        return not self.quoted and self.text in ("", "~", "null", "Null", "NULL")


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    line: int
    items: "list[Node]" = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping, in the order of the file; a key that is written twice stands in it twice."""

    line: int
    entries: "list[tuple[Scalar, Node]]" = field(default_factory=list)


Node = Scalar | Items | Entries


def read(text: str) -> Node | None:
    """The tree of the one document in `text`; None if it holds nothing but comments. Raises YamlProblem."""
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise YamlProblem(1, f"the file has {size} bytes; at most {MAX_BYTES} are read")
    try:
        return _Builder().build(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        raise _told_plainly(error, text) from error
    except (yaml.YAMLError, UnicodeError) as error:
        # The error counts characters or bytes, as libyaml is there or not: look for the character instead.
        found = _NOT_PRINTABLE.search(text)
        line = text.count("\n", 0, found.start() if found else 0) + 1
        raise YamlProblem(line, "holds a character that YAML does not allow; save the file as UTF-8 text") from error


def _told_plainly(error: yaml.MarkedYAMLError, text: str) -> YamlProblem:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    lines = text.splitlines()
    line = min(line, len(lines) or 1)  # "at the end" is a line after the last
    around = lines[line - 1] if 0 < line <= len(lines) else ""
    problem = f"{error.problem or error.context}"
    if "\t" in around and "\t" in around[: len(around) - len(around.lstrip())]:
        return YamlProblem(line, "is indented with a tab; write spaces")
    if "alias" in f"{error.context}{problem}" and around.lstrip(" -?").startswith("*"):
        return YamlProblem(line, "a name that starts with * must be quoted; write '*': or 'public.*':")
    if "token" in problem and around.lstrip().startswith(("%", "@", "`")):
        return YamlProblem(line, f"a name that starts with {around.lstrip()[0]} must be quoted")
    return YamlProblem(line, f"is not YAML: {problem}; check quotes, brackets and the indentation here and above")


class _Builder:
    """Turns parser events into nodes with a stack of its own, so that no depth of nesting can exhaust Python's."""

    def __init__(self) -> None:
        self._open: list[Items | Entries] = []
        self._keys: list[Scalar | None] = []  # of each open mapping, the key that waits for its value
        self._sizes: list[int] = []  # nodes below each open one, aliases written out
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._open_anchors: list[str | None] = []
        self._root: Node | None = None
        self._documents = 0

    def build(self, events: Iterator[Any]) -> Node | None:
        for event in events:
            line = event.start_mark.line + 1
            match event:
                case yaml.DocumentStartEvent():
                    self._documents += 1
                    if self._documents > 1:
                        raise YamlProblem(line, "a second document starts here (---); write one file, one document")
                case yaml.ScalarEvent():
                    self._check_tag(event, line)
                    self._take(Scalar(line, event.value, bool(event.style)), 1, event.anchor, line)
                case yaml.SequenceStartEvent():
                    self._start(Items(line), event, line)
                case yaml.MappingStartEvent():
                    self._start(Entries(line), event, line)
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    self._end()
                case yaml.AliasEvent():
                    if event.anchor not in self._anchors:
                        raise YamlProblem(
                            line, f"*{event.anchor} stands for nothing; in quotes it is a text: '*{event.anchor}'"
                        )
                    node, size = self._anchors[event.anchor]
                    self._take(node, size, None, line)
        # A document that holds only comments is one empty plain scalar, or none at all.
        return None if isinstance(self._root, Scalar) and self._root.is_null else self._root

    def _start(self, node: Items | Entries, event: Any, line: int) -> None:
        self._check_tag(event, line)
        if len(self._open) >= MAX_DEPTH:
            raise YamlProblem(line, f"is nested more than {MAX_DEPTH} deep")
        if self._open and isinstance(self._open[-1], Entries) and self._keys[-1] is None:
            raise YamlProblem(line, "a key must be one word or text, no list or mapping")
        self._open.append(node)
        self._keys.append(None)
        self._sizes.append(1)
        self._open_anchors.append(event.anchor)

    def _end(self) -> None:
        node, size, anchor = self._open.pop(), self._sizes.pop(), self._open_anchors.pop()
        self._keys.pop()
        if isinstance(node, Items):
            node.items[:] = _rejoined_items(node.items)
        else:
            node.entries[:] = _rejoined_entries(node.entries)
        self._take(node, size, anchor, node.line)

    def _take(self, node: Node, size: int, anchor: str | None, line: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (node, size)
        if not self._open:
            self._root = node
            return
        self._sizes[-1] += size
        if self._sizes[-1] > MAX_NODES:
            raise YamlProblem(line, f"holds more than {MAX_NODES} values, aliases written out")
        parent = self._open[-1]
        if isinstance(parent, Items):
            parent.items.append(node)
        elif (key := self._keys[-1]) is not None:
            parent.entries.append((key, node))
            self._keys[-1] = None
        elif isinstance(node, Scalar):
            self._keys[-1] = node
        else:
            raise YamlProblem(line, "a key must be one word or text, no list or mapping")

    @staticmethod
    def _check_tag(event: Any, line: int) -> None:
        if event.tag is not None and event.tag not in _PLAIN_TAGS and event.tag != "!":
            raise YamlProblem(line, f"the tag {event.tag} is not allowed; write plain values")


def _is_open(node: Node) -> TypeGuard[Scalar]:
    return isinstance(node, Scalar) and not node.quoted and node.text.count("(") > node.text.count(")")


def _rejoined_items(items: list[Node]) -> Iterator[Node]:
    """`[day(a), bucket(16, b)]` is three items to YAML. Whoever opens a bracket means the text up to its end."""
    rest = iter(items)
    for item in rest:
        while _is_open(item) and (more := next(rest, None)) is not None:
            if not isinstance(more, Scalar) or more.quoted:
                yield item
                item = more
                break
            item = Scalar(item.line, f"{item.text}, {more.text}")
        yield item


def _rejoined_entries(entries: list[tuple[Scalar, Node]]) -> Iterator[tuple[Scalar, Node]]:
    """`{amount: decimal(12,2)}` is a key `amount` and a key `2)` without value to YAML. As for lists."""
    rest = iter(entries)
    for key, value in rest:
        while _is_open(value) and (more := next(rest, None)) is not None:
            if not (isinstance(more[1], Scalar) and more[1].is_null) or more[0].quoted:
                yield key, value
                key, value = more
                break
            value = Scalar(value.line, f"{value.text}, {more[0].text}")
        yield key, value
