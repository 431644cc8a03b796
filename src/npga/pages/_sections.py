"""What a page may show. A section is a dictionary that JSON can hold; `page.js` has a function for each kind.

Numbers are kept with six digits and long columns are thinned, so that a page stays small.
"""

from __future__ import annotations

import math
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

import npga

Section = dict[str, Any]
Array = NDArray[Any]
Pairs = Sequence[tuple[str, str]]

DEPENDENCIES = ("numpy", "scipy", "networkx", "matplotlib")
# Points of a curve, values of a measure of a network over all frames, and links that are drawn.
_POINTS, _VALUES, _LINKS = 1500, 60_000, 6_000


def text_section(title: str, *lines: str | tuple[str, str]) -> Section:
    """Paragraphs; of a pair the first is seen, and a click on it shows the second."""
    return {"kind": "prose", "title": title, "text": [line if isinstance(line, str) else list(line) for line in lines]}


def fact_section(title: str, rows: Iterable[tuple[str, Any]], note: str = "") -> Section:
    """Names and values."""
    return {"kind": "facts", "title": title, "note": note, "rows": [[name, _plain(value)] for name, value in rows]}


def table_section(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]], note: str = "") -> Section:
    """A table, which a click on a head sorts."""
    body = [[_plain(value) for value in row] for row in rows]
    return {"kind": "table", "title": title, "note": note, "header": list(header), "rows": body}


def curve_section(
    title: str,
    axes: Pairs,
    measures: Pairs,
    lines: Iterable[Section],
    *,
    note: str = "",
    words: str = "show",
    linear: Sequence[str] = (),
    level: Mapping[str, float] | None = None,
    steps: bool = False,
    logx: bool = False,
) -> Section:
    """Curves with switches for what is shown, against what, and on which axis.

    Parameters
    ----------
    title, note
        What stands above them.
    axes, measures
        Keys and words of what may be along and up.
    lines
        Dictionaries with name, x and y, the last two from keys to columns; perhaps color and dash (SVG).
    words
        What the switch of the measures is called.
    linear
        Measures that are not drawn on a logarithmic axis.
    level
        A value of a measure that is marked.
    steps
        Draw steps instead of slopes.
    logx
        Begin with a logarithmic axis along.
    """
    drawn = []
    for line in lines:
        columns = {**{("x", k): v for k, v in line["x"].items()}, **{("y", k): v for k, v in line["y"].items()}}
        keep = _thin(max((len(column) for column in columns.values()), default=0), _POINTS)
        parts: Section = {"x": {}, "y": {}}
        for (side, key), column in columns.items():
            parts[side][key] = numbers(np.asarray(column, dtype=np.float64)[keep])
        drawn.append({key: line[key] for key in ("name", "color", "dash") if key in line} | parts)
    return {
        "kind": "curves", "title": title, "note": note, "axes": [list(pair) for pair in axes],
        "measures": [list(pair) for pair in measures], "lines": drawn, "words": words, "linear": list(linear),
        "level": dict(level or {}), "step": steps, "logx": logx,
    }  # fmt: skip


def line_style(color: str, dashes: str | tuple[int, tuple[int, ...]]) -> Section:
    """Colour and dashes of a curve, from what matplotlib takes; black is left to the page, which may be dark."""
    named = {"-": "", "--": "7 4", "-.": "8 3 2 3", ":": "2 3"}
    dash = named[dashes] if isinstance(dashes, str) else " ".join(f"{2 * length}" for length in dashes[1])
    return {"color": "currentColor" if color == "#000000" else color} | ({"dash": dash} if dash else {})


