"""The pages of one stream: the way of its changes, its epochs, batches and receipts."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import msgspec

from firn.audit.batch_status import batch_status
from firn.backfill import progress
from firn.errors import RequestError
from firn.log import attempts, cuts, epochs, layout, receipts
from firn.log.cuts import Cut
from firn.log.store import Store
from firn.log.store_cache import Remembered
from firn.sinks import report as report_of_sinks
from firn.status.source_status import SourceState
from firn.status.stream_status import order_notes, without_position
from firn.status.waiting import oldest
from firn_console.asked import Asked
from firn_console.contract.stream_pages import (
    PipelineRow,
    ReceiptAnswer,
    SourceRow,
    StreamPage,
    TargetRow,
    Way,
)
from firn_console.overview import LONGEST, SHORTEST, states_of_sources
from firn_console.stream_look import Look, instant_of, look, row

_MOST_CUTS: Final = 500  # of a window, that are read for what became of their changes
_cuts: Final = Remembered[tuple[str, int], Cut]()


def stream_page(asked: Asked, name: str) -> StreamPage:
    """Raises RequestError 404, StorageUnavailable, UnreadableBatch."""
    settings = asked.stream(name)
    seconds = asked.number("window", SHORTEST, LONGEST, 3_600)
    seen = look(asked.store, settings, asked.config.sha, asked.now, timedelta(seconds=seconds))
    sources = [one for one in states_of_sources(asked) if one.stream == name]
    positionless = without_position(asked.store, settings, [one.path for one in seen.waiting.free])
    notes = [
        *order_notes(settings, positionless=positionless),
        *report_of_sinks.notes(asked.store, settings),
        *progress.notes(asked.store, name),
    ]
    return StreamPage(
        row=row(seen, asked.grant),
        way=_way(asked.store, seen, seconds),
        targets=tuple(one for one in _targets(asked, seen) if asked.grant.sees(table=one.table)),
        pipelines=tuple(one for one in _pipelines(seen) if asked.sees_source(name, one.source)),
        sources=tuple(map(_source, sources)),
        notes=tuple(notes) if asked.grant.tables is None else (),  # they name tables
    )


def batch(asked: Asked, stream: str, identifier: str) -> dict[str, Any]:
    """What became of a batch, snapshot ids as text. Raises RequestError 404, StorageUnavailable, UnreadableBatch."""
    asked.stream(stream)
    mine = layout.is_batch_id(identifier) and layout.stream_of(identifier) == stream
    found = batch_status(asked.store, identifier) if mine else None
    if found is None:
        raise RequestError(404, "unknown_batch", "this stream has no such batch; the answer to a POST has its id")
    told: dict[str, Any] = msgspec.to_builtins(found)
    _narrow(asked, stream, told)
    if told["snapshots"] is not None:
        told["snapshots"] = {name: str(snapshot) for name, snapshot in told["snapshots"].items()}
    for target in told["targets"]:
        target["snapshot"] = None if target["snapshot"] is None else str(target["snapshot"])
    return told


def _narrow(asked: Asked, stream: str, told: dict[str, Any]) -> None:
    """Take out of a batch's status what the caller may not see."""

    def sees(source: str | None) -> bool:
        return asked.sees_source(stream, source)

    told["tables"] = {source: rows for source, rows in told["tables"].items() if sees(source)}
    told["targets"] = [one for one in told["targets"] if sees(one["source"])]
    told["dead"] = [one for one in told["dead"] if sees(one["table"])]
    if told["snapshots"] is not None:
        told["snapshots"] = {name: one for name, one in told["snapshots"].items() if asked.grant.sees(table=name)}
    for one in told["dead"]:
        one["message"] = asked.said(one["message"], stream)
    for one in told["targets"]:
        one["why"] = one["why"] and asked.said(one["why"], stream, one["table"])
    told["quarantine"] = told["quarantine"] and asked.said(told["quarantine"], stream)


def receipt(asked: Asked, stream: str) -> ReceiptAnswer:
    """The batch of a key. Raises RequestError 400, 404, StorageUnavailable."""
    asked.stream(stream)
    key = asked.text("key")
    header = asked.choice("header", ("Idempotency-Key", "webhook-id")) or "Idempotency-Key"
    if key is None or len(key) > receipts.MAX_KEY or not key.isprintable():
        raise RequestError(400, "bad_parameter", f"key has 1 to {receipts.MAX_KEY} printable characters")
    found = receipts.look(asked.store, stream, key, "webhook-id" if header == "webhook-id" else "Idempotency-Key")
    if found is None:
        raise RequestError(404, "no_receipt", f"no request came with this {header}, or its receipt has expired")
    return ReceiptAnswer(found.batch, layout.instant(layout.time_of(found.batch)), found.body)


