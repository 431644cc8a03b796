"""Problem files that the tests of the command line share."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from npga.cli import application

TOML = """
data = "problem.npz"

[problem]
A = "A{agent}"
f = { kind = "SquaredNorm", weight = 0.1 }
g = { kind = "L1", weight = 0.05 }
h = { kind = "SquaredLoss", target = "@y", weight = 0.25 }

[network]
kind = "ring"
n = 5

[solve]
version = "nids"
steps = { alpha = 2.0, beta = 0.1, gamma = 1.0, theta = 0.0 }
tol = 1e-10
"""


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    return {f"A{i}": rng.standard_normal((4, 2)) for i in range(5)} | {"y": rng.standard_normal(4)}


@pytest.fixture
def problem_file(tmp_path, arrays):
    """Write the file with some lines replaced, and the arrays beside it."""

    def write(*changes: tuple[str, str], toml: str = TOML) -> Path:
        for old, new in changes:
            assert old in toml
            toml = toml.replace(old, new)
        np.savez(tmp_path / "problem.npz", **arrays)
        path = tmp_path / "problem.toml"
        path.write_text(toml)
        return path

    return write


@pytest.fixture
def call():
    """Run a command in this process."""

    def run(*arguments):
        return CliRunner().invoke(application(), [str(argument) for argument in arguments])

    return run
