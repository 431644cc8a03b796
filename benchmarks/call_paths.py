"""The way of one call through the files of `npga`, and how the files hang together.

    python benchmarks/call_paths.py                                # the package that is installed
    PYTHONPATH=elsewhere/src python benchmarks/call_paths.py       # another state of it, to compare

For `solve` with given steps, `certify` and `tune` on one small problem it prints how many files of the package run, how
deep calls go from file to file (the longest chain of calls in which each goes into another file), how deep they go
inside the package at all, how many calls go from one file into another, and between how many pairs of files. Each call
is made once before, so that nothing is imported or compiled while it is traced. With `--chains` it also prints the
files and the longest chain of each call. Then it counts files, lines, stems that occur twice (`cli` apart), and files
with a single importer: another file of the package that takes a name from it, be it through a room's `__init__`, or
that `__init__` alone. Those of which `__init__` re-exports a name have a public door; the others are listed.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path

import numpy as np

import npga
from npga import functions as fn

PACKAGE = Path(npga.__file__).parent


class Trail:
    """Calls between the files of the package while it is the profiler."""

    def __init__(self):
        self.files, self.between = set(), Counter()
        self.frames, self.chain = 0, []
        self._stack = []  # (file, number of changes of file so far)

    def __call__(self, frame, event, _):
        if event not in ("call", "return"):
            return
        code = frame.f_code
        if not code.co_filename.startswith(str(PACKAGE)) or code.co_name == "<module>":
            return
        if event == "return":
            if self._stack:
                self._stack.pop()
            return
        file = code.co_filename
        above, changes = self._stack[-1] if self._stack else (None, 0)
        if file != above:
            changes += 1
            if above is not None:
                self.between[above, file] += 1
        self.files.add(file)
        self._stack.append((file, changes))
        self.frames = max(self.frames, len(self._stack))
        if changes > len(self.chain):
            chain = [name for name, _ in self._stack]
            self.chain = [name for k, name in enumerate(chain) if k == 0 or chain[k - 1] != name]


def short(file):
    """A file as room/stem."""
    return str(Path(file).relative_to(PACKAGE).with_suffix(""))


def traced(call):
    """The trail of a call on a problem that is new to it, after the same call on another copy."""
    call(*small())
    trail, problem_and_network = Trail(), small()
    sys.setprofile(trail)
    try:
        call(*problem_and_network)
    finally:
        sys.setprofile(None)
    return trail


def small():
    """The README's example, smaller."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((10, 12)), rng.standard_normal(10)
    agents = [npga.Agent(A=block, f=fn.SquaredNorm(0.1), g=fn.L1(0.05)) for block in np.split(X, 6, axis=1)]
    return npga.Problem(agents, h=fn.SquaredLoss(target=y, weight=1 / 10)), npga.Network.ring(6)


def calls():
    """The three calls, as functions of a problem and a network."""
    steps = npga.Steps(alpha=1.0, beta=0.03, gamma=0.9)
    return {
        "solve, steps given": lambda *at: npga.solve(*at, "nids", steps),
        "certify": lambda *at: npga.certify(*at, "nids", steps),
        "tune, spectral": lambda *at: npga.tune(*at, "nids", method="spectral", seed=0),
    }


def imports(path):
    """(module, name) of all that a file imports from the package; modules without the package's name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "npga":
            yield from ((node.module.removeprefix("npga").removeprefix("."), alias.name) for alias in node.names)


def house():
    """Files, lines, stems of different files, and files with one importer."""
    files = sorted(PACKAGE.rglob("*.py"))
    names = {path: ".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in files}
    modules = {name for path, name in names.items() if path.stem not in ("__init__", "__main__")}
    # What a room's __init__ re-exports, by room and name.
    doors = {
        (".".join(path.relative_to(PACKAGE).parent.parts), name): module
        for path in files if path.stem == "__init__" for module, name in imports(path) if module in modules
    }  # fmt: skip
    importers = {module: set() for module in modules}
    for path in files:
        for module, name in imports(path):
            for found in (module, f"{module}.{name}".removeprefix("."), doors.get((module, name))):
                if found in modules:
                    importers[found].add(path)
    single = sorted(module for module in modules if len(importers[module]) == 1)
    stems = Counter(path.stem for path in files if names[path] in modules and not names[path].startswith("cli."))
    return {
        "files": len(files),
        "lines": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files),
        "stems that occur twice": sorted(stem for stem, count in stems.items() if count > 1),
        "files with one importer": len(single),
        "of these without a public name": [module for module in single if module not in doors.values()],
    }


def main():
    print(f"{npga.__file__}\n")
    print(f"{'call':<20}{'files':>8}{'depth':>8}{'frames':>8}{'calls across':>15}{'pairs':>8}")
    for name, call in calls().items():
        trail = traced(call)
        across = sum(trail.between.values())
        print(
            f"{name:<20}{len(trail.files):>8}{len(trail.chain):>8}{trail.frames:>8}{across:>15}{len(trail.between):>8}"
        )
        if "--chains" in sys.argv[1:]:
            print(f"    files: {' '.join(sorted(map(short, trail.files)))}")
            print(f"    chain: {' > '.join(map(short, trail.chain))}\n")
    print()
    for name, value in house().items():
        print(f"{name}: {value}" if isinstance(value, int) else f"{name}: {len(value)} ({', '.join(value)})")


if __name__ == "__main__":
    main()
