"""Runs to tables: complete, the same to the bit, resumed after an interruption, redrawn without running."""

import json
import os
import signal

import numpy as np
import pytest

from helpers.rehearsal import alive, start, wait_for
from npga.errors import InputError
from npga.experiments import ElasticNetExperiment, Protocol, Ridge, draw, reproduce
from npga.experiments import _reproduce as module
from npga.experiments._protocol import StopAtRounding, measure, place_of
from npga.experiments._reproduce import FinishedRuns, Task
from npga.experiments._tables import read_rows
from npga.solver import Record, solve

SMALL = Protocol(versions=("nids", "dlm", "dcpa"), tuning="search", certified_iters=50, records=60)
EXPERIMENT = ElasticNetExperiment(samples=4, alpha=0.5)
TABLES = ("elastic-net/curves.csv", "elastic-net/summary.csv", "elastic-net/summary.md", "elastic-net/choices.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("run")
    said = []
    report = reproduce([EXPERIMENT], out, protocol=SMALL, repetitions=2, jobs=2, say=said.append)
    assert report.missed == []
    (out / "said.txt").write_text("\n".join(said))
    return out


def test_figures_come_after_two_versions_and_after_the_first_draw(folder):
    picture = folder / "elastic-net" / "gap.png"
    assert (folder / "said.txt").read_text().splitlines() == [
        f"{picture} shows 2 of 3 versions, first draw; it is drawn again at the end",
        f"{picture} shows 3 of 3 versions, first draw; it is drawn again at the end",
    ]


def test_every_curve_reaches_the_accuracy_and_rates_agree(folder):
    runs = [row for row in read_rows(folder / "elastic-net" / "summary.csv") if row["setting"] == "tuned"]
    assert {row["version"] for row in runs} == set(SMALL.versions)
    for row in runs:
        assert row["gap"] <= 1e-12 or row["status"] == "rounding"
        assert row["iterations_1e-4"] <= row["iterations_1e-8"]
        assert row["rounds_1e-8"] == row["rounds_per_iteration"] * row["iterations_1e-8"]
    chosen = [(row["version"], row["repetition"]) for row in runs if row["chosen"]]
    assert sorted(chosen) == sorted({(row["version"], row["repetition"]) for row in runs})
    mixings = {name: {row["mixing"] for row in runs if row["version"] == name} for name in SMALL.versions}
    assert mixings == {"nids": {"W", "W'"}, "dlm": {"L"}, "dcpa": {"W", "W'"}}


def test_curves_are_those_of_the_solver(folder):
    import npga

    row = next(r for r in read_rows(folder / "elastic-net" / "summary.csv") if r["version"] == "dcpa" and r["chosen"])
    points = [
        r
        for r in read_rows(folder / "elastic-net" / "curves.csv")
        if all(r[key] == row[key] for key in ("version", "repetition", "setting", "mixing"))
    ]
    instance = EXPERIMENT.build(row["repetition"])
    network = instance.network if row["mixing"] == "W" else instance.network.lazy()
    steps = npga.Steps(row["alpha"], row["beta"], row["gamma"], row["theta"])
    star = instance.solution
    for point in points[:: max(1, len(points) // 5)]:
        x = solve(instance.problem, network, "dcpa", steps, tol=None, max_iters=point["iteration"]).x
        assert point["gap"] == pytest.approx(np.linalg.norm(x - star) / np.linalg.norm(star), rel=1e-6, abs=1e-13)


def test_settings_say_what_was_run_with_what(folder):
    settings = json.loads((folder / "settings.json").read_text())
    assert settings["experiments"][0]["alpha"] == 0.5
    assert settings["protocol"]["versions"] == ["nids", "dlm", "dcpa"]
    assert settings["dependencies"]["numpy"] == np.__version__
    draws = json.loads((folder / "elastic-net" / "choices.json").read_text())["draws"]
    assert set(draws) == {"0", "1"}
    assert {"rows", "rank", "condition_number", "network_seed_used", "edges", "solution_kkt"} <= set(draws["0"])


def test_the_same_seeds_give_the_same_bytes_with_other_workers(folder, tmp_path):
    reproduce([EXPERIMENT], tmp_path, protocol=SMALL, repetitions=2, jobs=1, figures=False)
    for name in TABLES:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name


def test_an_interrupted_run_goes_on(folder, tmp_path, monkeypatch):
    done = []

    def stop_after_two(count, total, label):
        done.append(label)
        if count == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce([EXPERIMENT], tmp_path, protocol=SMALL, repetitions=2, jobs=1, progress=stop_after_two)
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / ".units").iterdir()}
    assert len(kept) >= 2
    reproduce([EXPERIMENT], tmp_path, protocol=SMALL, repetitions=2, jobs=1, figures=False)
    now = {path.name: path.stat().st_mtime_ns for path in (tmp_path / ".units").iterdir()}
    assert len(now) == 6
    assert all(now[name] == time for name, time in kept.items())
    for name in TABLES:
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name


LONG_RUN = """
import multiprocessing, sys
from npga.experiments import Protocol, Ridge, _reproduce

def tell(*_):
    print(*(worker.pid for worker in multiprocessing.active_children()), flush=True)

if __name__ == "__main__":
    _reproduce._HEARTBEAT = 0.05
    long = Protocol(versions=("nids", "dcpa"), starts=1000)
    _reproduce.reproduce([Ridge()], sys.argv[1], protocol=long, jobs=2, figures=False, progress=tell)
"""


def test_workers_end_with_whoever_started_them_even_killed(tmp_path):
    (tmp_path / "long_run.py").write_text(LONG_RUN)
    run = start(tmp_path / "long_run.py", tmp_path / "out")
    try:
        workers = next(pids for line in run.stdout if len(pids := [int(word) for word in line.split()]) == 2)
    finally:
        run.kill()
        run.wait()
        run.stdout.close()  # not read to its end, which would come with that of the workers
        run.stderr.close()
    try:
        wait_for(lambda: not any(map(alive, workers)))
    finally:
        for pid in filter(alive, workers):
            os.kill(pid, signal.SIGKILL)


def test_figures_and_summaries_are_drawn_from_tables_alone(folder, monkeypatch):
    before = (folder / "elastic-net" / "summary.md").read_bytes()
    for name in ("elastic-net/summary.md", "elastic-net/gap.png"):
        (folder / name).unlink()
    monkeypatch.setattr(module, "measure", None)
    report = draw(folder)
    assert (folder / "elastic-net" / "summary.md").read_bytes() == before
    assert {path.name for path in report.files} >= {"gap.png", "gap.pdf", "bands.png", "advantage.png", "settings.json"}
    assert all(path.exists() for path in report.files)
    assert "| NIDS | ATC |" in before.decode()


def test_the_data_of_a_figure_stand_beside_it(folder):
    runs = [row for row in read_rows(folder / "elastic-net/summary.csv") if row["setting"] == "tuned" and row["chosen"]]
    count = {(row["version"], row["repetition"]): row["iterations_1e-8"] for row in runs}
    ratios = read_rows(folder / "elastic-net/advantage.csv")
    assert ratios
    for row in ratios:
        assert row["iterations"] == count["dcpa", row["draw"]] / count[row["version"], row["draw"]]
    curves = read_rows(folder / "elastic-net/gap.csv")
    assert {row["version"] for row in curves} == {row["version"] for row in runs}
    assert all(row["low"] <= row["gap"] <= row["high"] for row in curves)


def test_another_choice_is_another_task(tmp_path):
    finished = FinishedRuns(tmp_path)
    task = Task(Ridge(), 0, "nids", Protocol())
    keys = {
        task.key,
        Task(Ridge(radius=0.2), 0, "nids", Protocol()).key,
        Task(Ridge(), 1, "nids", Protocol()).key,
        Task(Ridge(), 0, "dlm", Protocol()).key,
        Task(Ridge(), 0, "nids", Protocol(accuracy=1e-9)).key,
    }
    assert len(keys) == 5
    assert Task(Ridge(), 0, "nids", Protocol(versions=("nids",))).key == task.key
    assert finished.load(task) is None


def test_the_centralised_method_is_one_agent_without_rounds():
    found = measure(EXPERIMENT, 0, "pga-central", Protocol(certified_iters=0, tuning="search"))
    (row,) = found.runs
    assert row["status"] == "converged"
    assert (row["rounds"], row["rounds_per_iteration"], row["mixing"]) == (0, 0, "none")
    place = place_of(EXPERIMENT.build(), "pga-central")
    assert (place.problem.n, place.problem.d) == (1, 14)


def test_a_run_at_rounding_is_stopped_and_others_are_not():
    floor = StopAtRounding()
    record = lambda k, gap: Record(k, k, gap, 0.0, 0.0, 0.0)  # noqa: E731
    assert not any(floor(record(k, 0.9**k), None) for k in range(200))
    assert not floor(record(250, 0.9**199), None)
    assert floor(record(10_000, 0.9**199), None)
    slow = StopAtRounding()
    assert not any(slow(record(k, 1e-3), None) for k in range(0, 100_000, 1000))


def test_worker_environment_is_put_back(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with module._one_thread_each():
        assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ


def test_bad_requests(tmp_path):
    with pytest.raises(InputError, match="each name once"):
        reproduce([Ridge(), Ridge(radius=0.2)], tmp_path)
    with pytest.raises(InputError, match="at least 1"):
        reproduce([Ridge()], tmp_path, repetitions=0)
    with pytest.raises(InputError, match="no version arrived"):
        Protocol(versions=())
    with pytest.raises(InputError, match="holds no tables"):
        draw(tmp_path)
