"""job.toml: what is shared, what is private, and what is refused."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from scipy import sparse
from typer.testing import CliRunner

import npga
from helpers.families import COUPLING, PROXIMABLE, SMOOTH, random_problem, tame_steps
from helpers.rehearsal import finish, instance, make_job, solution, start
from npga import functions as fn
from npga.cli import application
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
        read_own_part(read_job(job, trust_code=True), 0)


def test_entry_points_build_one_agent_each(tmp_path):
    done = launch(entry_job(tmp_path, "my_parts", ENTRY), "inprocess", tmp_path / "out", trust_code=True)
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
        ("alpha = 0.", "alpha = 0.1"),
        ('name = "extra"', 'name = "nids"'),
    ):
        assert old in text
        path.write_text(text.replace(old, new))
        assert read_job(path).digest != digest, old
    port = next(line for line in text.splitlines() if line.startswith("address"))
    path.write_text(text.replace(port, 'address = "example.org:7000"').replace("[run]", "[run]\npatience = 99.0"))
    assert read_job(path).digest == digest
    limits = read_job(path).limits
    path.write_text(text.replace("max_iters = 10", "max_iters = 11"))  # agreed at the start, not part of a state
    assert read_job(path).digest == digest
    assert read_job(path).limits != limits
    path.write_text(text)
    save_function(path.parent / "shared" / "h.npz", fn.SquaredLoss(np.zeros(4), 1.0))
    assert read_job(path).digest != digest


MISTAKES = [
    ("[network]", "[netwerk]", r"no section \[network\]"),
    ("[steps]", "[stepz]", "'stepz'; did you mean 'steps'"),
    ("[stop]", "[stopp]", "'stopp'; did you mean 'stop'"),
    ("max_iters", "max_iter", "did you mean 'max_iters'"),
    ("address", "adress", r"'adress' in \[\[party\]\] number 0; did you mean 'address'"),
    ("format = 1", "format = 9", "format 9"),
    ("format = 1", 'format = "1"', "format '1'"),
    ("format = 1", "format = ", "not valid TOML"),
    ("[stop]", "[[stop]]", r"stop is \[\{"),
    ("[problem]", "[[problem]]", r"problem is \[\{"),
    ('name = "job"', 'name = "a\\u001bb"', "name is"),
    ('name = "job"', "name = 4", "name is 4; expected a valid string"),
    ("agents = [0]", "agents = [1]", "each of 0..3 once"),
    ("agents = [0]", "agents = []", r"agents in \[\[party\]\] number 0 is \[\]"),
    ("agents = [0]", 'agents = ["0"]', r"agents\[0\] in \[\[party\]\] number 0 is '0'; expected a valid integer"),
    ("agents = [0]", "agents = [-1]", "expected greater than or equal to 0"),
    ("agents = [0]", "agents = 0", "expected a valid list"),
    ("certificates/1.crt", "certificates/0.crt", "two parties have the certificate"),
    ("private/1.key", "private/0.key", "two parties have the key"),
    ('dtype = "float64"', 'dtype = "int32"', "'float64' or 'float32'"),
    ("p = 4", "p = 5", "expected p = 5"),
    ("p = 4", "p = 0", r"p in \[problem\] is 0; expected greater than or equal to 1"),
    ("p = 4", "p = 4.0", "expected a valid integer"),
    ("p = 4", 'p = "4"', "expected a valid integer"),
    ("p = 4", "", r"'p' is missing from \[problem\]"),
    ('h = "shared/h.npz"', 'h = "shared/g.npz"', r"\[problem\]: .*g.npz does not exist"),
    ('h = "shared/h.npz"', 'h = { kind = "SquaredLos" }', "did you mean 'SquaredLoss'"),
    ('h = "shared/h.npz"', 'h = { kind = "SquaredLoss", target = "@y" }', "names the array 'y'"),
    ('h = "shared/h.npz"', 'h = { kind = "L1", weight = "much" }', r"\[problem\]"),
    ('h = "shared/h.npz"', "h = 3", r"h in \[problem\] is 3"),
    ('h = "shared/h.npz"', 'h = "shared"', r"\[problem\]: .*cannot be read \(Is a directory\); expected an .npz"),
    ('name = "extra"', 'name = "extrA2"', r"\[version\]: .*did you mean"),
    ('name = "extra"', 'name = "extra"\nc = -1.0', "expected greater than 0"),
    ('name = "extra"', 'name = "x"\nB2 = [1.0, "a"]', r"B2\[1\] in \[version\] is 'a'; expected a valid number"),
    ('name = "extra"', 'name = "x"\nB2 = [1.0]', r"\[version\]"),
    ("alpha = ", "alpha = -", "expected greater than 0"),
    ("alpha = ", 'alfa = "x"\nalpha = ', "did you mean 'alpha'"),
    ("theta = ", "theta = nan #", r"theta in \[steps\] is nan"),
    ("max_iters = 10", "max_iters = -1", "expected greater than or equal to 0"),
    ("max_iters = 10", "max_iters = true", "expected a valid integer"),
    ("max_iters = 10", 'max_iters = 10\ntol = "1e-6"', r"tol in \[stop\] is '1e-6'; expected a valid number"),
    ("max_iters = 10", "max_iters = 10\ntol = -1.0", "expected greater than or equal to 0"),
    ("check_every = 50", "check_every = 0", "expected greater than or equal to 1"),
    ("[run]", "[run]\npatience = nan", r"patience in \[run\] is nan"),
    ("[run]", "[run]\npatience = inf", r"patience in \[run\] is inf"),
    ("[run]", "[run]\npatience = 0", r"patience in \[run\] is 0"),
    ("[run]", "[run]\ncheckpoint_rounds = 2.5", "expected a valid integer"),
    ("[network]\nn = 4", "[network]\nn = 3", r"\[network\]"),
    ("[network]\nn = 4", "[network]\nn = 400", r"\[network\]"),
    ("[network]\nn = 4", "[network]\nn = 1e3", "expected a valid integer"),
    ("edges = [", "edges = [[0, 0], ", r"\[network\]"),
    ("edges = [", "edges = [[0, 1, 2], ", r"edges\[0\] in \[network\]"),
    ("edges = [", 'edges = ["ab", ', r"edges\[0\] in \[network\]"),
    ("weights = [", "weights = [0.1, ", r"\[network\]: \d weights for \d edges"),
    ("weights = [", "lazy = 1\nweights = [", "expected a valid boolean"),
    ('address = "127.0.0.1:', 'address = "127.0.0.1:9', r"expected HOST:PORT, the port between 1 and 65535"),
    ('address = "127.0.0.1:', 'address = "127.0.0.1', r"expected HOST:PORT, the port between 1 and 65535"),
    ("private/agent{agent}.npz", "private/agent0.npz", "one file for 4 agents; expected {agent}"),
    ('h = "shared/h.npz"', 'h = { kind = "SquaredNorm", weight = "1" }', "weight of h is the text '1'"),
    ("edges = [", "edges = [[0, 1, 2], ", "expected a list that has at most 2 items"),
    ("max_iters = 10", "max_iters = 10\ntol = inf", r"tol in \[stop\] is inf"),
    ("max_iters = 10", "max_iters = 10\ntol = true", r"tol in \[stop\] is True; expected a valid number"),
    ("[network]", "[network]\ndrop = 1.0", r"drop in \[network\] is 1.0; expected less than 1"),
]


@pytest.mark.parametrize(("old", "new", "words"), MISTAKES)
def test_mistakes_are_named(tmp_path, old, new, words):
    path, *_ = make_job(tmp_path, 4, max_iters=10)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError, match=words) as caught:
        read_job(path)
    assert str(path) in str(caught.value)


def test_every_mistake_is_named_at_once(tmp_path):
    path, *_ = make_job(tmp_path, 4, max_iters=10)
    path.write_text(path.read_text().replace("p = 4", "p = 0").replace("check_every", "chek_every"))
    with pytest.raises(InputError, match=r"p in \[problem\] is 0(.|\n)*'chek_every'"):
        read_job(path)


@pytest.mark.parametrize("text", ["", "\x00", "a = 1", "[[problem]]\n", "\u00ff" * 10])
def test_other_files_are_no_jobs(tmp_path, text):
    (tmp_path / "job.toml").write_text(text, encoding="latin1")
    with pytest.raises(InputError, match=r"job\.toml"):
        read_job(tmp_path / "job.toml")
    with pytest.raises(InputError, match="cannot be read"):
        read_job(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"steps": {"alpha": "x", "beta": 1}}', '{"alpha": 1}'])
def test_bad_files_of_steps_are_named(tmp_path, text):
    job = entry_job(tmp_path, "some_parts", ENTRY)
    (tmp_path / "steps.json").write_text(text)
    with pytest.raises(InputError, match=r"job.toml, \[steps\]"):
        read_job(job, trust_code=True)


def test_code_is_not_run_by_surprise(tmp_path):
    job = entry_job(tmp_path, "sly_parts", f"open({str(tmp_path / 'ran')!r}, 'w')\n{ENTRY}")
    for command in (["launch"], ["check"], ["keygen"], ["check", "--party", "0"]):
        said = CliRunner().invoke(application(), [command[0], str(job), *command[1:]])
        assert said.exit_code == 2
        assert "pass --trust-code" in said.output
    for engine in ("inprocess", "net", "preflight"):
        code, words = finish([start("-m", f"npga.runtimes.{engine}", job, "--party", 0)])[0]
        assert code == 2
        assert "pass --trust-code" in words
    assert not (tmp_path / "ran").exists()
    job.write_text(job.read_text().replace('h = "sly_parts:h"', 'h = { kind = "SquaredLoss", target = [0, 1, 2] }'))
    with pytest.raises(InputError, match="agents is 'sly_parts:agent'"):
        read_job(job)


CUSTOM = """
from npga import functions as fn

