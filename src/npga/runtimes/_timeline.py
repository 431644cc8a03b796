"""What a party did and when: counted, written as JSON lines, served over HTTP, read back, and drawn for all together.

Served are Prometheus metrics and a health check, on this machine only unless an address is named. ``/metrics`` has how
far the run has come and what it cost, and ``/health`` the same in three words; neither has a number that comes from the
data of an agent: of the steps only those that all parties share, no norm, no iterate. The residual is the bound that
all parties agreed on.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from npga.errors import InputError
from npga.extras import load
from npga.pages import Section, curve_section, fact_section, provenance_section, table_section, timeline_section
from npga.runtimes._data_files import PRIVATE

if TYPE_CHECKING:
    from npga.runtimes._party import Link

# A party that has waited this long for a neighbour says so in its lines, again and again.
_BEAT_SECONDS = 1.0
_TAIL_BYTES = 1 << 16
Array = NDArray[Any]

# What a report draws over time, and what it adds up for every party.
_CURVES = [
    ("residual", "residual"),
    ("iteration", "iterations"),
    ("bytes_sent", "bytes sent"),
    ("waiting", "seconds of waiting"),
]
_TOTALS = ("iteration", "rounds", "messages", "floats_sent", "control_floats_sent", "bytes_sent", "bytes_received",
           "seconds", "computing", "waiting")  # fmt: skip
_LOCAL = "127.0.0.1"
_LONGEST_LINE_SECONDS = 10.0
_COUNTERS = {
    "rounds": "Rounds of NPGA.",
    "control_rounds": "Rounds of agreeing: on the start, on steps, on when to stop.",
    "messages": "Vectors of NPGA sent from an agent to a neighbour.",
    "control_messages": "Vectors sent for agreeing.",
    "bytes_sent": "Bytes sent to other parties.",
    "bytes_received": "Bytes received from other parties.",
    "waiting": "Seconds spent waiting for messages.",
    "computing": "Seconds spent otherwise.",
}


class Logbook:
    """Counts what a party does at its link, and writes a line at most every `pause` seconds, if it has a file."""

    def __init__(self, path: Path | None, party: int, pause: float, link: Link) -> None:
        self._party, self._pause, self.link = party, pause, link
        self._file = None
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            private = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE)
            self._file = os.fdopen(private, "a", buffering=1)
        self._begun = self._written = self.last_round = time.perf_counter()
        self._writing, self._closed = threading.Lock(), threading.Event()
        self._before = {"rounds": 0.0, "seconds": 0.0, "waiting": 0.0}
        self.iteration = 0
        self.residual: float | None = None
        self.steps: dict[str, Any] = {}
        self.waiting = 0.0
        self.rounds = self.messages = self.floats_sent = 0
        self.steps_rounds = 0
        self.control_rounds = self.control_messages = self.control_floats_sent = 0

    def begin_anew(self) -> None:
        """Forget the lines of an earlier run, which this one does not go on from."""
        if self._file is not None:
            self._file.truncate(0)

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self._begun

    @property
    def silence(self) -> float:
        """Time since the last round was over."""
        return time.perf_counter() - self.last_round

    def sent(self, control: bool, messages: int, floats: int) -> None:
        """Count one round."""
        self.last_round = time.perf_counter()
        if control:
            self.control_rounds += 1
            self.control_messages += messages
            self.control_floats_sent += floats
        else:
            self.rounds += 1
            self.messages += messages
            self.floats_sent += floats

    def totals(self) -> dict[str, Any]:
        """Everything counted so far; `messages` and `floats_sent` are those of NPGA, `control_*` those of agreeing."""
        seconds = self.seconds
        return {
            "rounds": self.rounds, "messages": self.messages, "floats_sent": self.floats_sent,
            "control_rounds": self.control_rounds, "control_messages": self.control_messages,
            "control_floats_sent": self.control_floats_sent, "steps_rounds": self.steps_rounds,
            "bytes_sent": self.link.bytes_sent, "bytes_received": self.link.bytes_received,
            "seconds": seconds, "waiting": self.waiting, "computing": seconds - self.waiting,
        }  # fmt: skip

    def line(self, iteration: int, force: bool = False, **more: Any) -> None:
        """Write a line if the last one is long enough ago."""
        self.iteration = iteration
        if self._file is None or not (force or time.perf_counter() - self._written >= self._pause):
            return
        with self._writing:
            self._written = time.perf_counter()
            totals = self.totals()
            row = {"time": time.time(), "party": self._party, "iteration": iteration} | totals
            row |= self._since_last(totals) | {"residual": self.residual, "steps": self.steps}
            row |= {"waited_for": {str(q): seconds for q, seconds in self.link.waited.items()}} | more
            self._file.write(json.dumps(row) + "\n")

    def _since_last(self, totals: dict[str, Any]) -> dict[str, float]:
        """Mean seconds of a round that went by waiting and computing, since the last line."""
        now = {"rounds": totals["rounds"] + totals["control_rounds"]} | {k: totals[k] for k in ("seconds", "waiting")}
        rounds, seconds, waiting = (now[key] - self._before[key] for key in ("rounds", "seconds", "waiting"))
        self._before = now
        share = 1.0 / max(rounds, 1)
        return {"waiting_per_round": waiting * share, "computing_per_round": (seconds - waiting) * share}

    def beat(self) -> None:
        """From now on, while a neighbour keeps this party waiting, a line every second that says which."""

        def look() -> None:
            while not self._closed.wait(_BEAT_SECONDS):
                late = self.link.waits_for
                if late and self.silence > _BEAT_SECONDS:
                    with contextlib.suppress(OSError, ValueError):  # a full disk is told where it matters
                        self.line(self.iteration, force=True, waits_for=list(late))

        if self._file is not None:
            threading.Thread(target=look, daemon=True, name="npga-logbook").start()

    def close(self) -> None:
        """Close the file."""
        self._closed.set()
        if self._file is not None:
            with self._writing:
                self._file.close()


# Served over HTTP


def serve_metrics(address: str, logbook: Logbook, patience: float) -> ThreadingHTTPServer:
    """Serve ``/metrics`` and ``/health`` of a party until the process ends; a round may take its `patience`.

    The address is "PORT" for this machine only, or "HOST:PORT"; port 0 takes a free one, `server_address` tells which.
    """
    prometheus = load("prometheus_client", "metrics", "--metrics", "prometheus-client")
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise InputError(f"metrics are wanted at {address!r}; expected PORT or HOST:PORT")
    registry = prometheus.CollectorRegistry(auto_describe=False)
    registry.register(_Collector(logbook))

    class Answer(BaseHTTPRequestHandler):
        timeout = _LONGEST_LINE_SECONDS

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._say(200, prometheus.CONTENT_TYPE_LATEST, prometheus.generate_latest(registry))
            elif self.path == "/health":
                well, words = health(logbook, patience)
                self._say(200 if well else 503, "application/json", json.dumps(words).encode())
            else:
                self._say(404, "text/plain", b"/metrics or /health\n")

        def _say(self, code: int, kind: str, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing of requests."""

    try:
        server = ThreadingHTTPServer((host.strip("[]") or _LOCAL, int(port)), Answer)
    except OSError as error:
        raise InputError(f"cannot serve metrics at {address} ({error.strerror}); choose another port") from None
    threading.Thread(target=server.serve_forever, daemon=True, name="npga-metrics").start()
    return server


