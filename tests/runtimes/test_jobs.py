"""job.toml: what is shared, what is private, and what is refused."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from scipy import sparse

import npga
from helpers.families import COUPLING, PROXIMABLE, SMOOTH, random_problem, tame_steps
from helpers.rehearsal import instance, make_job, solution
from npga import functions as fn
from npga.errors import InputError
from npga.runtimes import (
    launch,
    load_agent,
    load_function,
    read_job,
    read_own_part,
    save_agent,
    save_function,
    write_job,
)
from npga.runtimes._party import build_agent
from npga.solver import local_agents


@pytest.mark.parametrize("kind", sorted(SMOOTH | PROXIMABLE))
def test_functions_come_back_bit_for_bit(tmp_path, kind):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(6)
    for family in (SMOOTH, PROXIMABLE):
        if kind in family:
            function = family[kind](rng, 6)
            save_function(tmp_path / "f.npz", function)
            found = load_function(tmp_path / "f.npz")
            assert type(found) is type(function)
            np.testing.assert_array_equal(found(x), function(x))
            for call in ("grad", "prox"):
                if getattr(function, f"has_{call}"):
                    more = (0.3,) if call == "prox" else ()
                    np.testing.assert_array_equal(getattr(found, call)(x, *more), getattr(function, call)(x, *more))


@pytest.mark.parametrize("kind", sorted(COUPLING))
def test_coupling_functions_come_back_bit_for_bit(tmp_path, kind):
    rng = np.random.default_rng(1)
    x, function = rng.standard_normal(6), COUPLING[kind](rng, rng.standard_normal(6))
    save_function(tmp_path / "h.npz", function)
    np.testing.assert_array_equal(load_function(tmp_path / "h.npz").conj_prox(x, 0.7), function.conj_prox(x, 0.7))


def test_composites_and_sparse_matrices_come_back(tmp_path):
    A = sparse.random_array((5, 4), density=0.5, rng=np.random.default_rng(0)).tocsr()
    f = fn.join([fn.SquaredNorm(2.0), fn.LeastSquares(np.eye(2), np.ones(2))], [2, 2])
    g = fn.GroupL2(0.3, [[0, 2], [1, 3]])
    save_agent(tmp_path / "a.npz", npga.Agent(A, f, g), x0=np.arange(4.0))
    agent, x0, lam0 = load_agent(tmp_path / "a.npz")
    x = np.random.default_rng(1).standard_normal(4)
    assert (agent.A != A).nnz == 0
    np.testing.assert_array_equal(agent.f.grad(x), f.grad(x))
    np.testing.assert_array_equal(agent.g.prox(x, 0.5), g.prox(x, 0.5))
    np.testing.assert_array_equal(x0, np.arange(4.0))
    assert lam0 is None


def test_code_cannot_be_stored(tmp_path):
    custom = fn.Custom(value=lambda x: 0.5 * (x**2).sum(-1), grad=lambda x: x, mu=1.0, L=1.0)
    with pytest.raises(InputError, match="entry point"):
        save_agent(tmp_path / "a.npz", npga.Agent(np.eye(2), custom))
    from scipy.sparse.linalg import aslinearoperator

    with pytest.raises(InputError, match="entry point"):
        save_agent(tmp_path / "a.npz", npga.Agent(aslinearoperator(np.eye(2)), fn.Zero()))


def test_a_stored_file_never_runs_code(tmp_path):
    np.savez(tmp_path / "a.npz", A=np.array([object()], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        load_agent(tmp_path / "a.npz")


def test_an_agent_needs_nobody_elses_file(tmp_path):
    path, problem, network, version, steps = make_job(tmp_path / "job", 5)
    other = tmp_path / "party3"
    (other / "private").mkdir(parents=True)
    shutil.copy(path, other)
    shutil.copytree(path.parent / "shared", other / "shared")
    shutil.copy(path.parent / "private" / "agent3.npz", other / "private")
    job = read_job(other / "job.toml")
    assert job.digest == read_job(path).digest
    found = build_agent(job, 3, read_own_part(job, 3))
    wanted = local_agents(problem, network, version, steps)[3]
    for name, array in wanted.state.arrays().items():
        np.testing.assert_array_equal(found.state.arrays()[name], array)
    assert found.neighbours == wanted.neighbours == tuple(network.neighbors(3).tolist())
    with pytest.raises(InputError, match=r"agent2\.npz does not exist"):
        read_own_part(job, 2)


ENTRY = """
import numpy as np
import npga
from npga import functions as fn

def h():
    return fn.SquaredLoss(np.arange(3.0), 0.5)

def agent(i):
    rng = np.random.default_rng(i)
    return npga.Agent(rng.standard_normal((3, 2)), fn.SquaredNorm(1.0), fn.L1(0.1))
