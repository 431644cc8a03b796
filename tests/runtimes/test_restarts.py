"""The restart loops of docs/howto/keep-running.md, run as they stand there."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from helpers.rehearsal import LONG, PINNED, make_job, solution
from npga.runtimes import ExitCode

PAGE = (Path(__file__).parents[2] / "docs" / "howto" / "keep-running.md").read_text()
ITERATIONS = 4000


def block(language):
    """The one block of this language on the page."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, flags=re.S)
    return found


class Unit(threading.Thread):
    """What systemd does with the unit of the page, for party k in a directory."""

    def __init__(self, directory, k):
        super().__init__(daemon=True)
        unit = configparser.ConfigParser(interpolation=None)
        unit.optionxform = str
        unit.read_string(block("ini"))
        service = unit["Service"]
        assert service["Restart"] == "on-abnormal"
        assert int(service["RestartSec"]) > 0
        self.again = {int(code) for code in service["RestartForceExitStatus"].split()}
        command = shlex.split(service["ExecStart"])
        assert command[0].endswith("python")
        command[0], command[command.index("--party") + 1] = sys.executable, str(k)
        self.command, self.directory, self.codes = command, directory, []
        self.process = self._start()

    def _start(self):
        return subprocess.Popen(
            self.command, cwd=self.directory, env=os.environ | PINNED, stderr=subprocess.PIPE, text=True
        )

    def run(self):
        while True:
            _, self.words = self.process.communicate()
            self.codes.append(self.process.returncode)
            if self.process.returncode >= 0 and self.process.returncode not in self.again:
                return
            time.sleep(0.1)
            self.process = self._start()


def wait_for_checkpoint(directory, iteration):
    """Until party 1 has saved a state after this one."""
    files, deadline = directory / "out" / "checkpoints", time.monotonic() + LONG
    while not any(int(file.stem.split("-")[1]) >= iteration for file in files.glob("agent1-*.npz")):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(shutil.which("sh") is None, reason="no sh")
def test_parties_that_are_killed_come_back_by_themselves(tmp_path):
    path, problem, network, version, steps = make_job(
        tmp_path, 3, keys=True, max_iters=ITERATIONS, checkpoint_rounds=50, patience=20.0
    )
    script = tmp_path / "keep-running.sh"
    script.write_text(block("sh"))
    party = [sys.executable, "-m", "npga.runtimes.net", path.name, "--party", "2", "--out", "out"]
    shell = subprocess.Popen(
        ["sh", str(script), *party], cwd=tmp_path, env=os.environ | PINNED | {"NPGA_PAUSE": "0.1"},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    units = [Unit(tmp_path, k) for k in range(2)]
    for unit in units:
        unit.start()
    try:
        wait_for_checkpoint(tmp_path, 50)
        units[1].process.terminate()  # as `systemctl stop` does
        units[1].join(LONG)
        assert units[1].codes == [128 + signal.SIGTERM]
        units[1] = Unit(tmp_path, 1)
        units[1].start()
        wait_for_checkpoint(tmp_path, 1000)
        units[1].process.kill()
        for unit in units:
            unit.join(LONG)
            assert not unit.is_alive()
            assert unit.codes[-1] == 0, unit.words
        _, words = shell.communicate(timeout=LONG)
        assert shell.returncode == 0, words
    finally:
        shell.kill()
        for unit in units:
            unit.process.kill()
    assert units[1].codes == [-9, 0]
    assert units[0].codes[0] == ExitCode.TRY_AGAIN  # because party 1 was stopped
    assert "agent 1 has been started again" in units[0].words  # because it was killed: no other process had to end
    found = [np.load(tmp_path / "out" / f"agent{i}.npz")["x"] for i in range(3)]
    np.testing.assert_array_equal(np.concatenate(found), solution(problem, network, version, steps, ITERATIONS)[0])


def test_the_container_runs_the_script_of_the_page():
    docker, compose = block("dockerfile"), block("yaml")
    assert "keep-running.sh" in docker
    assert '"npga.runtimes.net", "job.toml"' in docker
    assert "--party" in compose
