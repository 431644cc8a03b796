"""Versions: the table against the paper, polynomials, spectra, names and refusals."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.network_cases import PAPER_ROUNDS, TEN, networks, row, table_formulas
from npga.errors import VersionError
from npga.networks import Matrices, Network, Version, version, versions

NETWORK = Network.erdos_renyi(13, 0.3, seed=0)
PRESETS = ("dcpa", "dcda")
ALL = TEN + PRESETS


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("network", [NETWORK, NETWORK.lazy(), Network.complete(1)], ids=["W", "lazy", "lone"])
def test_matrices_are_those_of_the_paper(name, network):
    chosen = row(name)
    found = chosen.matrices(network, beta=0.2)
    expected = table_formulas(name, network.W.toarray(), network.laplacian.toarray(), 0.2, chosen.c)
    assert isinstance(found, Matrices)
    for matrix, formula in zip(found, expected, strict=True):
        np.testing.assert_allclose(matrix.toarray(), formula, atol=1e-14)


@pytest.mark.parametrize("name", TEN)
def test_rounds_and_family_are_those_of_the_paper(name):
    assert version(name).rounds == PAPER_ROUNDS[name]
    assert version(name).family == ("CTA" if name in ("diging", "extra", "dlm", "p2d2") else "ATC")


def test_kernel_polynomials_of_the_ten_rows_are_exact():
    gap, half = (0.0, 1.0), (0.0, 0.5)
    zero, one, squared = (0.0,), (1.0,), (0.0, 0.0, 1.0)
    expected = {
        "diging": (squared, (0.0, 2.0, -1.0), one),
        "extra": (half, half, one),
        "dlm": ((0.0, 0.2), (0.0, 0.2), one),
        "p2d2": (half, half, one),
        "aug-dgm": (squared, zero, (1.0, -2.0, 1.0)),
        "atc-tracking": (squared, gap, (1.0, -1.0)),
        "exact-diffusion": (half, zero, (1.0, -0.5)),
        "nids": (half, zero, (1.0, -0.5)),
        "npga-i": (gap, zero, (1.0, -2.0, 1.0)),
        "npga-ii": (gap, gap, (1.0, -1.0)),
    }
    assert {name: tuple(version(name).kernel_polynomials(beta=0.2)) for name in TEN} == expected


@pytest.mark.parametrize("name", ALL)
def test_spectra_belong_together(name):
    chosen = row(name)
    found = chosen.spectra(NETWORK, beta=0.2)
    assert found.joint
    k = found.consensus
    assert (found.B2[k], found.C[k], found.D[k]) == (0.0, 0.0, 1.0)
    matrices = chosen.matrices(NETWORK, beta=0.2)
    for values, matrix in zip((found.B2, found.C, found.D), matrices, strict=True):
        np.testing.assert_allclose(np.sort(values), np.linalg.eigvalsh(matrix.toarray()), atol=1e-12)
    # A combination with generic coefficients has these eigenvalues only if the indices match.
    mixed = sum(t * m.toarray() for t, m in zip((1.0, 0.37, -2.1), matrices, strict=True))
    np.testing.assert_allclose(
        np.sort(found.B2 + 0.37 * found.C - 2.1 * found.D), np.linalg.eigvalsh(mixed), atol=1e-12
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (version("p2d2", c=1), version("extra")),
        (version("nids", c=0.5), version("exact-diffusion")),
        (version("dcpa"), version("p2d2", c=1)),
        (version("dcda"), version("exact-diffusion")),
    ],
)
def test_rows_that_coincide(first, second):
    assert first.kernel_polynomials() == second.kernel_polynomials()


def test_presets_fix_their_steps():
    assert version("dcpa").fixed == {"theta": 1.0}
    assert version("dcda").fixed == {"theta": 0.0, "gamma": 1.0}
    assert all(version(name).fixed == {} for name in TEN)
    version("dcpa").fixed["theta"] = 5.0
    assert version("dcpa").fixed == {"theta": 1.0}


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("DIGing", "diging"),
        ("NPGA-DIGing", "diging"),
        ("npga_exact_diffusion", "exact-diffusion"),
        ("ATC tracking", "atc-tracking"),
        (" Aug_DGM ", "aug-dgm"),
        ("NPGA-I", "npga-i"),
        ("npga ii", "npga-ii"),
        ("DCPA", "dcpa"),
    ],
)
def test_names_are_read_leniently(typed, name):
    assert version(typed).name == name
    assert version(typed) == version(name)


def test_titles_lead_back_to_their_rows():
    assert [version(entry.title).name for entry in versions()] == list(ALL)
    assert version("diging").title == "NPGA-DIGing"


def test_a_version_passes_through_and_takes_a_new_constant():
    nids = version("nids")
    assert version(nids) is nids
    assert version(nids, c=0.25) == version("nids", c=0.25)
    assert nids.c == 0.5
    assert version("p2d2", c=np.float32(0.25)).c == 0.25


def test_the_table_prints_its_rows():
    table = versions()
    assert [entry.name for entry in table] == list(ALL)
    assert [entry.name for entry in versions(presets=False)] == list(TEN)
    assert (len(table), table[0].name, [entry.name for entry in table[:2]]) == (12, "diging", ["diging", "extra"])
    text = str(table)
    lines = text.splitlines()
    column = lines[0].index("rounds")
    for entry, line in zip(table, lines[2:], strict=False):
        assert line.startswith(entry.name)
        assert line[column:].split()[0] == str(entry.rounds)
        assert all(formula in line for formula in entry.formula.values())
        assert line.endswith(entry.reference)
    assert "c of nids: 0.5 (any c > 0)" in lines
    assert "dcda fixes theta = 0, gamma = 1" in lines
    markup = table._repr_html_()
    assert markup.count("<tr>") == 13
    assert "Qu &amp; Li 2018" in markup
    dicts = table.to_dicts()
    assert json.loads(json.dumps(dicts)) == dicts
    assert dicts[3]["B2"] == "(c/2)(I - W)"
    assert all(entry["reference"] for entry in dicts)


def test_formulas_of_the_table_mean_their_coefficients():
    W, L, beta = NETWORK.W.toarray(), NETWORK.laplacian.toarray(), 0.2
    for name in ALL:
        chosen = row(name)
        for text, matrix in zip(chosen.formula.values(), chosen.matrices(NETWORK, beta), strict=True):
            python = text.replace("c beta L", "c*beta*L").replace(")(", ")@(").replace("c(", "c*(")
            python = python.replace("(1/2)@", "(1/2)*").replace("(c/2)@", "(c/2)*").replace("^2", "@SQUARE")
            python = python.replace("(I - W)@SQUARE", "(I - W)@(I - W)").replace("W@SQUARE", "W@W")
            value = eval(python, {"I": np.eye(13), "W": W, "L": L, "c": chosen.c, "beta": beta})
            np.testing.assert_allclose(np.zeros((13, 13)) + value, matrix.toarray(), atol=1e-14)


def test_a_version_of_ones_own():
    mine = Version(name="mine", B2=[1, -1], C=[0], D=[0, 0, 1])
    assert mine.polynomials == {"B2": [1.0, -1.0], "C": [0.0], "D": [0.0, 0.0, 1.0]}
    assert mine.formula == {"B2": "I - W", "C": "0", "D": "W^2"}
    assert (mine.family, mine.rounds, mine.title, mine.reference, mine.c) == ("ATC", 2, "mine", "", None)
    assert mine.kernel_polynomials() == version("npga-i").kernel_polynomials()
    assert repr(mine) == "Version('mine', B2='I - W', C='0', D='W^2', rounds=2)"
    assert repr(version("nids")).endswith("c=0.5, rounds=1)")
    assert pickle.loads(pickle.dumps(mine)) == mine
    assert hash(mine) == hash(Version("mine", (1, -1), (0,), (0, 0, 1)))
    with pytest.raises(AttributeError):
        mine.name = "yours"


def test_formulas_are_generated():
    mine = Version("mine", B2=[0.5, 0, -0.5], C=[-1, 1.5, 0, -0.5], D=[0, 2, -1])
    assert mine.formula == {"B2": "0.5 I - 0.5 W^2", "C": "-I + 1.5 W - 0.5 W^3", "D": "2 W - W^2"}
    scaled = Version("scaled", B2=[0, 2], C=[0], basis="L", times_beta=True)
    assert scaled.formula == {"B2": "beta (2 L)", "C": "0", "D": "I"}


def test_decimals_add_up_as_typed():
    # 0.3 - 0.2 - 0.1 is not zero in binary; 1/3 + 1/3 - 2/3 need not be either.
    assert Version("decimal", B2=[0.3, -0.2, -0.1]).kernel_polynomials().b == (0.0, 0.4, -0.1)
    thirds = Version("thirds", B2=[1 / 7, 5 / 7, -6 / 7], D=[1 / 3, 1 / 6, 1 / 2]).kernel_polynomials()
    assert (thirds.b[0], thirds.d[0]) == (0.0, 1.0)


small = st.lists(st.integers(-8, 8).map(lambda k: k / 4), min_size=1, max_size=4)


@given(networks(8), small, small, small, st.sampled_from(["W", "L"]))
def test_matrices_of_random_polynomials(network, b, c, d, basis):
    point = 1.0 if basis == "W" else 0.0  # eigenvalue of the gossip matrix at the vector of ones
    for coefficients, value in ((b, 0.0), (c, 0.0), (d, 1.0)):
        coefficients[0] += value - np.polynomial.polynomial.polyval(point, coefficients)
    if not np.any(b[1:]):
        return
    mine = Version("mine", b, c, d, basis=basis)
    G = (network.W if basis == "W" else network.laplacian).toarray()
    for coefficients, matrix in zip((b, c, d), mine.matrices(network), strict=True):
        expected = sum(t * np.linalg.matrix_power(G, j) for j, t in enumerate(coefficients))
        scale = sum(abs(t) * np.abs(G).sum(axis=1).max() ** j for j, t in enumerate(coefficients))
        np.testing.assert_allclose(matrix.toarray(), expected, atol=1e-13 * (1 + 64 * scale))


def test_edge_weights_name_the_gossip_matrix():
    np.testing.assert_array_equal(version("extra").edge_weights(NETWORK, "gossip"), NETWORK.weights)
    np.testing.assert_array_equal(version("dlm").edge_weights(NETWORK, "gossip"), np.ones(len(NETWORK.edges)))


REFUSALS = {
    "unknown": (lambda: version("digin"), "did you mean 'diging'"),
    "nonsense": (lambda: version("zzzzzz"), "known: atc-tracking"),
    "type": (lambda: version(3), "type int"),
    "c without c": (lambda: version("extra", c=1.0), "extra.*only dlm, p2d2, nids"),
    "c of a preset": (lambda: version("dcpa", c=1.0), "no c"),
    "c of one's own": (lambda: version(Version("mine", [1, -1]), c=1.0), "no constant c"),
    "c zero": (lambda: version("nids", c=0.0), "c > 0"),
    "c nan": (lambda: version("p2d2", c=float("nan")), "c > 0"),
    "c infinite": (lambda: version("dlm", c=float("inf")), "c > 0"),
    "c text": (lambda: version("dlm", c="1"), "c > 0"),
    "c true": (lambda: version("dlm", c=True), "c > 0"),
    "own c": (lambda: Version("mine", [1, -1], c=-1.0), "c > 0"),
    "name": (lambda: Version("", [1, -1]), "non-empty name"),
    "basis": (lambda: Version("mine", [1, -1], basis="A"), "basis='A'"),
    "fixed": (lambda: Version("mine", [1, -1], fixed={"tau": 1.0}), "tau"),
    "empty": (lambda: Version("mine", []), "finite coefficients"),
    "number": (lambda: Version("mine", 3), "finite coefficients"),
    "nan": (lambda: Version("mine", [1, float("nan")]), "finite coefficients"),
    "matrix": (lambda: Version("mine", np.eye(3)), "from_matrices"),
    "B2": (lambda: Version("mine", [1, -0.5]), r"B\^2 1 = 0.*add up to 0.5"),
    "C": (lambda: Version("mine", [1, -1], C=[1]), "C 1 = 0.*not a solution"),
    "D": (lambda: Version("mine", [1, -1], D=[0]), "D 1 = 1"),
    "L": (lambda: Version("mine", [1, -1], basis="L"), "start with 1 instead of 0"),
    "no B2": (lambda: Version("mine", [0]), "never agree"),
    "beta": (lambda: version("dlm").matrices(NETWORK), "contain the step beta.*beta=None"),
    "beta zero": (lambda: version("dlm").schedule(0.0), "beta=0.0"),
    "op": (lambda: version("extra").edge_weights(NETWORK, "B2"), "op='B2'"),
}


@pytest.mark.parametrize(("build", "message"), REFUSALS.values(), ids=REFUSALS)
def test_refusals_say_what_arrived(build, message):
    with pytest.raises(VersionError, match=message):
        build()
