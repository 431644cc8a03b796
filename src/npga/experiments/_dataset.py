"""A table of data with its notice, and the reader of the compressed tables that come with the package."""

from __future__ import annotations

import csv
import gzip
import io
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Dataset:
    """Features, target, and what was done to them.

    Parameters
    ----------
    name
        What it is called.
    X, y
        Features (rows x columns) and target (rows,), both read-only.
    columns
        Names of the features.
    scaling, labels
        Sentences that say how X and y were made from the raw table.
    notice
        Source and licence.
    """

    name: str
    X: Array
    y: Array
    columns: tuple[str, ...]
    scaling: str
    labels: str
    notice: str = field(repr=False)

    def __post_init__(self) -> None:
        self.X.flags.writeable = False
        self.y.flags.writeable = False


def read_text(name: str) -> str:
    """A text file that comes with the package."""
    return (files("npga.experiments") / "data" / name).read_text(encoding="utf-8")


def read_table(name: str) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Header and numbers of a compressed CSV file that comes with the package."""
    packed = (files("npga.experiments") / "data" / name).read_bytes()
    lines = list(csv.reader(io.StringIO(gzip.decompress(packed).decode("ascii"))))
    return tuple(lines[0]), np.array(lines[1:], dtype=np.float64)


def standardise(values: Array) -> Array:
    """Columns with mean 0 and standard deviation 1; a column that does not vary becomes 0."""
    centred = values - values.mean(axis=0)
    spread = values.std(axis=0)
    return np.asarray(centred / np.where(spread > 0.0, spread, 1.0))
