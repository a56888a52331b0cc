import pytest

from tests.faults.calls import in_order


@pytest.fixture(autouse=True, scope="module")
def _in_order() -> object:
    with pytest.MonkeyPatch.context() as patch:
        in_order(patch)
        # Histories here are short: nothing would ever expire.
        patch.setattr("firn.jobs.expiry.FEWEST_SNAPSHOTS", 1)
        yield
