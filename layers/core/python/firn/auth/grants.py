"""What whoever asks the console may see and do: the one place that says so, for every page and action.

Today a right is for all streams and tables. A grant for some of them is a `Grant` with names in it, made in
`Grants.of`: every answer asks `sees` of what it is about to show, and `quotes` of what may quote a row.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from firn.auth.readers import NotAReader
from firn.auth.senders import Request, Senders
from firn.config.console_access import ConsoleAccess
from firn.config.model import Config
from firn.errors import ConfigError, RequestError, TransientError

Right = Literal["look", "events", "act"]
Needed = Literal["look", "events", "act", "whole"]
RIGHTS: Final[tuple[Right, ...]] = ("look", "events", "act")
"""In their order: who has one has those before it."""

_NEEDS: Final = {
    "events": "the bytes of dead letters are for those of console.events.auth or console.actions.auth in firn.yaml",
    "whole": "this is about tables or streams that you may not see; ask somebody who may see them all",
    "act": "actions are for those of console.actions.auth in firn.yaml; this console is read-only for you",
}


class NotGranted(RequestError):
    """One who may look asks for more."""

    def __init__(self, right: Needed) -> None:
        super().__init__(403, "not_granted", _NEEDS.get(right, "this is not for you"))


@dataclass(frozen=True)
class Grant:
    """What one caller may. `rights`: in order, at least `look`. `streams`, `tables`: to which it is narrowed; None:
    all. `reads`: whether they may read the rows of these tables, or see events."""

    rights: tuple[Right, ...]
    streams: frozenset[str] | None = None
    tables: frozenset[str] | None = None
    reads: bool = True

    def require(self, right: Right) -> None:
        """Raises NotGranted."""
        if right not in self.rights:
            raise NotGranted(right)

    def require_whole(self, *, stack: bool = False) -> None:
        """For what acts on all tables of a stream, or on the whole stack. Raises NotGranted."""
        if self.tables is not None or (stack and self.streams is not None):
            raise NotGranted("whole")

    def quotes(self, stream: str | None = None, table: str | None = None) -> bool:
        """Whether a text may be shown that may quote values: of a table's rows, or, without one, of any row of a
        stream; without that of any at all. Messages of dead letters, failures of jobs and their logs are such."""
        whole = (table is not None or self.tables is None) and (stream is not None or self.streams is None)
        return self.reads and whole and self.sees(stream, table)

    def sees(self, stream: str | None = None, table: str | None = None) -> bool:
        """Whether a stream, or a target table (namespace.table), may be shown."""
        return (stream is None or self.streams is None or stream in self.streams) and (
            table is None or self.tables is None or table in self.tables
        )


class Grants:
    """Checks requests to the console. Keeps secrets for a while (Secrets)."""

    def __init__(self, senders: Senders | None = None) -> None:
        self._senders = senders or Senders()

    def of(self, config: Config, request: Request, now: datetime, open_to_all: bool) -> Grant:
        """What the request's sender may.

        open_to_all  whether everybody may do everything where firn.yaml says nothing of who may: as on loopback

        Raises NotAReader if not even look; TransientError, ConfigError if a secret can't be had.
        """
        access = config.console or ConsoleAccess()
        look = access.look or config.readers
        open_to_all = open_to_all and config.scoped is None  # who reads some tables has no console
        if look is None and open_to_all:
            # Who may do more is said although all may look: then more needs its key.
            return Grant(self._above(access, request, now) or (("look",) if access.act or access.events else RIGHTS))
        if above := self._above(access, request, now):
            return Grant(above)
        if look is None:
            raise NotAReader("nobody may look: firn.yaml has neither console.auth nor query.auth")
        if (reason := self._senders.fault(look, request, now)) is not None:
            raise NotAReader(reason)
        return Grant(("look",), reads=self._reads(config, request, now, open_to_all))

    def _reads(self, config: Config, request: Request, now: datetime, open_to_all: bool) -> bool:
        """Whether the caller may read tables too (firn.auth.readers)."""
        if config.readers is None:
            return open_to_all
        try:
            return self._senders.fault(config.readers, request, now) is None
        except (TransientError, ConfigError):  # that secret is none that looking needs
            return False

    def _above(self, access: ConsoleAccess, request: Request, now: datetime) -> tuple[Right, ...]:
        """The rights of one who has more than `look`; () for any other."""
        if access.act is not None and self._senders.fault(access.act, request, now) is None:
            return RIGHTS
        if access.events is not None and self._senders.fault(access.events, request, now) is None:
            return RIGHTS[:2]
        return ()
