from __future__ import annotations

from hypothesis import HealthCheck, settings

# The same examples on every machine and in every run: a failure seen once is seen again.
settings.register_profile("mergesvm", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mergesvm")
