"""Steps from the theorems: slow and proved."""

from __future__ import annotations

import math
import time

from npga.errors import InputError
from npga.networks import Network, Version
from npga.problem import Problem
from npga.theory import certify
from npga.tuning._tuning import Trial, Trials, Tuning


def tune_theorem(problem: Problem, network: Network, version: Version) -> Tuning:
    """The steps within a theorem's bounds that minimise its rate."""
    begun = time.perf_counter()
    certificate = certify(problem, network, version)
    best = certificate.best
    if best is None or best.steps is None:
        hint = f" ({certificate.suggestions[0]})" if certificate.suggestions else ""
        raise InputError(f"{certificate.verdict}; use method='spectral' or 'search', or change the set-up{hint}")
    trials = Trials(
        [
            Trial(f"theorem {key}", version, theorem.steps, rate=math.sqrt(theorem.rate))
            for key, theorem in certificate.theorems.items()
            if theorem.applies and theorem.steps is not None
        ]
    )
    return Tuning(
        version,
        best.steps,
        network,
        "theorem",
        math.sqrt(best.rate),  # |x - x*|^2 = O(delta^k)
        trials,
        f"{certificate.verdict}.",
        time.perf_counter() - begun,
    )
