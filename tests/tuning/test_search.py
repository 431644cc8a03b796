"""Steps by trial runs: the box is free of units, of the data's and of the network's."""

import numpy as np
import pytest

import npga
from helpers.held_out import elastic_net
from npga.tuning import tune
from npga.tuning._space import StepSpace

DENSE = npga.Network.complete(13)


def test_dlm_is_in_the_box_of_extra():
    """W = I - L/tau and c beta = 1/(2 tau) make DLM EXTRA, whatever the degrees are."""
    problem = elastic_net()
    for network in (DENSE, npga.Network.ring(13)):
        space = StepSpace(problem, network, npga.version("dlm"))
        version, steps = space.decode(space.middle)
        assert version.c * steps.beta == pytest.approx(0.5 / (network.degrees.max() + 1))
        np.testing.assert_allclose(space.encode(steps, version.c), space.middle)


@pytest.mark.parametrize("seed", range(4))
def test_dlm_is_tuned_where_degrees_are_large(seed):
    tuned = tune(elastic_net(), DENSE, "dlm", "search", seed=seed)
    result = npga.solve(elastic_net(), DENSE, tuned.version, tuned.steps, max_iters=20_000)
    assert result.status is npga.Status.CONVERGED
