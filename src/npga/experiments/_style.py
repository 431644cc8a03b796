"""How each version looks: told apart by colour, by dashes and by markers, so that one of them may be lost.

Colours are Paul Tol's "muted" set, which the colour-blind can tell apart. Versions that combine then adapt (CTA) are
dashed with open markers, those that adapt then combine (ATC) are solid with filled markers, and DCPA is thick and
black.
"""

from __future__ import annotations

from dataclasses import dataclass

from npga.networks import version as find_version

_CENTRAL = "pga-central"


@dataclass(frozen=True)
class Style:
    """Colour, dashes, marker and width of a line."""

    color: str
    dashes: str | tuple[int, tuple[int, ...]]
    marker: str
    filled: bool = True
    width: float = 1.5


STYLES = {
    "dcpa": Style("#000000", "-", "", width=2.8),
    "diging": Style("#CC6677", (0, (5, 2)), "o", filled=False),
    "dlm": Style("#88CCEE", (0, (5, 2)), "s", filled=False),
    "p2d2": Style("#999933", (0, (5, 2)), "^", filled=False),
    "extra": Style("#777777", (0, (2, 2)), "v", filled=False),
    "aug-dgm": Style("#332288", "-", "o"),
    "atc-tracking": Style("#117733", "-", "s"),
    "nids": Style("#882255", "-", "^"),
    "npga-i": Style("#44AA99", "-", "D"),
    "npga-ii": Style("#AA4499", "-", "v"),
    "exact-diffusion": Style("#661100", "-", "<"),
    "dcda": Style("#6699CC", "-", ">"),
    _CENTRAL: Style("#444444", (0, (1, 1)), "", width=2.0),
}


def label_of(name: str) -> str:
    """What a version is called in figures: the paper's name without the prefix that all share."""
    if name == _CENTRAL:
        return "PGA, centralised"
    title = find_version(name).title
    return title if title in ("NPGA-I", "NPGA-II") else title.removeprefix("NPGA-")


def family_of(name: str) -> str:
    """Either "CTA" or "ATC"; "central" for the method without a network."""
    return "central" if name == _CENTRAL else find_version(name).family
