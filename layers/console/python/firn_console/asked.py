"""What one request asks of the console: who asks, the parameters it gives, and what they may be."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from firn.auth.grants import Grant
from firn.config.model import Config, StreamConfig
from firn.errors import EventError, RequestError
from firn.log.store import Store
from firn.settings import Settings

MOST_TEXT: Final = 1_000  # characters of a parameter
HIDDEN: Final = (
    "what it says may quote a row: it is for those who may read tables (query.auth) or see events (console.events.auth)"
)
_MOST_CURSOR: Final = 4_000


@dataclass(frozen=True)
class Asked:
    """A request that was let in. `parameters`: of the query string; `body`: of a POST, as JSON."""

    store: Store
    config: Config
    settings: Settings
    grant: Grant
    now: datetime
    parameters: Mapping[str, str]
    body: Mapping[str, Any]

    def text(self, name: str) -> str | None:
        """A parameter, None if it is not given or empty. Raises RequestError 400."""
        found = self.parameters.get(name) or None
        if found is not None and len(found) > MOST_TEXT:
            raise RequestError(400, "bad_parameter", f"{name} has more than {MOST_TEXT:,} characters")
        return found

    def number(self, name: str, low: int, high: int, default: int) -> int:
        """A parameter from `low` to `high`. Raises RequestError 400."""
        text = self.text(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 10 and low <= int(text) <= high):
            raise RequestError(400, "bad_parameter", f"{name} is not a whole number from {low} to {high:,}")
        return int(text)

    def flag(self, name: str) -> bool | None:
        """A parameter that is `true` or `false`, None if it is not given. Raises RequestError 400."""
        text = self.text(name)
        if text not in (None, "true", "false"):
            raise RequestError(400, "bad_parameter", f"{name} is neither true nor false")
        return None if text is None else text == "true"

    def choice(self, name: str, words: tuple[str, ...]) -> str | None:
        """A parameter that is one of these words, None if it is not given. Raises RequestError 400."""
        text = self.text(name)
        if text is not None and text not in words:
            raise RequestError(400, "bad_parameter", f"{name} is none of {', '.join(words)}")
        return text

    def cursor(self, kind: type[msgspec.Struct]) -> Any:
        """Where a page begins, None for the first. Raises RequestError 400: whatever it holds is only compared."""
        text = self.parameters.get("cursor")
        if not text:
            return None
        try:
            if len(text) > _MOST_CURSOR:
                raise ValueError
            raw = base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
            return msgspec.json.decode(raw, type=kind)
        except (ValueError, UnicodeError, binascii.Error, msgspec.MsgspecError):
            raise RequestError(
                400, "bad_cursor", "cursor is none that this list gave: take `next` of a page, or leave it out"
            ) from None

    def stream(self, name: str) -> StreamConfig:
        """The stream of that name. Raises RequestError 404, also for one that the caller may not see."""
        found = self.config.streams.get(name)
        if found is None or not self.grant.sees(stream=name):
            raise RequestError(404, "no_such_stream", "firn.yaml has no stream of that name that you may see")
        return found

    def said(self, text: str, stream: str, table: str | None = None) -> str:
        """A text that may quote a row of a stream, or of a table, if the caller may read that."""
        return text if self.grant.quotes(stream, table) else HIDDEN

    def sees_source(self, stream: str, source: str | None) -> bool:
        """Whether the caller sees every table that a source table feeds; None: a source table that is not known."""
        if self.grant.tables is None:
            return self.grant.sees(stream)
        settings = self.config.streams.get(stream)
        if source is None or settings is None:
            return False
        try:
            first = str(settings.target(source))
        except EventError:
            return False
        more = [str(one.target) for one in settings.pipelines_of(source) if one.target is not None]
        return all(self.grant.sees(stream, one) for one in (first, *more))

    def streams(self) -> list[StreamConfig]:
        """The streams that the caller may see, or the one that the parameter `stream` names. Raises 404."""
        name = self.text("stream")
        if name is not None:
            return [self.stream(name)]
        return [one for name, one in sorted(self.config.streams.items()) if self.grant.sees(stream=name)]


def cursor_of(place: msgspec.Struct | None) -> str | None:
    """`next` of a page that ends at `place`; None on the last page."""
    return None if place is None else base64.urlsafe_b64encode(msgspec.json.encode(place)).decode()
