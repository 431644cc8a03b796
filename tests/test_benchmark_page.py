"""The page of benchmarks says what its data say."""

from __future__ import annotations

import csv
import json

import pytest

import report


@pytest.fixture(scope="module")
def results():
    return json.loads((report.FIGURES / "benchmarks.json").read_text(encoding="utf-8"))


def test_the_page_is_its_template_filled_with_the_data_beside_it(results):
    page = report.PAGE.read_text(encoding="utf-8")
    assert report.markdown(results, report.TEMPLATE.read_text(encoding="utf-8")) == page
    assert "{{" not in page


def test_the_figure_has_its_data_beside_it(results):
    with (report.FIGURES / "benchmarks.csv").open(newline="", encoding="utf-8") as file:
        stored = list(csv.DictReader(file))
    assert stored == [
        {column: "" if row.get(column) is None else str(row[column]) for column in report.COLUMNS}
        for row in report.rows(results)
    ]
    assert (report.FIGURES / "benchmarks.png").exists()
