"""`schema:` of a table rule: the fields that its rows have, in the form of Cloudflare Pipelines' schema files.

A schema that stands in a file of its own is in the text all the same, under `schema_files:` (firn.config.schema_files).
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from firn.changes.decode import row_schema, types
from firn.changes.decode.exact_values import convert_exactly
from firn.changes.decode.nanoseconds import TIMESTAMPTZ_NS
from firn.changes.decode.row_schema import UNITS, Invalid, RowSchema, SchemaField, Unit, Unknown
from firn.changes.decode.types import Member, Type
from firn.changes.decode.values import Refused
from firn.config.names import ICEBERGS, OWN, RETYPED, is_own_column
from firn.config.problems import Section, shown, words
from firn.config.yaml_tree import Entries, Items, Node, Scalar

_EXAMPLE: Final = "schema: {fields: [{name: id, type: int64, required: true}]}, or the name of a JSON file"
_MOST_FIELDS: Final = types.MOST_FIELDS  # those in lists and structs too
_FIELD: Final = ("name", "type", "required", "default", "unit", "items", "fields", "precision", "scale")
_ITEMS: Final = tuple(name for name in _FIELD if name not in ("name", "required", "default"))
_OF: Final = {
    "unit": ("timestamp", "timestamp_ns"),
    "items": ("list",),
    "fields": ("struct",),
    "precision": ("decimal",),
}
_SIMPLE: Final[Mapping[str, Type]] = {
    "string": types.STRING, "int32": types.INT, "int64": types.LONG, "float32": types.FLOAT, "float64": types.DOUBLE,
    "bool": types.BOOLEAN, "timestamp": types.TIMESTAMPTZ, "binary": types.BINARY, "json": types.STRING,
    "date": types.DATE, "time": types.TIME, "uuid": types.UUID,
    # Iceberg's words for the same.
    "int": types.INT, "long": types.LONG, "float": types.FLOAT, "double": types.DOUBLE, "boolean": types.BOOLEAN,
    "timestamptz": types.TIMESTAMPTZ, "timestamp_ns": TIMESTAMPTZ_NS, "timestamptz_ns": TIMESTAMPTZ_NS,
}  # fmt: skip
_KNOWN: Final = (
    "string", "int32", "int64", "float32", "float64", "bool", "timestamp", "timestamp_ns", "binary", "json", "decimal",
    "date", "time", "uuid", "fixed[16]", "list", "struct",
)  # fmt: skip
_DECIMAL: Final = re.compile(r"decimal\s*\(\s*(\d{1,3})\s*,\s*(\d{1,3})\s*\)")
_JSON_WORD: Final = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?|true|false", re.ASCII)
_WORDS: Final = {"True": "true", "TRUE": "true", "False": "false", "FALSE": "false"}  # YAML's, as JSON has them
_ANY: Final = SchemaField(types.STRING, Member("", row_schema.JSON))  # stands for what can't be read


def read_schema(rule: Section, files: Section) -> RowSchema | None:
    """The schema of a table rule, None without one; every problem is noted. `files`: what stands in files of its own,
    by their names."""
    invalid: Invalid = rule.choice("invalid", Invalid, "treatment", "dead_letter")
    unknown: Unknown = rule.choice("unknown", Unknown, "treatment", "keep")
    node = rule.node("schema")
    if node is None:
        for name in ("invalid", "unknown"):
            if rule.has(name) and not rule.is_missing:
                rule.note(name, f"is about rows that a schema does not take, and there is none; write {_EXAMPLE}")
        if rule.has("schema") and not rule.is_missing:
            rule.note("schema", f"is empty; write {_EXAMPLE}")
        return None
    if isinstance(node, Scalar):
        if not files.has(node.text):
            rule.note("schema", f"the file {shown(node.text)} is not there, and this text does not hold it; write its "
                                "path from firn.yaml, or the fields themselves")  # fmt: skip
            return None
        section = files.section(node.text)
    else:
        section = rule.section("schema")
    reader = _Reader(closed=unknown == "reject")
    section.allow_only(("fields",))
    fields = reader.fields(section, "fields")
    if not fields:
        return None
    _check_names(section, fields)
    told = msgspec.json.encode([unknown, *(_plain(field) for field in fields)])
    return RowSchema(tuple(fields), hashlib.sha256(told).hexdigest()[:12], invalid, unknown)


def _plain(field: SchemaField) -> Any:
    """What a field says, without what it is called in the code."""
    source = field.written.source
    return [str(field.type), *_told(field.written), source.scale, source.closed]


def _told(member: Member) -> list[Any]:
    source = member.source
    default = None if member.default is None else member.default.decode()
    below = [_told(inner) for inner in source.members]
    element = _told(Member("", source.element)) if source.element is not None else None
    return [member.name, source.kind, member.required, default, below, element]


def _check_names(section: Section, fields: Sequence[SchemaField]) -> None:
    """Notes names that a table can't have, or not twice."""
    taken: dict[str, str] = {}
    for field in fields:
        name = field.name
        if (is_own_column(name) or name in ICEBERGS) and not section.problems.published:
            why = "Iceberg keeps for itself" if name in ICEBERGS else "Firn keeps for itself"
            kept = f"{OWN}…, …{RETYPED}" if name not in ICEBERGS else words(sorted(ICEBERGS))
            section.note("fields", f"{shown(name)} is a name that {why} ({kept}), and is left out; call it otherwise")
        for known in row_schema.names_below(name, field.type):
            if known in taken:
                section.note("fields", f"{shown(known)} is there twice: in {shown(taken[known])} and {shown(name)}")
            taken[known] = name


