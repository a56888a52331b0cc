from collections.abc import Iterator

import pytest

from tests.faults.calls import OneByOne


@pytest.fixture(autouse=True)
def in_order(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The same calls in the same order in every run, and no pause between the tries of a put."""
    for module in ("staging.queue", "staging.epochs", "staging.replays"):
        monkeypatch.setattr(f"firn.{module}.ThreadPoolExecutor", OneByOne)
    from firn.staging.store import put_if_absent

    monkeypatch.setitem(put_if_absent.__kwdefaults__, "pause", lambda _: None)
    yield
