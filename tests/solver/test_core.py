"""The compiled core: its structs and formulas are those of Python, and a machine without it says so."""

from __future__ import annotations

import ctypes
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_compiled import difference, start
from test_recursion import network_for, with_tame_c

import npga
from helpers.families import COUPLING, PROXIMABLE, SMOOTH, VERSIONS, random_problem, tame_steps
from helpers.registry import BUILT_IN
from npga import functions as fn
from npga.solver import Npga, _packing, core, core_status
from npga.solver._compiled import CompiledNpga
from npga.solver.core import _build

OPERATIONS = ("value", "grad", "prox", "conj_prox")


def apply(f, operation, x, t=1.0):
    """One operation of a function by the core: what one iteration of an agent without neighbours makes of x.

    As g its prox is x+, as f its gradient is what x loses, and as h the prox of its conjugate is lam+, where A = 0.
    """
    network, extra = npga.Network.complete(1), npga.version("extra")
    size = x.size
    if operation == "conj_prox":
        problem = npga.Problem([npga.Agent(np.zeros((size, 1), x.dtype), fn.Zero())], f)
        method = CompiledNpga(problem, network, extra, npga.Steps(1.0, t))
        return method.advance(method.start(np.zeros(1, x.dtype), x[None]), 1).lam[0]
    smooth = operation == "grad" or not f.has_prox
    parts = (f, fn.Zero()) if smooth else (fn.Zero(), f)
    problem = npga.Problem([npga.Agent(np.zeros((1, size), x.dtype), *parts)], fn.Zero())
    step = 2.0**40 if operation == "grad" else t  # so long that x is lost beside it, and not the gradient
    method = CompiledNpga(problem, network, extra, npga.Steps(step, 1.0))
    begun = method.start(x, np.zeros((1, 1), x.dtype))
    if operation == "value":
        return method.meter(x, None).measure(begun, 0.0).record.objective
    moved = method.advance(begun, 1).x
    return (x - moved) / x.dtype.type(step) if operation == "grad" else moved


def points(dim, dtype):
    rng = np.random.default_rng(3)
    return [(scale * rng.standard_normal(dim)).astype(dtype) for scale in (1e-3, 1.0, 30.0)]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", BUILT_IN, ids=lambda case: case.id)
def test_every_formula_is_that_of_the_class(case, dtype):
    f, tolerance = case.f.astype(dtype), 1e-12 if dtype is np.float64 else 2e-5
    tested = 0
    for x in points(case.dim, dtype):
        for operation in OPERATIONS:
            if (operation == "grad" and not f.has_grad) or ("prox" in operation and not f.has_prox):
                continue
            for t in (0.01, 1.0, 50.0) if "prox" in operation else (1.0,):
                try:
                    found = apply(f, operation, x, t)
                except _packing.UnsupportedError:
                    continue
                expected = (
                    f(x) if operation == "value" else getattr(f, operation)(x, *([t] if "prox" in operation else []))
                )
                size = 1.0 + np.abs(x).max() + np.abs(np.where(np.isfinite(expected), expected, 0.0)).max()
                np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * size, err_msg=operation)
                tested += 1
    assert tested


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("operation", ["prox", "conj_prox"])
def test_the_logistic_prox_at_all_scales(operation, dtype):
    rng = np.random.default_rng(0)
    eps = np.finfo(dtype).eps
    for weight, t in ((1.0, 1.0), (1e-3, 1e-3), (1e3, 1.0), (1.0, 1e3), (1e3, 1e-6), (1e-5, 1e5), (1e6, 1e6)):
        labels = rng.choice([-1.0, 1.0], 400).astype(dtype)
        f = fn.Logistic(labels, (weight * rng.uniform(0.1, 2.0, 400)).astype(dtype))
        x = (rng.standard_normal(400) * 10.0 ** rng.uniform(-3, 3, 400)).astype(dtype)
        expected = getattr(f, operation)(x, t)
        found = apply(f, operation, x, t)
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=20 * eps * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("case", BUILT_IN, ids=lambda case: case.id)
def test_what_is_not_a_number_is_not_hidden(case, dtype):
    x = np.full(case.dim, np.nan, dtype)
    for operation in ("prox", "conj_prox"):
        try:
            found = apply(case.f.astype(dtype), operation, x, 0.5)
        except _packing.UnsupportedError:
            continue
        constant = operation == "conj_prox" and isinstance(case.f, fn.Zero | fn.Linear)
        assert constant or np.isnan(found).any() or not np.isnan(getattr(case.f, operation)(x, 0.5)).any()


