"""What a party counts, for monitoring: Prometheus metrics and a health check over HTTP.

On this machine only unless an address is named. ``/metrics`` has how far the run has come and what it cost, and
``/health`` the same in three words; neither has a number that comes from the data of an agent: of the steps only those
that all parties share, no norm, no iterate. The residual is the bound that all parties agreed on.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from npga.errors import InputError
from npga.extras import load
from npga.runtimes._party import Party

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


def serve_metrics(address: str, party: Party) -> ThreadingHTTPServer:
    """Serve ``/metrics`` and ``/health`` of a party until the process ends.

    Parameters
    ----------
    address
        "PORT" for this machine only, or "HOST:PORT"; port 0 takes a free one.
    party
        Whose.

    Returns
    -------
    ThreadingHTTPServer
        The server; its `server_address` is where it listens.
    """
    prometheus = load("prometheus_client", "metrics", "--metrics", "prometheus-client")
    host, _, port = address.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise InputError(f"metrics are wanted at {address!r}; expected PORT or HOST:PORT")
    registry = prometheus.CollectorRegistry(auto_describe=False)
    registry.register(_Collector(party))

    class Answer(BaseHTTPRequestHandler):
        timeout = _LONGEST_LINE_SECONDS

        def do_GET(self) -> None:
            if self.path == "/metrics":
                self._say(200, prometheus.CONTENT_TYPE_LATEST, prometheus.generate_latest(registry))
            elif self.path == "/health":
                well, words = health(party)
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


def health(party: Party) -> tuple[bool, dict[str, Any]]:
    """Whether a round was finished within the patience, and how long ago, with whom it waits for."""
    logbook = party.logbook
    silence, late = logbook.silence, list(party.link.waits_for)
    well = not late or silence <= party.job.times.patience
    state = "connecting" if not logbook.rounds + logbook.control_rounds else "running" if well else "stalled"
    return well, {"state": state, "iteration": logbook.iteration, "seconds": round(silence, 3), "waits_for": late}


class _Collector:
    """Reads the logbook whenever somebody asks."""

    def __init__(self, party: Party) -> None:
        self._party = party

    def collect(self) -> Iterator[Any]:
        core = load("prometheus_client.core", "metrics", "--metrics", "prometheus-client")
        logbook, link = self._party.logbook, self._party.link
        totals = logbook.totals()
        for name, text in _COUNTERS.items():
            unit = "_seconds" if name in ("waiting", "computing") else ""
            yield core.CounterMetricFamily(f"npga_{name}{unit}", text, value=totals[name])
        waited = core.CounterMetricFamily("npga_waited_for_seconds", "Seconds waited for a party.", labels=["party"])
        for party, seconds in list(link.waited.items()):
            waited.add_metric([str(party)], seconds)
        yield waited
        gauges = {"iteration": logbook.iteration, "silence_seconds": logbook.silence}
        gauges["residual"] = math.nan if logbook.residual is None else logbook.residual
        gauges |= {key: logbook.steps[key] for key in ("beta", "gamma", "theta") if key in logbook.steps}
        for name, value in gauges.items():
            yield core.GaugeMetricFamily(f"npga_{name}", f"The run's {name.replace('_', ' ')}.", value=value)
