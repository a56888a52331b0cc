"""What is noted of views."""

from datetime import UTC, datetime, timedelta

import pytest
from obstore.store import MemoryStore

from firn.log import layout
from firn.log.store import get, put
from firn.quarantine.lifting import NotResumed, resume
from firn.views import view_state
from firn.views.view_state import ViewState, ViewStates

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_states_are_read_as_they_were_written() -> None:
    store = MemoryStore()
    assert view_state.read(store, "shop") == ViewStates()
    told = ViewStates(seen={"shop": 3}, views={"v.a": ViewState("s", "d", {"shop": 3}, NOW)})
    view_state.write(store, "shop", told)
    assert view_state.read(store, "shop") == told
    assert get(store, "views/shop/state.json") is not None


def test_what_cannot_be_read_is_no_state() -> None:
    store = MemoryStore()
    for body in (b"", b"[]", b'{"format": 99}', b'{"format": 1, "views": {"v.a": {"tries": "x"}}}',
                 b'{"format": 1, "views": {"v.a": {"due": "soon"}}}',
                 b'{"format": 1, "views": {"v.a": {"due": "2026-03-01T00:00:00"}}}'):  # fmt: skip
        put(store, layout.views_state_path("shop"), body)
        assert view_state.read(store, "shop") == ViewStates()


def test_what_of_a_later_version_is_not_known_is_left_out() -> None:
    store = MemoryStore()
    put(store, layout.views_state_path("shop"), b'{"format": 1, "new": 1, "views": {"v.a": {"tries": 1, "more": 2}}}')
    assert view_state.read(store, "shop").views == {"v.a": ViewState(tries=1)}


def test_a_person_may_have_a_view_tried_at_once() -> None:
    store, now = MemoryStore(), NOW
    held = {"v.a": ViewState(tries=4, due=NOW + timedelta(hours=1), error="why"), "v.b": ViewState("s", "d")}
    view_state.write(store, "shop", ViewStates(views=held))
    assert "the view is refreshed by the next job" in resume(store, "shop", "v.a", None, "retry", now)
    found = view_state.read(store, "shop").views
    assert (found["v.a"].due, found["v.a"].tries, found["v.b"]) == (NOW, 4, held["v.b"])
    for table, how in (("v.b", "retry"), ("v.none", "retry"), ("v.a", "skip")):
        with pytest.raises(NotResumed):
            resume(store, "shop", table, None, how, now)  # type: ignore[arg-type]
