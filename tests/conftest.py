"""Profiles of hypothesis. Shared machines stall: a slow example is no failure. The examples are the same in every run,
so that a red run is about the change at hand; HYPOTHESIS_PROFILE=soak looks further, at random.
"""

import os
import sys

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

settings.register_profile("firn", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", settings.get_profile("firn"), derandomize=False, max_examples=5_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "firn"))


@pytest.fixture(autouse=True)
def no_credentials_of_another_test() -> None:
    """boto3's default session remembers the first credentials that it finds, for as long as the process lives."""
    if "boto3" in sys.modules:
        sys.modules["boto3"].DEFAULT_SESSION = None
    return


# They start servers and JVMs: those of a group one after the other, in one process, so that they share what they start
# and find their ports free. The two groups take about as long as each other.
_GROUPS = {"tests/integration/stack": "stack", "tests/e2e": "stack", "tests/integration": "spark"}


class _Groups(LoadScopeScheduling):
    """`--dist loadscope`, where a group of folders, and otherwise a file, stays in one process."""

    def _split_scope(self, nodeid: str) -> str:
        return next(
            (group for folder, group in _GROUPS.items() if nodeid.startswith(folder)), nodeid.partition("::")[0]
        )

    def _assign_work_unit(self, node: WorkerController) -> None:
        # What takes longest begins first, one of it in each process.
        for group in _GROUPS.values():
            if group in self.workqueue:
                self.workqueue.move_to_end(group, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    """What `-n 2 --dist loadscope` runs where."""
    return _Groups(config, log)
