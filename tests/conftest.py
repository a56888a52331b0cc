"""Profiles of hypothesis. Shared machines stall: a slow example is no failure. The examples are the same in every run,
so that a red run is about the change at hand; HYPOTHESIS_PROFILE=soak looks further, at random.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("firn", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", settings.get_profile("firn"), derandomize=False, max_examples=5_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "firn"))
