"""What is noted of views."""

from obstore.store import MemoryStore

from firn.log import layout
from firn.log.store import get, put
from firn.views import state
from firn.views.state import ViewState, ViewStates


def test_states_are_read_as_they_were_written() -> None:
    store = MemoryStore()
    assert state.read(store, "shop") == ViewStates()
    told = ViewStates(seen={"shop": 3}, views={"v.a": ViewState("s", "d", {"shop": 3}, "2026-01-01T00:00:00.000Z")})
    state.write(store, "shop", told)
    assert state.read(store, "shop") == told
    assert get(store, "views/shop/state.json") is not None


def test_what_cannot_be_read_is_no_state() -> None:
    store = MemoryStore()
    for body in (b"", b"[]", b'{"format": 99}', b'{"format": 1, "views": {"v.a": {"tries": "x"}}}'):
        put(store, layout.views_state_path("shop"), body)
        assert state.read(store, "shop") == ViewStates()


def test_what_of_a_later_version_is_not_known_is_left_out() -> None:
    store = MemoryStore()
    put(store, layout.views_state_path("shop"), b'{"format": 1, "new": 1, "views": {"v.a": {"tries": 1, "more": 2}}}')
    assert state.read(store, "shop").views == {"v.a": ViewState(tries=1)}
