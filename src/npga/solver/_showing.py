"""What a result shows: figures for notebooks, and the sections of its report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError, nearest
from npga.extras import load
from npga.pages import Section, curve_section, fact_section, network_section, provenance_section, table_section
from npga.solver._result import AgentTrace, Result, Trace

Array = NDArray[Any]

# What a count of work is called.
WORDS = {
    "iterations": "iterations",
    "rounds": "communication rounds",
    "floats_sent": "numbers sent",
    "seconds": "seconds",
}
_RESIDUALS = {"kkt": "optimality residual", "gap": "distance to the reference", "consensus": "distance to consensus"}
_COLOURS = {"kkt": "#0b62a8", "gap": "#d55e00", "consensus": "#009e73"}
# Agents that a table of the worst holds; relative residuals below the rounding of one are not drawn.
_WORST, _LEAST = 20, 1e-15


# ------------------------------------------------------------------ counts of work at the records


def spent(result: Result) -> tuple[dict[str, Array], str]:
    """Iterations, rounds, numbers sent and seconds at each record, and a sentence on where the seconds come from."""
    trace = result.trace
    per_round = result.floats_sent / result.rounds if result.rounds else 0.0
    seconds = np.asarray(trace.iteration / max(result.iterations, 1) * result.seconds)
    said = "Seconds are the wall time spread evenly over the iterations; trace='agents' measures them."
    if trace.agents is not None and len(trace.agents.iterations) > 1:
        seconds = np.interp(trace.iteration, trace.agents.iterations, trace.agents.seconds)
        said = "Seconds were measured at each record, the measuring of every agent included."
    counts = {"iterations": trace.iteration, "rounds": trace.round, "floats_sent": trace.round * per_round}
    return counts | {"seconds": seconds}, said


def plot_trace(trace: Trace, counts: Mapping[str, Array], by: str, path: str | PathLike[str] | None) -> Any:
    """A figure of the residuals against one of the counts."""
    if by not in counts:
        raise InputError(f"by is {by!r}; {nearest(str(by), counts)}")
    figure = load("matplotlib.figure", "plot", "plot()").Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.add_subplot()
    for name, words in _RESIDUALS.items():
        values = trace[name]
        seen = np.isfinite(values) & (values > _LEAST)
        if seen.any():
            axes.plot(counts[by][seen], values[seen], color=_COLOURS[name], linewidth=1.8, label=words)
    axes.set(yscale="log", xlabel=WORDS[by])
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    if axes.lines:
        axes.legend(frameon=False)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure


# ------------------------------------------------------------------ the sections of a report


def run_sections(result: Result) -> list[Section]:
    """Convergence, the network with its agents, the worst of them, settings, provenance; in this order."""
    agents = result.trace.agents
    seen = AgentTrace() if agents is None or not agents.iterations else agents
    if not seen.iterations:
        seen.add(result.problem, result.state, result.seconds)
    names = [result.problem.title(i) for i in range(result.problem.n)]
    return [
        convergence_section(result.trace, *spent(result)),
        _network(result, seen, names),
        _worst(result, seen, names),
        _settings(result),
        provenance_section(),
    ]


def convergence_section(trace: Trace, counts: Mapping[str, Array], note: str = "") -> Section:
    """Residuals and objective of a trace against every count of work."""
    lines = []
    for name, words in _RESIDUALS.items():
        values = np.where(trace[name] > _LEAST, trace[name], np.nan)
        if np.isfinite(values).any():
            lines.append({"name": words, "color": _COLOURS[name], "x": counts, "y": {"residuals": values}})
    lines.append({"name": "objective", "x": counts, "y": {"objective": trace.objective}})
    axes = [(key, WORDS[key]) for key in counts]
    measures = [("residuals", "residuals"), ("objective", "objective")]
    return curve_section("Convergence", axes, measures, lines, note=note, linear=["objective"])


def _network(result: Result, seen: AgentTrace, names: list[str]) -> Section:
    measures = [("stationarity", "residual"), ("consensus", "distance to consensus")]
    values = {"stationarity": np.array(seen.stationarity), "consensus": np.array(seen.consensus)}
    note = (
        "By which part of its size one more natural step would move each agent, and how far its dual variable is from "
        "the mean of all."
    )
    if len(seen.iterations) == 1:
        note += " At the end of the run; solve(..., trace='agents') keeps the way there."
    return network_section("Network", result.network.edges, names, seen.iterations, measures, values, note)


def _worst(result: Result, seen: AgentTrace, names: list[str]) -> Section:
    last, spread = seen.stationarity[-1], seen.consensus[-1]
    order = np.argsort(-np.nan_to_num(last), kind="stable")[:_WORST]
    header = ("agent", "variables", "neighbours", "residual", "distance to consensus")
    degrees = result.network.degrees
    rows = [(names[i], result.blocks[i].size, int(degrees[i]), float(last[i]), float(spread[i])) for i in order]
    title = "Agents" if len(names) <= _WORST else f"The {_WORST} agents with the largest residuals"
    return table_section(title, header, rows, "At the end of the run.")


def _settings(result: Result) -> Section:
    network, problem, version = result.network, result.problem, result.version
    rows: list[tuple[str, Any]] = [("method", result.method)]
    if version is not None:
        rows += [("version", version.title), ("rounds per iteration", version.rounds)]
        rows += [("c", version.c)] if version.c is not None else []
    steps = {} if result.steps is None else asdict(result.steps)
    rows += [(name, _steps_words(value)) for name, value in steps.items()]
    rows += [
        ("status", result.status.value),
        ("iterations", result.iterations),
        ("rounds", result.rounds),
        ("messages", result.messages),
        ("numbers sent", result.floats_sent),
        ("inner iterations", result.inner_iterations),
        ("gradients, products, proximal steps", ", ".join(f"{value:,}" for value in asdict(result.work).values())),
        ("seconds", result.seconds),
        ("implementation", result.path),
        ("agents, variables, coupling rows", f"{problem.n:,}, {problem.d:,}, {problem.p:,}"),
        ("h", repr(problem.h)[:200]),
        ("network", repr(network)),
        ("fingerprint of the network", network.fingerprint()),
        ("fingerprint of the problem", str(problem.fingerprint)),
    ]
    return fact_section("Settings", rows)


def _steps_words(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return f"{min(value):.6g} to {max(value):.6g}, one for each agent"
    return repr(value)
