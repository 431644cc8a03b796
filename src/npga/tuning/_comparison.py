"""What `npga.compare` found: tables in several forms, curves, performance profiles, and the file it is kept in."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npga import extras
from npga.errors import InputError, nearest
from npga.networks import Look, html_table, text_table, version_rows
from npga.pages import Section, curve_section, line_style, provenance_section, table_section, text_section, write_page

Array = NDArray[Any]

COUNTS = (
    "iterations", "rounds", "floats_sent", "messages", "gradients", "products", "proxes", "inner_iterations", "seconds",
)  # fmt: skip
_HEADS = {"products": "A-products", "proxes": "prox calls"}
_PRICES = ("rounds", "iterations", "floats_sent")
# Draws whose errors a report shows.
_DRAWS = 10
_PALETTE = (
    "#332288", "#117733", "#882255", "#DDCC77", "#88CCEE",
    "#CC6677", "#999933", "#661100", "#6699CC", "#888888",
)  # fmt: skip
_DASHES = ("--", "-.", (0, (1, 1)), (0, (3, 1, 1, 1, 1, 1)))
# From this ratio of the dearest to the cheapest method on, figures have a logarithmic axis.
_WIDE = 20.0
_WORDS = {
    "iterations": "iterations",
    "rounds": "communication rounds",
    "floats_sent": "numbers sent",
    "seconds": "seconds",
}


@dataclass(frozen=True)
class Comparison:
    """Methods on the same problems.

    Parameters
    ----------
    rows
        One dictionary per draw and method: status, counts at the last time above the tolerance, steps, curve.
    labels
        The methods, in the order in which they were asked for.
    tol
        The accuracy.
    """

    rows: tuple[dict[str, Any], ...] = field(repr=False)
    labels: tuple[str, ...]
    tol: float

    def of(self, label: str) -> list[dict[str, Any]]:
        """The rows of one method."""
        if label not in self.labels:
            raise InputError(f"{label!r} was not compared; {nearest(label, self.labels)}")
        return [row for row in self.rows if row["method"] == label]

    @property
    def draws(self) -> list[int]:
        """Seeds of the draws."""
        return sorted({int(row["draw"]) for row in self.rows})

    # ---------------------------------------------------------------- tables

    def summary(self) -> list[dict[str, Any]]:
        """One dictionary per method: draws that it solved, and the median of each count over them."""
        lines = []
        for label in self.labels:
            rows = self.of(label)
            solved = [row for row in rows if row["status"] == "converged"]
            line: dict[str, Any] = {"method": label, "solved": len(solved), "draws": len(rows)}
            for name in COUNTS:
                line[name] = float(np.median([row[name] for row in solved])) if solved else math.nan
            line["why"] = next((row["why"] for row in rows if row.get("why")), "")
            lines.append(line)
        return lines

    def _cells(self) -> tuple[list[str], list[list[str]], list[str]]:
        head = ["method", "solved", *(_HEADS.get(name, name.replace("_", " ")) for name in COUNTS)]
        body, notes = [], []
        for line in self.summary():
            cells = [line["method"], f"{line['solved']}/{line['draws']}"]
            cells += ["-" if math.isnan(line[name]) else _number(line[name], name) for name in COUNTS]
            body.append(cells)
            if line["why"]:
                notes.append(f"{line['method']}: {line['why'].removeprefix(line['method'] + ' ')}")
        return head, body, notes

    @property
    def table(self) -> str:
        """The summary as text."""
        head, body, notes = self._cells()
        return "\n".join([*text_table(head, body, right=True), "", self._said, *notes])

    @property
    def _said(self) -> str:
        over = "A draw" if len(self.draws) == 1 else f"Medians over {len(self.draws)} draws"
        return f"{over}: what is spent until the error stays below {self.tol:g}."

    def __str__(self) -> str:
        return self.table

    def to_pandas(self) -> Any:
        """All rows (without curves) as a pandas DataFrame."""
        rows = [{name: value for name, value in row.items() if name != "curve"} for row in self.rows]
        return extras.load("pandas", "pandas", "Comparison.to_pandas()").DataFrame(rows)

    def to_latex(self) -> str:
        """The summary as a LaTeX tabular (booktabs)."""
        head, body, _ = self._cells()
        lines = [" & ".join(cell.replace("_", r"\_") for cell in row) + r" \\" for row in [head, *body]]
        columns = "l" + "r" * (len(head) - 1)
        inner = [lines[0], r"\midrule", *lines[1:]]
        return "\n".join([rf"\begin{{tabular}}{{{columns}}}", r"\toprule", *inner, r"\bottomrule", r"\end{tabular}"])

    def to_html(self) -> str:
        """The summary as an HTML table."""
        return html_table(*self._cells()[:2])

    _repr_html_ = to_html

    # ---------------------------------------------------------------- the report

    def sections(self) -> list[Section]:
        """What a report shows: the table, errors on their way, profiles; plain data that JSON can hold."""
        head, body, notes = self._cells()
        parts = [table_section("Methods", head, body, self._said)]
        parts += [text_section("What was not solved", *notes)] if notes else []
        axes, draws = [(by, _WORDS[by]) for by in _PRICES], [(str(draw), str(draw)) for draw in self.draws[:_DRAWS]]
        levels = {key: self.tol for key, _ in draws}
        errors = [line for label in self.labels for line in self._errors(label)]
        parts.append(curve_section("Errors on their way", axes, draws, errors, words="draw", level=levels))
        wins = [
            self._style(label) | {"x": {"factor": x}, "y": {by: share}}
            for by in _PRICES
            for label, (x, share) in self._shares(by, None).items()
        ]
        note = "The share of draws that a method solves within a factor of the best."
        factor, prices = [("factor", "as a multiple of the best")], [(by, _WORDS[by]) for by in _PRICES]
        parts.append(
            curve_section(
                "Profiles", factor, prices, wins, note=note, words="by", linear=_PRICES, steps=True, logx=True
            )
        )
        return [*parts, provenance_section()]

    def report(self, path: str | PathLike[str] = "comparison.html") -> Path:
        """Write tables, errors and profiles as one HTML file that opens offline, and return its path.

        Parameters
        ----------
        path
            The file.
        """
        return write_page(path, f"{len(self.labels)} methods compared", ", ".join(self.labels), self.sections())

    def _errors(self, label: str) -> list[Section]:
        lines = []
        for row in self.of(label):
            if row["curve"] and row["draw"] in self.draws[:_DRAWS]:
                curve = np.array(row["curve"], dtype=np.float64)
                x = {by: _spent(curve[:, 0], curve[:, 1], row["floats_per_round"], by, None) for by in _PRICES}
                x = {by: column for by, column in x.items() if column[-1] > 0.0}  # a centralised method sends nothing
                lines.append(self._style(label) | {"x": x, "y": {str(row["draw"]): curve[:, 2]}})
        return lines

    # ---------------------------------------------------------------- figures

    def plot(
        self,
        path: str | PathLike[str] | None = None,
        *,
        kind: str = "gap",
        by: str = "rounds",
        draw: int | None = None,
        cost: tuple[float, float] | None = None,
    ) -> Any:
        """Draw the comparison (needs Matplotlib), save it if a path is given, and return the figure.

        Parameters
        ----------
        path
            File to write.
        kind
            "gap" for the error of one draw on its way, "profile" for the share of draws that a method solves within a
            factor of the best.
        by
            "iterations", "rounds", "floats_sent", or "seconds" of the cost model.
        draw
            Which draw, for "gap"; the first by default.
        cost
            (a, b) for ``by="seconds"``: a seconds per iteration and b per round.
        """
        if by not in _WORDS:
            raise InputError(f"by is {by!r}; {nearest(by, _WORDS)}")
        if by == "seconds" and cost is None:
            raise InputError("by='seconds' needs the cost model: cost=(seconds per iteration, seconds per round)")
        if kind not in ("gap", "profile"):
            raise InputError(f"kind is {kind!r}; expected 'gap' or 'profile'")
        figure = extras.load("matplotlib.figure", "plot", "Comparison.plot()").Figure(
            figsize=(7.2, 4.6), layout="constrained"
        )
        axes = figure.add_subplot()
        if kind == "gap":
            self._gaps(axes, by, self.draws[0] if draw is None else draw, cost)
        else:
            self._profile(axes, by, cost)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
        if path is not None:
            figure.savefig(path, dpi=170)
        return figure

    def _gaps(self, axes: Any, by: str, draw: int, cost: tuple[float, float] | None) -> None:
        """Errors of one draw, the cheapest method first; on a logarithmic axis where prices differ much."""
        rows = {row["method"]: row for row in self.rows if row["draw"] == draw and row["curve"]}
        prices = {label: self._price(row, by, cost) for label, row in rows.items()}
        prices = {label: price for label, price in prices.items() if price > 0.0}  # a centralised method sends nothing
        right = 0.0
        for label in sorted(prices, key=prices.__getitem__):
            curve = np.array(rows[label]["curve"], dtype=np.float64)
            x = _spent(curve[:, 0], curve[:, 1], rows[label]["floats_per_round"], by, cost)
            axes.plot(x, curve[:, 2], label=label, **self._line(label))
            right = max(right, float(x[-1]))
        axes.set(yscale="log", xlabel=_WORDS[by], ylabel="relative error", ylim=(self.tol / 100.0, None))
        if prices and max(prices.values()) > _WIDE * min(prices.values()):
            axes.set(xscale="log", xlim=(min(prices.values()) / 20.0, right))
        elif prices:
            axes.set_xlim(0.0, min(right, 6.0 * float(np.median(list(prices.values())))))
        axes.axhline(self.tol, color="#999999", linewidth=0.8, linestyle=(0, (4, 3)))

    def _price(self, row: dict[str, Any], by: str, cost: tuple[float, float] | None) -> float:
        if by == "seconds" and cost is not None:
            return float(cost[0] * (row["iterations"] + row["inner_iterations"]) + cost[1] * row["rounds"])
        return float(row[by])

    def _shares(self, by: str, cost: tuple[float, float] | None) -> dict[str, tuple[Array, Array]]:
        """Multiples of the best price, and the share of draws solved within them."""
        prices = np.full((len(self.labels), len(self.draws)), np.inf)
        for i, label in enumerate(self.labels):
            for row in self.of(label):
                if row["status"] == "converged":
                    price = self._price(row, by, cost)
                    prices[i, self.draws.index(row["draw"])] = price if price > 0.0 else np.inf
        with np.errstate(invalid="ignore"):
            ratios = prices / prices.min(axis=0)
        finite = ratios[np.isfinite(ratios)]
        right = max(2.0, float(finite.max()) * 1.1) if finite.size else 2.0
        found = {}
        for i, label in enumerate(self.labels):
            steps = np.sort(ratios[i][np.isfinite(ratios[i])])
            if steps.size:
                x = np.concatenate([[1.0], steps, [right]])
                found[label] = x, np.concatenate([[0], np.arange(1, steps.size + 1), [steps.size]]) / len(self.draws)
        return found

    def _profile(self, axes: Any, by: str, cost: tuple[float, float] | None) -> None:
        for label, (x, share) in self._shares(by, cost).items():
            axes.step(x, share, where="post", label=label, **self._line(label))
        axes.set(
            xscale="log", xlabel=f"{_WORDS[by]}, as a multiple of the best", ylabel="share of draws", ylim=(0, 1.03)
        )

    # ---------------------------------------------------------------- how it looks

    def _look(self, label: str) -> Look:
        rows = version_rows()
        if label in rows:
            return rows[label].look
        k = [other for other in self.labels if other not in rows].index(label)  # 20 of them differ
        return Look(label, _PALETTE[k % len(_PALETTE)], _DASHES[k % len(_DASHES)], width=1.8)

    def _line(self, label: str) -> dict[str, Any]:
        look = self._look(label)
        return {"color": look.color, "linestyle": look.dashes, "linewidth": look.width}

    def _style(self, label: str) -> Section:
        """Name, colour and dashes of a method's line on a page."""
        look = self._look(label)
        return {"name": label} | line_style(look.color, look.dashes)


