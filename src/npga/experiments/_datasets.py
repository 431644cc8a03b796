"""The tables of the experiments: what comes with the package, and the full Covtype, fetched once.

A fetch has three steps, each of which is skipped when its outcome is there: the wheel, the table inside it, the checked
array. So one that was interrupted goes on where it stood (pip itself resumes a broken download from version 25.1 on).
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError, NpgaError, nearest
from npga.files import replacing

Array = NDArray[np.float64]
Say = Callable[[str], None]

BOSTON_SCALINGS = {
    "z-score": "every feature and the target have mean 0 and standard deviation 1 over all 506 rows",
    "z-score-features": "every feature has mean 0 and standard deviation 1 over all 506 rows; the target is raw",
    "raw": "raw values",
}
COVTYPE_SCALINGS = {
    "min-max": "every feature is mapped to [0, 1] by its least and largest value over all 581,012 rows",
    "z-score": "every feature has mean 0 and standard deviation 1 over the rows loaded; constant features are 0",
    "raw": "raw values",
}
# Least and largest values of the ten quantitative features over all rows; the other 44 are 0 or 1.
LEAST = np.array([1859, 0, 0, 0, -173, 0, 0, 0, 0, 0] + [0] * 44, dtype=np.float64)
LARGEST = np.array([3858, 360, 66, 1397, 601, 7117, 254, 254, 254, 7173] + [1] * 44, dtype=np.float64)

ROWS, COLUMNS = 581_012, 55
# SHA-256 of the table (54 features and the type) as little-endian 32-bit integers, row by row.
CHECKSUM = "65ab82b64fa58b244c9d5466da03901dc8d9791ff6b756ebd0587c3f4d5c76d2"
WHEEL = "scikit_multiflow-0.4.1-cp37-cp37m-manylinux1_x86_64.whl"
WHEEL_CHECKSUM = "17842a0719992871f66f2edd475c3cf947be73d16595cb28d9ec26a79cfc58de"
MEMBER = "skmultiflow/data/datasets/covtype.csv"
_PIP = (
    "download", "scikit-multiflow==0.4.1", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check",
    "--python-version", "3.7", "--implementation", "cp", "--abi", "cp37m", "--platform", "manylinux1_x86_64",
)  # fmt: skip
SOURCES = ("pip", "scikit-learn")


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


def load_boston(scaling: str = "z-score") -> Dataset:
    """The 506 x 13 table of Harrison and Rubinfeld (1978).

    Parameters
    ----------
    scaling
        "z-score" (features and target, over all 506 rows), "z-score-features" or "raw".
    """
    if scaling not in BOSTON_SCALINGS:
        raise InputError(f"scaling {scaling!r} arrived for the Boston table; {nearest(scaling, BOSTON_SCALINGS)}")
    header, table = shipped_table("boston.csv.gz")
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
        scaling=BOSTON_SCALINGS[scaling],
        labels="median value of owner-occupied homes, in 1000 dollars before scaling",
        notice=shipped_text("BOSTON-NOTICE.txt"),
    )


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
    if scaling not in COVTYPE_SCALINGS:
        raise InputError(f"scaling {scaling!r} arrived for Covtype; {nearest(scaling, COVTYPE_SCALINGS)}")
    header, table = shipped_table("covtype-2000.csv.gz")
    values = load_full(folder).astype(np.float64) if full else table[:, 1:]
    return Dataset(
        name="covtype" if full else "covtype-2000",
        X=_scaled(values[:, :54], scaling),
        y=np.where(values[:, 54] == 2, 1.0, -1.0),
        columns=header[1:55],
        scaling=COVTYPE_SCALINGS[scaling],
        labels="+1 for cover type 2 (lodgepole pine), -1 for the six other types",
        notice=shipped_text("COVTYPE-NOTICE.txt"),
    )


def _scaled(X: Array, scaling: str) -> Array:
    if scaling == "min-max":
        return np.asarray((X - LEAST) / (LARGEST - LEAST))
    return standardise(X) if scaling == "z-score" else X.copy()


def shipped_text(name: str) -> str:
    """A text file that comes with the package."""
    return (files("npga.experiments") / "data" / name).read_text(encoding="utf-8")


def shipped_table(name: str) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Header and numbers of a compressed CSV file that comes with the package."""
    packed = (files("npga.experiments") / "data" / name).read_bytes()
    lines = list(csv.reader(io.StringIO(gzip.decompress(packed).decode("ascii"))))
    return tuple(lines[0]), np.array(lines[1:], dtype=np.float64)


def standardise(values: Array) -> Array:
    """Columns with mean 0 and standard deviation 1; a column that does not vary becomes 0."""
    centred = values - values.mean(axis=0)
    spread = values.std(axis=0)
    return np.asarray(centred / np.where(spread > 0.0, spread, 1.0))