@dataclass
class _Reader:
    """Fields of one schema. `closed`: its objects have no members that it does not name."""

    closed: bool
    count: int = 0

    def fields(self, section: Section, key: str, depth: int = 0) -> list[SchemaField]:
        """The list of fields under `key`."""
        node = section.node(key)
        if not isinstance(node, Items) or not node.items:
            if section.has(key) or not section.is_missing:
                section.note(key, "needs a list of fields; write fields: [{name: id, type: int64, required: true}]")
            else:
                section.problems.add(section.line, section.path, f"is empty; write {_EXAMPLE}")
            return []
        found: list[SchemaField] = []
        for place, item in enumerate(node.items):
            self.count += 1
            if self.count > _MOST_FIELDS:
                section.note(key, f"has more than {_MOST_FIELDS:,} fields; keep some together as one of json")
                return found
            name = _name_in(item)
            below = Section(item, f"{section.below(key)}[{place if name is None else name[:60]}]", section.problems)
            if name is None:
                below.problems.add(item.line, below.path, "is not a field; write {name: id, type: int64}")
            elif any(name == one.name for one in found):
                below.note("name", f"{shown(name)} is there twice; keep one")
            elif depth and (alike := next((one.name for one in found if one.name.lower() == name.lower()), None)):
                below.note("name", f"SQL can't tell {shown(name)} from {shown(alike)} in a struct; leave one out")
            else:
                found.append(self.field(below, name, depth))
        return found

    def field(self, section: Section, name: str, depth: int) -> SchemaField:
        """One field with its name."""
        section.allow_only(_FIELD, {"unit_of_time": "is not a setting; write unit"})
        found = self.typed(section, name, depth)
        required = section.flag("required", False)
        default = self.default(section, found)
        return replace(found, written=replace(found.written, name=name, required=required, default=default))

    def typed(self, section: Section, name: str, depth: int) -> SchemaField:
        """What `type` and its companions say."""
        word = section.text("type", "string, for example") or ""
        if not word and not section.has("type"):
            section.note("type", f"is missing; write one of {words(_KNOWN)}")
        kind = word.partition("(")[0].strip()
        for attribute, takers in _OF.items():
            if section.has(attribute) and kind not in takers and word:
                section.note(attribute, f"belongs to {words(takers)}, and this is {shown(word)}; leave it out")
        if depth > types.MAX_NESTING:
            section.note("type", f"is nested more than {types.MAX_NESTING} deep; keep what is below as json")
            return _ANY
        if word == "list":
            return row_schema.list_field(name, self.items(section, depth + 1))
        if word == "struct":
            inner = self.fields(section, "fields", depth + 1)
            return row_schema.struct_field(name, inner, closed=self.closed) if inner else _ANY
        if word == "json":
            return SchemaField(types.STRING, Member(name, row_schema.JSON))
        if kind == "decimal":
            return _decimal(section, name, word)
        if word.startswith("fixed"):
            return _fixed(section, name, word)
        if word not in _SIMPLE:
            if word:
                section.note("type", _no_type(word))
            return _ANY
        return SchemaField(_SIMPLE[word], Member(name, row_schema.written(_SIMPLE[word], _unit(section))))

    def items(self, section: Section, depth: int) -> SchemaField:
        """What the elements of a list are: {type: …}, or the type alone."""
        node = section.node("items")
        self.count += 1
        if node is None:
            section.note("items", "is missing, and a list needs it; write items: {type: string}")
            return _ANY
        if isinstance(node, Scalar):
            node = Entries(node.line, [(Scalar(node.line, "type"), node)])
        below = Section(node, section.below("items"), section.problems)
        below.allow_only(_ITEMS, {"required": "is not for items: null may be among them; leave it out",
                                  "name": "is not for items: they have none; leave it out"})  # fmt: skip
        return self.typed(below, "", depth)

    def default(self, section: Section, field: SchemaField) -> bytes | None:
        """The JSON that stands in for the field where it is absent."""
        if not section.has("default") or section.is_missing:
            return None
        node = section.node("default")
        if node is None:
            section.note("default", "is null, which an absent field is anyway; leave the line out")
            return None
        text = msgspec.json.encode(value_of(node, field.type, json=field.written.source == row_schema.JSON))
        try:
            convert_exactly(field.type, field.written.source, text, nulls=False)
        except (Refused, msgspec.MsgspecError, UnicodeError) as error:
            why = error.reason if isinstance(error, Refused) else str(error)
            section.note("default", f"is not of the field's type: {why}; write another one or leave it out")
            return None
        return text


