"""How the views of a stream are, as a job saw them last: for dispatch, which starts a job when views are due, and for
people. Only a hint: what a view is of, its newest snapshot says (cut.Told)."""

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Final

import msgspec

from firn.log import layout
from firn.log.batches import FORMAT
from firn.log.store import Store, get, put
from firn.tables.failures import Kind

_log: Final = logging.getLogger(__name__)


Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class ViewState(msgspec.Struct, frozen=True, omit_defaults=True):
    """One view.

    sql           View.sha of the SQL by which it was refreshed last; "" if it never was
    digest        what it was made of (ViewSources.digest)
    epochs        of each stream that feeds it the cut that it was of then
    refreshed_at  when
    tries         how often in a row it failed since, or was begun by a job that died
    due           when it is tried again
    error, kind   of the last failure; None while a try has only begun
    under         the configuration (its sha) of that try
    asked         whether somebody waits for its next refresh (firn flush), whatever `every` says
    """

    sql: str = ""
    digest: str = ""
    epochs: dict[str, int] = {}
    refreshed_at: Moment | None = None
    tries: int = 0
    due: Moment | None = None
    error: str | None = None
    kind: Kind | None = None
    under: str = ""
    asked: bool = False


class ViewStates(msgspec.Struct, frozen=True):
    """The views of a stream by table. `seen`: of each stream that feeds them the newest cut that a job has looked at
    when it noted this."""

    format: int = FORMAT
    seen: dict[str, int] = {}
    views: dict[str, ViewState] = {}


FAILS: Final = 3  # tries after which a person should look, whatever the failure is
_decode: Final = msgspec.json.Decoder(ViewStates).decode


def read(store: Store, stream: str) -> ViewStates:
    """The states; empty ones if there are none, or none that can be read. Raises StorageUnavailable."""
    data = get(store, layout.views_state_path(stream))
    try:
        found = None if data is None else _decode(data)
    except msgspec.DecodeError as error:
        _log.warning("how the views of %s are can't be read, a job looks again: %s", stream, error)
        return ViewStates()
    return found if found is not None and found.format <= FORMAT else ViewStates()


def write(store: Store, stream: str, states: ViewStates) -> None:
    """Note them. Raises StorageUnavailable, UnknownOutcome."""
    put(store, layout.views_state_path(stream), msgspec.json.encode(states))


def try_now(store: Store, stream: str, table: str, now: datetime) -> bool:
    """A view that waits for its next try is due at once, by a person's word. -> whether it is such a view. Raises
    StorageUnavailable, UnknownOutcome."""
    known = read(store, stream)
    one = known.views.get(table)
    if one is None or not one.tries:
        return False
    due = msgspec.structs.replace(one, due=now)
    write(store, stream, msgspec.structs.replace(known, views={**known.views, table: due}))
    return True


def ask(store: Store, stream: str, tables: Iterable[str]) -> None:
    """These views are due with the next change of theirs, before `every` is over. A job that notes at the same moment
    may not see it: ask again. Raises StorageUnavailable, UnknownOutcome."""
    known = read(store, stream)
    asked = {one: known.views[one] for one in tables if one in known.views and not known.views[one].asked}
    if asked:
        views = {name: msgspec.structs.replace(one, asked=True) for name, one in asked.items()}
        write(store, stream, msgspec.structs.replace(known, views={**known.views, **views}))


def failing(states: ViewStates) -> tuple[str, ...]:
    """Views that a person should look at, as people call them. Pure."""
    return tuple(f"view {name}" for name, one in sorted(states.views.items()) if is_failing(one))


def is_failing(state: ViewState) -> bool:
    """Whether a person should look: it fails of itself, or time and again. Pure."""
    return state.tries >= FAILS or (state.tries > 0 and state.kind not in (None, "transient"))