class FetchError(NpgaError, OSError):
    """A table could not be fetched, or is not the one that was expected."""


def data_folder() -> Path:
    """Where fetched tables are kept: $NPGA_DATA, or npga under the user's cache folder."""
    if "NPGA_DATA" in os.environ:
        return Path(os.environ["NPGA_DATA"])
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "npga"


def fetch_covtype(folder: Path | None = None, source: str | None = None, say: Say = lambda _: None) -> Path:
    """Bring the full table (581,012 x 55) to this machine and check it.

    Parameters
    ----------
    folder
        Where to keep it; `data_folder()` by default.
    source
        "pip" (the wheel scikit-multiflow 0.4.1, which holds the table) or "scikit-learn" (its fetcher). None tries
        them in this order and says so.
    say
        Called with a sentence for each step.

    Returns
    -------
    Path
        The checked file, which `load_covtype(full=True)` reads.

    Raises
    ------
    FetchError
        Without a network, with the reason and the ways out; or if what came is not the expected table.
    """
    folder = data_folder() if folder is None else Path(folder)
    if source is not None and source not in SOURCES:
        raise InputError(f"source {source!r} arrived; {nearest(source, SOURCES)}")
    target = folder / "covtype.npz"
    if target.exists():
        load_full(folder)
        say(f"{target} is there already and its checksum is right")
        return target
    folder.mkdir(parents=True, exist_ok=True)
    table = _first_that_works(folder, SOURCES if source is None else (source,), say)
    _require(table, "the fetched table")
    with replacing(target) as file:
        np.savez_compressed(file, table=table.astype(np.int16))
    (folder / WHEEL).unlink(missing_ok=True)
    say(f"checksum right, {ROWS:,} rows saved as {target}")
    return target


def load_full(folder: Path | None = None) -> NDArray[np.int32]:
    """The fetched table, its checksum verified."""
    path = (data_folder() if folder is None else Path(folder)) / "covtype.npz"
    if not path.exists():
        raise FetchError(f"{path} does not exist; run `npga data fetch covtype` once, or use the 2,000 rows shipped")
    try:
        with np.load(path, allow_pickle=False) as file:
            table: NDArray[np.int32] = file["table"].astype("<i4")
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"{path} cannot be read ({error}); delete it and run `npga data fetch covtype`") from None
    _require(table, str(path))
    return table


def _require(table: NDArray[Any], what: str) -> None:
    if table.shape != (ROWS, COLUMNS):
        raise FetchError(f"{what} has shape {table.shape}; expected {(ROWS, COLUMNS)}: delete it and fetch again")
    found = hashlib.sha256(np.ascontiguousarray(table, dtype="<i4").tobytes()).hexdigest()
    if found != CHECKSUM:
        raise FetchError(
            f"{what} has the checksum {found[:16]}...; expected {CHECKSUM[:16]}...: delete it and fetch again"
        )


def _first_that_works(folder: Path, sources: tuple[str, ...], say: Say) -> NDArray[np.int32]:
    reasons = []
    for source in sources:
        say(f"fetching Covtype with {source}")
        try:
            return _by_pip(folder, say) if source == "pip" else _by_scikit_learn(folder)
        except FetchError as error:
            say(f"{source} did not work: {error}")
            reasons.append(f"{source}: {error}")
    raise FetchError(
        "Covtype could not be fetched. " + " ".join(reasons) + " If this machine is offline, fetch on another one and "
        f"copy covtype.npz to {folder}, or go on with the 2,000 rows that come with the package: every experiment "
        "runs with them"
    )


def _by_pip(folder: Path, say: Say) -> NDArray[np.int32]:
    wheel = folder / WHEEL
    if wheel.exists() and _digest(wheel) == WHEEL_CHECKSUM:
        say(f"{wheel} is there already")
    else:
        command = [sys.executable, "-m", "pip", *_PIP, "--dest", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not wheel.exists():
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["no wheel arrived"]
            raise FetchError(f"pip could not download scikit-multiflow 0.4.1 ({lines[-1]}).")
        if _digest(wheel) != WHEEL_CHECKSUM:
            raise FetchError(f"{wheel} is not the published wheel (wrong checksum); delete it and fetch again.")
    say(f"reading {MEMBER} from the wheel")
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as file:
        return np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.int32)


def _by_scikit_learn(folder: Path) -> NDArray[np.int32]:
    try:
        from sklearn.datasets import fetch_covtype as fetch
    except ImportError:
        raise FetchError("scikit-learn is not installed; run: pip install scikit-learn.") from None
    try:
        bunch = fetch(data_home=str(folder / "scikit-learn"))
    except OSError as error:
        raise FetchError(f"scikit-learn's fetcher failed ({error}).") from None
    return np.column_stack([bunch.data, bunch.target]).astype(np.int32)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