def _name_in(item: Node) -> str | None:
    if not isinstance(item, Entries):
        return None
    found = [value for key, value in item.entries if key.text == "name"]
    text = found[0].text if found and isinstance(found[0], Scalar) and not found[0].is_null else ""
    return text if text.strip() else None


def _no_type(word: str) -> str:
    try:
        types.parse(word)
    except ValueError as error:
        meant = re.search(r"; write (\w+)", str(error))
        close = get_close_matches(word.lower(), _KNOWN, 1, 0.6) or [meant[1] if meant and meant[1] in _SIMPLE else ""]
        return f"{shown(word)} is not a type; write {close[0] or 'one of ' + words(_KNOWN)}"
    example = "type: list, items: {type: string}"
    if word.startswith("map"):
        return f"{shown(word)} is for columns:; a schema keeps it as json, or as a list of structs"
    if word.startswith("struct"):
        example = "type: struct, fields: [{name: a, type: int64}]"
    if word == "wkb":
        return f"{shown(word)} is for columns:; a schema keeps it as binary"
    return f"{shown(word)} is for columns:; a schema says it as {example}"


def _decimal(section: Section, name: str, word: str) -> SchemaField:
    match = _DECIMAL.fullmatch(word)
    if match is None and word != "decimal":
        section.note("type", f"{shown(word)} is not a type; write decimal(12,2)")
        return _ANY
    if match is None and not (section.has("precision") and section.has("scale")):
        section.note("type", "needs precision and scale; write {type: decimal, precision: 12, scale: 2}")
        return _ANY
    most = types.MAX_PRECISION
    precision = int(match[1]) if match else section.integer("precision", 1, most, 12)
    scale = int(match[2]) if match else section.integer("scale", 0, most, 2)
    try:
        kind = types.decimal(precision, scale)
    except ValueError as error:
        section.note("type", str(error))
        return _ANY
    return SchemaField(kind, Member(name, replace(row_schema.written(kind), scale=scale)))


def _fixed(section: Section, name: str, word: str) -> SchemaField:
    try:
        kind = types.parse(word)
    except ValueError as error:
        section.note("type", str(error) if "length" in str(error) else f"{shown(word)} is not a type; write fixed[16]")
        return _ANY
    return SchemaField(kind, Member(name, row_schema.written(kind)))


def _unit(section: Section) -> Unit | None:
    if not section.has("unit"):
        return None
    word = section.choice("unit", tuple(UNITS), "time unit", "millisecond")
    return UNITS[word]


def value_of(node: Node, kind: Type, *, json: bool) -> Any:
    """A node as the JSON value that a field of this type would have. A word without quotes is text where only text
    can be meant."""
    if isinstance(node, Items):
        return [value_of(item, kind.element or types.STRING, json=json) for item in node.items]
    if isinstance(node, Entries):
        inner = dict(kind.fields)
        return {key.text: value_of(one, inner.get(key.text, types.STRING), json=json) for key, one in node.entries}
    if node.is_null:
        return None
    word = _WORDS.get(node.text, node.text)
    bare = not node.quoted and _JSON_WORD.fullmatch(word) is not None and len(word) < 400
    if bare and (json or kind.name not in ("string", "date", "time", "uuid", "binary", "fixed")):
        return msgspec.Raw(word.encode())
    return node.text
