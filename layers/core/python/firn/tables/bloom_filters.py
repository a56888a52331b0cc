"""Bloom filters that firn.yaml asks for (`bloom:`), as properties of the Iceberg table. Pure.

Iceberg's own words, so that every engine that writes the table heeds them. What firn.yaml asked for last is remembered:
columns that it no longer names are switched off, those that someone else switched on stay.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Final

from firn.changes.decode.types import Column
from firn.config.file_writing import BloomSize
from firn.config.model import Bloom

ENABLED: Final = "write.parquet.bloom-filter-enabled.column."
VALUES: Final = "write.parquet.bloom-filter-ndv.column."
WRONG: Final = "write.parquet.bloom-filter-fpp.column."
MOST: Final = "write.parquet.bloom-filter-max-bytes"
ASKED: Final = "firn.bloom"
_USUAL: Final = BloomSize()  # Iceberg's own
# Without it Iceberg makes each a megabyte, in a file of ten rows too. For so many values it is 256 KB, a hundredth of a
# row group of 32 MB. Files that Firn writes without Spark have filters of their own size (firn_spark/files/write.py).
_VALUES: Final = 200_000


def properties(
    wanted: Bloom, key: Sequence[str], columns: Sequence[Column], now: Mapping[str, str], size: BloomSize = _USUAL
) -> dict[str, str]:
    """The properties that a table needs, some of which it may have.

    key      its key
    columns  its columns, as far as they are known; a Boolean gets none: Parquet's own writer would leave it empty, and
             an empty filter denies every value
    now      the properties it has
    size     of each filter
    """
    booleans = {column.name for column in columns if column.type.name == "boolean"}
    names = tuple(name for name in (key if wanted == "key" else wanted) if name not in booleans)
    asked = tuple(json.loads(now.get(ASKED, "[]")))
    if not names and not asked:
        return {}
    found = {f"{ENABLED}{name}": "false" for name in asked if name not in names}
    for name in names:
        found |= {f"{ENABLED}{name}": "true", f"{VALUES}{name}": now.get(f"{VALUES}{name}", str(_VALUES))}
        if size.wrong != _USUAL.wrong or f"{WRONG}{name}" in now:
            found[f"{WRONG}{name}"] = str(size.wrong)
    if size.most_bytes != _USUAL.most_bytes or MOST in now:
        found[MOST] = str(size.most_bytes)
    return {**found, ASKED: json.dumps(names, ensure_ascii=False)}


def enabled(now: Mapping[str, str]) -> tuple[str, ...]:
    """The columns whose Bloom filters a table's properties ask for."""
    return tuple(
        name.removeprefix(ENABLED)
        for name, value in now.items()
        if name.startswith(ENABLED) and value.strip().lower() == "true"
    )


def size_of(column: str, now: Mapping[str, str]) -> BloomSize:
    """How large a filter of this column a table's properties ask for; what is no number counts as nothing said."""
    try:
        wrong, most = float(now.get(f"{WRONG}{column}", _USUAL.wrong)), int(now.get(MOST, _USUAL.most_bytes))
    except ValueError:
        return _USUAL
    return BloomSize(wrong, most) if 0 < wrong < 1 and most > 0 else _USUAL


def values_for(values: int, size: BloomSize) -> int:
    """For how many values a filter is made that is to hold `values`: fewer, where it would be larger than it may be.

    Parquet's filters have blocks of 8 words of 32 bits, one bit set in each (Parquet format, BloomFilter.md): n values
    need -8 n / ln(1 - wrong^(1/8)) bits, and writers make a power of two of bytes out of it.
    """
    bits = 8 * 2 ** (size.most_bytes.bit_length() - 1)  # the largest power of two that it may be
    return max(1, min(values, int(-bits / 8 * math.log(1 - size.wrong ** (1 / 8)))))