SEEDS = range(40)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_problems_versions_and_types(seed):
    rng = np.random.default_rng(seed)
    smooth, proximable, coupling = (str(rng.choice(sorted(kinds))) for kinds in (SMOOTH, PROXIMABLE, COUPLING))
    dtype, tolerance = ((np.float64, 1e-12), (np.float32, 2e-5))[seed % 2]
    name = VERSIONS[seed % len(VERSIONS)]
    double = random_problem(seed, 6, 4, smooth, proximable, coupling, str(rng.choice(["dense", "sparse"])))
    agents = [npga.Agent(agent.A.astype(dtype), agent.f, agent.g) for agent in double.agents]
    problem, network = npga.Problem(agents, double.h), network_for(name, 6, seed)
    steps = tame_steps(double, 0.5, float(rng.choice([0.0, 0.6])))
    if seed % 3 == 0:
        steps = npga.Steps(tuple(steps.alpha * rng.uniform(0.3, 1.0, 6)), steps.beta, steps.gamma, steps.theta)
    version = with_tame_c(name, network, steps)
    vectorised, compiled = (make(problem, network, version, steps) for make in (Npga, CompiledNpga))
    a, b = start(vectorised), start(compiled)
    for count in (1, 2, 7):
        a, b = vectorised.advance(a, count), compiled.advance(b, count)
        assert difference(a, b) < tolerance


def test_each_agent_has_its_alpha_and_equal_ones_are_one():
    problem = random_problem(4, proximable="l2", coupling="squared-loss")
    network, version, steps = npga.Network.ring(6), npga.version("nids"), tame_steps(problem)
    one = CompiledNpga(problem, network, version, steps)
    same = CompiledNpga(problem, network, version, npga.Steps((steps.alpha,) * 6, steps.beta, steps.gamma))
    np.testing.assert_array_equal(one.advance(start(one), 30).lam, same.advance(start(same), 30).lam)


# ------------------------------------------------------------------ what Python says of the core

SIZES = """
#include "plan.h"
#include <cstdio>
template <class T> void print() {{ {} }}
int main() {{ print<float>(), print<double>(); }}
"""


@pytest.mark.skipif(_build.compiler() is None, reason="no C++ compiler at hand")
def test_structs_are_read_from_the_header_as_the_compiler_reads_them(tmp_path):
    """Every field is where the compiler puts it, for both types of numbers."""
    structs = {name: kind for name, kind in vars(core.structs).items() if hasattr(kind, "_fields_")}
    text = (_build.HERE / "plan.h").read_text()
    assert set(structs) == set(re.findall(r"struct (\w+) {", text))
    lines, expected = [], []
    for name, kind in structs.items():
        cpp = f"npga::{name}<T>" if f"template <class T> struct {name} " in text else f"npga::{name}"
        expected.append(ctypes.sizeof(kind))
        lines.append(f'using {name}_ = {cpp}; std::printf("%zu ", sizeof({name}_));')
        for field, _ in kind._fields_:
            expected.append(getattr(kind, field).offset)
            lines.append(f'std::printf("%zu ", __builtin_offsetof({name}_, {field}));')
    source, program = tmp_path / "sizes.cpp", tmp_path / "sizes"
    source.write_text(SIZES.format("\n".join(lines)))
    command = [*_build.compiler(), "-std=c++17", f"-I{_build.HERE}", str(source), "-o", str(program)]
    subprocess.run(command, check=True, capture_output=True)
    said = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    assert [int(word) for word in said.split()] == 2 * expected


