"""Run the experiments: versions in worker processes, then tables, then figures from the tables.

What is finished is kept on disk, so that an interrupted run goes on where it stood.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import npga
from npga.errors import InputError
from npga.experiments._definitions import Experiment
from npga.experiments._figures import draw_gaps
from npga.experiments._protocol import BASELINE, Measurement, Protocol, built, measure
from npga.experiments._report import Report, draw
from npga.experiments._tables import CURVE_COLUMNS, SUMMARY_COLUMNS, write_rows
from npga.files import replacing, write_text
from npga.pages import provenance

Progress = Callable[[int, int, str], None]
Say = Callable[[str], None]

# One thread for each process: the runs are many and small, and sums then do not depend on the number of cores.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NPGA_THREADS")
_HEARTBEAT = 10.0  # seconds after which `progress` is called although nothing has finished


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
    say: Say | None = None,
) -> Report:
    """Run experiments and leave tables, figures and summaries in a folder.

    Parameters
    ----------
    experiments
        Such as ``[Ridge(), ElasticNetExperiment(alpha=0.2)]``; names must differ.
    out
        The folder. What an earlier, interrupted run with the same choices has finished there is kept.
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
        Called as ``progress(done, total, label)``, with an empty label where nothing has finished for a while.
    say
        Called with a sentence for each figure that is drawn on the way.

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
    finished = FinishedRuns(out / ".units")
    if fresh:
        for task in tasks:
            finished.forget(task)
    early = EarlyFigures(out, tasks, finished, say or _silent) if figures else _silent
    _run(tasks, finished, jobs, progress or _silent, early)
    _write_tables(out, experiments, tasks, finished)
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


def _run(
    tasks: Sequence[Task],
    finished: FinishedRuns,
    jobs: int | None,
    progress: Progress,
    after: Callable[[Task], None],
) -> None:
    """Do what is not done yet, first draws first and DCPA before the others. Ctrl-C loses what is in work, no more."""
    waiting = [task for task in tasks if task not in finished]
    order = list(dict.fromkeys(task.experiment.name for task in tasks))
    waiting.sort(key=lambda task: (task.repetition, order.index(task.experiment.name), task.version != BASELINE))
    done = len(tasks) - len(waiting)
    progress(done, len(tasks), "")
    if not waiting:
        return
    workers = min(jobs or os.cpu_count() or 1, len(waiting))
    context = multiprocessing.get_context("spawn")
    with _one_thread_each(), ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent) as pool:
        running: dict[Future[None], Task] = {pool.submit(work, task, finished): task for task in waiting}
        try:
            while running:
                ended, _ = wait(running, timeout=_HEARTBEAT, return_when=FIRST_COMPLETED)
                if not ended:
                    progress(done, len(tasks), "")
                for future in ended:
                    task = running.pop(future)
                    future.result()
                    done += 1
                    progress(done, len(tasks), task.label)
                    after(task)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _end_with_parent() -> None:
    """End this worker when the process that started it is gone, however it ended.

    A worker that has nothing to do waits at a pipe of which it holds both ends, and so would wait for ever. What it has
    in work is lost; files are written whole or not at all.
    """
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True, name="npga-parent").start()


def work(task: Task, finished: FinishedRuns) -> None:
    """Measure one version on one draw and save it; runs in a worker process."""
    found = measure(task.experiment, task.repetition, task.version, task.protocol)
    finished.save(task, found, built(task.experiment, task.repetition).facts)


class EarlyFigures:
    """Figures of what is there: after the first two versions, and whenever the first draw of an experiment is complete.

    The report draws them again at the end; `say` is called with a sentence for each.
    """

    def __init__(self, out: Path, tasks: Sequence[Task], finished: FinishedRuns, say: Say) -> None:
        self.out, self.tasks, self.finished, self.say = out, tasks, finished, say
        self.drawn = False

    def __call__(self, task: Task) -> None:
        """Draw, if this task was one to wait for."""
        draw_one = [other for other in self.tasks if other.experiment is task.experiment and other.repetition == 0]
        done = [other for other in draw_one if other in self.finished]
        if task not in draw_one or not (len(done) == len(draw_one) or (len(done) == 2 and not self.drawn)):
            return
        self.drawn = True
        loaded = [self.finished.load(other) for other in done]
        points = [row for item in loaded if item is not None for row in item[0].points]
        what = f"{len(done)} of {len(draw_one)} versions, first draw"
        folder = self.out / task.experiment.name
        picture, *_ = draw_gaps(points, f"{task.experiment.title} ({what})", folder / "gap")
        self.say(f"{picture} shows {what}; it is drawn again at the end")


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


def _write_tables(out: Path, experiments: Sequence[Experiment], tasks: Sequence[Task], finished: FinishedRuns) -> None:
    for experiment in experiments:
        runs, points, instances = [], [], {}
        for task in tasks:
            if task.experiment is not experiment:
                continue
            loaded = finished.load(task)
            if loaded is None:
                raise InputError(f"{task.label} disappeared from {finished.folder}; run the same command again")
            found, facts = loaded
            runs += found.runs
            points += found.points
            instances[str(task.repetition)] = facts
        folder = out / experiment.name
        write_rows(folder / "curves.csv", CURVE_COLUMNS, points)
        write_rows(folder / "summary.csv", SUMMARY_COLUMNS, runs)
        about = {
            "title": experiment.title,
            "theorems": experiment.theorems,
            "target": experiment.target,
            "choices": experiment.choices(),
            "draws": instances,
        }
        write_text(folder / "choices.json", json.dumps(about, indent=1) + "\n")


@dataclass(frozen=True)
class Task:
    """One version on one draw of one experiment."""

    experiment: Experiment
    repetition: int
    version: str
    protocol: Protocol

    @property
    def label(self) -> str:
        """What a progress bar says."""
        return f"{self.experiment.name} {self.version} draw {self.repetition}"

    @property
    def key(self) -> str:
        """Digest of all that the outcome depends on: another choice, another key."""
        rules = asdict(self.protocol)
        rules.pop("versions")
        parts = {
            "npga": npga.__version__,
            "choices": self.experiment.choices(),
            "repetition": self.repetition,
            "version": self.version,
            "protocol": rules,
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class FinishedRuns:
    """The folder of what is finished, a file for each task; it is made when the first one is saved."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, task: Task) -> Path:
        return self.folder / f"{task.experiment.name}-{task.repetition:03d}-{task.version}-{task.key[:12]}.json.gz"

    def __contains__(self, task: Task) -> bool:
        return self._path(task).exists()

    def load(self, task: Task) -> tuple[Measurement, dict[str, Any]] | None:
        """What was measured and the facts of its instance, or None if it is not there."""
        if task not in self:
            return None
        stored = json.loads(gzip.decompress(self._path(task).read_bytes()))
        return Measurement(stored["runs"], stored["points"]), stored["facts"]

    def save(self, task: Task, found: Measurement, facts: dict[str, Any]) -> None:
        """Write what was measured, whole or not at all."""
        text = json.dumps({"facts": facts, "runs": found.runs, "points": found.points})
        with replacing(self._path(task)) as file:
            file.write(gzip.compress(text.encode(), 6, mtime=0))

    def forget(self, task: Task) -> None:
        """Do not keep a task."""
        self._path(task).unlink(missing_ok=True)
