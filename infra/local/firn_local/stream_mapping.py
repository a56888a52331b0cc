"""How Lambda's event source mappings of Kinesis and DynamoDB Streams bring a batch: in order, again from the record
that failed, by halves where the function fails, until it is taken or given up.

Rules: Lambda Developer Guide, "Configuring partial batch response with Kinesis Data Streams and Lambda" (the lowest
sequence number of the answer counts; no list, or an empty one, is success; an unknown or empty identifier is complete
failure) and "How Lambda processes records from stream and queue-based event sources" (bisecting, retries, record age).
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from firn_local.functions import FunctionError, PayloadTooLarge
from firn_local.template import StreamMapping

R = TypeVar("R")
PAUSES = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds before a batch comes again, the last for good."""


def first_failed(numbers: Sequence[str], answer: Any, *, report_failures: bool) -> int | None:
    """The place of the first record that comes again after a function returned `answer`, None if none does. `numbers`:
    the records' sequence numbers."""
    if not report_failures or not answer:
        return None
    if not isinstance(answer, dict) or not isinstance(failures := answer.get("batchItemFailures") or [], list):
        return 0
    named = [str(item.get("itemIdentifier")) if isinstance(item, dict) else "" for item in failures]
    if not named:
        return None
    places = {number: place for place, number in enumerate(numbers)}
    return min(places[one] for one in named) if all(one in places for one in named) else 0


def bring(
    records: Sequence[R],
    settings: StreamMapping,
    invoke: Callable[[Sequence[R]], Any],
    *,
    number: Callable[[R], str],
    made: Callable[[R], float],
    give_up: Callable[[Sequence[R], str], None],
    wait: Callable[[float], bool],
    now: Callable[[], float] = time.time,
) -> None:
    """Bring a batch until all of it is taken, or given up. `made`: when a record was made, s; `wait`: so many seconds,
    True if the stack stops meanwhile, and then nothing more is brought."""
    left, tries = [list(records)], 0
    while left:
        part = left.pop()
        if 0 <= settings.max_age < now() - made(part[0]):
            give_up(part[:1], "RecordAgeExceeded")
            left += [part[1:]] if part[1:] else []
            continue
        again: list[R] = part
        try:
            answer = invoke(part)
            place = first_failed([number(one) for one in part], answer, report_failures=settings.report_failures)
            if place is None:
                tries = 0
                continue
            again, tries = part[place:], 0 if place else tries
        except (FunctionError, PayloadTooLarge):
            if settings.bisect and len(part) > 1:  # which counts as no try
                half = len(part) // 2
                left += [part[half:], part[:half]]
                continue
        if 0 <= settings.retries <= tries:
            give_up(again, "RetryAttemptsExhausted")
            tries = 0
            continue
        left.append(again)
        if wait(PAUSES[min(tries, len(PAUSES) - 1)]):
            return
        tries += 1
