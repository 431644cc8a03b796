"""The site: every public name has a docstring that agrees with its signature, and every page a place."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

import numpy.typing as npt
import pytest

DOCS = Path(__file__).parents[1] / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

pytest.importorskip("numpydoc", reason="numpydoc comes with npga[docs]")
import api_pages  # noqa: E402
import gallery_pages  # noqa: E402
import message_index  # noqa: E402
import page_outputs  # noqa: E402


def test_docstrings_agree_with_signatures():
    assert api_pages.complaints() == []


def test_a_docstring_that_disagrees_is_seen():
    def wrong(a, b):
        """Do nothing.

        Parameters
        ----------
        a, c
            Two numbers.
        """

    wrong.__module__ = "npga.wrong"
    assert list(api_pages._complaints_about(wrong)) == [
        "does not describe b", "describes c, which its signature does not have",
    ]  # fmt: skip


def test_every_public_name_gets_a_page(tmp_path):
    api_pages.write_pages(tmp_path)
    names = {f"{module}.{name}" for module, items in api_pages.public_names().items() for name in items}
    assert {"npga.solve", "npga.functions.Quantile", "npga.functions.GroupL2", "npga.runtimes.launch"} <= names
    assert names <= {path.stem for path in tmp_path.glob("*.rst")}


def test_parameters_have_the_types_of_the_signature():
    def example(a: npt.ArrayLike, b: int | None = None, c: Any = None, *, d: bool = False):
        """Do nothing.

        Parameters
        ----------
        a
            An array.
        b, d
            A number and a choice.
        c
            Anything.

        Returns
        -------
        d
            Nothing.
        """

    lines = inspect.getdoc(example).splitlines()
    api_pages.escape_docstring(None, "function", "example", example, None, lines)
    assert [line for line in lines if re.match("[abcd]\\b", line)] == [
        "a : ArrayLike", "b, d : int | None, bool", "c", "d",
    ]  # fmt: skip
    assert api_pages.readable_signature(None, "function", "example", example) == (
        "(a, b=None, c=None, *, d=False)",
        None,
    )

    def short(a: Any, b: str = "b") -> npt.ArrayLike:
        """Do nothing."""

    assert api_pages.readable_signature(None, "function", "short", short) == ("(a, b: str = 'b')", "ArrayLike")


def test_formulas_keep_their_characters():
    assert api_pages.plain("|x - x*| <= `tol` + ``a*b`` x_") == r"\|x - x\*\| <= `tol` + ``a*b`` x\_"


def test_the_index_of_messages_finds_them():
    found = message_index.messages()
    assert any("is not connected" in sentence for _, sentence in found["networks"])
    assert any(sentence == "version {name} is unknown; did you mean {...}?" for _, sentence in found["networks"])
    assert any(
        "must be a square matrix" in sentence for _, sentence in found["networks"]
    )  # raise error(...), an argument
    assert any("did not connect within" in sentence for _, sentence in found["runtimes"])  # not the first argument
    assert any("which is not installed" in sentence for _, sentence in found["errors"])  # in the error's own __init__
    assert all(room in found for room in ("functions", "networks", "problem", "solver", "runtimes", "cli"))


def test_every_example_is_named_at_the_head_of_the_gallery_in_its_order():
    examples = DOCS.parent / "examples"
    header = (examples / "GALLERY_HEADER.rst").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^- :doc:`(\w+)`: .*\?$", header, re.MULTILINE)) == gallery_pages.ORDER
    assert set(gallery_pages.ORDER) == {path.stem for path in examples.glob("*.py")}


def test_every_page_has_a_place_in_the_tree():
    written = [path for path in DOCS.rglob("*.md") if not {"api", "gallery"} & set(path.parts)]
    named = set()
    for page in written:
        for block in re.findall(r"```{toctree}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.splitlines():
                if line and not line.startswith(":"):
                    named.add((page.parent / re.sub(r".*<(.*)>", r"\1", line.strip())).resolve())
    pages = {path.with_suffix("").resolve() for path in written}
    assert pages - named == {(DOCS / "index").resolve()}


def test_what_a_page_prints_stands_below_its_code():
    page = 'One.\n\n```python\na = 1\nprint(a, "one")\n```\n\n1. In a list:\n\n   ```python\n   print(a + 1)\n   ```\n'
    page += "\n```python\nb = a\n```\n\n```python\n>>> a\n1\n```\n"
    assert page_outputs.run(page) == ["1 one\n", "2\n", "", ""]
    shown = page_outputs.with_outputs(page, page_outputs.run(page))
    assert (
        '```python\na = 1\nprint(a, "one")\n```\n\n```{code-block} text\n:class: page-output prose\n\n1 one\n```\n'
        in shown
    )
    assert "   ```\n\n   ```{code-block} text\n   :class: page-output prose\n\n   2\n   ```\n" in shown
    assert shown.count("code-block") == 2


def test_a_page_whose_python_fails_is_seen():
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        page_outputs.run("```python\n1 / 0\n```\n")
