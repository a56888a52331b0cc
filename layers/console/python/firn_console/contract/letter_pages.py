"""Dead letters and what is quarantined."""

from typing import Literal

import msgspec


class LetterCount(msgspec.Struct, frozen=True):
    """Dead letters of one stream, source table and reason. `advice`: what to do about the reason."""

    stream: str
    table: str | None
    reason: str
    letters: int
    waiting: int
    advice: str


class LetterRow(msgspec.Struct, frozen=True):
    """A dead letter without its event. (`stream`, `object`, `row`) name it. `replayed_in`: the batch it came again
    in."""

    stream: str
    object: str
    row: int
    batch: str
    index: int
    received_at: str
    table: str | None
    reason: str
    message: str
    event_bytes: int
    replayed_in: str | None


class LetterPage(msgspec.Struct, frozen=True):
    """GET /v1/console/dead-letters?stream=&reason=&table=&replayed=false&cursor=&limit=100, newest objects first.

    `counts` are of the `counted_objects` objects that were looked at so far, of `objects`: ask again and they go on.
    They are those with the most that wait; `more_counts`: how many more kinds there are. `all_letters`, `all_waiting`:
    of all that fit `reason` and `table`.
    """

    counts: tuple[LetterCount, ...]
    counted_objects: int
    objects: int
    letters: tuple[LetterRow, ...]
    next: str | None
    more_counts: int = 0
    all_letters: int = 0
    all_waiting: int = 0


class LetterAnswer(msgspec.Struct, frozen=True):
    """GET /v1/console/dead-letters/{stream}/{object}/{row}: one letter with its event; takes the right `events`.

    original   the event as text, or null where it is not UTF-8
    base64     its bytes, where it is not
    is_json    whether it is one JSON value
    whole      false if only the first MiB is here: `firn dead export` has the rest
    """

    letter: LetterRow
    advice: str
    original: str | None
    base64: str | None
    is_json: bool
    whole: bool


class HoldRow(msgspec.Struct, frozen=True):
    """Something quarantined. `name`: `stream`, `epoch 7` or a table; `ways`: how it can be resumed: the words of the
    action `resume`'s `how` (retry, replay, skip). `lifted_at`, `lifted_how`: of a past one."""

    stream: str
    name: str
    kind: Literal["stream", "epoch", "table"]
    reason: str
    message: str
    advice: str
    made_at: str
    epoch: int
    upto: int
    ways: tuple[str, ...]
    lifted_at: str | None = None
    lifted_how: str | None = None


class HoldPage(msgspec.Struct, frozen=True):
    """GET /v1/console/quarantine: all that is held, and the newest 200 that were."""

    held: tuple[HoldRow, ...]
    past: tuple[HoldRow, ...]
