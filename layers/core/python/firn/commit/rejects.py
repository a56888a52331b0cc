"""Dead letters of the commit job: staged changes that it can't take, each kept as the change it is."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from firn.config.names import TableName
from firn.log import holds, layout, published_configs
from firn.log.dead_letters.letters import Counts, DeadLetter, StagedChange, counted, read_dead, rebuilt, write_dead
from firn.log.epochs import Epoch
from firn.log.epochs import read as read_epoch
from firn.log.generations import Generations
from firn.log.store import Store

# What a rejected row has, beside epoch, batch, index, pos, schema, _code and _message.
KEPT: Final = (
    "table", "op", "connector", "order", "ts", "tx_order", "emitted", "flat", "key", "before", "after", "occurrence",
    "origin", "transaction",
)  # fmt: skip

_AT_ONCE: Final = 16


def write_rejects(
    store: Store, stream: str, target: TableName | str, epochs: Mapping[int, Epoch], rows: Sequence[Mapping[str, Any]]
) -> Counts:
    """Write the letters of each epoch, if they are not there: a rerun, over whatever range, finds its own work done.

    rows  staged rows as read (KEPT, epoch, batch, index, generation, pos), with schema (its text), _code and _message
    -> the letters that this call wrote, by source table and reason

    A rerun under another configuration may reject others: what is missing goes into a further object. Raises
    StorageUnavailable, UnknownOutcome, UnreadableBatch.
    """
    place = target.slug.replace("/", ".") if isinstance(target, TableName) else target
    written: Counts = Counter()
    if not rows:
        return written
    settings = published_configs.load(store, epochs[max(epochs)].config).streams[stream]
    log = Generations(store, settings, max(epochs))
    for n in sorted({row["epoch"] for row in rows}):
        before = _written_before(store, stream, epochs[n], place)
        letters = [
            _letter(row, stream, log)
            for row in rows
            if row["epoch"] == n and (row["batch"], row["index"]) not in before
        ]
        letters.sort(key=lambda letter: (letter.batch, letter.index))
        written += _write(store, epochs[n], place, letters)
    return written


def write_refused(
    store: Store,
    stream: str,
    places: Mapping[str, TableName | str],
    epochs: Mapping[int, Epoch],
    rows: Iterable[Mapping[str, Any]],
) -> Counts:
    """`write_rejects` of rows of several source tables, each to its own place. Raises as it does."""
    found: dict[TableName | str, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(places[row["table"]], []).append(row)
    written: Counts = Counter()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for one in pool.map(lambda place: write_rejects(store, stream, place, epochs, found[place]), found):
            written += one
    return written


def by_table(counts: Counts) -> dict[str, dict[str, int]]:
    """Counts for a JSON line: source table -> reason -> letters."""
    found: dict[str, dict[str, int]] = {}
    for (table, reason), number in sorted(counts.items(), key=lambda one: (one[0][0] or "", one[0][1])):
        found.setdefault(table or "", {})[reason] = number
    return found


def reasons(rows: Iterable[Mapping[str, Any]]) -> Counts:
    """Rejected rows by source table and reason."""
    return Counter((row["table"], row["_code"]) for row in rows)


def _path(epoch: Epoch, place: str, number: int) -> str:
    name = f"commit-{epoch.n:020d}-{place}"
    return layout.dead_path(epoch.stream, epoch.time, name if number == 1 else f"{name}-{number}")


def _written_before(store: Store, stream: str, epoch: Epoch, place: str) -> set[tuple[str, int]]:
    """(batch, index) of letters that a job wrote while their batch was in an epoch that was given up since: an epoch
    that kills its jobs may have come as far as this, and its batches are sealed again once it is released."""
    mine = {batch.id for batch in epoch.batches}
    found: set[tuple[str, int]] = set()
    for n in holds.read_epochs(store, stream):
        given_up = read_epoch(store, stream, n) if n < epoch.n else None
        if given_up is None or mine.isdisjoint(batch.id for batch in given_up.batches):
            continue
        number = 1
        while letters := read_dead(store, _path(given_up, place, number)):
            found.update((letter.batch, letter.index) for letter in letters)
            number += 1
    return found


def together(
    some: Mapping[str, Mapping[str, int]], others: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """Two counts of letters, by source table and reason, as one."""
    result = {table: dict(counts) for table, counts in some.items()}
    for table, counts in others.items():
        for reason, number in counts.items():
            result.setdefault(table, {})[reason] = result.get(table, {}).get(reason, 0) + number
    return result


def _write(store: Store, epoch: Epoch, place: str, letters: Sequence[DeadLetter]) -> Counts:
    number = 1
    while letters:
        path = _path(epoch, place, number)
        there = {(letter.batch, letter.index) for letter in read_dead(store, path)}
        if not there:
            if write_dead(store, path, letters):
                return counted(letters)
            continue  # another job put its own between: look again
        letters = [letter for letter in letters if (letter.batch, letter.index) not in there]
        number += 1
    return Counter()


def _letter(row: Mapping[str, Any], stream: str, log: Generations) -> DeadLetter:
    change = StagedChange(**{name: row[name] for name in KEPT}, schema=row["schema"])
    # A position starts with the generation that it was given.
    generation = int.from_bytes(row["pos"][:4]) if row["pos"] is not None else row["generation"]
    return DeadLetter(
        reason=row["_code"],
        message=row["_message"],
        stream=stream,
        table=row["table"],
        batch=row["batch"],
        index=row["index"],
        received_at=layout.time_of(row["batch"]),
        original=rebuilt(change),
        change=change,
        generation=log.of_batch(row["batch"], row["epoch"]) if generation is None else generation,
    )
