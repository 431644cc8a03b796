"""Does the paper's conclusion hold? Each version against DCPA, draw by draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npga.experiments._protocol import BASELINE, CENTRAL
from npga.experiments._style import family_of, label_of

Row = dict[str, Any]
LEVEL = "1e-8"
CLEARLY = 1.5


def advantages(runs: Sequence[Row]) -> list[Row]:
    """For each version but DCPA: iterations and rounds of DCPA divided by its own, one number for each draw.

    Parameters
    ----------
    runs
        Rows of summary.csv.
    """
    chosen = [row for row in runs if row["setting"] == "tuned" and row["chosen"] and row[f"rounds_{LEVEL}"] is not None]
    base = {row["repetition"]: row for row in chosen if row["version"] == BASELINE}
    table: dict[str, Row] = {}
    for row in chosen:
        if row["version"] in (BASELINE, CENTRAL) or row["repetition"] not in base:
            continue
        line = table.setdefault(row["version"], {"version": row["version"], "iterations": [], "rounds": []})
        for count in ("iterations", "rounds"):
            line[count].append(base[row["repetition"]][f"{count}_{LEVEL}"] / row[f"{count}_{LEVEL}"])
    return list(table.values())


def verdict(runs: Sequence[Row]) -> str:
    """Sentences on "certain ATC versions are significantly faster than DCPA in iterations and in rounds"."""
    table = advantages(runs)
    atc = [line for line in table if family_of(line["version"]) == "ATC"]
    draws = len({row["repetition"] for row in runs})
    if not atc or any(len(line["iterations"]) < draws for line in atc):
        return "DCPA or an ATC version did not run, or did not reach 1e-8 in every draw: there is nothing to compare."
    both = np.array([np.minimum(line["iterations"], line["rounds"]) for line in atc])
    clear = int((both.max(axis=0) >= CLEARLY).sum())
    best = atc[int(np.argmax(np.median(both, axis=1)))]
    wins = int((np.minimum(best["iterations"], best["rounds"]) > 1.0).sum())
    return (
        f"In {clear} of {draws} draw{'s' if draws > 1 else ''} some ATC version needs at least {CLEARLY:g} times fewer "
        f"iterations and rounds than DCPA. The best one over the draws is {label_of(best['version'])}: "
        f"{np.median(best['iterations']):.2f} times fewer iterations and {np.median(best['rounds']):.2f} times fewer "
        f"rounds (median), better in both in {wins} of {draws}."
    )
