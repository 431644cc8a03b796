"""docs/functions.md lists every function, as the classes say today."""

from __future__ import annotations

import doctest
import importlib.util
from pathlib import Path

from npga import functions as fn

DOCS = Path(__file__).parents[2] / "docs"
SPEC = importlib.util.spec_from_file_location("make_functions", DOCS / "make_functions.py")
script = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(script)


def test_the_page_is_up_to_date():
    assert script.PAGE.read_text(encoding="utf-8") == script.page(), "run: python docs/make_functions.py"


def test_the_page_lists_every_class():
    listed = {type(f).__name__ for _, _, functions in script.SECTIONS for f in functions}
    classes = {
        name
        for name in fn.__all__
        if isinstance(getattr(fn, name), type) and issubclass(getattr(fn, name), fn.Function)
    }
    assert listed == classes - {"Function", "Elementwise"}


def test_the_examples_of_the_page_run():
    outcome = doctest.testfile(str(DOCS / "functions.md"), module_relative=False)
    assert outcome.attempted > 0
    assert outcome.failed == 0
