"""How a source's values are written, once the type is known that they become: what inline schemas leave open."""

from typing import Final

from firn.changes.decode.source_encodings import DecodeSettings, encoding_of
from firn.changes.decode.types import VARIANT, Encoding, Type

# Which encoding a bare Connect type has once the target's type is known: hex bytes, decimals and ISO times travel as
# strings, decimals in `double` mode as doubles, and the inline schema does not name them.
_UNNAMED: Final[dict[tuple[str, str], str]] = {
    ("string", "decimal"): "decimal_text",
    ("string", "date"): "date_text",
    ("string", "time"): "time_text",
    ("string", "timestamp"): "timestamp_text",
    ("string", "timestamptz"): "timestamp_text",
    ("string", "timestamp_ns"): "timestamp_text",
    ("string", "timestamptz_ns"): "timestamp_text",
    ("float64", "decimal"): "decimal_number",
}
# How the text of a value is read in a column of each type.
_OF_TEXT: Final[dict[str, Encoding]] = {
    **dict.fromkeys(("boolean", "int", "long", "float", "double", "decimal"), Encoding("decimal_text")),
    "string": Encoding("string"),
    "date": Encoding("date_text"),
    "time": Encoding("time_text"),
    "timestamp": Encoding("timestamp_text"),
    "timestamptz": Encoding("timestamp_text", zoned=True),
    "timestamp_ns": Encoding("timestamp_text"),
    "timestamptz_ns": Encoding("timestamp_text", zoned=True),
    "uuid": Encoding("uuid"),
    "binary": Encoding("binary_base64"),
    "fixed": Encoding("binary_base64"),
}


def understood(kind: Type, source: Encoding, settings: DecodeSettings) -> Encoding:
    """How values are written that a source says to be written as `source`, where they become `kind`."""
    if kind == VARIANT:
        # What is no text is a JSON value as it is; a text is one that holds JSON.
        return source if source.kind == "json_value" else Encoding("json")
    if source.kind == "text":
        return _OF_TEXT.get(kind.name, Encoding("any"))
    if kind.name in ("binary", "fixed") and source.kind == "string":
        return encoding_of(kind, None, settings)
    if named := _UNNAMED.get((source.kind, kind.name)):
        return Encoding(named, zoned=kind.name.startswith("timestamptz"))
    if kind.entry is not None and source.kind == "json":
        return _map_of(kind.entry, source, settings)
    if source.kind == "array" and kind.element is not None and source.element is not None:
        return Encoding("array", element=understood(kind.element, source.element, settings))
    return source


def _map_of(kinds: tuple[Type, Type], source: Encoding, settings: DecodeSettings) -> Encoding:
    """How a source writes a declared map: as its inline schema says, else as the declaration and the settings do."""
    told = zip(kinds, (source.key, source.element), strict=True)
    of_key, of_value = (
        encoding_of(kind, None, settings) if one is None else understood(kind, one, settings) for kind, one in told
    )
    return Encoding("map", element=of_value, key=of_key)
