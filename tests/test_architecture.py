"""Imports between the rooms run one way, and `import npga` stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import npga

PACKAGE = Path(npga.__file__).parent

# Each room may import the rooms of earlier ranks only; rooms of one rank do not import each other.
RANKS = [
    {"errors"},
    {"steps", "files", "extras"},
    {"functions", "networks"},
    {"problem"},
    {"theory", "solver"},
    {"tuning"},
    {"runtimes"},
    {"experiments"},
    {"cli"},
]
RANK = {room: rank for rank, rooms in enumerate(RANKS) for room in rooms}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_rooms(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "npga":
            parts = node.module.split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("npga.")}
    return found


MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE or path.stem in RANK)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_one_way(path):
    room = room_of(path)
    assert room in RANK, f"{room} has no place in the order of the rooms"
    for other in imported_rooms(ast.parse(path.read_text())) - {room, "__version__"}:
        assert RANK[other] < RANK[room], f"{path.name} of {room} imports {other}"


def test_the_check_sees_a_wrong_import():
    assert imported_rooms(ast.parse("from npga.solver._loop import run")) == {"solver"}
    assert imported_rooms(ast.parse("from npga import theory")) == {"theory"}
    assert imported_rooms(ast.parse("import npga.cli")) == {"cli"}


def test_every_public_name_is_documented_and_exists():
    for name in npga.__all__:
        assert getattr(npga, name).__doc__, f"npga.{name} has no docstring"
    assert set(npga.__all__) <= set(dir(npga))
    with pytest.raises(AttributeError, match="no attribute 'slove'"):
        _ = npga.slove


HEAVY = (
    "networkx",
    "cvxpy",
    "matplotlib",
    "pandas",
    "sklearn",
    "rich",
    "mpi4py",
    "grpc",
    "typer",
    "scipy",
    "pydantic",
)


def test_import_loads_nothing_heavy():
    code = f"import sys, npga; print([m for m in {HEAVY} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_modules_stay_short(path):
    assert len(path.read_text().splitlines()) <= 400
