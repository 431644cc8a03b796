"""Run the experiments: units in worker processes, then tables, then figures from the tables."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from npga.errors import InputError
from npga.experiments._experiment import Experiment
from npga.experiments._protocol import Protocol
from npga.experiments._provenance import provenance
from npga.experiments._report import Report, draw
from npga.experiments._store import Store, Task
from npga.experiments._tables import CURVE_COLUMNS, SUMMARY_COLUMNS, write_table, write_text
from npga.experiments._unit import build, run_unit

Progress = Callable[[int, int, str], None]

# One thread for each process: the units are many and small, and sums then do not depend on the number of cores.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def reproduce(
    experiments: Sequence[Experiment],
    out: str | Path,
    *,
    protocol: Protocol | None = None,
    repetitions: int = 1,
    jobs: int | None = None,
    fresh: bool = False,
    figures: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Run experiments and leave tables, figures and summaries in a folder.

    Parameters
    ----------
    experiments
        Such as ``[Ridge(), ElasticNet(alpha=0.2)]``; names must differ.
    out
        The folder. Units that an earlier, interrupted run with the same choices has finished there are kept.
    protocol
        Versions, tuner, accuracy and lengths.
    repetitions
        Draws of rows and networks.
    jobs
        Worker processes; by default one for each core. The tables do not depend on it.
    fresh
        Do everything again, finished or not.
    figures
        Draw figures (needs matplotlib); they can be drawn later with `draw`.
    progress
        Called as ``progress(done, total, label)``.

    Returns
    -------
    Report
        The summary rows, whether every curve reached its target, and the files.
    """
    protocol = Protocol() if protocol is None else protocol
    names = [experiment.name for experiment in experiments]
    if not names or len(set(names)) < len(names):
        raise InputError(f"experiments {names} arrived; expected at least one, and each name once")
    if repetitions < 1:
        raise InputError(f"repetitions is {repetitions}; expected at least 1")
    out = Path(out)
    tasks = [
        Task(experiment, repetition, version, protocol)
        for experiment in experiments
        for repetition in range(repetitions)
        for version in protocol.versions
    ]
    store = Store(out / ".units")
    if fresh:
        for task in tasks:
            store.forget(task)
    _run(tasks, store, jobs, progress or _silent)
    _write_tables(out, experiments, tasks, store)
    settings = {
        "experiments": [experiment.choices() for experiment in experiments],
        "repetitions": repetitions,
        "protocol": asdict(protocol),
        **provenance(),
    }
    write_text(out / "settings.json", json.dumps(settings, indent=2) + "\n")
    return draw(out, names, figures=figures)


def _silent(*_: object) -> None:
    """Say nothing."""


def _run(tasks: Sequence[Task], store: Store, jobs: int | None, progress: Progress) -> None:
    """Do what is not done yet. Ctrl-C loses the units in work, no others."""
    waiting = [task for task in tasks if store.load(task) is None]
    done = len(tasks) - len(waiting)
    progress(done, len(tasks), "")
    if not waiting:
        return
    workers = min(jobs or os.cpu_count() or 1, len(waiting))
    context = multiprocessing.get_context("spawn")
    with _one_thread_each(), ProcessPoolExecutor(workers, mp_context=context) as pool:
        running: dict[Future[None], Task] = {pool.submit(work, task, store): task for task in waiting}
        try:
            while running:
                finished, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    task = running.pop(future)
                    future.result()
                    done += 1
                    progress(done, len(tasks), task.label)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def work(task: Task, store: Store) -> None:
    """Do one unit and save it; runs in a worker process."""
    unit = run_unit(task.experiment, task.repetition, task.version, task.protocol)
    store.save(task, unit, build(task.experiment, task.repetition).facts)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _write_tables(out: Path, experiments: Sequence[Experiment], tasks: Sequence[Task], store: Store) -> None:
    for experiment in experiments:
        runs, points, instances = [], [], {}
        for task in tasks:
            if task.experiment is not experiment:
                continue
            loaded = store.load(task)
            if loaded is None:
                raise InputError(f"the unit {task.label} disappeared from {store.folder}; run the same command again")
            unit, facts = loaded
            runs += unit.runs
            points += unit.points
            instances[str(task.repetition)] = facts
        folder = out / experiment.name
        write_table(folder / "curves.csv", CURVE_COLUMNS, points)
        write_table(folder / "summary.csv", SUMMARY_COLUMNS, runs)
        about = {
            "title": experiment.title,
            "theorems": experiment.theorems,
            "target": experiment.target,
            "choices": experiment.choices(),
            "draws": instances,
        }
        write_text(folder / "choices.json", json.dumps(about, indent=1) + "\n")
