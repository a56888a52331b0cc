"""How far a backfill is: what its claims say."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from firn.backfill import backfill_request, chunk_claims, chunk_plan
from firn.backfill.chunk_plan import Plan
from firn.log import backfill_layout
from firn.log.store import Store, paths

_AT_ONCE = 16


@dataclass
class Progress:
    """What was staged so far, or is just being put. `rows` by source table; `checked`: chunks whose checksum was
    compared with the source's; `waited`: seconds for transactions to end."""

    chunks: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    raw: int = 0
    waited: float = 0.0
    checked: int = 0


def notes(store: Store, stream: str) -> list[str]:
    """What `firn status` says of the stream's backfill, if one is open. Raises StorageUnavailable, UnreadableBatch."""
    found = []
    for request in backfill_request.open_ones(store, stream):
        plan = chunk_plan.read(store, stream, request.id)
        if plan is None:
            told = "is not planned yet"
        else:
            seen = Watch(store, stream, plan).look()
            rows = sum(seen.rows.values())
            told = f"has staged {seen.chunks:,} of {len(plan.chunks):,} chunks, {rows:,} of about {plan.rows:,} rows"
        found.append(
            f"backfill {request.id} from {request.source} {told}; its command goes on with it, "
            f"firn backfill {stream} --cancel ends it"
        )
    return found


class Watch:
    """Reads a backfill's claims, each once."""

    def __init__(self, store: Store, stream: str, plan: Plan) -> None:
        self._store, self._stream, self._plan = store, stream, plan
        self._known: dict[int, tuple[int, chunk_claims.Claim]] = {}

    def look(self) -> Progress:
        """As it is now. Raises StorageUnavailable."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for (chunk, link), claim in pool.map(self._read, self._new()):
                if claim is not None:
                    self._known[chunk] = link, claim
        found = Progress(chunks=len(self._known))
        for chunk, (_, claim) in self._known.items():
            table = self._plan.tables[self._plan.chunks[chunk].table].name
            found.rows[table] = found.rows.get(table, 0) + claim.rows
            found.raw += claim.raw
            found.waited += claim.waited
            found.checked += bool(claim.checked)
        return found

    def _new(self) -> Iterator[tuple[int, int]]:
        newest: dict[int, int] = {}
        prefix = backfill_layout.chunks_prefix(self._stream, self._plan.backfill)
        for path in paths(self._store, prefix):
            if (found := backfill_layout.chunk_of(path)) is not None and found[0] < len(self._plan.chunks):
                newest[found[0]] = max(found[1], newest.get(found[0], 0))
        for chunk, link in newest.items():
            if self._known.get(chunk, (0, None))[0] < link:
                yield chunk, link

    def _read(self, place: tuple[int, int]) -> tuple[tuple[int, int], chunk_claims.Claim | None]:
        return place, chunk_claims.read(self._store, self._stream, self._plan.backfill, *place)
