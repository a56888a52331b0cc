"""GET /v1/console/quarantine: what is held, how it can be resumed, and what was held before."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from firn.config.model import StreamConfig
from firn.log import holds
from firn.log.holds import Case, Quarantine, Quarantines
from firn_console.asked import Asked
from firn_console.contract.letter_pages import HoldPage, HoldRow
from firn_console.recent import Recent
from firn_console.shell_words import command

_PAST: Final = 200
_AT_ONCE: Final = 8
_known: Final = Recent[str, Quarantines]()


def quarantine(asked: Asked) -> HoldPage:
    """Raises StorageUnavailable."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = list(pool.map(lambda one: (one, known_of(asked, one.name)), asked.streams()))
    held = [
        row(asked, stream.name, name, case)
        for stream, known in found
        for name, case in known.all_held(stream.generation).items()
        if asked.grant.sees(stream.name, case.table)
    ]
    past = [one for stream, known in found for one in _past(asked, stream, known)]
    past.sort(key=lambda one: one.lifted_at or "", reverse=True)
    return HoldPage(tuple(held), tuple(past[:_PAST]))


def known_of(asked: Asked, stream: str) -> Quarantines:
    """All that is or was quarantined of a stream. Raises StorageUnavailable."""
    return _known.get(asked.store, stream, lambda: holds.read_all(asked.store, stream))


def row(asked: Asked, stream: str, name: str, held: Quarantine) -> HoldRow:
    """One that is held."""
    return HoldRow(
        stream=stream,
        name=name,
        kind="table" if held.table is not None else "epoch" if name.startswith("epoch ") else "stream",
        reason=held.reason,
        message=asked.said(held.message, stream, held.table),
        advice=held.advice,
        made_at=held.made_at,
        epoch=held.epoch,
        upto=held.upto,
        ways=ways_of(held),
    )


def ways_of(held: Quarantine) -> tuple[str, ...]:
    """How it can be resumed: a rolled-back table wants to be told what of its epochs it gets (lifting.py)."""
    if held.table is None:
        return ("retry",)
    return ("replay", "skip") if held.reason == "rolled_back" else ("retry", "replay", "skip")


def commands_of(stream: str, name: str, how: str = "retry") -> tuple[str, ...]:
    """What to run in a terminal to resume it."""
    if name == "stream":
        return (command("firn", "resume", stream),)
    if name.startswith("epoch "):
        return (command("firn", "resume", stream, "--epoch", name.removeprefix("epoch ")),)
    return (command("firn", "resume", stream, name, *(() if how == "retry" else (f"--{how}",))),)


def _past(asked: Asked, stream: StreamConfig, known: Quarantines) -> Iterator[HoldRow]:
    named: list[tuple[str, Case]] = [("stream", case) for case in known.stream]
    named += [(f"epoch {n}", case) for n, case in known.epochs.items()]
    named += list(known.tables.items())
    for name, case in named:
        if case.lift is not None and asked.grant.sees(stream.name, case.quarantine.table):
            found = row(asked, stream.name, name, case.quarantine)
            yield HoldRow(
                **{field: getattr(found, field) for field in HoldRow.__struct_fields__[:-3]},
                ways=(),
                lifted_at=case.lift.made_at,
                lifted_how=case.lift.how,
            )
