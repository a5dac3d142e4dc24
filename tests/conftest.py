"""Hypothesis profiles: the same examples in every run, or (--hypothesis-profile=thorough) many new ones."""

from hypothesis import HealthCheck, settings

settings.register_profile("same", derandomize=True, deadline=None, database=None, max_examples=100,
                          suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("thorough", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("same")
