"""The executable specification of an append table: each change of its sources once, however often and in whatever order
and requests it came.

Pure, obvious and slow. What is fast (decoded_rows.identity, Spark's expression) is tested against it. It says which
deliveries are one change. Everything depends on the set of requests alone, so neither the order in which they come nor
how epochs divide them changes a row.

Two deliveries are one change if they are of one stream and one source table and agree in position, op and content (the
rows before and after, and the record's key where there is neither), and

* in nothing more, if the change has a place of its own: no other of its table has its position and op. That is so of
  all changes in MySQL's binlog, and of PostgreSQL's but inserts.
* else in their number in the transaction, if the source tells it. A connector that is killed in a transaction may
  number the rest of it again: what it sends again under another number is another row, and nothing is taken for what
  it is not.
* of a snapshot read without a number: in when the connector read it.
* of any other: in how many equal ones came before in the request. A connector that was restarted sends a change again
  at another time, so that the time counts only within a request: what was sent at one instant is one change there.

What has no position is what it was when it arrived: the request, and the place in it.

What can be told and what can't is in docs/adr/0030-append-identity.md.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

Identity = tuple[Hashable, ...]


@dataclass(frozen=True)
class Delivery:
    """One change as a request brought it.

    position  where it stands in its source, with the generation; None if the source has none
    content   the rows before and after and the record's key, as they were sent
    number    its place in its transaction, None if the source does not tell
    emitted   when the connector made the event, None if it does not tell
    own_place whether no other change of its table has its position and op
    """

    stream: str
    table: str
    op: str
    position: Hashable | None
    content: Hashable
    number: int | None = None
    emitted: int | None = None
    own_place: bool = False


def append(requests: Iterable[tuple[str, Sequence[Delivery]]]) -> dict[Identity, Delivery]:
    """The rows of a table once these requests (id, what it brought) are known, by who each is."""
    rows: dict[Identity, Delivery] = {}
    for who, one in identified(requests):
        rows.setdefault(who, one)
    return rows


def identified(requests: Iterable[tuple[str, Sequence[Delivery]]]) -> Iterator[tuple[Identity, Delivery]]:
    """Each delivery of the requests, in their order, with who it is."""
    for request, deliveries in requests:
        for place, one in enumerate(deliveries):
            yield _identity(request, place, one, deliveries[:place]), one


def _identity(request: str, place: int, one: Delivery, before: Sequence[Delivery]) -> Identity:
    if one.position is None:
        return "arrived", request, place
    change = _change(one)
    if one.own_place:
        return "place", *change
    if one.number is not None:
        return "number", *change, one.number
    if one.op == "r" and one.emitted is not None:
        return "read", *change, one.emitted
    equals = [other.emitted for other in before if _change(other) == change]
    events = [at for n, at in enumerate(equals) if at is None or at not in equals[:n]]
    at_this_time = one.emitted is not None and one.emitted in events
    return "equal", *change, events.index(one.emitted) if at_this_time else len(events)


def _change(one: Delivery) -> Identity:
    return one.stream, one.table, one.position, one.op, one.content
