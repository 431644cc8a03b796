"""What every test shares."""

from hypothesis import HealthCheck, settings

# The same examples on every machine and at every run: a failure can be reproduced by running the test again. Timing
# differs between machines, so no example is failed for being slow.
settings.register_profile("npga", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("npga")
