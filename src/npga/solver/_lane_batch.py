"""Runs as the lanes of the vector units."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from npga.networks import Network, Version
from npga.problem import Problem
from npga.solver._batch import Batch, _chosen
from npga.solver._compiled_meter import measuring_facts
from npga.solver._recursion import State
from npga.solver.kernels import _measure as found
from npga.solver.kernels._elementwise import prepare_conj_prox, prepare_prox
from npga.solver.kernels._lane_steps import ALPHA, LANES, Block, T, advance_block, measure_lanes
from npga.solver.kernels._lower import UnsupportedError
from npga.solver.kernels._plan import Plan, coefficients
from npga.solver.kernels._team import together
from npga.steps import Steps

Array = NDArray[Any]
# The ten arrays of a block should stay in the second-level cache.
_BLOCK_BYTES = 3 << 20


class LaneBatch(Batch):
    """Runs in blocks of 64 lanes; see `batch`.

    Runs are kept in blocks as they come; after `keep`, the remaining ones are packed together.
    """

    def __init__(
        self,
        problem: Problem,
        network: Network,
        versions: Sequence[Version],
        steps: Sequence[Steps],
        x0: Array,
        lam0: Array,
    ) -> None:
        weights = [version.edge_weights(network) for version in versions]
        if any(not np.array_equal(row, weights[0]) for row in weights[1:]):
            raise UnsupportedError("a batch of versions in W and versions in the Laplacian")
        polynomials = [coefficients(version, own) for version, own in zip(versions, steps, strict=True)]
        kept = max(len(d) - 1 for _, _, d in polynomials)
        new = max(max(len(c) - 1, len(b) - 1 - kept, 0) for b, c, _ in polynomials)
        self._plan = Plan(problem, network, versions[0], steps[0], rounds=(new, kept))
        self._problem, self._rounds = problem, new + kept
        n, p, d = problem.n, problem.p, problem.d
        self.fits = 10 * n * p * LANES * problem.dtype.itemsize <= _BLOCK_BYTES
        self._shape = (n, p)
        count, kind = len(steps), problem.dtype
        self._table = np.array([[s.alpha, s.beta, s.theta, s.beta / n] for s in steps], kind)
        self._polynomials = np.zeros((count, 3, new + kept + 1), kind)
        for row, (b, c, dd), own in zip(self._polynomials, polynomials, steps, strict=True):
            row[0, : len(b)], row[1, : len(c)], row[2, : len(dd)] = np.multiply(b, own.gamma), c, dd
        flat = {"x": x0, "lam": lam0.ravel()} | {name: np.zeros(n * p, kind) for name in ("lam_prev", "v", "u")}
        flat["kept"] = np.zeros(kept * n * p, kind)
        self._arrays = {name: np.repeat(array[:, np.newaxis], count, axis=1) for name, array in flat.items()}
        self._facts = measuring_facts(problem, None)
        self._d = d
        self._pack()

    # ------------------------------------------------------------------ blocks

    def _pack(self) -> None:
        """Cut the runs into blocks; the last one is filled up with copies of its last run."""
        count, (n, p) = len(self._table), self._shape
        self._blocks: list[Block] = []
        for start in range(0, count, LANES):
            runs = np.minimum(np.arange(start, start + LANES), count - 1)
            own = {name: np.ascontiguousarray(array[:, runs]).ravel() for name, array in self._arrays.items()}
            x_new, force = (np.empty(self._d * len(runs), self._table.dtype) for _ in range(2))
            message, reply, image = (np.empty(n * p * len(runs), self._table.dtype) for _ in range(3))
            b, c, d = (np.ascontiguousarray(np.moveaxis(self._polynomials[runs, k], 0, 1)) for k in range(3))
            g, h = self._columns(self._table[runs])
            steps = np.ascontiguousarray(self._table[runs].T)
            self._blocks.append(
                Block(
                    **own,
                    x_new=x_new,
                    force=force,
                    message=message,
                    reply=reply,
                    image=image,
                    steps=steps,
                    b=b,
                    c=c,
                    d=d,
                    g=g,
                    h=h,
                )
            )
        self._arrays = {}

    def _columns(self, table: Array) -> tuple[Array, Array]:
        """Columns prepared for the steps of some runs."""
        own = self._plan.parts
        g, h = own.g.columns(prepare_prox, table[:, ALPHA]), own.h.columns(prepare_conj_prox, table[:, T])
        return g.reshape(3, -1), h.reshape(3, -1)

    def _unpack(self) -> dict[str, Array]:
        """All runs, coordinates by runs."""
        names = ("x", "lam", "lam_prev", "v", "u", "kept")
        size = self.size
        return {
            name: np.concatenate(
                [getattr(block, name).reshape(-1, block.steps.shape[1]) for block in self._blocks], axis=1
            )[:, :size]
            for name in names
        }

    @property
    def size(self) -> int:
        """Number of runs."""
        return len(self._table)

    def advance(self, iterations: int) -> None:
        """Advance every run; one that is no longer finite stays so."""
        codes, like = self._plan.plain, self._plan.packed[1]
        threads = min(numba.get_num_threads(), len(self._blocks))
        shares = [self._blocks[k::threads] for k in range(threads)]
        together([partial(_advance_all, codes, like, share, iterations) for share in shares])
        if iterations % 2:
            self._blocks = [b._replace(x=b.x_new, x_new=b.x, lam=b.lam_prev, lam_prev=b.lam) for b in self._blocks]
        self.iterations += iterations

    def keep(self, indices: ArrayLike) -> None:
        """Go on with these runs only, in this order."""
        chosen = _chosen(indices, self.size)
        self._arrays = {name: array[:, chosen] for name, array in self._unpack().items()}
        self._table, self._polynomials = self._table[chosen], self._polynomials[chosen]
        self._pack()

    # ------------------------------------------------------------------ what came out

    def _findings(self, reference: Array | None) -> Array:
        facts = self._facts.copy()
        facts[found.HAS_REFERENCE] = reference is not None
        target = np.zeros(0, self._table.dtype) if reference is None else reference
        tables = []
        for start, block in zip(range(0, self.size, LANES), self._blocks, strict=True):
            table = np.zeros((min(LANES, self.size - start), found.FINDINGS))
            arguments = (self._plan.plain, self._plan.packed[1], facts, block.x, block.lam, block.lam_prev)
            measure_lanes(*arguments, len(table), target, table)
            tables.append(table)
        return np.concatenate(tables)

    def residuals(self) -> Array:
        """Residual of the optimality conditions of every run, as `Problem.kkt`; nan for a run that has diverged."""
        table = self._findings(None)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return np.asarray(np.maximum(*(
                np.where(table[:, scale] > 0.0, table[:, size] / table[:, scale], table[:, size])
                for size, scale in ((found.RESIDUAL_X, found.SCALE_X), (found.RESIDUAL_Z, found.SCALE_Z))
            )))  # fmt: skip

    def gaps(self, reference: ArrayLike) -> Array:
        """|x - x*| of every run; nan for a run that has diverged."""
        star = self._problem.join(reference, "reference")
        return np.asarray(self._findings(star)[:, found.GAP])

    @property
    def finite(self) -> NDArray[np.bool]:
        """Whether the iterates of each run are still finite."""
        return np.asarray(np.isfinite(self._unpack()["lam"]).all(axis=0))

    def state(self, k: int) -> State:
        """The state of run k, from which `npga.solver.Npga` can go on."""
        block, lane = self._blocks[k // LANES], k % LANES
        own = {
            name: np.ascontiguousarray(getattr(block, name).reshape(-1, block.steps.shape[1])[:, lane])
            for name in ("x", "lam", "lam_prev", "v", "u", "kept")
        }
        duals = {name: own[name].reshape(self._shape) for name in ("lam", "lam_prev", "v", "u")}
        with np.errstate(over="ignore", invalid="ignore"):
            Ax = self._problem.A.apply(own["x"])
        return State(
            own["x"], **duals, Ax=Ax, kept=tuple(own["kept"].reshape(-1, *self._shape)),  # type: ignore[arg-type]
            iteration=self.iterations, rounds=self.iterations * self._rounds,
        )  # fmt: skip


def _advance_all(codes: Array, like: Array, blocks: Sequence[Block], iterations: int) -> None:
    for block in blocks:
        advance_block(codes, like, block, iterations)
