"""A staged batch as it was read, with what was decoded of it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from firn.changes.decode.row_decoder import ChangeId, Decoder, Decoding, MirrorDecoder, Why
from firn.changes.merge import decoded_rows
from firn.changes.merge.fold import RowChange


@dataclass(frozen=True)
class Decoded:
    """Changes of one table, decoded. `rows` as changes.rows has them, `changes` the same for a mirror table;
    `rejected`: the others, which are dead letters."""

    rows: Sequence[Sequence[Any]]
    changes: Sequence[RowChange]
    rejected: Mapping[ChangeId, Why]


@dataclass
class Batch:
    """A staged batch as it was read: its changes, how many, and what it says about its tables."""

    changes: Mapping[str, Sequence[Mapping[str, Any]]]
    counts: Mapping[tuple[str, int, str], int]
    said: Sequence[Mapping[str, Any]]
    size: int
    _decoded: dict[tuple[str, ...], tuple[Decoding, type[Decoder], Decoded]] = field(default_factory=dict)

    def without(self, sources: Collection[str]) -> "Batch":
        """The same without the changes of some source tables."""
        return Batch(
            {source: changes for source, changes in self.changes.items() if source not in sources},
            {what: number for what, number in self.counts.items() if what[0] not in sources},
            [fact for fact in self.said if fact["table"] not in sources],
            self.size,
        )

    def of(self, sources: Sequence[str]) -> list[Mapping[str, Any]]:
        """The raw changes of some source tables."""
        return [one for source in sources for one in self.changes.get(source, ())]

    def decoded(self, sources: tuple[str, ...], decoder: Decoder) -> Decoded:
        """The good changes of some source tables. Kept for as long as they are asked for with this very decoding."""
        decoding = decoder.decoding
        known = self._decoded.get(sources)
        if known is None or known[0] is not decoding or known[1] is not type(decoder):
            rows, bad = decoded_rows.decoded_by(decoder, self.of(sources))
            mirror = isinstance(decoder, MirrorDecoder)
            changes = [decoded_rows.row_change(row, decoding) for row in rows] if mirror else []
            found = Decoded(rows, changes, decoded_rows.why_of(bad))
            known = self._decoded[sources] = (decoding, type(decoder), found)
        return known[2]
