"""Quarantine: a table, an epoch or a whole stream that is left out until somebody has looked (docs/adr/0009).

Append-only, like all of the log: an object says that something is held, a sibling that it is lifted. Nothing is
deleted, so two jobs, a job and a person, or a crash between two steps can't undo each other's.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from firn.config.names import TableName
from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.store import Store, get, paths, put_if_absent

Reason = Literal[
    "key_changed", "failed", "rolled_back", "expired",  # a table
    "killed", "renumbered",  # an epoch
    "source_restored",  # the stream
]  # fmt: skip
How = Literal["retry", "replay", "skip"]

STREAM: Final = "stream"
EPOCHS: Final = "epochs"


class Quarantine(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is held, why, and what to do.

    n           its number among those of the same thing; for an epoch the epoch's
    table       the target table; None for an epoch and for the stream
    epoch       the first epoch that is left behind; for a stream also the first that counts under the raised generation
    upto        the last one that `skip` leaves out for good; for a renumbered epoch where the log goes on
    last        the last epoch of the job that found it
    high        for a stream: the position (hex) below which its source fell
    generation  for a stream: its generation then; a higher one lifts the quarantine
    """

    format: int
    stream: str
    n: int
    made_at: str  # RFC 3339, UTC, milliseconds
    reason: Reason
    message: str
    advice: str
    table: str | None = None
    epoch: int = 0
    upto: int = 0
    last: int = 0
    high: str = ""
    generation: int = 0


