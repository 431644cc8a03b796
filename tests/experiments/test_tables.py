"""Tables give back what was written, to the bit."""

import json
import math

import pytest

from npga.errors import InputError
from npga.experiments import draw, folder_sections
from npga.experiments._tables import CURVE_COLUMNS, SUMMARY_COLUMNS, read_rows, read_tables, write_rows


def row(**values):
    base = {"experiment": "ridge", "repetition": 0, "version": "nids", "setting": "tuned", "mixing": "W'", "chosen": 1}
    return base | values


def test_numbers_come_back_to_the_bit(tmp_path):
    rows = [row(iteration=k, round=2 * k, gap=1 / 3**k, kkt=math.pi * 10.0**-k, consensus=5e-324, objective=-0.1)
            for k in range(30)]  # fmt: skip
    write_rows(tmp_path / "a.csv", CURVE_COLUMNS, rows)
    assert read_rows(tmp_path / "a.csv") == rows
    write_rows(tmp_path / "b.csv", CURVE_COLUMNS, read_rows(tmp_path / "a.csv"))
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert not list(tmp_path.glob("*.part"))


def test_what_is_missing_is_empty_and_text_may_hold_commas(tmp_path):
    write_rows(tmp_path / "s.csv", SUMMARY_COLUMNS, [row(rate_measured=math.nan, tuning_message="a, b", theorem="4+")])
    (found,) = read_rows(tmp_path / "s.csv")
    assert found["rate_measured"] is None
    assert found["alpha"] is None
    assert (found["tuning_message"], found["theorem"], found["repetition"]) == ("a, b", "4+", 0)


def test_a_missing_table_is_explained(tmp_path):
    with pytest.raises(InputError, match="npga reproduce"):
        read_rows(tmp_path / "none.csv")


def written(folder):
    """Tables of two runs, as `reproduce` writes them."""
    counts = {f"{count}_{level}": 10 for level in ("1e-4", "1e-8", "1e-12") for count in ("iterations", "rounds")}
    numbers = dict.fromkeys(("alpha", "beta", "gamma", "theta"), 0.5) | {"iterations": 20, "rounds": 20, "gap": 1e-13}
    names = {"status": "converged", "tuning_method": "spectral", "tuning_work": 7, "rounds_per_iteration": 1}
    runs = [row(version=name, **counts, **numbers, **names) for name in ("nids", "dcpa")]
    points = [
        row(version=name, iteration=k, round=k, gap=0.1**k, kkt=0.1, objective=1.0)
        for name in ("nids", "dcpa")
        for k in range(14)
    ]
    write_rows(folder / "summary.csv", SUMMARY_COLUMNS, runs)
    write_rows(folder / "curves.csv", CURVE_COLUMNS, points)
    about = {"title": "T", "theorems": "1", "target": 1e-8, "choices": {}, "draws": {"0": {}}}
    (folder / "choices.json").write_text(json.dumps(about))
    return folder


def test_whole_tables_are_drawn_and_shown(tmp_path):
    written(tmp_path / "ridge")
    assert draw(tmp_path).verdicts["ridge"]
    assert len(folder_sections(tmp_path)) > 3


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("summary.csv", "alpha", "alfa", "no column alpha"),
        ("summary.csv", "0.5", "half", "half"),
        ("summary.csv", "ridge,0", "ridge", "row 1 has too few cells"),
        ("summary.csv", "ridge,0", "ridge,0,0", "row 1 has too many cells"),
        ("summary.csv", "nids", "", "row 1 does not say what it is about"),
        ("curves.csv", "ridge,0", "ridge", "row 1 has too few cells"),
        ("choices.json", "{", "", "JSONDecodeError"),
        ("choices.json", "title", "name", "title"),
        ("choices.json", '"T"', "7", "title is 7"),
    ],
)
@pytest.mark.parametrize("read", [draw, folder_sections])
def test_a_broken_table_is_named_with_the_remedy(tmp_path, name, old, new, said, read):
    folder = written(tmp_path / "ridge")
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=rf"{name} cannot be read .*{said}.*run it again with the same --out"):
        read(tmp_path)


def test_a_table_of_nothing_and_settings_of_somebody_else_are_refused(tmp_path):
    folder = written(tmp_path / "ridge")
    (tmp_path / "settings.json").write_text("[1]")
    with pytest.raises(InputError, match=r"settings.json cannot be read .*list instead of named parts"):
        folder_sections(tmp_path)
    write_rows(folder / "summary.csv", SUMMARY_COLUMNS, [])
    with pytest.raises(InputError, match=r"summary.csv cannot be read .*no row"):
        draw(tmp_path)


def test_what_is_no_text_is_told_alike(tmp_path):
    folder = written(tmp_path / "ridge")
    assert read_tables(folder)[2]["target"] == 1e-8
    (folder / "curves.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="UnicodeDecodeError"):
        read_tables(folder)
