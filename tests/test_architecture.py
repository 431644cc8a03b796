"""Imports between the rooms run one way, and `import npga` stays light."""

from __future__ import annotations

import ast
import importlib
import re
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
    {"functions", "networks", "pages"},
    {"problem"},
    {"theory", "solver", "power"},
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


def private_imports(tree: ast.AST) -> set[str]:
    """Modules with an underscore that are imported, as room.module."""
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    found = [name.split(".") for name in names if name.startswith("npga.")]
    return {".".join(parts[1:3]) for parts in found if len(parts) > 2 and parts[2].startswith("_")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rooms_import_public_names_of_each_other(path):
    private = private_imports(ast.parse(path.read_text()))
    assert {name for name in private if name.split(".")[0] != room_of(path)} == set()


def test_tests_import_public_names_wherever_there_is_one():
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and re.fullmatch(r"npga\.[a-z]+\._\w+", node.module or ""):
                room = importlib.import_module(node.module.rpartition(".")[0])
                public = {alias.name for alias in node.names} & set(room.__all__)
                assert not public, f"{path.name} imports {public} from {node.module}; import them from {room.__name__}"


def test_no_stem_stands_for_two_files():
    """`cli` is apart: its modules are named after commands."""
    stems = [p.stem.lstrip("_") for p in PACKAGE.rglob("*.py") if room_of(p) != "cli"]
    stems = [stem for stem in stems if stem not in ("init__", "main__")]
    assert sorted(stems) == sorted(set(stems))


def test_no_class_name_stands_for_two_classes():
    trees = [ast.parse(path.read_text()) for path in PACKAGE.rglob("*.py")]
    names = [node.name for tree in trees for node in tree.body if isinstance(node, ast.ClassDef)]
    public = sorted(name for name in names if not name.startswith("_"))
    assert public == sorted(set(public))


def test_a_chapter_is_no_longer_than_a_chapter():
    assert [path.name for path in MODULES if len(path.read_text().splitlines()) > 400] == []


@pytest.mark.parametrize("room", sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")))
def test_rooms_list_their_chapters(room):
    listed = set(re.findall(r"[a-z][a-z_]*", importlib.import_module(f"npga.{room}").__doc__))
    stems = {path.stem.lstrip("_") for path in (PACKAGE / room).glob("*.py")} - {"init__", "main__"}
    assert stems <= listed


def test_contributing_names_files_that_exist():
    text = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
    named = [word for word in re.findall(r"`([a-z_]+/[a-z_./]*)`", text) if "." not in word.split("/")[0]]
    assert len(named) > 25
    for word in named:
        places = [PACKAGE / word, PACKAGE / f"{word}.py", PACKAGE / f"{word}.hpp", PACKAGE.parents[1] / word]
        assert any(place.exists() for place in places), f"CONTRIBUTING names {word}"


def test_the_check_sees_a_wrong_import():
    assert imported_rooms(ast.parse("from npga.solver._loop import run")) == {"solver"}
    assert imported_rooms(ast.parse("from npga import theory")) == {"theory"}
    assert imported_rooms(ast.parse("import npga.cli")) == {"cli"}
    assert private_imports(ast.parse("from npga.solver._loop import run")) == {"solver._loop"}


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
