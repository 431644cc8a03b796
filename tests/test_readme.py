"""The README and the pages are true: their Python runs, their commands exist, their links lead somewhere."""

from __future__ import annotations

import doctest
import re
import textwrap
import tomllib
from pathlib import Path

import pytest

from npga import functions as fn

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [page for page in (ROOT / "docs").rglob("*.md") if not {"api", "gallery"} & set(page.parts)]
DOCUMENTS = [ROOT / "README.md", *sorted(PAGES)]


def blocks(language, text=README):
    """Fenced blocks, without the indentation that one has in a list."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", text, flags=re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(code) for _, code in found]


@pytest.fixture
def tables_as_they_were():
    """Pages that add a version or a method leave none behind for other tests."""
    from npga.networks import version_rows
    from npga.solver import METHODS

    kept = [(table, dict(table)) for table in (version_rows(), METHODS)]
    yield
    for table, rows in kept:
        table.clear()
        table.update(rows)


@pytest.mark.parametrize(
    "page",
    [page for page in DOCUMENTS if blocks("python", page.read_text(encoding="utf-8"))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_python_of_a_page_runs_from_top_to_bottom(page, capsys, tmp_path, monkeypatch, tables_as_they_were):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "page"}
    for code in blocks("python", page.read_text(encoding="utf-8")):
        if code.startswith(">>>"):
            doctest.run_docstring_examples(code, names, name=page.name, optionflags=doctest.FAIL_FAST)
            assert "Failed example" not in (said := capsys.readouterr().out), said
            continue
        exec(compile(code, str(page), "exec"), names)
        if "print(" in code:
            assert capsys.readouterr().out


def test_toml_blocks_are_toml():
    for page in DOCUMENTS:
        for text in blocks("toml", page.read_text(encoding="utf-8")):
            tomllib.loads(text)


def test_the_first_block_solves_a_real_problem():
    space = {}
    exec(blocks("python")[0], space)
    assert space["result"].status.ok
    import npga

    assert abs(space["result"].x - npga.reference(space["problem"]).x).max() < 1e-6


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    named = {name for block in blocks("sh") for name in re.findall(r"^make ([a-z-]+)", block, flags=re.MULTILINE)}
    assert {"run", "test"} <= named
    for name in named:
        assert re.search(rf"^{name}:", makefile, flags=re.MULTILINE), name


def test_commands_exist():
    from npga.cli import application

    app = application()

    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    known |= {group.name for group in app.registered_groups}
    named = {name for path in DOCUMENTS for name in re.findall(r"(?:^|`)npga ([a-z]+)", path.read_text(), re.MULTILINE)}
    assert named
    assert named <= known


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_figures_lead_somewhere(path):
    """The build writes the gallery from the scripts of examples/ and their header, and the API from the rooms."""
    gallery, scripts = ROOT / "docs" / "gallery", ROOT / "examples"
    generated = {gallery / f"{script.stem}.rst": script for script in scripts.glob("*.py")}
    generated[gallery / "index.rst"] = scripts / "GALLERY_HEADER.rst"
    api, package = ROOT / "docs" / "api", ROOT / "src" / "npga"
    generated |= {api / f"{room.stem}.rst": room for room in package.iterdir()}
    generated |= {api / f"npga.functions.{name}.rst": package for name in fn.__all__}
    generated |= {api / "top.rst": package, api / "messages.md": ROOT / "docs" / "_ext" / "message_index.py"}
    for target in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            place = (path.parent / target).resolve()
            assert generated.get(place, place).exists(), f"{path.name} names {target}"
