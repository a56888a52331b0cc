"""Where a consumer of changes stands."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from firn.errors import TerminalError


class BadCursor(TerminalError):
    """The cursor is not of this table, can't be read, or stands at a snapshot that has expired."""


@dataclass(frozen=True)
class Cursor:
    """All changes up to `snapshot` (None: nothing yet) of the table with this UUID were taken.

    Store it with what you made of the changes, in one transaction: then each change counts once, however often the
    consumer dies.
    """

    table: str
    snapshot: int | None

    def json(self) -> str:
        """As text: `{"table": "…", "snapshot": 123}`."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, stored: Any) -> Self | None:
        """The cursor that `json` wrote (text, or the mapping in it); None if `stored` is something else.

        Raises BadCursor for what begins as one, and isn't.
        """
        if isinstance(stored, cls):
            return stored
        if isinstance(stored, str) and stored.lstrip().startswith("{"):
            try:
                stored = json.loads(stored)
            except ValueError as error:
                raise BadCursor(f"the cursor {stored[:80]!r} is not JSON: {error}") from error
        if not isinstance(stored, Mapping):
            return None
        table, snapshot = stored.get("table"), stored.get("snapshot")
        if not isinstance(table, str) or not (snapshot is None or type(snapshot) is int):
            raise BadCursor(f'the cursor {dict(stored)!r} is not one: it is {{"table": UUID, "snapshot": id or null}}')
        return cls(table, snapshot)
