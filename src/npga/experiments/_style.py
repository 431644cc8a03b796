"""How each version looks: as its row of the version table says, and the method without a network beside them."""

from __future__ import annotations

from npga.networks import Look, version_rows
from npga.networks import version as find_version

_CENTRAL = "pga-central"
_CENTRAL_LOOK = Look("PGA, centralised", "#444444", (0, (1, 1)), width=2.0)

STYLES = {name: row.look for name, row in version_rows().items()} | {_CENTRAL: _CENTRAL_LOOK}


def label_of(name: str) -> str:
    """What a version is called in figures: the paper's name without the prefix that all share."""
    return STYLES[name].label


def family_of(name: str) -> str:
    """Either "CTA" or "ATC"; "central" for the method without a network."""
    return "central" if name == _CENTRAL else find_version(name).family
