"""Who may read tables over HTTP, and what: in firn.yaml `query.auth` (everything) and `query.readers` (some tables). A
key that posts does not read, and the other way round."""

from datetime import datetime
from typing import Final

from firn.auth.senders import Request, Senders, given_key
from firn.config.model import Config
from firn.config.reader_scopes import Everything, Scope, ScopedReader, ScopedReaders
from firn.errors import RequestError

_REFUSAL: Final = (
    "this request is not from one who may read: check the key in x-api-key, or that the request is signed for AWS; "
    "the reason is in the function's log"
)


class NotAReader(RequestError):
    """Not one who may read. `reason` is for our own log."""

    def __init__(self, reason: str) -> None:
        super().__init__(401, "unauthorized", _REFUSAL)
        self.reason = reason


class Readers:
    """Checks requests that read. Keeps secrets for a while (Secrets)."""

    def __init__(self, senders: Senders | None = None) -> None:
        self._senders = senders or Senders()

    def scope(self, config: Config, request: Request, now: datetime, open_to_all: bool) -> Everything | Scope:
        """What the request's sender may read. One of `query.readers` reads as that reader, also where `query.auth`
        names it too: the narrower counts.

        open_to_all  whether everybody may read everything where firn.yaml says nothing of readers: as the embedded
                     stack is on loopback

        Raises NotAReader; TransientError, ConfigError if a secret can't be had.
        """
        scoped = None if config.scoped is None else _claimed(config.scoped, request)
        if scoped is not None:
            if (reason := self._senders.fault(scoped.auth, request, now)) is not None:
                raise NotAReader(f"as the reader {scoped.scope.reader}: {reason}")
            return scoped.scope
        if config.readers is None:
            if not open_to_all or config.scoped is not None:
                raise NotAReader("not one of query.readers, and firn.yaml has no query.auth")
        elif (reason := self._senders.fault(config.readers, request, now)) is not None:
            raise NotAReader(reason)
        return Everything()


def _claimed(readers: ScopedReaders, request: Request) -> ScopedReader | None:
    """The reader that the request says it is from, still to be checked. Raises NotAReader if it fits several."""
    if (key := given_key(request.headers)) and (by_key := readers.of_key(key)) is not None:
        return by_key
    found = readers.of_caller(request.caller) if request.caller else ()
    if len(found) > 1:
        names = " and ".join(one.scope.reader for one in found[:2])
        raise NotAReader(f"{request.caller} fits the readers {names}: write in firn.yaml which one it is")
    return found[0] if found else None
