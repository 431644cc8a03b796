"""Tables give back what was written, to the bit."""

import math

import pytest

from npga.errors import InputError
from npga.experiments._report import CURVE_COLUMNS, SUMMARY_COLUMNS, read_rows, write_rows


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
