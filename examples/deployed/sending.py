"""The demo's events to the deployed API and the deployed queue."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

from firn.deployment.delivery import Sent, post, send_to_queue
from firn.deployment.event_files import Batch, cut, read_lines
from firn.deployment.stack import Stack
from firn_demo.corpus import PGBENCH, PGBENCH_EVENTS, SHOP

BATCH_BYTES = 150_000
Report = Callable[[int, int], None]
"""(events handed over, of how many)"""


@dataclass
class Handed:
    """What was handed over: `pgbench` over HTTP, `shop` as messages on the queue."""

    pgbench: Sent = field(default_factory=Sent)
    shop: Sent = field(default_factory=Sent)


def send_all(stack: Stack, report: Report, *, queue: bool, between: Callable[[int], None] = lambda _: None) -> Handed:
    """Send everything. A batch has the same key each time, so the deployment takes it once; a message has none, and
    `queue` False leaves them out. `between` is called before each batch with the events that are acknowledged.

    Raises RequestError, NoStack where a batch can't be handed over.
    """
    handed = Handed()
    shop = read_lines(SHOP)

    def batches() -> Iterator[tuple[Batch, int]]:
        for batch in cut(read_lines(PGBENCH), max_bytes=BATCH_BYTES):
            between(handed.pgbench.events)
            if queue:  # some messages between the requests
                _queue(stack, list(islice(shop, 1)), handed.shop)
            yield batch, 0
            report(handed.pgbench.events, PGBENCH_EVENTS)

    post(stack, "pgbench", batches(), handed.pgbench)
    report(handed.pgbench.events, PGBENCH_EVENTS)
    if queue:
        _queue(stack, list(shop), handed.shop)
    return handed


def _queue(stack: Stack, lines: list[tuple[bytes, int]], sent: Sent) -> None:
    if lines:
        send_to_queue(stack, "shop", ((batch, 0) for batch in cut(lines)), sent)