def cut_at(store: Store, stream: str, n: int) -> Cut | None:
    """A cut, without what the console does not show; one that was read once is kept. Raises StorageUnavailable."""
    known = _cuts.of(store)
    if (stream, n) not in known:
        found = cuts.read(store, stream, n)
        if found is None:
            return None
        if len(known) > 20_000:
            known.clear()
        known[stream, n] = msgspec.structs.replace(found, tables={}, progress={}, quarantined={}, files={}, high=None)
    return known[stream, n]


def _way(store: Store, seen: Look, seconds: int) -> Way:
    since = seen.at - timedelta(seconds=seconds)
    stream = seen.settings.name
    fresh = [one for one in seen.waiting.batches if layout.time_of(one.id) >= since]
    arrivals = [events for commit in seen.commits for moment, events in commit.arrivals if moment >= since]
    work = attempts.at_work(store, stream, seen.committed)
    committing = [(n, events) for n, events in _sealed(store, seen) if seen.committed < n <= work]
    became = _became(store, stream, [commit.n for commit in seen.commits][-_MOST_CUTS:])
    return Way(
        window_seconds=seconds,
        accepted_batches=len(arrivals) + len(fresh),
        accepted_events=sum(arrivals) + sum(one.events for one in fresh),
        accepted_bytes=sum(commit.bytes for commit in seen.commits) + sum(one.bytes for one in fresh),
        staged_batches=len(seen.waiting.free),
        staged_events=sum(one.events for one in seen.waiting.free),
        sealed_epochs=seen.waiting.epochs,
        sealed_events=sum(one.events for one in seen.waiting.sealed),
        committing_epochs=len(committing),
        committing_events=sum(events for _, events in committing),
        committed_events=sum(commit.events for commit in seen.commits),
        merged=became.get("merged", 0),
        superseded=became.get("superseded", 0),
        ignored=became.get("ignored", 0),
        dead=seen.letters.waiting.total(),
    )


def _sealed(store: Store, seen: Look) -> Iterator[tuple[int, int]]:
    """(number, events) of the epochs that wait."""
    stream = seen.settings.name
    for one in epochs.read_many(store, stream, epochs.numbers(store, stream, seen.committed)):
        yield one.n, one.events


def _became(store: Store, stream: str, numbers: list[int]) -> dict[str, int]:
    """What became of the changes of these cuts, all tables together; what no rule takes counts as ignored."""
    found = {n: cut for n in numbers if (cut := cut_at(store, stream, n)) is not None}
    total: dict[str, int] = {}
    for cut in cuts.chain(found).values():
        for counts in cut.counts.values():
            for word, count in counts.items():
                total[word] = total.get(word, 0) + count
        total["ignored"] = total.get("ignored", 0) + cut.filtered
    return total


def _targets(asked: Asked, seen: Look) -> Iterator[TargetRow]:
    cut = seen.cut
    first = oldest(asked.store, seen.settings, seen.waiting, cut)
    held = seen.held.held()
    for name in sorted({*(cut.known if cut else ()), *first, *held}):
        snapshot = cut.tables.get(name) if cut else None
        yield TargetRow(
            table=name,
            snapshot=None if snapshot is None else str(snapshot),
            upto=cut.progress.get(name, cut.n if name in cut.tables else 0) if cut else 0,
            held=held[name].reason if name in held else None,
            oldest_at=instant_of(first[name]) if name in first else None,
        )


def _pipelines(seen: Look) -> Iterator[PipelineRow]:
    for one in seen.settings.pipelines:
        kind = "files" if one.rule is None else "mirror" if one.is_mirror else "append"
        target = str(one.target) if one.files is None else one.files.to
        upto = None
        if seen.cut is not None:
            upto = seen.cut.files.get(one.name) if one.files is not None else seen.cut.progress.get(target)
        yield PipelineRow(one.name, one.source, target, kind, one.sql, upto)


def _source(one: SourceState) -> SourceRow:
    status = one.status
    return SourceRow(
        source=one.source,
        slot=one.slot,
        seen_at=status.at if status else None,
        read_all_at=(status.read_all or None) if status else None,
        lag=status.lag if status else None,
        kept=status.kept if status else None,
        safe=status.safe if status else None,
        wal_status=(status.wal_status or None) if status else None,
        oldest_transaction_seconds=status.oldest_seconds if status and status.oldest else None,
        stopped=(status.stopped or None) if status else None,
        notes=one.notes,
    )