# ------------------------------------------------------------------ on disk


class Store:
    """Results on disk, a line of JSON each."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.rows: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                try:
                    item = json.loads(line)
                except json.JSONDecodeError:  # the last line of an interrupted run
                    continue
                self.rows[item["key"]] = item["row"]

    def put(self, key: str, row: dict[str, Any]) -> None:
        self.rows[key] = row
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "row": row}) + "\n")


def read_comparison(store: str | Path) -> Comparison:
    """What a file of JSON lines holds that `compare` was given as its store: the rows of the last settings in it.

    Parameters
    ----------
    store
        The file.
    """
    kept = Store(Path(store)).rows
    if not kept:
        raise InputError(f"{store} holds no results; expected a file that npga.compare(..., store=...) wrote")
    settings = [key.rpartition(" _Limits(")[2] for key in kept]
    rows = [row for row, own in zip(kept.values(), settings, strict=True) if own == settings[-1]]
    return Comparison(
        tuple(rows),
        tuple(dict.fromkeys(row["method"] for row in rows)),
        float(settings[-1].partition("tol=")[2].partition(",")[0]),
    )


def _spent(iterations: Array, rounds: Array, per_round: float, by: str, cost: tuple[float, float] | None) -> Array:
    if by == "seconds":
        assert cost is not None
        return np.asarray(cost[0] * iterations + cost[1] * rounds)
    return {"iterations": iterations, "rounds": rounds, "floats_sent": rounds * per_round}[by]


def _number(value: float, name: str) -> str:
    return f"{value:.2g}" if name == "seconds" else f"{value:,.0f}"
