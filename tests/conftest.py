"""What every test shares."""

import signal

from hypothesis import HealthCheck, settings

# A shell starts what it puts into the background deaf to Ctrl-C, and so would be the processes that tests send it to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples on every machine and at every run: a failure can be reproduced by running the test again. Timing
# differs between machines, so no example is failed for being slow.
settings.register_profile("npga", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("npga")
