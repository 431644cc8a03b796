"""Hypothesis without a deadline: the first example pays for imports, and other jobs share the machine."""

from hypothesis import settings

settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
