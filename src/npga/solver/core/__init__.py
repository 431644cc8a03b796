"""The compiled core: loops and formulas in C++, and how they are built. `npga.solver._core` loads it.

Reading order: plan (what it is given), elementwise, functions, products, mixing, agents, panels, measure, core.
"""