class Lift(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a quarantine was lifted. `retry`, `replay`: the table gets the epochs that it lacks. `skip`: the table never
    gets those up to `through`, on purpose."""

    format: int
    made_at: str
    how: How
    through: int = 0


class Case(msgspec.Struct, frozen=True):
    """One quarantine and its end, if it has come. `again`: an epoch's batches are all in later epochs."""

    quarantine: Quarantine
    lift: Lift | None = None
    again: bool = False


class Quarantines(msgspec.Struct, frozen=True):
    """All of a stream's. `tables`: the newest case of each; `skipped`: the epoch up to which each was told to skip;
    `left_out`: all ranges of epochs (both ends included) that it was told to; `of_tables`: every quarantine of each,
    the oldest first."""

    stream: tuple[Case, ...] = ()
    epochs: dict[int, Case] = {}
    tables: dict[str, Case] = {}
    skipped: dict[str, int] = {}
    left_out: dict[str, list[tuple[int, int]]] = {}
    of_tables: dict[str, list[Quarantine]] = {}

    @property
    def begun(self) -> int:
        """The epoch at which a log that started over goes on; 0 if it never did. The tables have nothing of this log
        up to there, and lack nothing of it."""
        return max((c.quarantine.upto for c in self.epochs.values() if c.quarantine.reason == "renumbered"), default=0)

    def had(self, table: str, n: int) -> int:
        """The epoch up to which a table that cut `n` calls quarantined had everything, by what was known then."""
        known = [one.epoch - 1 for one in self.of_tables.get(table, ()) if one.last <= n]
        return known[-1] if known else 0

    def held(self) -> dict[str, Quarantine]:
        """The tables that are held now."""
        return {name: case.quarantine for name, case in self.tables.items() if case.lift is None}

    def held_stream(self, generation: int) -> Quarantine | None:
        """The stream's own quarantine, if it is held under a configuration of this generation."""
        for case in self.stream:
            if case.lift is None and case.quarantine.generation >= generation:
                return case.quarantine
        return None

    def outgrown(self, generation: int, committed: int) -> bool:
        """Whether a higher generation lifted the stream's quarantine, and no cut since has shown a job done."""
        cases = [case.quarantine for case in self.stream]
        return any(one.last > committed and one.generation < generation for one in cases)

    def all_held(self, generation: int) -> dict[str, Quarantine]:
        """All that is held under a configuration of this generation, by its name for people: `stream`, `epoch 7`, a
        table."""
        stream = self.held_stream(generation)
        found = {"stream": stream} if stream else {}
        found |= {f"epoch {n}": self.epochs[n].quarantine for n in self.held_epochs()}
        return found | dict(sorted(self.held().items()))

    def names(self, generation: int) -> tuple[str, ...]:
        """The names in `all_held`."""
        return tuple(self.all_held(generation))

    def leaves_out(self, table: str, n: int) -> bool:
        """Whether the table gets nothing of epoch n itself: it is or was held, and its batches come in later epochs if
        at all; or the table was told to skip it."""
        return n in self.epochs or any(first <= n <= last for first, last in self.left_out.get(table, ()))

    def held_epochs(self) -> list[int]:
        """The epochs that are held now."""
        return sorted(n for n, case in self.epochs.items() if case.lift is None)


_quarantine: Final = msgspec.json.Decoder(Quarantine).decode
_lift: Final = msgspec.json.Decoder(Lift).decode
_encode: Final = msgspec.json.encode


def read_all(store: Store, stream: str) -> Quarantines:
    """Everything that is or was quarantined. One listing as a rule. Raises StorageUnavailable."""
    return _arranged(_cases(store, layout.quarantine_prefix(stream), stream))


def read_epochs(store: Store, stream: str) -> dict[int, Case]:
    """The quarantined epochs, lifted ones too. Raises StorageUnavailable."""
    return _arranged(_cases(store, f"{layout.quarantine_prefix(stream)}/{EPOCHS}", stream)).epochs


def skips(store: Store, stream: str, table: str) -> list[tuple[int, int]]:
    """The epochs, as (first, last), that the table was told never to get. Raises StorageUnavailable."""
    return [
        (case.quarantine.epoch, case.lift.through)
        for case in _cases(store, layout.quarantine_prefix(stream), stream).values()
        if case.quarantine.table == table and case.lift is not None and case.lift.how == "skip"
    ]


def hold(store: Store, quarantine: Quarantine) -> bool:
    """Put it, if absent. -> False if another was there first. Raises StorageUnavailable, UnknownOutcome."""
    path = layout.quarantine_path(quarantine.stream, place_of(quarantine), quarantine.n)
    return put_if_absent(store, path, _encode(quarantine))


def lift(store: Store, quarantine: Quarantine, how: How, made_at: str) -> bool:
    """Lift it. -> False if it was lifted another way before. Raises StorageUnavailable, UnknownOutcome."""
    path = layout.quarantine_path(quarantine.stream, place_of(quarantine), quarantine.n, "lifted")
    return put_if_absent(store, path, _encode(Lift(FORMAT, made_at, how, quarantine.upto if how == "skip" else 0)))


def note_again(store: Store, stream: str, n: int) -> None:
    """The lifted epoch's batches are all in later epochs: nobody needs to look for them. Only saves reading."""
    put_if_absent(store, layout.quarantine_path(stream, EPOCHS, n, "again"), b"{}")


def place_of(quarantine: Quarantine) -> str:
    """The folder of its object: the table's slug with a dot (no other name of the folder has one), epochs or stream."""
    if quarantine.table is not None:
        return TableName.parse(quarantine.table).slug.replace("/", ".")
    return STREAM if quarantine.reason == "source_restored" else EPOCHS


def _cases(store: Store, prefix: str, stream: str) -> dict[tuple[str, int], Case]:
    kinds: dict[tuple[str, int], set[str]] = {}
    for path in paths(store, prefix):
        found = layout.quarantine_of(path)
        if found is not None:
            what, n, kind = found
            kinds.setdefault((what, n), set()).add(kind)
    cases: dict[tuple[str, int], Case] = {}
    for (what, n), there in sorted(kinds.items()):
        data = get(store, layout.quarantine_path(stream, what, n)) if "" in there else None
        if data is None:
            continue
        end = get(store, layout.quarantine_path(stream, what, n, "lifted")) if "lifted" in there else None
        cases[what, n] = Case(_quarantine(data), None if end is None else _lift(end), "again" in there)
    return cases


def _arranged(cases: Mapping[tuple[str, int], Case]) -> Quarantines:
    tables: dict[str, Case] = {}
    skipped: dict[str, int] = {}
    left_out: dict[str, list[tuple[int, int]]] = {}
    of_tables: dict[str, list[Quarantine]] = {}
    for case in cases.values():  # by number: the newest comes last
        table = case.quarantine.table
        if table is not None:
            tables[table] = case
            of_tables.setdefault(table, []).append(case.quarantine)
            if case.lift is not None and case.lift.how == "skip":
                skipped[table] = max(skipped.get(table, 0), case.lift.through)
                left_out.setdefault(table, []).append((case.quarantine.epoch, case.lift.through))
    return Quarantines(
        stream=tuple(case for (what, _), case in cases.items() if what == STREAM),
        epochs={n: case for (what, n), case in cases.items() if what == EPOCHS},
        tables=tables,
        skipped=skipped,
        left_out=left_out,
        of_tables=of_tables,
    )
