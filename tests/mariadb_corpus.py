"""What Debezium sent of a MariaDB with a table for each type and trap, and MariaDB's own final tables, by type."""

import csv
import gzip
import json
import re
import struct
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from firn_cli.mysql_types import declaration

CORPUS = Path(__file__).parent / "data" / "mariadb"
META: dict[str, Any] = json.loads((CORPUS / "final" / "_tables.json").read_text())
KEYS = {name: tuple(about["pk"] or ("a", "b")) for name, about in META.items() if name != "nopk"}
Key = tuple[Any, ...]
Row = Mapping[str, Any]
Differences = dict[str, list[str]]

# What these events do not hold, so that no reader of them can: (table, key, column) and what is there instead.
# A cascade of InnoDB makes no event. Rows of an XA transaction are sent when it is prepared, and a later rollback makes
# no event either. Nor do statements of binlog_format=STATEMENT, and RENAME TABLE and DROP TABLE are schema changes.
_ROWS: Differences = {
    "child": ["(11,) is not in the source", "(12,) is not in the source", "(21,) parent_id: is 2, not 20"],
    "xa_t": ["(3,) is not in the source"],
    "late": ["(7,) is missing"],
    "dropme": ["('1',) is not in the source"],
    "swap_a": ["(1,) v: is 'from a', not 'from b'"],
    "swap_b": ["(1,) v: is 'from b', not 'from a'"],
}
# A null in a column with a default is sent as the default. A uuid of the stream is another one. The years 1 to 99 are
# taken for two digits, YEAR 0 for 1900, a zero TIMESTAMP for 1970, and -0.00001 in a double(10,5) for another number. A
# column that was text, then dropped, then made again as a number, is text: its table holds the values of both.
_VALUES: Differences = {
    "evolve": ["(9,) c: is '9', not 9"],
    "defaults": ["(3,) e: is 'b', not None", "(3,) fl: is 0.1, not None"],
    "t_bin": [
        "(2,) uu: is '0000123e-4567-e89b-12d3-a45642665544', not '123e4567-e89b-12d3-a456-426655440000'",
    ],
    "t_int": ["(5,) yr: is 1900, not 0"],
    "t_time": [
        "(2,) d: is 11323, not -719162",
        *(f"({row},) {name}: is 0, not None" for row, name in ((3, "ts0"), (3, "ts3"), (3, "ts6"))),
        "(7,) dt6: is 978307200000001, not -62135596799999999",
        "(9,) ts0: is 0, not None",
        "(9,) y: is 1900, not 0",
    ],
    "t_num": ["(3,) d105: is -9.99999999995449e-06, not -1e-05"],
}
KNOWN: Differences = _ROWS | _VALUES


def records(file: Path) -> list[dict[str, Any]]:
    """The lines of a recording: {destination, key, value, headers}."""
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


PLAIN = {"time.precision.mode": "adaptive_time_microseconds", "bigint.unsigned.handling.mode": "long"}


def streams(name: str, settings: Mapping[str, str] = PLAIN, envelope: str = "debezium", *, declare: bool = True) -> str:
    """A firn.yaml with one stream for the recording. `declare`: the types, as `firn init` writes them."""
    lines = ["streams:", f"  {name}:", f"    envelope: {envelope}", f"    debezium: {json.dumps(dict(settings))}"]
    lines += ["    tables:"]
    for table, about in META.items():
        key = f"key: {json.dumps(list(KEYS[table]))}" if table in KEYS else "mode: append"
        declared = {one["name"]: declaration(one["type"])[0] for one in about["columns"]}
        columns = {column: kind for column, kind in declared.items() if kind is not None and declare}
        rule = f"to: {json.dumps(f'{name}.{table}')}, {key}, columns: {json.dumps(columns, ensure_ascii=False)}"
        lines.append(f"      {json.dumps(f'shop.{table}')}: {{{rule}}}")
    return "\n".join(lines) + "\n"


def texts_of(table: str) -> list[dict[str, str | None]]:
    """The rows of a final table, as MariaDB's texts."""
    csv.field_size_limit(sys.maxsize)
    path = CORPUS / "final" / f"{table}.csv"
    text = (
        path.read_text() if path.exists() else gzip.decompress(path.with_name(f"{table}.csv.gz").read_bytes()).decode()
    )
    rows = csv.DictReader(_lines(_BARE_NULL.sub("\0", text)))
    return [{name: None if cell == "\0" else cell for name, cell in row.items()} for row in rows]


