import pytest

from tests.faults.calls import in_order


@pytest.fixture(autouse=True)
def _in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    in_order(monkeypatch)
