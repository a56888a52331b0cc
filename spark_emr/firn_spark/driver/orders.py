"""Orders as the table's columns hold them, and as the changes have them: with a first byte that says whether there is a
position (changes.placing)."""

from collections.abc import Mapping

from firn.changes.fold import UNKNOWN
from firn_spark.merge.folding import plain


def total(stored: bytes | None) -> bytes:
    """The order in `_firn_pos` among those of changes; an adopted row is older than all."""
    return b"\1" + stored if stored else UNKNOWN


def stored_held(order: bytes, held: Mapping[int, bytes]) -> list[tuple[int, bytes]] | None:
    """`_firn_held` of a row at `order` (plain; b"": without a position) from totals by field id."""
    entries = {number: plain(one) if one else UNKNOWN for number, one in held.items()}
    kept = [(number, one) for number, one in entries.items() if one is not None and one < order]
    return kept or None
