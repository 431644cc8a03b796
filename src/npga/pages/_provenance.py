"""Where results come from: versions of the package, Python and the dependencies, the commit, the kind of machine."""

from __future__ import annotations

import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

import npga

DEPENDENCIES = ("numpy", "scipy", "networkx", "matplotlib")


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
