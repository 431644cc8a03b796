"""Forest cover type, for Experiment II: a sample that comes with the package, or the full table once fetched."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from npga.errors import InputError, nearest
from npga.experiments._dataset import Array, Dataset, read_table, read_text, standardise
from npga.experiments._fetch import load_full

SCALINGS = {
    "min-max": "every feature is mapped to [0, 1] by its least and largest value over all 581,012 rows",
    "z-score": "every feature has mean 0 and standard deviation 1 over the rows loaded; constant features are 0",
    "raw": "raw values",
}
# Least and largest values of the ten quantitative features over all rows; the other 44 are 0 or 1.
LEAST = np.array([1859, 0, 0, 0, -173, 0, 0, 0, 0, 0] + [0] * 44, dtype=np.float64)
LARGEST = np.array([3858, 360, 66, 1397, 601, 7117, 254, 254, 254, 7173] + [1] * 44, dtype=np.float64)


def load_covtype(scaling: str = "min-max", *, full: bool = False, folder: Path | None = None) -> Dataset:
    """Covtype as a binary problem: cover type 2 (lodgepole pine) is +1, the six others are -1.

    Parameters
    ----------
    scaling
        "min-max" (the scaling of LIBSVM's covtype.binary.scale), "z-score" or "raw".
    full
        Take all 581,012 rows, which `fetch_covtype` (or ``npga data fetch covtype``) must have brought; otherwise the
        2,000 rows that come with the package.
    folder
        Where the full table was put.
    """
    if scaling not in SCALINGS:
        raise InputError(f"scaling {scaling!r} arrived for Covtype; {nearest(scaling, SCALINGS)}")
    header, table = read_table("covtype-2000.csv.gz")
    values = load_full(folder).astype(np.float64) if full else table[:, 1:]
    return Dataset(
        name="covtype" if full else "covtype-2000",
        X=_scaled(values[:, :54], scaling),
        y=np.where(values[:, 54] == 2, 1.0, -1.0),
        columns=header[1:55],
        scaling=SCALINGS[scaling],
        labels="+1 for cover type 2 (lodgepole pine), -1 for the six other types",
        notice=read_text("COVTYPE-NOTICE.txt"),
    )


def _scaled(X: Array, scaling: str) -> Array:
    if scaling == "min-max":
        return np.asarray((X - LEAST) / (LARGEST - LEAST))
    return standardise(X) if scaling == "z-score" else X.copy()
