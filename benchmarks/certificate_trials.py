"""Four thousand random problems, versions and steps: is a theorem or an instance certificate violated along a run?

`python benchmarks/certificate_trials.py FILE` writes one line of JSON for each seed into FILE and goes on where it
stopped; `--count` says how many seeds, `--part k/m` takes every m-th of them. At the end it prints the counts. What is
drawn and what is checked is `tests/theory/test_instance_random.py`, whose slow test asserts the same.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from theory.test_instance_random import violations


def tried(file: Path) -> list[dict[str, object]]:
    """What is in the file."""
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []


def summary(found: list[dict[str, object]]) -> str:
    """Counts of standings, of promises that were followed along runs, and the largest part of a bound that was used."""
    standings = Counter(str(one["standing"]) for one in found)
    lines = [f"{len(found)} combinations: " + ", ".join(f"{count} {name}" for name, count in standings.most_common())]
    for kind in ("instance", "theorem"):
        used = [float(one[kind]) for one in found if one.get(kind)]  # type: ignore[arg-type]
        broken = sum(value > 1.0 for value in used)
        lines.append(f"{kind}: {len(used)} followed along runs, {broken} violated, at most {max(used, default=0):.4f}")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--part", default="0/1")
    chosen = parser.parse_args()
    part, parts = map(int, chosen.part.split("/"))
    done = {one["seed"] for one in tried(chosen.file)}
    with chosen.file.open("a", encoding="utf-8") as out:
        for seed in range(part, chosen.count, parts):
            if seed not in done:
                standing, worst = violations(seed)
                print(json.dumps({"seed": seed, "standing": standing, **worst}), file=out, flush=True)
    print(summary(tried(chosen.file)))
