"""Every script in `examples` runs, at its small size; `make docs` runs all of them at full size."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_it_runs(script, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), "--small"], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"MPLBACKEND": "Agg"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_it_begins_with_a_question_and_ends_with_a_figure_and_a_number(script):
    text = script.read_text(encoding="utf-8")
    heading, question, *_ = ast.get_docstring(ast.parse(text)).split("\n\n")
    title, rule = heading.splitlines()
    assert rule == "=" * len(title)
    assert question.startswith("*")
    assert question.endswith("?*")
    assert "plt.show()" in text
    assert "assert " in text[text.index("plt.show()") :], "no number is checked after the figure"
