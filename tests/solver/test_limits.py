"""One record of limits, obeyed by every path; the grid of records; and what is told on the way."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields

import numpy as np
import pytest

import npga
from helpers.families import random_problem, tame_steps
from npga.solver import Limits, Rule, Run, Status, method_for, run, show_progress

PATHS = ("vectorised", "compiled")


def made(path, problem=None):
    """A method and its meter on a problem small enough for leaps, with a solution."""
    problem = problem or random_problem(3, proximable="l1", coupling="squared-loss")
    steps = tame_steps(problem, gamma=0.6, theta=0.3)
    method = method_for(problem, npga.Network.ring(problem.n), npga.version("extra"), steps, path)
    x0, lam0 = problem.start()
    return method, method.meter(x0, npga.reference(problem).x), Run(method.start(x0, lam0))


def ended(path, limits, **options):
    method, meter, begun = made(path)
    return run(method, meter, begun, limits, **options)


# ------------------------------------------------------------------ limits and rules


def test_every_limit_has_a_rule_and_every_rule_its_limits():
    read = {name for rule in Limits.rules for name in rule.limits}
    assert read == {item.name for item in fields(Limits)}


STOPS = [
    (Limits(tol=1e-6), Status.CONVERGED),
    (Limits(tol=None, gap_tol=1e-5), Status.CONVERGED),
    (Limits(tol=None, max_iters=777), Status.MAX_ITERS),
    (Limits(tol=None, max_rounds=555), Status.MAX_ROUNDS),
    (Limits(tol=None, growth=1e-9, size=1e-9), Status.DIVERGED),
    (Limits(tol=None, max_seconds=0.0), Status.MAX_SECONDS),
]


def test_the_stops_below_cover_every_rule():
    assert {status for _, status in STOPS} == {rule.status for rule in Limits.rules}
    untouched = Limits(tol=None)
    changed = {
        name for limits, _ in STOPS for name in limits.active if getattr(limits, name) != getattr(untouched, name)
    }
    assert changed == {item.name for item in fields(Limits)}


@pytest.mark.parametrize(
    ("limits", "status"), STOPS, ids=lambda value: value.value if isinstance(value, Status) else ""
)
def test_every_path_stops_at_the_same_record(limits, status):
    plain = ended("vectorised", limits)
    watched = ended("compiled", limits, callback=lambda *_: None)  # record by record
    leaping = ended("compiled", limits)
    assert plain.status is watched.status is leaping.status is status
    assert plain.state.iteration == watched.state.iteration == leaping.state.iteration


def test_the_kernels_know_every_limit():
    """A field that they do not know would cost them their leaps: say there what it means, or leave it to Python."""
    _, meter, _ = made("compiled")
    everything = {item.name: 1 for item in fields(Limits)}
    assert meter.leaps(Limits(**everything), None) is not None


@dataclass(frozen=True)
class Toy(Limits):
    """A rule of one's own: stop below an objective."""

    enough: float | None = None
    rules = (*Limits.rules, Rule(("enough",), Status.CONVERGED, lambda at, to: at.record.objective <= to.enough))


def test_a_new_rule_is_obeyed_on_every_path_and_never_late():
    whole = ended("vectorised", Limits(tol=1e-10))
    objective = whole.trace["objective"]
    assert objective[0] > objective[-1]
    enough = objective[0] + 0.999 * (objective[-1] - objective[0])
    first = int(whole.trace["iteration"][np.argmax(objective <= enough)])
    assert first > 15
    for path in PATHS:
        found = ended(path, Toy(tol=None, enough=float(enough)))
        assert (found.status, found.state.iteration) == (Status.CONVERGED, first)
    _, meter, _ = made("compiled")
    assert meter.leaps(Toy(enough=1.0), None) is None  # unknown to the kernels: record by record
    assert meter.leaps(Toy(), None) is not None  # switched off


def test_packed_fields_come_by_name():
    limits = Limits(tol=1e-3, max_rounds=7)
    names = ("max_rounds", "tol", "gap_tol", "max_iters", "growth", "size")
    assert limits.packed(names).tolist() == [7.0, 1e-3, -1.0, 100_000.0, 1e8, 1e4]
    assert limits.packed(("tol",)) is None


def test_what_is_left():
    limits = Limits(tol=1e-3, gap_tol=1e-4, max_iters=100, max_rounds=50, max_seconds=2.0)
    left = limits.left(iterations=30, rounds=60, seconds=0.5, scale=0.1)
    assert (left.max_iters, left.max_rounds, left.max_seconds) == (70, 0, 1.5)
    assert (left.tol, left.gap_tol) == (1e-3, pytest.approx(1e-3))
    assert Limits().left(iterations=1).active == Limits().active


@pytest.mark.parametrize("bad", [{"tol": -1.0}, {"gap_tol": np.nan}, {"max_iters": 1.5}, {"max_rounds": "many"}])
def test_impossible_limits_are_refused(bad):
    with pytest.raises(ValueError, match=f"{next(iter(bad))} is"):
        Limits(**bad)


# ------------------------------------------------------------------ when a run is looked at


def test_the_grid_is_never_more_than_a_tenth_late():
    result = ended("compiled", Limits(tol=None, max_iters=60_000))
    recorded = result.trace["iteration"]
    assert recorded[:12].tolist() == list(range(12))
    due = recorded[:-1] + 1  # the worst place for a stop: just after a record
    assert (recorded[1:] <= 1.1 * due).all()
    assert np.diff(recorded).max() == 2000


# ------------------------------------------------------------------ what is told


def test_lines_where_there_is_no_terminal(capsys, monkeypatch):
    with show_progress("digging") as tell:
        tell(0.25, "first")
        assert not capsys.readouterr().out  # nothing yet: it has just begun
        monkeypatch.setattr("npga.extras.PAUSE", 0.0)
        tell(0.5, "second")
        assert capsys.readouterr().out == "digging: 50 %, second (0 s)\n"
        monkeypatch.setattr("npga.extras.PAUSE", 100.0)
        tell(None, "third")
    assert capsys.readouterr().out == "digging: third (0 s)\n"
    with show_progress("silence", enabled=False) as tell:
        assert tell is None


def test_a_bar_on_a_terminal(capsys, monkeypatch):
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with show_progress("digging") as tell:
        tell(None, "begun")
        tell(0.5, "half of it")
    assert "half of it" in capsys.readouterr().out


def test_tuning_tells_it_too(capsys):
    problem = random_problem(3, coupling="squared-loss")
    npga.tune(problem, npga.Network.ring(6), "nids", method="search", max_seconds=0.5, progress=True)
    assert "trials, now" in capsys.readouterr().out
