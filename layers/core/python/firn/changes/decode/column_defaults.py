"""What a row has in a column that its writer tells no value of: Iceberg's `write-default`. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from firn.changes.decode.converters import converter
from firn.changes.decode.types import Encoding, Type
from firn.changes.decode.values import Refused
from firn.errors import TerminalError

# How Iceberg writes defaults in JSON (spec, appendix D, "JSON single-value serialization"); what is not here is
# written as the value itself.
_DEFAULTS: Final[Mapping[str, Encoding]] = {
    "boolean": Encoding("boolean"), "int": Encoding("integer"), "long": Encoding("integer"),
    "float": Encoding("float32"), "double": Encoding("float64"), "decimal": Encoding("decimal_text"),
    "date": Encoding("date_text"), "timestamp": Encoding("timestamp_text"),
    "timestamptz": Encoding("timestamp_text", zoned=True), "timestamp_ns": Encoding("timestamp_text"),
    "timestamptz_ns": Encoding("timestamp_text", zoned=True), "string": Encoding("string"), "uuid": Encoding("uuid"),
    "binary": Encoding("binary_hex"), "fixed": Encoding("binary_hex"),
}  # fmt: skip


def write_default(field: Mapping[str, Any], kind: Type) -> Any:
    """What a row has in a column (Iceberg's JSON) of the type `kind` whose writer tells no value: Iceberg's
    `write-default`, as decoded values are; None for null.

    Raises TerminalError for one that Firn can't write, such as a day after the year 9999."""
    told = field.get("write-default")
    if told is None:
        return None
    encoding = _DEFAULTS.get(kind.name)
    try:
        if encoding is not None:
            return converter(kind, encoding)(told)
        reason = f"no default of a {kind.name} is known"
    except Refused as refused:
        reason = refused.reason
    raise TerminalError(f"the column {field['name']} has a write-default that Firn can't write: {reason}; set another")
