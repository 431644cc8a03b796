"""The gallery: in which order its pages stand, and figures that a phone can move instead of shrinking them."""

from __future__ import annotations

import re
from typing import Any

# As in the header of the gallery, by who asks.
ORDER = (
    "quickstart",
    "vertical_regression",
    "quantile_regression",
    "support_vector_machine",
    "basis_pursuit",
    "economic_dispatch",
    "dispatch_2000_buses",
    "dc_optimal_power_flow",
    "prices_not_unique",
    "demand_over_a_day",
    "bandwidth_sharing",
    "lossy_links",
    "changing_graph",
    "cut_link",
    "privacy_attacks",
    "certificate_of_steps",
    "rates_and_conditioning",
    "design_a_version",
)
_IMAGE = re.compile(r'<img (?:(?!/>).)*class = "sphx-glr-single-img"\s*/>', re.DOTALL)


def place(filename: str) -> int:
    """Where an example stands; one that is not in `ORDER` fails the build."""
    return ORDER.index(filename.removesuffix(".py"))


def wrap_figures(app: Any, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    """Sphinx's hook on every page: a figure of the gallery gets a frame that scrolls."""
    if pagename.startswith("gallery/") and context.get("body"):
        context["body"] = _IMAGE.sub(lambda found: f'<div class="wide-figure">{found.group()}</div>', context["body"])


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("html-page-context", wrap_figures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
