"""Pages that can be handed on: one HTML file that opens offline, made of sections that hold plain data.

This room owns how a page looks; it knows nothing about problems and runs, and imports `errors` and `files` only. Rooms
that have something to show make sections (`Result.sections`, `Certificate.sections`, `Comparison.sections`,
`runtimes.launch_sections`, `experiments.folder_sections`), and `write_page` puts them together. Its chapters:

_page
    The file: data, script and style in one, with a limit on its size.
_sections
    What a page may show: curves, a network over the run, spans of time, tables, facts, text; and which package, commit,
    Python and machine it comes from.
page.js, page.css
    What draws the sections in the browser: SVG made by a script without any library, so that a page is some 30 kB and
    its data.
"""

from npga.pages._page import LARGEST, read_sections, store_sections, write_page
from npga.pages._sections import (
    Section,
    commit,
    curve_section,
    fact_section,
    installed_version,
    line_style,
    network_section,
    provenance,
    provenance_section,
    table_section,
    text_section,
    timeline_section,
)

__all__ = [
    "LARGEST",
    "Section",
    "commit",
    "curve_section",
    "fact_section",
    "installed_version",
    "line_style",
    "network_section",
    "provenance",
    "provenance_section",
    "read_sections",
    "store_sections",
    "table_section",
    "text_section",
    "timeline_section",
    "write_page",
]