@cache
def final(table: str) -> dict[Key, Row]:
    """The rows of a final table by key, as a table of Firn holds them: days, microseconds, bytes, Decimals."""
    kinds = {one["name"]: one["type"] for one in META[table]["columns"]}
    read = [
        {name: None if cell is None else meaning(kinds[name], cell) for name, cell in row.items()}
        for row in texts_of(table)
    ]
    return {_key(table, row): row for row in read}


_BARE_NULL = re.compile(r"(?<![^,\n])\\N(?![^,\n])")  # in quotes it is a text of two characters


def _lines(text: str) -> Iterator[str]:
    # Not str.splitlines: a text may hold any of what that takes for the end of a line.
    return (line + "\n" for line in text.split("\n"))


def meaning(kind: str, text: str) -> Any:
    """MariaDB's text for a column of this type, as what a table of Firn holds for it."""
    base = kind.partition("(")[0].split()[0]
    if base == "bit":
        bits = int(kind[4:-1])
        return text == "1" if bits == 1 else int(text).to_bytes((bits + 7) // 8, "little")
    if base == "bigint" and "unsigned" in kind:
        return Decimal(text)
    if base == "decimal" and declaration(kind)[1]:
        return format(Decimal(text), "f")
    return _MEANINGS.get(base, str)(text)


def _day(text: str) -> int | None:
    return None if "-00" in text or text.startswith("0000") else (date.fromisoformat(text) - date(1970, 1, 1)).days


def _moment(text: str) -> int | None:
    if text.startswith("0000") or "-00" in text:
        return None
    return (datetime.fromisoformat(text) - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def _time(text: str) -> str:
    clock, _, fraction = text.partition(".")
    return f"{clock}.{fraction.ljust(6, '0')}"


_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint", "year")
_BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
_MEANINGS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(_INTEGERS, int), **dict.fromkeys(_BYTES, lambda text: bytes.fromhex(text.removeprefix("\\x"))),
    "decimal": Decimal, "float": lambda text: _single(float(text)), "double": float, "date": _day, "time": _time,
    "datetime": _moment, "timestamp": _moment,
}  # fmt: skip


def _single(value: float) -> float:
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found


def held(kind: str, value: Any) -> Any:
    """What a table holds for a column of this type, as `meaning` has it."""
    base = kind.partition("(")[0].split()[0]
    if value is None:
        return None
    if base in ("point", "linestring", "polygon", "geometry", "multipoint", "geometrycollection"):
        shape = json.loads(value)
        return f"SRID={shape['srid'] or 0};{_wkb(shape['wkb'])}"
    return _single(value) if base == "float" else value


def _wkb(text: str) -> str:
    from base64 import b64decode

    return text if set(text) <= set("0123456789abcdef") else b64decode(text).hex()


def _key(table: str, row: Row) -> Key:
    # A decimal of 1.50 is the key 1.5.
    return tuple(one.normalize() if isinstance(one, Decimal) else one for one in (row[name] for name in KEYS[table]))


def _same(found: Any, expected: Any) -> bool:
    return type(found) is type(expected) and bool(found == expected)


def differences(table: str, rows: Iterable[Row], but: Collection[str] = ()) -> list[str]:
    """How a table differs from the source's, a line each. `but`: columns that are not compared."""
    kinds = {one["name"]: one["type"] for one in META[table]["columns"] if one["name"] not in but}
    found: dict[Key, Row] = {}
    lines = []
    for row in rows:
        one = {name: held(kind, row.get(name)) for name, kind in kinds.items()}
        lines += [f"{_key(table, one)} is there twice"] if _key(table, one) in found else []
        found[_key(table, one)] = one
    expected = final(table)
    lines += [f"{key} is missing" for key in expected.keys() - found.keys()]
    lines += [f"{key} is not in the source" for key in found.keys() - expected.keys()]
    lines += [
        f"{key} {name}: is {found[key][name]!r}, not {expected[key][name]!r}"
        for key in expected.keys() & found.keys()
        for name in kinds
        if not _same(found[key][name], expected[key][name])
    ]
    return sorted(lines)
