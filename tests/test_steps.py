"""Step sizes: one alpha, or one for each agent."""

from __future__ import annotations

import numpy as np
import pytest

import npga
from npga.errors import InputError
from npga.steps import Steps


@pytest.mark.parametrize("alpha", [[0.5, 0.25], (0.5, 0.25), np.array([0.5, 0.25]), np.array([0.5, 0.25], np.float32)])
def test_alpha_may_be_a_sequence(alpha):
    steps = Steps(alpha=alpha, beta=0.1)
    assert steps.alpha == (0.5, 0.25)
    assert all(type(entry) is float for entry in steps.alpha)
    assert steps == Steps((0.5, 0.25), 0.1)
    assert hash(steps) == hash(Steps((0.5, 0.25), 0.1))
    assert eval(repr(steps), {"Steps": Steps}) == steps


def test_alpha_for_agents_and_coordinates():
    assert Steps(np.array(0.5), 1.0) == Steps(0.5, 1.0)
    assert Steps(0.5, 1.0).per_agent(3) == (0.5, 0.5, 0.5)
    assert Steps(0.5, 1.0).per_coordinate([2, 0, 1]) == 0.5
    steps = Steps([0.5, 0.25, 2.0], 1.0)
    assert steps.per_agent(3) == (0.5, 0.25, 2.0)
    np.testing.assert_array_equal(steps.per_coordinate([2, 0, 1]), [0.5, 0.5, 2.0])
    with pytest.raises(InputError, match="holds 3 numbers and there are 4 agents"):
        steps.per_coordinate([1, 1, 1, 1])


def test_one_alpha_where_one_is_needed():
    assert Steps(0.5, 1.0).single_alpha("a theorem") == 0.5
    assert Steps([0.5, 0.5], 1.0).single_alpha("a theorem") == 0.5
    with pytest.raises(InputError, match=r"a theorem: .*0.25 to 0.5.*per-agent alpha is not covered yet"):
        Steps([0.5, 0.25], 1.0).single_alpha("a theorem")


@pytest.mark.parametrize("alpha", [[], [0.5, 0.0], [0.5, np.nan], [0.5, "a"], [[0.5]], "0.5x"])
def test_bad_alphas_are_refused(alpha):
    with pytest.raises(InputError, match="step alpha"):
        Steps(alpha, 1.0)


def test_text():
    assert Steps(0.5, 0.1).text() == "alpha = 0.5, beta = 0.1, gamma = 1, theta = 0"
    assert (
        Steps([0.5, 0.12345], 0.1).text(2)
        == "alpha = 0.12 to 0.5 (one for each agent), beta = 0.1, gamma = 1, theta = 0"
    )


def test_theory_reads_it_as_a_change_of_variables():
    """With x_i = s_i x_i' and s_i^2 = alpha_i/alpha, agents of their own alpha are agents of one alpha."""
    alphas, alpha, equality = [0.1, 0.2, 0.3], 0.1, npga.functions.Equality([1.0, 2.0])
    plain = [npga.Agent(np.eye(2), npga.functions.SquaredNorm()) for _ in alphas]
    turned = [npga.Agent(np.sqrt(a / alpha) * np.eye(2), npga.functions.SquaredNorm(a / alpha)) for a in alphas]
    network = npga.Network.ring(3)
    found = npga.certify(npga.Problem(plain, equality), network, "nids", Steps(alphas, 0.1, 0.9))
    expected = npga.certify(npga.Problem(turned, equality), network, "nids", Steps(alpha, 0.1, 0.9))
    assert found.best is not None
    assert found.best.key == expected.best.key
    np.testing.assert_allclose(found.best.rate, expected.best.rate, rtol=1e-9)
