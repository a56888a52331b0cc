"""What to tell someone whose query DuckDB refuses: its own words, and what can be written instead."""

from collections.abc import Collection, Mapping, Sequence

import duckdb

from firn.errors import TerminalError


class QueryError(TerminalError):
    """The query can't be run; the text says where and what to write instead."""


class QueryTooLarge(QueryError):
    """The query takes more time, memory or rows than its limits allow."""


class NotEncodable(QueryError):
    """A column of the result has a type or a value that the answer can't hold; the text names both."""


_KINDS = "a number, text, bool, bytes, Decimal, date, time, datetime, list or dict"


def explained(error: Exception, tables: Mapping[str, Sequence[str]]) -> str:
    """The text of an error of DuckDB. `tables`: the columns of each table that the query names."""
    said = str(error)
    if isinstance(error, duckdb.PermissionException) or (
        isinstance(error, duckdb.CatalogException) and "extension" in said
    ):
        first = said.splitlines()[0]
        return (
            f"{first}. A query reads tables of the lake, such as namespace.table, and no files, networks or extensions"
        )
    if isinstance(error, duckdb.BinderException) and ("Referenced column" in said or "have a column named" in said):
        return "\n".join([said.rstrip(), *(f"{name} has {', '.join(columns)}" for name, columns in tables.items())])
    if isinstance(error, duckdb.ParserException) and "syntax error at or near" in said:
        return f'{said.rstrip()}\nA name that is a word of SQL needs double quotes, such as "at" or "order"'
    if "transform python value" in said:
        return f"a parameter is of a kind that SQL has not: {said}. It can be {_KINDS}"
    return said


def parameters_fault(needed: Collection[str], given: object) -> str | None:
    """What is wrong with the parameters of a query, in words; None if they are those that it needs.

    needed  the names in the query; numbers for `?`, from "1" on
    """
    positional = all(name.isdecimal() for name in needed)
    if given is None or (isinstance(given, Sequence | Mapping) and not given):
        return f"the query has parameters and none are given: {_wanted(needed, positional)}" if needed else None
    if not needed:
        return "parameters are given and the query has none: write ? or $name where their values belong"
    if isinstance(given, Mapping):
        if positional or {str(name) for name in given} != set(needed):
            names = ", ".join(sorted(map(str, given)))
            return f"the parameters do not fit, they are named {names}: {_wanted(needed, positional)}"
    elif not isinstance(given, Sequence) or isinstance(given, str | bytes):
        return f"the parameters do not fit, they are a {type(given).__name__}: {_wanted(needed, positional)}"
    elif not positional or len(given) != len(needed):
        return f"the parameters do not fit, there are {len(given)} in a list: {_wanted(needed, positional)}"
    return None


def _wanted(needed: Collection[str], positional: bool) -> str:
    if positional:
        return f"give a list of {len(needed)} for its ?"
    return f"give a dict with a value for each of {', '.join(f'${name}' for name in sorted(needed))}"
