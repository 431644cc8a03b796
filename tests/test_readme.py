"""The README is true: its Python runs, its commands exist, its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


# Pages whose Python stands on its own.
RUN = [ROOT / "README.md", ROOT / "docs" / "cli.md", ROOT / "docs" / "tuning.md"]


def blocks(language, text=README):
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    "code",
    [code for path in RUN for code in blocks("python", path.read_text(encoding="utf-8"))],
    ids=lambda code: code.strip().splitlines()[-1][:40],
)
def test_python_blocks_run(code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "page", "exec"), {"__name__": "page"})
    if "print(" in code:
        assert capsys.readouterr().out


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
    for target in re.findall(r"\]\(([^)#\s]+)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{path.name} names {target}"
