"""Shared machines stall: a slow example is no failure."""

from hypothesis import HealthCheck, settings

settings.register_profile("firn", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("firn")
