"""Boston house prices, for Experiments I and III."""

from __future__ import annotations

from npga.errors import InputError, nearest
from npga.experiments._dataset import Dataset, read_table, read_text, standardise

SCALINGS = {
    "z-score": "every feature and the target have mean 0 and standard deviation 1 over all 506 rows",
    "z-score-features": "every feature has mean 0 and standard deviation 1 over all 506 rows; the target is raw",
    "raw": "raw values",
}


def load_boston(scaling: str = "z-score") -> Dataset:
    """The 506 x 13 table of Harrison and Rubinfeld (1978).

    Parameters
    ----------
    scaling
        "z-score" (features and target, over all 506 rows), "z-score-features" or "raw".
    """
    if scaling not in SCALINGS:
        raise InputError(f"scaling {scaling!r} arrived for the Boston table; {nearest(scaling, SCALINGS)}")
    header, table = read_table("boston.csv.gz")
    X, y = table[:, :-1].copy(), table[:, -1].copy()
    if scaling != "raw":
        X = standardise(X)
    if scaling == "z-score":
        y = standardise(y)
    return Dataset(
        name="boston",
        X=X,
        y=y,
        columns=header[:-1],
        scaling=SCALINGS[scaling],
        labels="median value of owner-occupied homes, in 1000 dollars before scaling",
        notice=read_text("BOSTON-NOTICE.txt"),
    )
