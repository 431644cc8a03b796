"""One HTML file with everything in it: the data as JSON, and the script and style that draw them."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.files import write_text
from npga.pages._sections import Section

# Bytes that a page may have: it is sent by mail.
LARGEST = 5_000_000

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p>{summary}</p>
<nav aria-label="sections"></nav>
</header>
<main></main>
<footer><p>Written by npga. This file is complete: it asks nothing of the network.</p></footer>
<script type="application/json" id="data">{data}</script>
<script>
{script}</script>
</body>
</html>
"""


def write_page(path: str | PathLike[str], title: str, summary: str, sections: Sequence[Section]) -> Path:
    """Write sections as one HTML file that opens offline.

    Parameters
    ----------
    path
        The file; missing folders are made.
    title, summary
        What it is about, and the outcome in a sentence.
    sections
        What it shows, in this order.

    Returns
    -------
    Path
        The file.
    """
    target = Path(path)
    # "<" inside a script element could end it
    data = _json({"sections": list(sections)}).replace("<", "\\u003c")
    text = _PAGE.format(
        title=html.escape(title), summary=html.escape(summary), data=data, style=_asset("page.css"),
        script=_asset("page.js"),
    )  # fmt: skip
    if len(text.encode("utf-8")) > LARGEST:
        raise InputError(
            f"the page would have {len(text) / 1e6:.1f} MB, more than {LARGEST / 1e6:g}; record less often "
            "(record_every=...), or leave methods or draws out"
        )
    write_text(target, text)
    return target


def store_sections(title: str, summary: str, sections: Sequence[Section]) -> NDArray[Any]:
    """A page as an array of one text, for an .npz beside other arrays; `read_sections` reads it."""
    return np.array(_json({"title": title, "summary": summary, "sections": list(sections)}))


def read_sections(stored: NDArray[Any]) -> tuple[str, str, list[Section]]:
    """Title, summary and sections out of what `store_sections` made."""
    page = json.loads(str(stored))
    return page["title"], page["summary"], page["sections"]


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _asset(name: str) -> str:
    return resources.files("npga.pages").joinpath(name).read_text(encoding="utf-8")