"""


def entry_job(directory, module, text, dtype="float64"):
    """A job whose agents are built by functions of a module of its own."""
    (directory / f"{module}.py").write_text(text)
    (directory / "steps.json").write_text('{"steps": {"alpha": 0.2, "beta": 0.3, "gamma": 0.5}}')
    (directory / "job.toml").write_text(
        f'[problem]\np = 3\ndtype = "{dtype}"\nh = "{module}:h"\nagents = "{module}:agent"\n'
        '[network]\nn = 4\nedges = [[0, 1], [1, 2], [2, 3]]\nmixing = "metropolis"\nlazy = true\n'
        '[version]\nname = "npga-i"\n[steps]\nfile = "steps.json"\n[stop]\nmax_iters = 40\n'
    )
    return directory / "job.toml"


def test_an_operator_of_another_type_is_refused(tmp_path):
    text = ENTRY.replace("rng.standard_normal((3, 2))", "aslinearoperator(rng.standard_normal((3, 2)))")
    job = entry_job(tmp_path, "operator_parts", f"from scipy.sparse.linalg import aslinearoperator\n{text}", "float32")
    with pytest.raises(InputError, match="LinearOperator of float64; expected float32"):
        read_own_part(read_job(job), 0)


def test_entry_points_build_one_agent_each(tmp_path):
    done = launch(entry_job(tmp_path, "my_parts", ENTRY), "inprocess", tmp_path / "out")
    space: dict = {}
    exec(ENTRY, space)
    problem = npga.Problem([space["agent"](i) for i in range(4)], space["h"]())
    network = npga.Network.path(4, "metropolis").lazy()
    x, _, _ = solution(problem, network, npga.version("npga-i"), npga.Steps(0.2, 0.3, 0.5), 40)
    np.testing.assert_array_equal(done.x, x)


def test_versions_of_your_own_and_presets(tmp_path):
    problem, network, _, steps = instance(5)
    mine = npga.Version(name="mine", B2=[1, -1], C=[0], D=[0, 0, 1])
    job = read_job(write_job(tmp_path / "a", problem, network, mine, steps))
    assert job.version.polynomials == mine.polynomials
    job = read_job(write_job(tmp_path / "b", problem, network, "dcpa", npga.Steps(0.1, 0.1)))
    assert job.steps.theta == 1.0
    explicit = npga.Version.from_matrices("x", np.eye(5) - network.W.toarray())
    with pytest.raises(InputError, match=r"job\.toml holds coefficients"):
        write_job(tmp_path / "c", problem, network, explicit, steps)


def test_the_network_comes_back_bit_for_bit(tmp_path):
    problem = random_problem(0, 9)
    for k, network in enumerate(
        (npga.Network.erdos_renyi(9, 0.4, seed=2), npga.Network.grid(3, 3, "metropolis").lazy())
    ):
        job = read_job(write_job(tmp_path / str(k), problem, network, "nids", tame_steps(problem)))
        assert job.network == network


def test_the_digest_sees_what_is_shared_and_nothing_else(tmp_path):
    path, *_ = make_job(tmp_path / "a", 4, max_iters=10)
    digest = read_job(path).digest
    text = path.read_text()
    for old, new in (
        ("max_iters = 10", "max_iters = 11"),
        ("alpha = 0.", "alpha = 0.1"),
        ('name = "extra"', 'name = "nids"'),
    ):
        assert old in text
        path.write_text(text.replace(old, new))
        assert read_job(path).digest != digest, old
    port = next(line for line in text.splitlines() if line.startswith("address"))
    path.write_text(text.replace(port, 'address = "example.org:7000"').replace("[run]", "[run]\npatience = 99.0"))
    assert read_job(path).digest == digest
    path.write_text(text)
    save_function(path.parent / "shared" / "h.npz", fn.SquaredLoss(np.zeros(4), 1.0))
    assert read_job(path).digest != digest


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[steps]", "[stepz]", r"no section \[steps\]"),
        ("max_iters", "max_iter", "did you mean 'max_iters'"),
        ("format = 1", "format = 9", "format 9"),
        ("agents = [0]", "agents = [1]", "each of 0..3 once"),
        ('dtype = "float64"', 'dtype = "int32"', "float64 or float32"),
        ("p = 4", "p = 5", "expected p = 5"),
        ('name = "extra"', 'name = "extrA2"', "did you mean"),
        ("format = 1", "format = ", "not valid TOML"),
    ],
)
def test_mistakes_are_named(tmp_path, old, new, words):
    path, *_ = make_job(tmp_path, 4, max_iters=10)
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=words):
        read_job(path)


def test_an_agent_with_another_p_is_refused(tmp_path):
    path, *_ = make_job(tmp_path, 4)
    save_agent(tmp_path / "private" / "agent1.npz", npga.Agent(np.ones((3, 2)), fn.Zero()))
    with pytest.raises(InputError):
        read_own_part(read_job(path), 1)


@pytest.mark.parametrize("count", [1, 3, 8, 50])
def test_a_thousand_agents_on_a_few_processes_are_split_evenly(count):
    network = npga.Network.ring(1000)
    layout = npga.runtimes.Layout.even(network, count)
    sizes = {len(agents) for agents in layout.parties}
    assert max(sizes) - min(sizes) <= 1
    for party in range(count):
        for other, border in layout.borders(party).items():
            assert layout.borders(other)[party].ours == border.theirs
            assert len(border.ours) <= 2
