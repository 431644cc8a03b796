"""What docs/privacy.md says leaks, leaks; what it says is hidden or guarded, is."""

from __future__ import annotations

import importlib.util
import stat
from pathlib import Path

import numpy as np
import pytest

import npga
from helpers.rehearsal import make_job
from npga import functions as fn
from npga.runtimes import Layout, launch, read_job
from npga.runtimes._agreement import coarse
from npga.runtimes.preflight import check_party, onlookers

EXAMPLE = Path(__file__).parents[2] / "examples" / "privacy_attacks.py"
spec = importlib.util.spec_from_file_location("privacy_attacks", EXAMPLE)
attacks = importlib.util.module_from_spec(spec)
spec.loader.exec_module(attacks)


@pytest.mark.parametrize("seed", range(3))
def test_the_second_message_gives_a_column_away(seed):
    problem, network, steps = attacks.experiment_one(seed)
    second = attacks.messages(problem, network, "nids", steps, 2)[1]
    for i, agent in enumerate(problem.agents):
        found = attacks.column_from_the_second_message(second[i], problem.h, problem.n, steps)
        column = agent.A[:, 0]
        np.testing.assert_allclose(found * np.sign(found @ column), column, atol=1e-10)


@pytest.mark.parametrize("seed", range(3))
def test_the_only_neighbour_of_a_leaf_works_out_its_features_up_to_a_rotation(seed):
    problem, network, steps = attacks.leaf(seed)
    sent = attacks.messages(problem, network, "nids", steps, 60)
    sent[:, 2:] = np.nan  # the neighbour of agent 0 needs nothing of the others
    gram, weight = attacks.gram_from_the_run(0, sent, network, problem.h, steps)
    A = problem.agents[0].A
    np.testing.assert_allclose(gram, A @ A.T, atol=1e-9 * np.abs(A @ A.T).max())
    assert weight == pytest.approx(0.5, abs=1e-9)


def test_in_experiment_2_every_party_can_read_the_labels_off_its_dual_variable():
    """h = 0 at z = 0 couples the predictions with a copy that only the last agent owns, with the labels in its f."""
    problem, network, steps, labels = attacks.classification()
    np.testing.assert_array_equal(attacks.labels_from_the_dual(npga.reference(problem).lam), labels)
    lam = attacks.solve_duals(problem, network, steps, 3000)
    for i in range(4):  # parties that were never given a label
        np.testing.assert_array_equal(attacks.labels_from_the_dual(lam[i]), labels)


def test_with_the_loss_as_coupling_function_every_party_holds_the_labels_to_begin_with():
    """h is shared: agents evaluate prox of h*, which contains y."""
    two, _, _, labels = attacks.classification(1)
    problem = npga.Problem(two.agents[:4], fn.Logistic(labels, 1 / 30))
    np.testing.assert_array_equal(problem.h.labels, labels)
    np.testing.assert_array_equal(np.sign(-npga.reference(problem).lam), labels)


def test_every_party_knows_the_joint_prediction():
    problem, network, steps = attacks.leaf()
    lam = attacks.solve_duals(problem, network, steps, 3000)
    x = problem.split(npga.reference(problem).x)
    z = sum(agent.A @ block for agent, block in zip(problem.agents, x, strict=True))
    for row in lam:
        np.testing.assert_allclose(attacks.joint_prediction(row, problem.h), z, atol=1e-9)


def test_two_agents_hear_each_others_products():
    """With n = 2 and h an equality each learns the other's A_i x_i at the solution: b minus its own."""
    rng = np.random.default_rng(0)
    A, b = [rng.standard_normal((3, 2)) for _ in range(2)], rng.standard_normal(3)
    problem = npga.Problem([npga.Agent(M, fn.SquaredNorm(1.0)) for M in A], fn.Equality(b))
    x = problem.split(npga.reference(problem).x)
    np.testing.assert_allclose(A[1] @ x[1], b - A[0] @ x[0], atol=1e-9)


def test_norms_are_shown_to_a_factor_of_two_only():
    rng = np.random.default_rng(0)
    values = np.concatenate([[0.0, 1.0, 0.5, 3.0, 4.0, 5e-324], np.exp(rng.uniform(-600, 600, 1000))])
    shown = coarse(values)
    assert (shown >= values).all()
    assert (shown[values > 0] < 2 * values[values > 0]).all()
    assert set(np.frexp(shown)[0]) <= {0.0, 0.5}


NETWORKS = {
    "path": (npga.Network.path(4), {0: [1], 3: [2]}),
    "star": (npga.Network.star(4), {1: [0], 2: [0], 3: [0]}),
    "ring": (npga.Network.ring(5), {}),
    "complete": (npga.Network.complete(3), {0: [1, 2], 1: [0, 2], 2: [0, 1]}),
    "two": (npga.Network.path(2), {0: [1], 1: [0]}),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_who_sees_all_that_an_agent_sends_and_receives_is_found(name):
    network, expected = NETWORKS[name]
    layout = Layout(network, [[i] for i in range(network.n)])
    assert {i: who for i in range(network.n) if (who := onlookers(layout, i))} == expected


def test_agents_that_share_a_process_hide_nothing_from_it_and_more_from_others():
    layout = Layout(npga.Network.path(4), [[0, 1], [2, 3]])
    assert [onlookers(layout, i) for i in range(4)] == [[], [], [], []]
    assert onlookers(Layout(npga.Network.path(3), [[0, 2], [1]]), 1) == [0]


def test_check_warns_of_a_party_whose_only_neighbour_sees_everything(tmp_path):
    path, *_ = make_job(tmp_path, 2, keys=True, connect=0.5)
    lines = [line for line in check_party(read_job(path), 0) if line.warning]
    assert len(lines) == 1
    assert lines[0].ok
    assert "agent 1 is its only neighbour and sees all that it sends" in lines[0].detail


def test_private_files_checkpoints_and_results_are_for_their_owner_alone(tmp_path):
    path, *_ = make_job(tmp_path, 3, max_iters=40, checkpoint_rounds=10)
    launch(path, "inprocess", tmp_path / "out")
    files = [
        *(tmp_path / "private").glob("agent*.npz"),
        *(tmp_path / "out" / "checkpoints").glob("*.npz"),
        *(tmp_path / "out").glob("agent*.npz"),
        *(tmp_path / "out").glob("party*.json*"),  # status and log: its own steps, and errors in its own words
    ]
    assert len(files) == 3 + 6 + 3 + 2
    files.append(tmp_path / "out" / "solution.npz")
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
