"""Profiles of hypothesis. Shared machines stall: a slow example is no failure. The examples are the same in every run,
so that a red run is about the change at hand; HYPOTHESIS_PROFILE=soak looks further, at random.
"""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("firn", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", settings.get_profile("firn"), derandomize=False, max_examples=5_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "firn"))

_TESTS = Path(__file__).parent
# They start servers and JVMs, and use both cores themselves: one after the other, while the rest runs beside them.
_HEAVY = (_TESTS / "integration", _TESTS / "e2e")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `-n 2 --dist loadgroup` one process takes all heavy tests, in their order, and another one the rest."""
    for item in items:
        if any(item.path.is_relative_to(folder) for folder in _HEAVY):
            item.add_marker(pytest.mark.xdist_group("heavy"))