def test_kinds_have_the_same_numbers():
    text = (_build.HERE / "plan.h").read_text()
    number, found = -1, {}
    listed = re.sub(r"//.*", "", re.search(r"enum Kind : Int \{(.*?)\};", text, re.DOTALL)[1])
    for item in listed.split(","):
        name, _, given = (part.strip() for part in item.partition("="))
        number = int(given) if given else number + 1
        found[name] = number
    assert found == {kind.name: int(kind) for kind in fn.Kind}
    assert all(_packing.core().knows(kind) for kind in fn.Kind if kind is not fn.Kind.BENT)


def test_a_kind_without_a_formula_is_refused(monkeypatch):
    monkeypatch.setattr(core.Core, "knows", lambda self, kind: kind != fn.Kind.HUBER)
    problem = random_problem(1, smooth="huber")
    with pytest.raises(npga.errors.InputError, match=r"f of agent 0 is Huber.*no kernel"):
        npga.solve(problem, npga.Network.ring(6), "extra", tame_steps(problem), path="compiled")
    assert npga.solve(problem, npga.Network.ring(6), "extra", tame_steps(problem), max_iters=5).path == "vectorised"


# ------------------------------------------------------------------ where it comes from


@pytest.fixture
def looked_for_again():
    core.find_core.cache_clear()
    yield
    core.find_core.cache_clear()


@pytest.mark.usefixtures("looked_for_again")
def test_without_a_core_numpy_runs_and_the_reason_is_told(monkeypatch, tmp_path, caplog):
    monkeypatch.delenv("NPGA_CORE", raising=False)
    monkeypatch.setattr(_build, "compiler", lambda: None)
    libraries = _build.libraries
    monkeypatch.setattr(_build, "libraries", lambda folder=tmp_path: libraries(folder))
    build = _build.build
    monkeypatch.setattr(_build, "build", lambda: build(tmp_path))
    problem = random_problem(1)
    arguments = problem, npga.Network.ring(6), "extra", tame_steps(problem)
    with caplog.at_level(logging.WARNING, "npga"):
        assert npga.solve(*arguments, max_iters=5).path == "vectorised"
    assert "NumPy" in caplog.text
    assert core_status()[0] is False
    assert "no C++ compiler was found" in core_status()[1]
    with pytest.raises(npga.errors.InputError, match="pip install ziglang"):
        npga.solve(*arguments, path="compiled")


@pytest.mark.usefixtures("looked_for_again")
def test_another_library_can_be_chosen(monkeypatch):
    monkeypatch.setenv("NPGA_CORE", str(_build.libraries()["baseline"]))
    assert "NPGA_CORE" in core_status()[1]
    problem = random_problem(2)
    assert npga.solve(problem, npga.Network.ring(6), "extra", tame_steps(problem), max_iters=5).path == "compiled"


def test_what_a_library_was_made_from_is_in_its_name(monkeypatch):
    before = set(_build.libraries().values())
    monkeypatch.setattr(_build, "FLAGS", [*_build.FLAGS, "-g"])
    assert before.isdisjoint(_build.libraries().values())


needs_a_compiler = pytest.mark.skipif(_build.compiler() is None, reason="no C++ compiler at hand to build with")


@needs_a_compiler
def test_a_failed_build_shows_what_the_compiler_said(monkeypatch, tmp_path):
    monkeypatch.setattr(_build, "FLAGS", [*_build.FLAGS, "-fno-such-flag"])
    with pytest.raises(_build.BuildError, match="no-such-flag"):
        _build.build(tmp_path)
    assert not list(tmp_path.glob("core-*"))


@needs_a_compiler
@pytest.mark.slow
def test_sanitizers_find_nothing(tmp_path):
    """The tests of the core again, with a library that checks every address and every operation."""
    command = _build.compiler()
    runtime = subprocess.run([*command, "-print-file-name=libasan.so"], capture_output=True, text=True).stdout.strip()
    if not Path(runtime).is_absolute():
        pytest.skip("the compiler has no address sanitizer that can be loaded first")
    flags = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    library = _build.build(tmp_path, flags)["baseline"]
    here = Path(__file__).parent
    files = [str(here / f"test_{name}.py") for name in ("core", "compiled", "compiled_schedules", "compiled_trace")]
    environment = os.environ | {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "NPGA_CORE": str(library)}
    pytest_run = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-k",
        "not chosen and not forked",
    ]
    done = subprocess.run([*pytest_run, *files], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
