"""Compiled kernels of the recursion; see `npga.solver.CompiledNpga`.

They follow `npga.solver._recursion`: u += C (lam - lam_prev) + gamma B^2 v, then v = lam - u + beta A x_hat with
x_hat = x + theta (x - x_prev), then lam = prox(D v). What is added up over the iterations is u, never v.
"""
