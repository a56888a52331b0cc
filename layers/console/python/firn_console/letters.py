"""Dead letters: how many by reason, page by page without their events, and one with its event."""

import base64
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

from firn.errors import RequestError
from firn.ingest.replay import acknowledged
from firn.log import layout
from firn.log.dead_letters import replay_marks
from firn.log.dead_letters.letters import DeadLetter, count_dead, read_dead
from firn.log.dead_letters.reasons import advice
from firn.log.store import listing
from firn.status import letter_counts
from firn.status.letter_counts import LetterCounts
from firn_console.asked import Asked, cursor_of
from firn_console.contract.letter_pages import LetterAnswer, LetterCount, LetterPage, LetterRow
from firn_console.recent import Recent

MOST: Final = 500  # of a page
MOST_COUNTS: Final = 100  # of kinds: a source's tables are called as it likes, and may be as many as its letters
MOST_EVENT: Final = 1 << 20  # bytes of an event that are shown
MOST_OBJECT: Final = 48 << 20  # bytes of an object that is read for a page
_SECONDS: Final = 2.0  # of looking through objects for a page, and of counting
_counts: Final = Recent[str, LetterCounts]()


class LetterCursor(msgspec.Struct, frozen=True, array_like=True):
    """The letter that the page before ended with: its object's place among all of the streams, and its row."""

    day: str
    path: str
    row: int


def letter_page(asked: Asked) -> LetterPage:
    """Raises RequestError 400, 404, StorageUnavailable, UnreadableBatch."""
    limit, place = asked.number("limit", 1, MOST, 100), asked.cursor(LetterCursor)
    asked.flag("replayed")  # is checked though there may be no letter
    streams = [one.name for one in asked.streams()]
    counted = {name: _count(asked, name, len(streams)) for name in streams}
    rows: list[LetterRow] = []
    following: LetterCursor | None = None
    until = time.monotonic() + _SECONDS
    objects = _objects(asked, streams, place)
    for number, (day, path, size) in enumerate(objects):
        if len(rows) >= limit or (number and time.monotonic() > until):
            break
        start = place.row + 1 if place is not None and place.path == path else 0
        for row in _rows(asked, path, size, start):
            if len(rows) == limit:
                break
            rows.append(row)
            following = LetterCursor(day, path, row.row)
        else:
            following = LetterCursor(day, path, _WHOLE)
            if number == len(objects) - 1:
                following = None
    told = [one for name in streams for one in _told(asked, name, counted[name])]
    told.sort(key=lambda one: (-one.waiting, one.stream, one.reason, one.table or ""))
    reason, table = asked.text("reason"), asked.text("table")
    wanted = [one for one in told if reason in (None, one.reason) and table in (None, one.table)]
    return LetterPage(
        counts=tuple(told[:MOST_COUNTS]),
        more_counts=max(0, len(told) - MOST_COUNTS),
        all_letters=sum(one.letters for one in wanted),
        all_waiting=sum(one.waiting for one in wanted),
        counted_objects=sum(one.counted for one in counted.values()),
        objects=sum(one.objects for one in counted.values()),
        letters=tuple(rows),
        next=cursor_of(following),
    )


_WHOLE: Final = 1 << 40  # a row behind all rows of an object


def letter_answer(asked: Asked, stream: str, name: str, row: str) -> LetterAnswer:
    """One letter with its event. Raises RequestError 404, NotGranted, StorageUnavailable, UnreadableBatch."""
    asked.grant.require("events")
    asked.stream(stream)
    path = path_of(asked, stream, name)
    letters = read_dead(asked.store, path) if acknowledged(asked.store, path) else []
    if not (row.isascii() and row.isdigit() and len(row) < 12 and int(row) < len(letters)):
        raise RequestError(404, "no_such_letter", "this object has no such letter")
    letter = letters[int(row)]
    if not asked.sees_source(stream, letter.table):
        raise RequestError(404, "no_such_letter", "this object has no such letter that you may see")
    shown = letter.original[:MOST_EVENT]
    whole = len(shown) == len(letter.original)
    try:
        text: str | None = shown.decode("utf-8", "strict" if whole else "ignore")
    except UnicodeDecodeError:
        text = None
    return LetterAnswer(
        letter=_row(asked, stream, path, int(row), letter, _replayed(asked, path).get(int(row))),
        advice=advice(letter.reason),
        original=text,
        base64=base64.b64encode(shown).decode() if text is None else None,
        is_json=whole and _is_json(letter.original),
        whole=whole,
    )


