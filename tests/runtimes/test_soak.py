"""Half an hour of faults every few seconds, and the bits of an undisturbed run."""

from __future__ import annotations

import os

import pytest

from helpers.soak import soak


@pytest.mark.slow
def test_a_soak_ends_with_the_bits_of_an_undisturbed_run(tmp_path):
    done = soak(tmp_path, float(os.environ.get("NPGA_SOAK_MINUTES", "30")), 13, seed=0)
    assert sum(done["faults"].values()) > 0
