"""Schemas in files beside firn.yaml: what is published is one text that holds them, so that its hash covers them.

Whoever writes (firn publish, up, deploy) reads the files that the rules name, relative to firn.yaml, and appends them
under `schema_files:`, a line each. Nothing else of the text changes, so lines in messages stay those of the file. A
file that the text holds already is not read again: a published text can be published as it is.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from firn.config.yaml_tree import Entries, Node, Scalar, YamlProblem, read
from firn.errors import ConfigError

FILES: Final = "schema_files"
_WHY: Final = "# The schema files that the rules above name, as they were when this was published."
MOST_BYTES: Final = 500_000  # of one file: all of them and firn.yaml are one text


def named(text: str) -> list[str]:
    """The schema files that the rules of a firn.yaml name and that are not in its text, in order; none of a text that
    can't be read."""
    try:
        tree = read(text)
    except YamlProblem:
        return []
    held = {name for name, _ in _entries(_under(tree, FILES))}
    return [name for name in dict.fromkeys(_names(tree)) if name not in held]


def whole(text: str, load: Callable[[str], bytes], filename: str = "firn.yaml") -> str:
    """The text with the files that it names. `load`: what a file holds, by the path that stands in the text; raises
    OSError. Raises ConfigError for a file that can't be read or holds no JSON object."""
    names = named(text)
    if not names:
        return text
    if _under(read(text), FILES) is not None:
        raise ConfigError(
            f"{filename}: {FILES} holds some of the schemas and not {names[0]!r}; take {FILES} out, and all are read "
            "from their files again"
        )
    lines = [f"  {_text(name)}: {_yaml(_loaded(name, load))}" for name in names]
    return "\n".join([text.removesuffix("\n"), "", _WHY, f"{FILES}:", *lines, ""])


def _loaded(name: str, load: Callable[[str], bytes]) -> dict[str, Any]:
    try:
        data = load(name)
    except (OSError, ValueError) as error:  # a path with a NUL is a ValueError
        why = getattr(error, "strerror", None) or error
        raise ConfigError(f"the schema file {name} can't be read: {why}; its path is relative to firn.yaml") from error
    if len(data) > MOST_BYTES:
        raise ConfigError(f"the schema file {name} has {len(data):,} bytes, and may have {MOST_BYTES:,}")
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        example = '{"fields": [{"name": "id", "type": "int64"}]}'
        raise ConfigError(f"the schema file {name} is not a JSON object: {error}; write {example}") from error


def _yaml(value: Any) -> str:
    """JSON that YAML reads to the same: blanks behind commas and colons, and what YAML does not print as escapes."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(str(name))}: {_yaml(one)}" for name, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_yaml, value)) + "]"
    return _text(value) if isinstance(value, str) else msgspec.json.encode(value).decode()


def _text(value: str) -> str:
    plain = msgspec.json.encode(value).decode()
    return "".join(c if " " <= c <= "~" or "\xa0" <= c <= "\ud7ff" else _escaped(c) for c in plain)


def _escaped(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"


def _names(tree: Node | None) -> Iterator[str]:
    for _, stream in _entries(_under(tree, "streams")):
        for _, rule in _entries(_under(stream, "tables")):
            schema = _under(rule, "schema")
            if isinstance(schema, Scalar) and not schema.is_null and schema.text.strip():
                yield schema.text


def _entries(node: Node | None) -> list[tuple[str, Node]]:
    return [(key.text, value) for key, value in node.entries] if isinstance(node, Entries) else []


def _under(node: Node | None, key: str) -> Node | None:
    return next((value for name, value in _entries(node) if name == key), None)