def path_of(asked: Asked, stream: str, name: str) -> str:
    """The path of a dead-letter object by its name: one of those that a listing has. Raises RequestError 404."""
    found = [path for path, _ in _listed(asked, stream) if layout.dead_name(path) == name]
    if not found:
        raise RequestError(404, "no_such_letter", "this stream has no dead-letter object of that name")
    return found[0]


def _count(asked: Asked, stream: str, of: int) -> LetterCounts:
    return _counts.get(asked.store, stream, lambda: letter_counts.count(asked.store, stream, seconds=_SECONDS / of))


def _told(asked: Asked, stream: str, found: LetterCounts) -> Iterator[LetterCount]:
    for (table, reason), letters in found.letters.items():
        if not asked.sees_source(stream, table):
            continue
        waiting = found.waiting.get((table, reason), 0)
        yield LetterCount(stream, table, reason, letters, waiting, advice(reason))


def _listed(asked: Asked, stream: str) -> list[tuple[str, int]]:
    return [one for one in listing(asked.store, layout.dead_prefix(stream)) if one[0].endswith(".parquet")]


def _objects(asked: Asked, streams: list[str], place: LetterCursor | None) -> list[tuple[str, str, int]]:
    """(day, path, size) of the objects from `place` on, the newest days first."""
    every = [(layout.dead_day(path), path, size) for name in streams for path, size in _listed(asked, name)]
    every.sort(reverse=True)
    if place is None:
        return every
    behind = place.row >= _WHOLE
    return [one for one in every if one[:2] < (place.day, place.path) or (not behind and one[1] == place.path)]


def _rows(asked: Asked, path: str, size: int, start: int) -> Iterator[LetterRow]:
    """The chosen letters of an object from row `start` on."""
    stream = path.split("/")[1]
    reason, table, replayed = asked.text("reason"), asked.text("table"), asked.flag("replayed")
    if size > MOST_OBJECT or not acknowledged(asked.store, path):
        return
    if reason is not None or table is not None:
        _, by = count_dead(asked.store, path, size)
        if by and not _any(by, reason, table):
            return
    claims = _replayed(asked, path)
    for row, letter in enumerate(read_dead(asked.store, path)):
        if row < start or reason not in (None, letter.reason) or table not in (None, letter.table):
            continue
        if (replayed is None or replayed == (row in claims)) and asked.sees_source(stream, letter.table):
            yield _row(asked, stream, path, row, letter, claims.get(row))


def _any(by: "Counter[tuple[str | None, str]]", reason: str | None, table: str | None) -> bool:
    return any(reason in (None, why) and table in (None, source) for source, why in by)


def _replayed(asked: Asked, path: str) -> dict[int, str]:
    """Row -> the batch that it came again in."""
    return {row: claim.batch for claim in replay_marks.of_object(asked.store, path)[0] for row in claim.letters()}


def _row(asked: Asked, stream: str, path: str, row: int, letter: DeadLetter, replayed_in: str | None) -> LetterRow:
    return LetterRow(
        stream=stream,
        object=layout.dead_name(path),
        row=row,
        batch=letter.batch,
        index=letter.index,
        received_at=layout.instant(letter.received_at),
        table=letter.table,
        reason=letter.reason,
        message=asked.said(letter.message, stream),
        event_bytes=len(letter.original),
        replayed_in=replayed_in,
    )


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
