"""What is remembered of a run, and when it is written down."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError, MissingExtraError


@dataclass(frozen=True)
class Record:
    """One line of the trace.

    Parameters
    ----------
    iteration, round
        Work done so far.
    gap
        |x - x*| / |x0 - x*|, nan without a reference.
    kkt
        Scale-free residual of the optimality conditions at (x, mean of lam).
    consensus
        |lam_i - mean| over all agents, relative to the size of lam.
    objective
        f + g + h; f + g alone when h is an indicator, whose violation is part of `kkt`.
    """

    iteration: int
    round: int
    gap: float
    kkt: float
    consensus: float
    objective: float


COLUMNS = tuple(item.name for item in fields(Record))


class Trace:
    """The recorded lines of a run, column by column.

    ``trace["kkt"]`` and ``trace.kkt`` are arrays, ``trace[-1]`` is the last record, ``trace.to_pandas()`` a data
    frame.
    """

    def __init__(self, records: list[Record] | None = None) -> None:
        self._records = list(records or [])

    def append(self, record: Record) -> None:
        """Add a line."""
        self._records.append(record)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __getitem__(self, key: int | str) -> Any:
        if isinstance(key, str):
            if key not in COLUMNS:
                raise InputError(f"the trace has no column {key!r}; expected one of {', '.join(COLUMNS)}")
            return np.array([getattr(record, key) for record in self._records])
        return self._records[key]

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name in COLUMNS:
            column: NDArray[Any] = self[name]
            return column
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"Trace({len(self)} records of {', '.join(COLUMNS)})"

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """The columns by name."""
        return {name: self[name] for name in COLUMNS}

    def to_pandas(self) -> Any:
        """The columns as a pandas DataFrame."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("pandas", "pandas", "Trace.to_pandas()") from None
        return pd.DataFrame(self.to_dict())


# Recorded iterations: the distance grows by a tenth of the iteration, up to this much.
_LONGEST = 2000
_GRID = [0]
while _GRID[-1] < 10 * _LONGEST:
    _GRID.append(_GRID[-1] + max(1, _GRID[-1] // 10))


def next_record(iteration: int, every: int | None) -> int:
    """The next iteration that is recorded and tested for stopping.

    By default the distance grows with the iteration by a tenth, so that measuring costs a few percent of the run and
    a stop comes at most ten percent late; with `every` it is constant. The grid is the same wherever a run
    was interrupted.
    """
    if every is not None:
        return (iteration // every + 1) * every
    if iteration < _GRID[-1]:
        return _GRID[bisect_right(_GRID, iteration)]
    return iteration + _LONGEST - (iteration - _GRID[-1]) % _LONGEST
