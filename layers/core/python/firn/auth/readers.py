"""Who may read tables over HTTP: `query.auth` in firn.yaml. A key that posts does not read, and the other way round."""

from datetime import datetime
from typing import Final

from firn.auth.senders import Request, Senders
from firn.config.model import Config
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

    def check(self, config: Config, request: Request, now: datetime, open_to_all: bool) -> None:
        """Raises NotAReader unless the request is from one who may read.

        open_to_all  whether everybody may where `query.auth` is not configured: as the embedded stack is on loopback

        Raises TransientError, ConfigError if a secret can't be had.
        """
        if config.readers is None:
            if not open_to_all:
                raise NotAReader("nobody may read: firn.yaml has no query.auth")
        elif (reason := self._senders.fault(config.readers, request, now)) is not None:
            raise NotAReader(reason)
