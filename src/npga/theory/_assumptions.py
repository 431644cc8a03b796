"""One predicate for each numbered assumption of Li and Su (2024), in the order of the paper.

    1   a saddle point exists                       6   null(C) = span(1)
    2   undirected connected graph                  7   D^2 <= I - s B^2 for some s > 0
    3   f_i strongly convex and smooth; g_i, h convex   8   h is the indicator of one point
    4   (i)   C = 0 or null(C) = span(1)            9   D (I - C) D <= I - s B^2 for some s > 0
        (ii)  null(B) = span(1)                    10   h is smooth
        (iii) 0 <= C < I; for 1+, 3+ and 4+ (iii+), 0 <= C < 2 I
        (iv)  D 1 = 1 and |D| <= 1
    5   (i) g_i = 0, (ii) A has full row rank

They are what the proofs use, which is a little less than the paper asks for: the iterates depend on gamma B^2 alone, so
that B^2 <= I in (iii) and s = 1 in 7 and 9 are normalisations, and of a doubly stochastic D only (iv) is used
(docs/theory/theorems.md).

Each answer says holds (True), fails (False) or unknown (None), gives the margin (positive where the assumption holds
with room to spare, negative where it fails by that much, infinite for a yes-or-no property) and a sentence that names
the agent or the eigenvalue responsible. Matrix inequalities are read on the vectors orthogonal to ones, where they
are decided: on the vector of ones they are equalities for every version.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from npga.networks import Network
from npga.theory._network_facts import MatrixFacts, Range
from npga.theory._problem_facts import ProblemFacts

_ROUNDING = 1e-12  # of s sigma(B)^2
STATEMENTS = {
    "1": "a saddle point exists",
    "2": "the graph is undirected and connected",
    "3": "every f_i is strongly convex and smooth; g_i and h are convex",
    "4.i": "C = 0 or null(C) = span(1)",
    "4.ii": "null(B) = span(1)",
    "4.iii": "0 <= C < I",
    "4.iii+": "0 <= C < 2 I",
    "4.iv": "D 1 = 1 and |D| <= 1",
    "5.i": "every g_i = 0",
    "5.ii": "A = [A_1 ... A_n] has full row rank",
    "6": "null(C) = span(1)",
    "7": "D^2 <= I - s B^2 for some s > 0",
    "8": "h is the indicator of one point",
    "9": "D (I - C) D <= I - s B^2 for some s > 0",
    "10": "h is smooth",
}


@dataclass(frozen=True)
class Assumption:
    """The state of one assumption.

    Attributes
    ----------
    key, statement
        Its number in the paper, and what it says.
    holds
        True, False, or None when it cannot be told.
    margin
        By how much it holds (positive) or fails (negative).
    reason
        A sentence that names the agent or the eigenvalue responsible.
    """

    key: str
    statement: str
    holds: bool | None
    margin: float
    reason: str


def check_assumptions(
    problem: ProblemFacts, network: Network, facts: MatrixFacts | None, basis: str
) -> dict[str, Assumption]:
    """All assumptions, in the order of the paper; without facts, what is about the network matrices is unknown.

    `basis` is "W" or "L": the matrix whose eigenvalues the sentences name.
    """
    answers = {
        "1": (problem.saddle.holds, problem.saddle.margin, problem.saddle.reason),
        "2": _connected(network),
        "3": _convex(problem),
        "5.i": _no_g(problem),
        "5.ii": (problem.rank.holds, problem.rank.margin, problem.rank.reason),
        "8": _point(problem),
        "10": _smooth(problem),
    }
    if facts is None:
        sentence = f"explicit matrices of {network.n} rows are too large for their eigenvalues"
        answers |= dict.fromkeys(("4.i", "4.ii", "4.iii", "4.iii+", "4.iv", "6", "7", "9"), (None, -math.inf, sentence))
    else:
        null_C = _null_space(facts.C, "C", basis)
        answers["4.i"] = (True, math.inf, "C = 0") if facts.C_is_zero else null_C
        answers["4.ii"] = _null_space(facts.B2, "B^2", basis)
        answers["4.iii"] = _between(facts, 1.0, basis)
        answers["4.iii+"] = _between(facts, 2.0, basis)
        answers["4.iv"] = _nonexpansive(facts, basis)
        lone = network.n == 1
        answers["6"] = (
            (False, 0.0, "C = 0, so every vector is in its null space") if facts.C_is_zero and not lone else null_C
        )
        answers["7"] = _scalable(facts, 0.0, basis)
        answers["9"] = _scalable(facts, 1.0, basis)
    return {key: Assumption(key, statement, *answers[key]) for key, statement in STATEMENTS.items()}


_Answer = tuple[bool | None, float, str]


def _connected(network: Network) -> _Answer:
    if network.n == 1:
        return True, math.inf, "one agent"
    second = network.extreme_eigenvalues()[1] if network.n > 3000 else float(network.spectrum[-2])
    return True, 1.0 - second, f"checked when the network was made; the second largest eigenvalue of W is {second:.6g}"


def _convex(problem: ProblemFacts) -> _Answer:
    trusted = f" (taken on trust: {', '.join(problem.declared)})" if problem.declared else ""
    if problem.d == 0:
        return False, -math.inf, "no agent has variables, so there is nothing to optimise"
    if not problem.l < math.inf:
        return False, -math.inf, f"f of {problem.roughest} is not smooth: L = inf{trusted}"
    if not problem.mu > 0.0:
        return False, 0.0, f"f of {problem.flattest} is not strongly convex: mu = 0{trusted}"
    words = problem.convexity.words()
    if problem.unscaled is not None:
        words = f"{problem.unscaled.words()}; after scaling by the alphas {problem.convexity.words(prime=True)}"
    return True, problem.mu, f"{words}{trusted}"


def _no_g(problem: ProblemFacts) -> _Answer:
    if not problem.g_is_zero:
        return False, -math.inf, f"g of {problem.g_owner} is not zero"
    return True, math.inf, "g = 0"


def _point(problem: ProblemFacts) -> _Answer:
    if problem.h_is_point:
        return True, math.inf, f"h = {problem.h}"
    return False, -math.inf, f"h = {problem.h} is not the indicator of a point"


def _smooth(problem: ProblemFacts) -> _Answer:
    if not problem.h_L < math.inf:
        return False, -math.inf, f"h = {problem.h} is not smooth: L = inf"
    if problem.h_L == 0.0:
        return True, math.inf, "h is affine, so it is l_h-smooth for every l_h > 0; the bounds take the limit l_h -> 0"
    return True, 1.0 / problem.h_L, f"l_h = {problem.h_L:.6g}"


def _null_space(values: Range, name: str, basis: str) -> _Answer:
    """Whether a matrix vanishes on ones only; B^2 must not have negative eigenvalues, or there is no B."""
    if values.low > values.high:
        return True, math.inf, "one agent"
    low, error = values.low, values.error
    at = _at(values.at_low, basis)
    if name == "B^2" and values.seen_low < -error:
        return False, values.seen_low, f"B^2 has the negative eigenvalue {values.seen_low:.6g}{at}, so there is no B"
    if values.nearest <= error:
        return False, 0.0, f"{name} has a second null vector{at}"
    if low > error or (values.exact and name != "B^2"):
        return True, values.nearest, f"the eigenvalue of {name} nearest to zero off ones is {values.nearest:.6g}"
    return (
        None,
        0.0,
        f"zero lies between the eigenvalues {low:.3g} and {values.high:.3g} of {name} and may be one of them",
    )


def _between(facts: MatrixFacts, top: float, basis: str) -> _Answer:
    """0 <= C < top I, decided by the eigenvalue that comes closest to breaking it."""
    c = facts.C
    if c.low > c.high:
        return True, math.inf, "one agent"
    if facts.C_is_zero:
        return True, top, "C = 0"
    rooms = [_Room(top - c.high, top - c.seen_high, True, c.error, f"C has the eigenvalue {_value(c, basis)}")]
    if c.low < -c.error:
        rooms.append(
            _Room(c.low, c.seen_low, False, c.error, f"C has the eigenvalue {c.low:.6g}{_at(c.at_low, basis)}")
        )
    return _decide(rooms)


def _nonexpansive(facts: MatrixFacts, basis: str) -> _Answer:
    """-1 <= D <= 1 off ones; rows of D sum to one by construction."""
    d = facts.D
    if d.low > d.high:
        return True, math.inf, "one agent"
    high = _Room(1.0 - d.high, 1.0 - d.seen_high, False, d.error, f"D has the eigenvalue {_value(d, basis)}")
    sentence = f"D has the eigenvalue {d.low:.6g}{_at(d.at_low, basis)}"
    return _decide([high, _Room(1.0 + d.low, 1.0 + d.seen_low, False, d.error, sentence)])


def _decide(rooms: list[_Room]) -> _Answer:
    broken = [room for room in rooms if not room.enough(room.certain)]
    worst = min(broken or rooms, key=lambda room: room.certain)
    if not broken:
        return True, max(worst.certain, 0.0), worst.sentence
    if all(room.enough(room.seen) for room in broken):
        may = worst.sentence.replace("has", "may have")
        return None, worst.certain, f"only the extreme eigenvalues are known, and between them {may}"
    return False, worst.certain, worst.sentence


class _Room(NamedTuple):
    """Distance of an eigenvalue to its limit: a lower bound, and the value at the known eigenvalues."""

    certain: float
    seen: float
    strict: bool
    error: float
    sentence: str

    def enough(self, distance: float) -> bool:
        """Whether the inequality holds, beyond rounding if it is strict and up to rounding if not."""
        return distance > self.error if self.strict else distance >= -self.error


def _value(values: Range, basis: str) -> str:
    return f"{values.high:.6g}{_at(values.at_high, basis)}"


def _scalable(facts: MatrixFacts, e: float, basis: str) -> _Answer:
    """The largest s with s B^2 <= I - D (I - e C) D."""
    found = facts.modes.largest_gamma(1.0, e)
    if math.isinf(found.value):
        return True, math.inf, "one agent"
    if found.value * facts.sigma_B2 > _ROUNDING:
        return True, found.value, f"up to s = {found.value:.6g}{_at(found.at, basis)}"
    if found.seen * facts.sigma_B2 > _ROUNDING:
        return None, found.value, "only the extreme eigenvalues are known, and between them there may be no such s"
    return False, 0.0, f"there is no such s{_at(found.at, basis)}"


def _at(value: float, basis: str) -> str:
    return "" if math.isnan(value) else f", from the eigenvalue {value:.6g} of {basis}"
