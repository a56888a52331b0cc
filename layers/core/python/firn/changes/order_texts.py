"""Order texts that are a few numbers, as the parts of a position (positions.py): commit and change."""

from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

Parts = Callable[[str, str], tuple[int, int]]
"""Order text and op -> commit and change. Raises ValueError."""

_whole_numbers: Callable[[str], list[int | None]] = msgspec.json.Decoder(list[int | None], strict=False).decode
_ranked: Callable[[str], tuple[int, int | str, int | None]] = msgspec.json.Decoder(
    tuple[int, int | str, int | None]
).decode


def numbers(leading: int) -> Parts:
    """Whole numbers, as such or as text, null for 0: the first `leading` of them make the commit, up to three more the
    change, 64 bits each."""

    def parts(order: str, _: str) -> tuple[int, int]:
        told = _whole_numbers(order)
        if not leading <= len(told) <= leading + 3:
            raise ValueError(f"it has {len(told)} numbers")
        return _packed(told[:leading]), _packed(told[leading:])

    return parts


def vitess(order: str, _: str) -> tuple[int, int]:
    """`[transaction_epoch, transaction_rank, total_order]`. The rank is Connect's decimal without scale: a number, or
    its bytes in base64, as the converter is set."""
    epoch, rank, number = _ranked(order)
    whole = rank if isinstance(rank, int) else int.from_bytes(b64decode(rank, validate=True), signed=True)
    return _packed([epoch, whole]), unsigned(number or 0, "total_order")


def unsigned(number: int, name: str, bits: int = 64) -> int:
    """The number if it has so many bits. Raises ValueError."""
    if not 0 <= number < 1 << bits:
        raise ValueError(f"the {name} is not between 0 and 2^{bits}")
    return number


def _packed(told: Sequence[Any]) -> int:
    found = 0
    for place, number in enumerate(told, 1):
        found = found << 64 | unsigned(number or 0, f"number {place}")
    return found