def health(logbook: Logbook, patience: float) -> tuple[bool, dict[str, Any]]:
    """Whether a round was finished within the patience, and how long ago, with whom it waits for."""
    silence, late = logbook.silence, list(logbook.link.waits_for)
    well = not late or silence <= patience
    state = "connecting" if not logbook.rounds + logbook.control_rounds else "running" if well else "stalled"
    return well, {"state": state, "iteration": logbook.iteration, "seconds": round(silence, 3), "waits_for": late}


class _Collector:
    """Reads the logbook whenever somebody asks."""

    def __init__(self, logbook: Logbook) -> None:
        self._logbook = logbook

    def collect(self) -> Iterator[Any]:
        core = load("prometheus_client.core", "metrics", "--metrics", "prometheus-client")
        logbook = self._logbook
        totals = logbook.totals()
        for name, text in _COUNTERS.items():
            unit = "_seconds" if name in ("waiting", "computing") else ""
            yield core.CounterMetricFamily(f"npga_{name}{unit}", text, value=totals[name])
        waited = core.CounterMetricFamily("npga_waited_for_seconds", "Seconds waited for a party.", labels=["party"])
        for party, seconds in list(logbook.link.waited.items()):
            waited.add_metric([str(party)], seconds)
        yield waited
        gauges = {"iteration": logbook.iteration, "silence_seconds": logbook.silence}
        gauges["residual"] = math.nan if logbook.residual is None else logbook.residual
        gauges |= {key: logbook.steps[key] for key in ("beta", "gamma", "theta") if key in logbook.steps}
        for name, value in gauges.items():
            yield core.GaugeMetricFamily(f"npga_{name}", f"The run's {name.replace('_', ' ')}.", value=value)


# Read back and drawn


def read_metrics(out: str | Path) -> dict[int, list[dict[str, Any]]]:
    """The lines of every ``party<k>.jsonl`` in a directory, by party."""
    files = sorted(Path(out).glob("party*.jsonl"), key=lambda path: int(path.stem.removeprefix("party")))
    found = {int(path.stem.removeprefix("party")): _lines(path) for path in files}
    if not any(found.values()):
        raise InputError(f"{out} holds no metrics; expected party*.jsonl of a finished or running `npga launch`")
    return found


