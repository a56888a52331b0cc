"""The types that SQL gives, as tables have them: kept, widened or written as text, else refused with what to write."""

from typing import Final

from duckdb.sqltypes import DuckDBPyType

_KEPT: Final = frozenset(
    (
        "boolean",
        "integer",
        "bigint",
        "float",
        "double",
        "varchar",
        "blob",
        "date",
        "timestamp",
        "timestamp_ns",
        "decimal",
    )
) | {"timestamp with time zone", "timestamptz_ns"}
_AS: Final = {
    "tinyint": "INTEGER",
    "smallint": "INTEGER",
    "utinyint": "INTEGER",
    "usmallint": "INTEGER",
    "uinteger": "BIGINT",
    "ubigint": "DECIMAL(20, 0)",
    "timestamp_s": "TIMESTAMP",
    "timestamp_ms": "TIMESTAMP",
    "uuid": "VARCHAR",
    "json": "VARCHAR",
    "enum": "VARCHAR",
    '"null"': "VARCHAR",
    "sqlnull": "VARCHAR",
    "null": "VARCHAR",
}
_INSTEAD: Final = {
    "hugeint": "CAST({} AS BIGINT), or AS DECIMAL(38, 0)",
    "uhugeint": "CAST({} AS BIGINT), or AS DECIMAL(38, 0)",
    "interval": "CAST({} AS VARCHAR), or epoch({})",
    "time": "CAST({} AS VARCHAR)",
}
_NO_KEYS: Final = frozenset(("float", "double", "list", "array", "struct", "map"))  # changes.decode.types.map_of


class NoColumnType(ValueError):
    """Tables have no such type as `column` has; `instead` says what to write."""

    def __init__(self, column: str, reason: str, instead: str) -> None:
        super().__init__(f"{reason}; {instead}")
        self.column, self.reason, self.instead = column, reason, instead


def column_type(kind: DuckDBPyType, name: str) -> str:
    """The type that a column of this type gets, as SQL. `name`: of the column, for the error.

    Raises NoColumnType.
    """
    word = kind.id.lower()
    shown = f"the column {quoted(name)}"
    if word == "tuple":
        raise NoColumnType(name, f"{shown} is a struct whose fields have no names", "write {'a': …, 'b': …}")
    if str(kind).upper() == "JSON":
        return "VARCHAR"
    if word in _AS:
        return _AS[word]
    if word in _KEPT:
        return str(kind)
    if word in ("list", "array"):
        return column_type(_inner(kind.children[0][1]), name) + "[]"
    if word == "map":
        key, value = (_inner(inner) for _, inner in kind.children)
        if key.id.lower() in _NO_KEYS:
            reason = f"{shown} has a map whose keys are {key}, which tables do not have"
            raise NoColumnType(name, reason, "write map_entries(…), or to_json(…)")
        return f"MAP({column_type(key, name)}, {column_type(value, name)})"
    if word == "struct":
        fields = [(field, column_type(_inner(inner), name)) for field, inner in kind.children]
        if not fields or not all(field for field, _ in fields):
            raise NoColumnType(name, f"{shown} is a struct whose fields have no names", "write {'a': …, 'b': …}")
        lower = [field.lower() for field, _ in fields]
        if len(set(lower)) < len(lower):
            raise NoColumnType(name, f"{shown} is a struct with two fields of one name", "write other names")
        return "STRUCT(" + ", ".join(f"{quoted(field)} {inner}" for field, inner in fields) + ")"
    instead = _INSTEAD.get(word, "CAST({} AS VARCHAR)").format("…", "…")
    raise NoColumnType(name, f"{shown} has the type {kind}, which tables do not have", f"write {instead}")


def _inner(kind: object) -> DuckDBPyType:
    if not isinstance(kind, DuckDBPyType):
        raise TypeError(f"{kind!r} is no type")
    return kind


def quoted(name: str) -> str:
    """A name in DuckDB's quotes."""
    return '"' + name.replace('"', '""') + '"'