def network_section(
    title: str,
    edges: ArrayLike,
    names: Sequence[str],
    frames: Sequence[int],
    measures: Pairs,
    values: Mapping[str, ArrayLike],
    note: str = "",
) -> Section:
    """A network whose agents are coloured by what is measured of them, with a slider over the frames.

    Parameters
    ----------
    title, note
        What stands above it.
    edges
        Links, m x 2.
    names
        Of the agents.
    frames
        Iterations at which something was measured.
    measures, values
        Keys and words; for each key an array (frames, agents) of numbers >= 0, coloured by their logarithm.
    """
    n, pairs = len(names), np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    keep = _thin(len(frames), max(1, min(80, _VALUES // max(n, 1))))
    place = _layout(n, pairs)
    said = [note] if note else []
    if len(pairs) > _LINKS:
        said.append(f"{_LINKS:,} of {len(pairs):,} links are drawn.")
    shown = pairs[_thin(len(pairs), _LINKS)]
    logs = {}
    for key, column in values.items():
        taken = np.asarray(column, dtype=np.float64).reshape(-1, n)[keep]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs[key] = [numbers(row, 3) for row in np.log10(taken)]
    return {
        "kind": "graph", "title": title, "note": " ".join(said), "names": list(names),
        "degrees": np.bincount(pairs.ravel(), minlength=n).tolist(), "x": numbers(place[:, 0], 4),
        "y": numbers(place[:, 1], 4), "edges": shown.ravel().tolist(), "frames": [int(frames[k]) for k in keep],
        "measures": [list(pair) for pair in measures], "values": logs,
    }  # fmt: skip


def timeline_section(title: str, rows: Iterable[Section], note: str = "") -> Section:
    """Spans of time, one row for each party: a dictionary with name, spans (begin, end, share computing) and marks."""
    drawn = [
        {
            "name": row["name"],
            "spans": [numbers(np.asarray(span)) for span in row["spans"]],
            "marks": [[float(f"{time:.6g}"), str(text)] for time, text in row["marks"]],
        }
        for row in rows
    ]
    return {"kind": "bars", "title": title, "note": note, "rows": drawn}


def provenance_section(about: Mapping[str, Any] | None = None) -> Section:
    """Where results come from; this very installation by default."""
    found = dict(provenance() if about is None else about)
    rows = [("npga", found.get("npga")), ("commit", found.get("commit") or "not a checkout")]
    rows += [("Python", found.get("python")), *dict(found.get("dependencies", {})).items()]
    machine = found.get("machine", {})
    rows.append(("machine", f"{machine.get('system', '')} {machine.get('architecture', '')}".strip()))
    return fact_section("Provenance", [(name, value) for name, value in rows if value])


def provenance() -> dict[str, Any]:
    """Versions of the package, Python and the dependencies, the commit, and the kind of machine."""
    return {
        "npga": npga.__version__,
        "commit": commit(),
        "python": platform.python_version(),
        "dependencies": {name: installed_version(name) for name in DEPENDENCIES},
        "machine": {"system": platform.system(), "architecture": platform.machine()},
    }


def installed_version(name: str) -> str | None:
    """Version of an installed distribution, None if it is missing."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """Commit of the checkout that the package runs from, with "-dirty" if files differ; None outside a checkout."""
    folder = Path(npga.__file__).parent
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
        tracked = subprocess.run(["git", "ls-files", "--error-unmatch", "__init__.py"], cwd=folder, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() if tracked.returncode == 0 else None


def numbers(column: Array, digits: int = 6) -> list[float | None]:
    """Numbers with so many digits; None for what is not finite."""
    return [float(f"{value:.{digits}g}") if math.isfinite(value) else None for value in column.tolist()]


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _thin(count: int, most: int) -> Array:
    """At most so many indices, evenly, the first and the last among them."""
    return np.unique(np.linspace(0, max(count - 1, 0), min(count, most)).round().astype(np.int64))


def _layout(n: int, pairs: Array) -> Array:
    """Places in the unit square: springs; for many agents from a spectral start and for a few rounds only."""
    import networkx as nx

    graph = nx.empty_graph(n)
    graph.add_edges_from(pairs.tolist())
    if n <= 2:
        return np.array([[0.25, 0.5], [0.75, 0.5]])[:n]
    if n <= 400:
        found = nx.spring_layout(graph, seed=0, iterations=200)
    else:
        start = nx.spectral_layout(graph)
        found = nx.spring_layout(graph, pos=start, seed=0, iterations=15)
    place = np.array([found[k] for k in range(n)])
    low, high = place.min(axis=0), place.max(axis=0)
    return np.asarray((place - low) / np.where(high > low, high - low, 1.0))
