import pytest

from tests.faults.calls import in_order


@pytest.fixture(autouse=True, scope="module")
def _in_order() -> object:
    with pytest.MonkeyPatch.context() as patch:
        in_order(patch)
        yield
