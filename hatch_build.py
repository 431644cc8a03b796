"""Builds the compiled core with the package, by the compiler at hand or by that of `ziglang` from PyPI.

``NPGA_PURE=1`` leaves the core out: then NumPy runs everything, and `npga doctor` says so.
"""

from __future__ import annotations

import os
import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CORE = Path(__file__).parent / "src" / "npga" / "solver" / "core"


class CoreHook(BuildHookInterface[Any]):
    """What hatchling calls before it makes a wheel or an editable install."""

    PLUGIN_NAME = "custom"

    def dependencies(self) -> list[str]:
        """A compiler, where there is none."""
        return [] if os.environ.get("NPGA_PURE") or self._build["compiler"]() else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the libraries beside their sources, and put them into the wheel, which serves every Python 3."""
        if os.environ.get("NPGA_PURE"):
            return
        libraries = self._build["build"]()
        if version == "editable":
            return
        from packaging.tags import sys_tags

        tags = (tag.platform for tag in sys_tags())
        here = next(name for name in tags if not name.startswith(("manylinux", "musllinux")))
        build_data["pure_python"], build_data["tag"] = False, f"py3-none-{here}"
        for path in libraries.values():
            build_data["force_include"][str(path)] = f"npga/solver/core/built/{path.name}"

    @property
    def _build(self) -> dict[str, Any]:
        return runpy.run_path(str(CORE / "_build.py"))
