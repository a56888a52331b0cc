"""Orders as the table's columns hold them, and as the changes have them: with a first byte that says whether there is a
position (changes.placing)."""

from collections.abc import Mapping

from firn.changes.fold import UNKNOWN
from firn.changes.placing import plain


def stored_held(order: bytes, held: Mapping[int, bytes]) -> list[tuple[int, bytes]] | None:
    """`_firn_held` of a row at `order` (plain; b"": without a position) from totals by field id."""
    entries = {number: plain(one) if one else UNKNOWN for number, one in held.items()}
    kept = [(number, one) for number, one in entries.items() if one is not None and one < order]
    return kept or None