def read_last(out: str | Path) -> dict[int, dict[str, Any]]:
    """The last line of every party's metrics, with what its ``party<k>.json`` says, by party: how a run is going."""
    directory = Path(out)
    found: dict[int, dict[str, Any]] = {}
    for path in (*directory.glob("party*.jsonl"), *directory.glob("party*.json")):
        number = path.stem.removeprefix("party")
        if number.isdigit():
            row = _last_line(path) if path.suffix == ".jsonl" else _status(path)
            found[int(number)] = found.get(int(number), {}) | row
    if not found:
        raise InputError(f"{out} holds no run; expected party*.json of a finished or running `npga launch`")
    return dict(sorted(found.items()))


def _last_line(path: Path) -> dict[str, Any]:
    """The last complete line, without reading all of them."""
    with path.open("rb") as file:
        file.seek(max(file.seek(0, 2) - _TAIL_BYTES, 0))
        lines = file.read().splitlines(keepends=True)
    whole = [line for line in lines if line.endswith(b"\n")]
    row: dict[str, Any] = json.loads(whole[-1]) if whole else {}
    return row


def _status(path: Path) -> dict[str, Any]:
    row = json.loads(path.read_text())
    return {key: row[key] for key in ("agents", "state", "error", "converged") if key in row}


def _lines(path: Path) -> list[dict[str, Any]]:
    """All complete lines; a process that was killed may have left half of one."""
    rows = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def spans(metrics: dict[int, list[dict[str, Any]]]) -> dict[int, tuple[Array, Array, Array]]:
    """For every party the begin and end of each interval, in seconds, and the share of it spent computing."""
    start = min(row["time"] - row["seconds"] for rows in metrics.values() for row in rows[:1])
    found = {}
    for party, lines in metrics.items():
        ends = np.array([line["time"] for line in lines]) - start
        begins = np.concatenate([[ends[0] - lines[0]["seconds"]], ends[:-1]]) if len(lines) else ends
        busy = np.diff([0.0, *(line["computing"] for line in lines)])
        width = ends - begins
        share = np.clip(np.divide(busy, width, out=np.zeros_like(width), where=width > 0), 0, 1)
        found[party] = begins, ends, share
    return found


def plot_timeline(out: str | Path, path: str | Path) -> Path:
    """Draw, for every party, the part of each interval that it spent computing, and where it ended."""
    drawing = load("matplotlib.figure", "plot", "the timeline")
    metrics = read_metrics(out)
    figure = drawing.Figure(figsize=(9, 1.5 + 0.3 * len(metrics)), layout="constrained")
    axes = figure.subplots()
    for row, (party, (begins, ends, share)) in enumerate(spans(metrics).items()):
        width = ends - begins
        axes.barh(np.full(len(ends), row), width, 0.8, begins, color="0.9", edgecolor="none")
        axes.barh(np.full(len(ends), row), width * share, 0.8, begins, color="tab:blue", edgecolor="none")
        if metrics[party] and "error" in metrics[party][-1]:
            axes.plot(ends[-1], row, "x", color="tab:red")
    axes.set_yticks(range(len(metrics)), [f"party {party}" for party in metrics])
    axes.set_xlabel("seconds (blue: computing; grey: waiting for messages; red cross: ended with an error)")
    axes.invert_yaxis()
    figure.savefig(path)
    return Path(path)


def launch_sections(out: str | Path) -> list[Section]:
    """What a report shows of a launch, finished or not: outcome, timeline, progress and traffic of every party.

    Parameters
    ----------
    out
        Its directory, with party*.jsonl and perhaps summary.json.
    """
    metrics, summary = read_metrics(out), Path(out) / "summary.json"
    told = (
        json.loads(summary.read_text(encoding="utf-8")) if summary.exists() else {"converged": "no summary was written"}
    )
    rows, lines, totals = [], [], []
    for party, (begins, ends, share) in spans(metrics).items():
        own, name = metrics[party], f"party {party}"
        marks = [(end, line["error"]) for end, line in zip(ends, own, strict=True) if "error" in line]
        rows.append({"name": name, "spans": np.stack([begins, ends, share], axis=1), "marks": marks})
        lines.append(
            {
                "name": name,
                "x": {"seconds": ends},
                "y": {key: [np.nan if line.get(key) is None else line[key] for line in own] for key, _ in _CURVES},
            }
        )
        totals.append((name, *(own[-1].get(key) if own else None for key in _TOTALS)))
    note = "Blue: computing; grey: waiting for messages; a red cross: ended with an error."
    head = ("party", *(key.replace("_", " ") for key in _TOTALS))
    return [
        fact_section("Outcome", [(key.replace("_", " "), value) for key, value in told.items() if key != "x"]),
        timeline_section("Timeline", rows, note),
        curve_section("Progress", [("seconds", "seconds")], _CURVES, lines, linear=[key for key, _ in _CURVES[1:]]),
        table_section("Parties", head, totals),
        provenance_section(),
    ]
