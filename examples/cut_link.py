"""
A run over gRPC with a link that is cut
=======================================

*Three organisations fit one model over the internet. What happens when a connection breaks in the middle?*

It is opened again, and the round goes on where it was: nothing is lost and nobody starts anew. Here three processes
with keys of their own talk over mutual TLS, all their connections are cut and refused for two seconds, and the
coefficients are checked against scikit-learn.
"""

# %%
# Each organisation holds two columns of a ridge regression. ``write_job`` splits the problem: what is private goes into
# a file for each, ``job.toml`` is what all of them agree on.

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import Ridge

import npga
from npga import functions as fn
from npga import runtimes

rng = np.random.default_rng(0)
X, y = rng.standard_normal((6, 6)), rng.standard_normal(6)
blocks = np.split(X, 3, axis=1)
problem = npga.Problem([npga.Agent(A=A, f=fn.SquaredNorm(1.0)) for A in blocks], h=fn.SquaredLoss(target=y))
network = npga.Network.ring(3)
steps = npga.Steps(alpha=0.5, beta=0.4 / max(np.linalg.norm(A, 2) ** 2 for A in blocks))

# %%
# The internet is played by three little forwarders. Each listens where its organisation is said to be and passes on
# what comes, until the cable is cut.


class Cable:
    """Forwards from one local port to another; cut, it resets what is open and refuses what comes."""

    def __init__(self):
        self.loop, self.cut, self.open = asyncio.new_event_loop(), False, []
        self.server = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0))
        self.front = self.server.sockets[0].getsockname()[1]
        probe = self.loop.run_until_complete(asyncio.start_server(self.serve, "127.0.0.1", 0))
        self.back = probe.sockets[0].getsockname()[1]  # free a moment ago
        probe.close()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    async def serve(self, reader, writer):
        """One connection."""
        try:
            if self.cut:
                raise ConnectionError
            other, onward = await asyncio.open_connection("127.0.0.1", self.back)
        except OSError:
            writer.transport.abort()
            return
        self.open += [writer, onward]
        await asyncio.gather(self.pump(reader, onward), self.pump(other, writer))

    async def pump(self, reader, writer):
        """One direction of it."""
        try:
            while chunk := await reader.read(65536):
                writer.write(chunk)
                await writer.drain()
        except OSError:
            pass
        writer.transport.abort()

    def set(self, cut):
        """Cut the cable, or mend it."""
        self.cut = cut
        for writer in self.open if cut else []:
            self.loop.call_soon_threadsafe(writer.transport.abort)
        self.open = []


# %%
# Every organisation starts its own process with its own key. A party's own job file says where it really listens; the
# others know the front of its cable.

folder = Path(tempfile.mkdtemp())
cables = [Cable() for _ in range(3)]
fronts = [f"127.0.0.1:{cable.front}" for cable in cables]
job = runtimes.write_job(
    folder, problem, network, "nids", steps, addresses=fronts, max_iters=1500, metrics_seconds=0.02, patience=30.0
)
runtimes.keygen(runtimes.read_job(job))
out = folder / "out"
environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
parties = []
for k, cable in enumerate(cables):
    own = folder / f"job{k}.toml"
    own.write_text(job.read_text().replace(fronts[k], f"127.0.0.1:{cable.back}"))
    command = [sys.executable, "-m", "npga.runtimes.net", str(own), "--party", str(k), "--out", str(out)]
    parties.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment))


def iteration():
    """How far party 0 has come."""
    lines = (out / "party0.jsonl").read_text().splitlines() if (out / "party0.jsonl").exists() else []
    return json.loads(lines[-1])["iteration"] if lines else 0


while iteration() < 300 and all(party.poll() is None for party in parties):
    time.sleep(0.02)
for cable in cables:
    cable.set(cut=True)
cut_at = time.time()
time.sleep(0.5 if "--small" in sys.argv else 2.0)
for cable in cables:
    cable.set(cut=False)
mended_at = time.time()
said = [party.communicate(timeout=600)[1] for party in parties]
print([party.returncode for party in parties], [line for line in said[0].splitlines() if "again" in line][:2])
assert [party.returncode for party in parties] == [0, 0, 0], said

# %%
# The metrics that each party wrote tell the story; ``npga report`` makes a page of them.

metrics = runtimes.read_metrics(out)
begun = min(rows[0]["time"] for rows in metrics.values())
figure, axis = plt.subplots(figsize=(7.5, 4), layout="constrained")
for party, rows in metrics.items():
    axis.plot([row["time"] - begun for row in rows], [row["iteration"] for row in rows], label=f"party {party}")
axis.axvspan(cut_at - begun, mended_at - begun, color="#CC6677", alpha=0.25, linewidth=0, label="cut")
axis.set(xlabel="seconds", ylabel="iterations")
axis.legend(frameon=False)
axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **The number.** scikit-learn fits the same model with all columns in one place.

coefficients = np.concatenate([runtimes.read_arrays(out / f"agent{i}.npz")["x"] for i in range(3)])
shutil.rmtree(folder)
model = Ridge(alpha=1.0, fit_intercept=False, solver="cholesky").fit(X, y)
difference = float(np.abs(coefficients - model.coef_).max())
print(f"largest difference from scikit-learn's coefficients: {difference:.1e}")
assert difference < 1e-8
