"""The kinds of values that firn.yaml has, in the words of JSON Schema. `about` is what editors show of a setting."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": ["string", "number", "boolean"], "pattern": r"\S"}
NAME: Final = "^[a-z0-9][a-z0-9_-]{0,62}$"  # of what firn.yaml gives a name
READER: Final = "^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$"
_ON_OFF: Final = "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|[Yy][Ee][Ss]|[Nn][Oo]|[Oo][Nn]|[Oo][Ff][Ff])$"


def section(about: str, properties: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    """A mapping of these settings and no others."""
    found: Schema = {"type": ["object", "null"], "properties": dict(properties), "additionalProperties": False}
    if about:
        found = {"description": about} | found
    return found | ({"required": list(required)} if required else {})


def named(about: str, of: Schema, names: str | None = None) -> Schema:
    """A mapping of names that people give, each to one of these."""
    found: Schema = {"description": about, "type": ["object", "null"], "additionalProperties": of}
    return found | ({"propertyNames": {"pattern": names}} if names else {})


def free(about: str, of: Schema | None = None) -> Schema:
    """A mapping whose names are not known here."""
    return {"description": about, "type": ["object", "null"]} | ({"additionalProperties": of} if of else {})


def _described(about: str, default: str | None) -> Schema:
    return {"description": about if default is None else f"{about} Default: {default}."}


def text(about: str, default: str | None = None) -> Schema:
    """A text; numbers and words are read as one."""
    return _described(about, default) | TEXT


def texts(about: str, *, null: bool = False) -> Schema:
    """A text, or a list of them."""
    kinds: list[Schema] = [TEXT, {"type": "array", "minItems": 1, "items": TEXT}]
    found: Schema = {"anyOf": [*kinds, {"type": "null"}] if null else kinds}
    return ({"description": about} if about else {}) | found


def list_of(about: str, known: Sequence[str]) -> Schema:
    """One or more of these words."""
    word = {"type": "string", "enum": list(known)}
    return {"description": about, "anyOf": [word, {"type": "array", "minItems": 1, "items": word}]}


def words(about: str, known: Sequence[str], default: str | None, *, null: bool = False) -> Schema:
    """One of these words."""
    return _described(about, default) | {"enum": [*known, *([None] if null else [])]}


def whole(about: str, low: int, high: int | None, default: str | None) -> Schema:
    """A whole number within bounds."""
    number: Schema = {"type": "integer", "minimum": low} | ({"maximum": high} if high is not None else {})
    return _described(about, default) | {"anyOf": [number, {"type": "string", "pattern": r"^[+-]?\d{1,18}$"}]}


def number(about: str, default: str) -> Schema:
    """A number."""
    return _described(about, default) | {"type": ["number", "string"]}


def flag(about: str, default: str) -> Schema:
    """true or false, and YAML's other words for them."""
    return _described(about, default) | {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": _ON_OFF}]}


def quantity(about: str, pattern: str, default: str, *, zero: bool = False) -> Schema:
    """A size, a duration or a rate, as its pattern has it. `zero`: 0 is one too."""
    text: Schema = {"type": "string", "pattern": pattern}
    if not zero:
        return _described(about, default) | text
    return _described(about, default) | {"anyOf": [{"enum": [0, "0"]}, text]}


DECLARED: Final[Schema] = {
    "anyOf": [
        TEXT,
        section(
            "A column with a default, of a table in format 3.",
            {
                "type": text("Its type."),
                "default": TEXT | {"description": "What rows have that no change told a value of."},
            },
            required=["type"],
        ),
    ]
}
