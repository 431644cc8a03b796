"""One agent of disropt's distributed dual subgradient method; started by MPI, one process for each agent.

mpiexec -n 13 python -m mpi4py benchmarks/disropt_party.py data.npz step iterations
"""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from disropt.agents import Agent
from disropt.algorithms import DualSubgradientMethod
from disropt.functions import QuadraticForm, Variable
from disropt.problems import ConstraintCoupledProblem
from mpi4py import MPI


def main():
    """Solve min sum |x_i - c_i|^2 / 2 subject to sum A_i x_i <= b; the first process prints what came out."""
    everybody = MPI.COMM_WORLD
    data, me, n = np.load(sys.argv[1]), everybody.Get_rank(), everybody.Get_size()
    A, c, b, W = data[f"A{me}"], data[f"c{me}"], data["b"], data["W"]
    neighbours = [int(j) for j in np.flatnonzero(W[me]) if j != me]
    agent = Agent(in_neighbors=neighbours, out_neighbors=neighbours, in_weights=W[me].tolist())
    x = Variable(A.shape[1])
    objective = QuadraticForm(x - c.reshape(-1, 1), 0.5 * np.eye(A.shape[1]))
    coupling = A.T @ x - (b / n).reshape(-1, 1)  # disropt writes A^T x as A @ x
    agent.set_problem(
        ConstraintCoupledProblem(objective_function=objective, constraints=[], coupling_function=coupling)
    )
    method = DualSubgradientMethod(agent=agent, initial_condition=np.zeros((len(b), 1)))
    everybody.Barrier()
    begun = time.perf_counter()
    method.run(iterations=int(sys.argv[3]), stepsize=float(sys.argv[2]))
    everybody.Barrier()
    seconds = time.perf_counter() - begun
    lam, average = method.get_result()
    answers = [everybody.gather(part) for part in (np.ravel(average), c - A.T @ np.ravel(lam))]
    if me == 0:
        star = data["star"]
        gaps = [float(np.linalg.norm(np.concatenate(answer) - star) / np.linalg.norm(star)) for answer in answers]
        print(json.dumps({"seconds": seconds, "gap": min(gaps)}))


if __name__ == "__main__":
    main()