def h():
    return fn.Custom(value=lambda z: SIZE * (z * z).sum(-1) / 2, prox=lambda z, t: z / (1 + SIZE * t), mu=SIZE, L=SIZE)
"""


def test_two_custom_couplings_are_two_jobs(tmp_path):
    digests = []
    for k, size in enumerate(("1.0", "1.0", "1.001")):
        (tmp_path / str(k)).mkdir()
        job = entry_job(tmp_path / str(k), f"custom{k}", CUSTOM.replace("SIZE", size))
        job.write_text(f'name = "one"\n{job.read_text()}')
        digests.append(read_job(job, trust_code=True).digest)
    assert digests[0] == digests[1] != digests[2]


def test_a_party_may_name_code_in_its_own_file(tmp_path):
    job = entry_job(tmp_path, "own_parts", ENTRY)
    job.write_text(
        job.read_text()
        .replace('h = "own_parts:h"', 'h = { kind = "SquaredLoss", target = "@y", weight = 0.5 }\ndata = "y.npz"')
        .replace('agents = "own_parts:agent"', 'agents = "agent{agent}.toml"')
    )
    np.savez(tmp_path / "y.npz", y=np.arange(3.0))
    rng = np.random.default_rng(3)
    np.savez(tmp_path / "three.npz", A=rng.standard_normal((3, 2)))
    for i in range(3):
        (tmp_path / f"agent{i}.toml").write_text('entry = "own_parts:agent"\n')
    three = (
        'data = "three.npz"\nA = "@A"\nf = { kind = "SquaredNorm", weight = 1.0 }\ng = { kind = "L1", weight = 0.1 }\n'
    )
    (tmp_path / "agent3.toml").write_text(three)
    done = launch(job, "inprocess", tmp_path / "out")
    wanted = launch(entry_job(tmp_path, "own_parts", ENTRY), "inprocess", tmp_path / "other", trust_code=True)
    np.testing.assert_array_equal(done.x, wanted.x)
    (tmp_path / "agent3.toml").write_text(three.replace("f =", "ff ="))
    job.write_text(job.read_text().replace('agents = "own_parts:agent"', 'agents = "agent{agent}.toml"'))
    with pytest.raises(InputError, match=r"unknown key 'ff' in .*agent3\.toml; "):
        read_own_part(read_job(job, trust_code=True), 3)


@pytest.mark.parametrize("k", [7, -1, 3])
def test_a_party_that_is_not_there_is_a_sentence(tmp_path, k):
    path, *_ = make_job(tmp_path, 3, keys=True)
    for module in ("net", "preflight"):
        code, words = finish([start("-m", f"npga.runtimes.{module}", path, "--party", k)])[0]
        assert code == 2
        assert f"party {k} arrived" in words
        assert "Traceback" not in words
    for command in ("check", "keygen"):
        said = CliRunner().invoke(application(), [command, str(path), "--party", str(k)])
        assert said.exit_code == 2
        assert "has the parties 0 to 2" in said.output


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


def test_links_that_change_or_fail_and_chebyshev_polynomials_run_in_a_job(tmp_path):
    problem, network, _, steps = instance(version="nids")
    lossy, halves = network.lossy(0.3, burst=4.0, seed=5), [network.edges[::2].tolist(), network.edges[1::2].tolist()]
    changing = npga.Network.sequence([*halves, network], network.n)
    plain, deep = npga.version("nids"), npga.version("nids", chebyshev=3)
    places = [(lossy, plain), (network, deep), (lossy, deep), (changing, plain), (changing, npga.version("extra"))]
    for k, (place, version) in enumerate(places):
        path = write_job(tmp_path / str(k), problem, place, version, steps, max_iters=30)
        job = read_job(path)
        assert (job.network, job.version) == (place, version)
        done = launch(path, "inprocess", tmp_path / str(k) / "out")
        x, lam, traffic = solution(problem, place, version, steps, 30)
        np.testing.assert_array_equal(done.x, x)
        np.testing.assert_array_equal(done.lam, lam)
        assert done.rounds == traffic.rounds
    assert len({read_job(tmp_path / str(k) / "job.toml").digest for k in range(len(places))}) == len(places)
    with pytest.raises(InputError, match="expected a list, which can be written down"):
        write_job(tmp_path, problem, npga.Network.sequence(lambda _: network, network.n, window=1), "nids", steps)
    for place in (changing, network.compressed("bits", 6)):
        with pytest.raises(InputError, match=place.kind):
            write_job(tmp_path, problem, place, "nids", steps if place is not changing else None)
    text = (tmp_path / "3" / "job.toml").read_text()
    (tmp_path / "3" / "job.toml").write_text(text.replace("weights = [[", "weights = [[0.1, "))
    with pytest.raises(InputError, match=r"weights for \d+ edges"):
        read_job(tmp_path / "3" / "job.toml")
