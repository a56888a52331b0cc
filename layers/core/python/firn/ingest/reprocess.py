"""A dead letter read again under the present configuration: changes in their old place, or why it stays dead. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import msgspec

from firn.changes.change import COLUMNS, LITERAL, Change, Parsed, Rejected
from firn.changes.envelopes.limits import NO_LIMITS
from firn.changes.envelopes.registry import KNOWN
from firn.changes.order_texts import counts_as_it_came
from firn.changes.positions import arrived
from firn.config.model import StreamConfig
from firn.errors import EventError, RequestError
from firn.ingest import reading
from firn.ingest.accept import MAX_MESSAGE, routed
from firn.ingest.writer_scope import NOT_ALLOWED, OUTSIDE, within
from firn.log import layout
from firn.log.dead_letters.letters import DeadLetter, StagedChange, staged_change


class Retaken(NamedTuple):
    """A letter that can be taken now. `kept`: it is staged just as it was, under no new reading."""

    parsed: Parsed
    kept: StagedChange | None


class Retry(NamedTuple):
    """What goes into the batch of one replay: the changes, and for each of them who it was the first time; and the
    letters that are letters again."""

    parsed: Parsed
    occurrence: list[int | None]
    generation: list[int | None]
    origin: list[str | None]
    letters: list[DeadLetter]


def retake(letter: DeadLetter, settings: StreamConfig, corrected: bytes | None = None) -> Retaken:
    """`letter` under `settings`. `corrected`: what a person wrote in place of its original.

    A letter that was once a change is that change again. A letter of several events (a whole queue message) is taken
    if one of them can be; the others are in `rejected`. Raises EventError if nothing of it can be taken.
    """
    if letter.reason == NOT_ALLOWED and corrected is None:
        raise EventError(NOT_ALLOWED, letter.message)  # nothing has changed about who sent it
    kept = letter.change if corrected is None else None
    if kept is not None:
        parsed = _one(kept)
    else:
        try:
            original = letter.original if corrected is None else corrected
            parsed = _read(letter, settings, original, corrected=corrected is not None)
        except RequestError as error:
            raise EventError(error.code, str(error)) from None
        if letter.change is not None and len(parsed) == 1:
            parsed = _in_its_place(parsed, letter.change)
    if letter.writer is not None:
        parsed = _of_writer(parsed, settings, letter.writer)
    found, _ = routed(parsed, settings)
    if letter.writer is not None:
        mine = [msgspec.structs.replace(one, writer=letter.writer) for one in found.rejected]
        found = msgspec.structs.replace(found, rejected=mine)
    if not len(found):
        if found.rejected:
            raise EventError(found.rejected[0].code, found.rejected[0].message)
        if "filtered_table" in found.ignored:
            raise EventError(
                "filtered_table",
                f"no rule of stream {settings.name} takes {parsed.table[0]}: add one to firn.yaml, or leave the letter",
            )
        if not found.ignored:
            raise EventError("empty", "it holds no event")
    return Retaken(found, kept)


def _of_writer(parsed: Parsed, settings: StreamConfig, name: str) -> Parsed:
    """The changes of a letter that its writer may make now. Raises EventError if it is none any more."""
    writer = settings.writers.get(name)
    if writer is None:
        raise EventError(OUTSIDE, f"its writer {name} is not in streams.{settings.name}.writers of firn.yaml any more")
    return within(parsed, settings, writer)


def _read(letter: DeadLetter, settings: StreamConfig, event: bytes, *, corrected: bool) -> Parsed:
    """Its events. Plain rows are for the table of the letter, but for corrected ones that say another."""

    def of(table: str | None) -> Parsed:
        return reading.read(event, settings, "auto", NO_LIMITS, letter.batch, table, letter.index, letter.record)

    if not KNOWN.bare(settings.envelope):
        return of(letter.table if KNOWN.may_lack_table(settings.envelope) else None)
    # Only a person may have meant another table than the request.
    if settings.table_by is not None and (corrected or letter.table is None) and len(found := of(None)):
        return found
    return of(letter.table)


def put_together(
    letters: Sequence[DeadLetter],
    retaken: Mapping[int, Retaken],
    rows: Sequence[int],
    landed: Mapping[str, "Alike"],
    refused: Mapping[int, EventError],
) -> Retry:
    """One batch of the letters `rows`.

    letters  all of one dead-letter object
    retaken  by row, all that can be taken: which of several equal changes one is does not depend on what is replayed
    landed   the changes in the staged batches that the letters come from
    refused  by row, why others can't be
    """
    occurrences = _occurrences(letters, retaken, landed)
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    again = Retry(Parsed(**columns, ignored={}, rejected=[]), [], [], [], [])
    ignored: Counter[str] = Counter()
    rejected: list[Rejected] = []
    start = 0
    for row in rows:
        letter = letters[row]
        if row in refused:
            again.letters.append(_again(letter, refused[row], start))
            start += 1
            continue
        parsed, kept = retaken[row]
        # What counts by its arrival came when the letter did.
        came = repeat(layout.accepted(letter.batch)), repeat(letter.index)
        parsed = msgspec.structs.replace(parsed, order=list(map(arrived, parsed.connector, parsed.order, *came)))
        for name in COLUMNS:
            columns[name] += getattr(parsed, name)
        columns["index"][len(columns["index"]) - len(parsed) :] = [start + i for i in parsed.index]
        ignored.update(parsed.ignored)
        rejected += [msgspec.structs.replace(r, index=start + r.index) for r in parsed.rejected]
        again.occurrence.extend(occurrences[row])
        # Also where it is the stream's by now: that may be raised before the batch is sealed.
        again.generation.extend([letter.generation] * len(parsed))
        again.origin.extend([_origin(letter, kept, i) for i in parsed.index])
        start += len(parsed) + sum(parsed.ignored.values()) + len(parsed.rejected)
    return again._replace(parsed=Parsed(**columns, ignored=dict(ignored), rejected=rejected))


class Alike:
    """Numbers the equal changes of one request, as merge/ordering.py does by position and content: those that were
    emitted at one instant are one."""

    def __init__(self) -> None:
        self._seen: dict[tuple[Any, ...], dict[int, int]] = {}

    def number(self, change: StagedChange) -> int:
        """How many changes like this one came before it."""
        key = change.key if change.before is None and change.after is None else None
        like = (change.table, change.op, change.connector, change.order, change.before, change.after, key)
        alike = self._seen.setdefault(like, {})
        return alike.setdefault(-len(alike) - 1 if change.emitted is None else change.emitted, len(alike))

    def copy(self) -> "Alike":
        """What goes on counting from here."""
        found = Alike()
        found._seen = {like: dict(alike) for like, alike in self._seen.items()}
        return found


def _one(change: StagedChange) -> Parsed:
    values = {name: getattr(change, name) for name in Change.__struct_fields__}
    for name in ("key", "before", "after", "schema"):
        values[name] = None if values[name] is None else values[name].encode()
    return Parsed(index=[0], **{name: [value] for name, value in values.items()}, ignored={}, rejected=[])


def _in_its_place(parsed: Parsed, change: StagedChange) -> Parsed:
    """A corrected event keeps the place of the change that it replaces, unless it tells one of its own."""
    place: dict[str, Any] = {}
    # Where a row came is no place of its own: a letter that was a letter again came later than it.
    order, connector = parsed.order[0], parsed.connector[0]
    if order is None or (connector == change.connector and connector in LITERAL and counts_as_it_came(order)):
        place = {"order": [change.order], "connector": [change.connector]}
    for name in ("ts", "tx_order", "emitted", "transaction"):
        if getattr(parsed, name)[0] is None:
            place[name] = [getattr(change, name)]
    return msgspec.structs.replace(parsed, **place)


def _occurrences(
    letters: Sequence[DeadLetter], retaken: Mapping[int, Retaken], landed: Mapping[str, "Alike"]
) -> dict[int, list[int | None]]:
    """Which of several equal changes each is: after those that landed, in the order of the letters."""
    seen: dict[str, Alike] = {}
    found: dict[int, list[int | None]] = {}
    for row in sorted(retaken):
        letter, (parsed, kept) = letters[row], retaken[row]
        if kept is not None and kept.occurrence is not None:
            found[row] = [kept.occurrence]
            continue
        if letter.batch not in seen:
            seen[letter.batch] = landed[letter.batch].copy() if letter.batch in landed else Alike()
        found[row] = [seen[letter.batch].number(staged_change(change)) for change in parsed.changes()]
    return found


def _again(letter: DeadLetter, why: EventError, index: int) -> DeadLetter:
    """The letter in another batch, with its change as it was."""
    change = letter.change and msgspec.structs.replace(letter.change, origin=_origin(letter, None, 0))
    message = str(why)[:MAX_MESSAGE]
    return msgspec.structs.replace(letter, reason=why.code, message=message, index=index, change=change)


def _origin(letter: DeadLetter, kept: StagedChange | None, index: int) -> str:
    first = kept or letter.change
    origin = first.origin if first is not None and first.origin is not None else f"{letter.batch}:{letter.index}"
    return f"{origin}.{index}" if index else origin
