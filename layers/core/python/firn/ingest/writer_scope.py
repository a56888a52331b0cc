"""What a writer of a stream may write: its tables, and of them its rows (firn.config.writers). Pure.

Looked at before anything of a request is stored, and again when a dead letter is replayed. Nobody else's row is reached
by a key either: where `rows` bounds a writer, the key of each mirror holds the columns that it is about.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from firn.changes.change import Parsed, Rejected
from firn.changes.envelopes.limits import EventLimits
from firn.changes.writer_bounds import misread, outside
from firn.config.model import StreamConfig
from firn.config.writers import Writer, asks_queue_senders, queue_senders
from firn.errors import EventError, RequestError
from firn.log.dead_letters.letters import DeadLetter, change_at, rebuilt, staged_change

OUTSIDE = "outside_writer"
NOT_ALLOWED = "sender_not_allowed"
"""Reasons of dead letters."""


def within(parsed: Parsed, settings: StreamConfig, writer: Writer, limits: EventLimits | None = None) -> Parsed:
    """The changes that the writer may make; the others are rejected. Raises RequestError 413 over `limits`."""
    faults = dict(_faults(parsed, settings, writer))
    if not faults:
        return parsed
    lost = []
    for place, why in faults.items():
        change = change_at(parsed, place)
        # Without its change: a replay has to read it again, and look again.
        original = rebuilt(staged_change(change))
        lost.append(Rejected(parsed.index[place], OUTSIDE, why, original, table=parsed.table[place]))
    if limits is not None:
        limits.check_rejected(sum(len(one.original) for one in lost), lost[0].message[:200])
    return parsed.at([place for place in range(len(parsed)) if place not in faults], [*parsed.rejected, *lost])


def bound(parsed: Parsed, settings: StreamConfig, writer: Writer, limits: EventLimits) -> Parsed:
    """The changes of a request. Raises RequestError 403 if the writer may not make one of them and is refused for it,
    413 over `limits`."""
    if writer.outside == "dead_letter":
        return within(parsed, settings, writer, limits)
    found = next(_faults(parsed, settings, writer), None)
    if found is not None:
        place, why = found
        raise RequestError(403, "outside_writer", f"nothing was taken: event {parsed.index[place]} {why}")
    return parsed


def named(letters: Sequence[DeadLetter], starts: Sequence[tuple[int, Writer | None]]) -> list[DeadLetter]:
    """The letters with the names of their writers. `starts`: the number of each one's first event, rising."""
    firsts = [first for first, _ in starts]
    found = []
    for letter in letters:
        writer = starts[bisect_right(firsts, letter.index) - 1][1]
        found.append(letter if writer is None else msgspec.structs.replace(letter, writer=writer.name))
    return found


def _faults(parsed: Parsed, settings: StreamConfig, writer: Writer) -> Iterator[tuple[int, str]]:
    where = f"streams.{settings.name}.writers.{writer.name}"
    tables = {table: _of_table(table, settings, writer, where) for table in set(parsed.table)}
    if writer.rows is None and not any(tables.values()):
        return
    schemas: dict[tuple[bytes, bool], frozenset[str]] = {}
    for place, table in enumerate(parsed.table):
        if (why := tables[table]) is not None:
            yield place, why
        elif writer.rows is not None:
            other = frozenset[str]()
            if (schema := parsed.schema[place]) is not None:
                form = schema, parsed.flat[place]
                if form not in schemas:
                    schemas[form] = misread(writer.rows, schema, flat=form[1])
                other = schemas[form]
            images = parsed.key[place], parsed.before[place], parsed.after[place]
            if (said := outside(writer.rows, parsed.op[place], *images, other)) is not None:
                told = f", and its schema reads {', '.join(sorted(other))[:100]} otherwise" if other else ""
                yield place, f"({table[:100]}): {said} is not within {where}.rows: {writer.says[:200]}{told}"


def _of_table(table: str, settings: StreamConfig, writer: Writer, where: str) -> str | None:
    """Why the writer may write nothing of a source table; None if it may."""
    try:
        rule = settings.rule_for(table)
    except EventError:  # it fits several: who may write it is not known
        return f"({table[:100]}) names a table without its schema, which fits several"
    whole = table if rule is None else rule.source_of(table)
    if not writer.may_write(whole):
        return f"is of the table {table[:100]}, which {where}.tables does not name"
    # The reader refuses such a file; one that another version took is closed here.
    if rule is not None and rule.keyed and writer.lacks_in_key(rule.key):
        return f"is of the table {table[:100]}, whose key does not hold what {where}.rows is about"
    return None


class QueueSenders:
    """By whom the queue messages of a stream are."""

    def __init__(self, settings: StreamConfig) -> None:
        self._stream, self._asks = settings.name, asks_queue_senders(settings)
        self._known = queue_senders(settings) if self._asks else {}

    def of(self, sender: str) -> tuple[Writer | None, EventError | None]:
        """The writer of a message, None for one who may write all; and why the message is not taken, None if it is.

        sender  SQS's SenderId: a user's id, a role's with its session, or an account
        """
        name = sender.partition(":")[0]
        if not self._asks or (name and name in self._known):
            return self._known.get(name), None
        told = repr(sender[:100]) if sender else "nobody"
        return None, EventError(
            NOT_ALLOWED, f"the queue says that this message is from {told}, whom no `queue` of {self._stream} lists"
        )
