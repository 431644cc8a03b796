"""How the versions are compared: which ones, how their steps are found, how far they run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from npga.errors import InputError, nearest
from npga.networks import version as find_version

# The eight versions of the paper's figures, and the method that they are compared with.
PAPER_VERSIONS = ("diging", "dlm", "p2d2", "aug-dgm", "atc-tracking", "nids", "npga-i", "npga-ii", "dcpa")
CENTRAL = "pga-central"
OPTIONAL_VERSIONS = ("extra", "exact-diffusion", "dcda", CENTRAL)
ALL_VERSIONS = PAPER_VERSIONS + OPTIONAL_VERSIONS
BASELINE = "dcpa"


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The same rules for every version.

    Parameters
    ----------
    versions
        Names; see `npga.versions()`. "pga-central" is the primal-dual gradient method in one place.
    tuning
        Method of `npga.tune`: "spectral" or "search"; None takes the experiment's own.
    starts
        From how many seeds to tune; the steps whose run is shortest are kept. None takes the experiment's own.
    tuning_seed
        The first seed of the tuner.
    within_theorems
        Keep gamma <= 1, as every theorem asks; otherwise gamma is free and often ends above 1.
    accuracy
        Relative distance to x* at which a tuned run ends.
    max_iters
        Limit of a tuned run.
    records
        About how many points of a curve are kept.
    certified_iters
        Length of a run at the certified steps, which are far too small to finish; 0 leaves these runs out.
    """

    versions: tuple[str, ...] = PAPER_VERSIONS
    tuning: str | None = None
    starts: int | None = None
    tuning_seed: int = 0
    within_theorems: bool = False
    accuracy: float = 1e-12
    max_iters: int = 200_000
    records: int = 400
    certified_iters: int = 2_000

    def __post_init__(self) -> None:
        object.__setattr__(self, "versions", tuple(_canonical(self.versions)))
        if not self.versions:
            raise InputError(f"no version arrived; expected at least one of {', '.join(ALL_VERSIONS)}")
        if not 0.0 < self.accuracy < 1.0:
            raise InputError(f"accuracy is {self.accuracy}; expected a number between 0 and 1, such as 1e-12")
        for name, least in (("max_iters", 1), ("records", 2), ("certified_iters", 0), ("starts", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} is {value}; expected a whole number >= {least}")

    def tuner(self, own: tuple[str, int]) -> tuple[str, range]:
        """Method and seeds, given those of the experiment."""
        method = own[0] if self.tuning is None else self.tuning
        starts = (own[1] if self.tuning is None else 1) if self.starts is None else self.starts
        return method, range(self.tuning_seed, self.tuning_seed + starts)


def _canonical(names: Iterable[str]) -> list[str]:
    found = []
    for name in names:
        known = name if name == CENTRAL else find_version(name).name
        if known not in ALL_VERSIONS:
            raise InputError(f"version {name!r} has no place in the experiments; {nearest(name, ALL_VERSIONS)}")
        if known not in found:
            found.append(known)
    return found
