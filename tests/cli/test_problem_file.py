"""Problem files: what they mean, and what is said about those that mean nothing."""

import numpy as np
import pytest

import npga
from npga import functions as fn
from npga.cli._problem_file import NETWORKS, read_problem
from npga.errors import NpgaError


def test_a_file_is_the_problem_it_describes(problem_file, arrays):
    loaded = read_problem(problem_file())
    agents = [npga.Agent(A=arrays[f"A{i}"], f=fn.SquaredNorm(0.1), g=fn.L1(0.05)) for i in range(5)]
    expected = npga.Problem(agents, fn.SquaredLoss(arrays["y"], 0.25))
    assert loaded.problem.fingerprint == expected.fingerprint
    assert loaded.network == npga.Network.ring(5)
    assert loaded.version == npga.version("nids")
    assert loaded.steps == npga.Steps(2.0, 0.1, 1.0, 0.0)
    assert (loaded.tol, loaded.max_iters) == (1e-10, 100_000)


def test_columns_sizes_and_agents_of_their_own(problem_file, arrays):
    arrays["X"], arrays["c"] = np.hstack([arrays[f"A{i}"] for i in range(5)]), np.ones(3)
    path = problem_file(
        ('A = "A{agent}"', 'columns = "X"\nsizes = [3, 2, 2, 2, 1]'),
        ("[network]", '[[problem.agent]]\nindex = 0\nf = { kind = "SquaredNorm", center = "@c" }\n\n[network]'),
    )
    problem = read_problem(path).problem
    assert problem.sizes.tolist() == [3, 2, 2, 2, 1]
    assert problem.agents[0].f.center.tolist() == [1.0, 1.0, 1.0]
    assert problem.agents[1].f.weight == 0.1
    assert np.array_equal(problem.agents[0].A, arrays["X"][:, :3])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("edges = [[0, 1], [1, 2], [2, 3], [3, 4]]", npga.Network.path(5)),
        ('edges = "@links"\nmixing = "metropolis"', npga.Network.star(5, "metropolis")),
        ('kind = "grid"\nrows = 1\ncols = 5\nlazy = true', npga.Network.path(5).lazy()),
        ('kind = "erdos-renyi"\nn = 5\np = 0.6\nseed = 3\nc = 2.0', npga.Network.erdos_renyi(5, 0.6, seed=3, c=2.0)),
        ('kind = "barabasi-albert"\nn = 5\nm = 2', npga.Network.barabasi_albert(5, 2)),
        ('edges = [[0, 1], [1, 2], [2, 3], [3, 4]]\nmixing = "@W"', npga.Network.path(5)),
    ],
)
def test_networks(problem_file, arrays, text, expected):
    arrays["links"] = np.array([[0, 1], [0, 2], [0, 3], [0, 4]])
    arrays["W"] = npga.Network.path(5).W.toarray()
    assert read_problem(problem_file(('kind = "ring"\nn = 5', text))).network.fingerprint() == expected.fingerprint()


def test_functions_that_are_joined_shifted_or_scaled(problem_file, arrays):
    arrays |= {f"c{i}": np.full(2, float(i)) for i in range(5)}
    path = problem_file(
        ('kind = "SquaredNorm", weight = 0.1', 'kind = "Shifted", f = { kind = "SquaredNorm" }, center = "@c{agent}"'),
        ('{ kind = "L1", weight = 0.05 }', '{ kind = "Scaled", f = { kind = "L1" }, weight = 0.05 }'),
        (
            'kind = "SquaredLoss", target = "@y", weight = 0.25',
            'kind = "SeparableSum", sizes = [1, 3], '
            'parts = [{ kind = "Equality", b = [1.0] }, { kind = "Huber", delta = 0.5 }]',
        ),
    )
    made = read_problem(path).problem
    agents = [
        npga.Agent(A=arrays[f"A{i}"], f=fn.Shifted(fn.SquaredNorm(), arrays[f"c{i}"]), g=fn.Scaled(fn.L1(), 0.05))
        for i in range(5)
    ]
    h = fn.SeparableSum([fn.Equality([1.0]), fn.Huber(0.5)], [1, 3])
    assert made.fingerprint == npga.Problem(agents, h).fingerprint


def test_every_network_of_the_library_has_a_name():
    assert set(NETWORKS) >= {"path", "ring", "star", "complete", "grid", "erdos-renyi"}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('kind = "SquaredLoss"', 'kind = "SquaredLos"', "did you mean 'SquaredLoss'"),
        ("weight = 0.05", "wight = 0.05", "has no 'wight'; it has weight"),
        ('target = "@y", ', "", "a SquaredLoss without target"),
        ('"@y"', '"@z"', "names the array 'z'"),
        ('A = "A{agent}"', 'A = "B{agent}"', "hold no 'B0'"),
        ('A = "A{agent}"', 'A = "A"', r"expected a name with \{agent\}"),
        ('A = "A{agent}"', "", "needs one of A = "),
        ("[network]", "[networks]", "did you mean 'network'"),
        ('kind = "ring"', 'kind = "rong"', "did you mean 'ring'"),
        ("n = 5", "", "needs n"),
        ("n = 5", "n = 5\nradius = 2", "unknown key 'radius' in"),
        ('version = "nids"', 'version = "nid"', "did you mean 'nids'"),
        ('version = "nids"', "", "steps belong to a version"),
        ("alpha = 2.0, ", "", "has no alpha"),
        ("alpha = 2.0", "alpha = -2.0", "step alpha is -2.0"),
        ("tol = 1e-10", "tolerance = 1e-10", "did you mean 'tol'"),
        ('"problem.npz"', '"other.npz"', "put the file there"),
        ("[problem]", "[problem", "not valid TOML"),
        ("f = {", "[[problem.agent]]\nindex = 9\nf = {", "has no f"),
        ("weight = 0.1 }", "weight = -0.1 }", "positive"),
        ('f = { kind = "SquaredNorm", weight = 0.1 }', "f = 3", "expected a table such as"),
        ('kind = "ring"\nn = 5', "lazy = true", "needs edges = "),
        ("[network]", "[[problem.agent]]\nindex = 9\n\n[network]", "index 9; expected a number from 0 to 4"),
        ('A = "A{agent}"', 'columns = "A0"\nsizes = [1, 2]', "add up to the columns"),
    ],
)
def test_errors_say_what_to_do(problem_file, old, new, words):
    with pytest.raises(NpgaError, match=words):
        read_problem(problem_file((old, new)))


def test_missing_and_foreign_files(tmp_path, problem_file):
    with pytest.raises(NpgaError, match="does not exist"):
        read_problem(tmp_path / "none.toml")
    path = problem_file()
    (tmp_path / "problem.npz").write_bytes(b"junk")
    with pytest.raises(NpgaError, match=r"not a whole \.npz"):
        read_problem(path)
