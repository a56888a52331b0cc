"""Order texts of emitters, a few numbers each, as the parts of a position (positions.py): commit and change."""

import re
from base64 import b64decode
from collections.abc import Callable, Sequence
from functools import lru_cache

import msgspec

Parts = Callable[[str, str], tuple[int, int]]
"""Order text and op -> commit and change. Raises ValueError."""

_told_numbers: Callable[[str], list[int | str | None]] = msgspec.json.Decoder(list[int | str | None]).decode
_ranked: Callable[[str], tuple[int, int | str, int | None]] = msgspec.json.Decoder(
    tuple[int, int | str, int | None]
).decode

_batch_and_number: Callable[[str], tuple[str, int]] = msgspec.json.Decoder(tuple[str, int], strict=False).decode
_CAME = re.compile(r'\["[0-9a-fA-F]{1,32}",[0-9]{1,10}\]', re.ASCII)
_text: Callable[[str], str] = msgspec.json.Decoder(str).decode
_TOKEN = 39  # bytes: the first of a position's commit stays 0, as nearly all sources' does


def numbers(leading: int) -> Parts:
    """Whole numbers, as such or as text, null for 0: the first `leading` of them make the commit, up to three more the
    change, 64 bits each."""

    def parts(order: str, _: str) -> tuple[int, int]:
        told = [_whole(one) for one in _told_numbers(order)]
        if not leading <= len(told) <= leading + 3:
            raise ValueError(f"it has {len(told)} numbers")
        return _packed(told[:leading]), _packed(told[leading:])

    return parts


def _whole(told: int | str | None) -> int:
    """A number, or its digits."""
    if isinstance(told, str):
        if re.fullmatch("[0-9]{1,40}", told, re.ASCII) is None:
            raise ValueError("it has a text that is no number")
        told = int(told)
    return told or 0


def vitess(order: str, _: str) -> tuple[int, int]:
    """`[transaction_epoch, transaction_rank, total_order]`. The rank is Connect's decimal without scale: a number, or
    its bytes in base64, as the converter is set."""
    epoch, rank, number = _ranked(order)
    whole = rank if isinstance(rank, int) else int.from_bytes(b64decode(rank, validate=True), signed=True)
    return _packed([unsigned(epoch, "transaction_epoch", 48), whole]), unsigned(number or 0, "total_order")


def counts_as_it_came(order: str) -> bool:
    """Whether an order text is `positions.came`'s: its batch, and its number there."""
    return _CAME.fullmatch(order) is not None


def arrival(order: str, _: str) -> tuple[int, int]:
    """`[batch, number]`: when the change came."""
    batch, number = _batch_and_number(order)
    return hexadecimal(batch, "batch", 128), unsigned(number, "number")


def or_arrival(parts: Parts) -> Parts:
    """Of an emitter that says where some of its changes stand."""

    def read(order: str, op: str) -> tuple[int, int]:
        return (arrival if counts_as_it_came(order) else parts)(order, op)

    return read


@lru_cache(maxsize=64)
def file_number(file: str) -> int:
    """The number in the name of a binlog file. Raises ValueError."""
    number = re.search(r"\.([0-9]+)$", file)
    if number is None:
        raise ValueError(f"the binlog file {file[:40]!r} has no number")
    return unsigned(int(number[1][:40]), "file")


def hexadecimal(text: str, name: str, bits: int = 1024) -> int:
    """Hexadecimal digits, perhaps with colons. Raises ValueError."""
    if re.fullmatch("[0-9a-fA-F:]{1,256}", text) is None:
        raise ValueError(f"the {name} is not hexadecimal")
    return unsigned(int(text.replace(":", ""), 16), name, bits)


def unsigned(number: int, name: str, bits: int = 64) -> int:
    """The number if it has so many bits. Raises ValueError."""
    if not 0 <= number < 1 << bits:
        raise ValueError(f"the {name} is not between 0 and 2^{bits}")
    return number


def _packed(told: Sequence[int]) -> int:
    found = 0
    for place, number in enumerate(told, 1):
        found = found << 64 | unsigned(number, f"number {place}")
    return found


def token(order: str, _: str) -> tuple[int, int]:
    """The first bytes of one of MongoDB's resume tokens, in hexadecimal: they compare from the first on."""
    data = bytes.fromhex(_text(order))
    if len(data) > _TOKEN:
        raise ValueError("the token is too long")
    data = data.ljust(_TOKEN, b"\0")
    return int.from_bytes(data[:15]), int.from_bytes(data[15:])


EMITTERS: dict[str, Parts] = {
    "rows": arrival,
    "canal": arrival,
    "vitess": vitess,
    "spanner": numbers(1),
    "mongodb_stream": or_arrival(token),
    "mongodb_stream_patch": or_arrival(token),
    "hasura": or_arrival(numbers(1)),
    "supabase": arrival,
    "sequin": or_arrival(numbers(1)),
    "seed": or_arrival(numbers(1)),
    "airbyte": or_arrival(numbers(1)),
}
"""By connector, beside those of positions.py."""
