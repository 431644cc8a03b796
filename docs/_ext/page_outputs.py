"""What the Python of a page prints stands below it: the blocks are run from top to bottom while the site is built.

A block without output stays alone, and so does one that begins with ``>>>``, which shows its answers itself. Each page
has a process and an empty folder of its own; one whose code fails is a warning, which ends the build.
``NPGA_GALLERY=0`` leaves pages and gallery unrun.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from typing import Any

from sphinx.util import logging

_BLOCK = re.compile(r"^( *)```python\n(.*?)^\1```\n", re.MULTILINE | re.DOTALL)
_RUN = """
import contextlib, io, json, sys
names, said = {"__name__": "page"}, []
for code in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        if not code.startswith(">>>"):
            exec(compile(code, "page", "exec"), names)
    said.append(out.getvalue())
json.dump(said, sys.stdout)
"""
_TABLED = {"howto/changing-networks"}  # pages on which a table says what is printed
_log = logging.getLogger(__name__)


def with_outputs(text: str, said: list[str]) -> str:
    """The page with what each of its blocks said below it."""
    answers = iter(said)

    def answer(found: re.Match[str]) -> str:
        lines = [line.rstrip() for line in next(answers).rstrip().splitlines()]
        if not lines:
            return found.group()
        look = "page-output" if any(line.startswith("--") for line in lines) else "page-output prose"  # a table scrolls
        shown = ["```{code-block} text", f":class: {look}", "", *lines, "```"]
        return found.group() + "\n" + "".join(f"{found[1] if line else ''}{line}\n" for line in shown)

    return _BLOCK.sub(answer, text)


def run(text: str) -> list[str]:
    """What each block of a page prints."""
    blocks = [re.sub(rf"^{indent}", "", code, flags=re.MULTILINE) for indent, code in _BLOCK.findall(text)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", _RUN], cwd=folder, input=json.dumps(blocks), capture_output=True, text=True,
            env=os.environ | {"MPLBACKEND": "Agg", "COLUMNS": "100"},
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr)
    return list(json.loads(done.stdout))


def answer_page(app: Any, docname: str, content: list[str]) -> None:
    """Sphinx's hook on the source of every page."""
    written = not docname.startswith(("api/", "gallery/")) and docname not in _TABLED
    if not (written and app.config.run_pages and _BLOCK.search(content[0])):
        return
    try:
        content[0] = with_outputs(content[0], run(content[0]))
    except RuntimeError as failed:
        _log.warning("the Python of this page fails:\n%s", failed, location=docname)


def setup(app: Any) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_config_value("run_pages", os.environ.get("NPGA_GALLERY", "1") == "1", "env", [bool])
    app.connect("source-read", answer_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
