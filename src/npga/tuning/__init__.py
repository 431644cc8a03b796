"""Step sizes that nobody has to guess: from theorems, from the spectral radius, or from trial runs."""

from npga.tuning._design import DesignedVersion, design
from npga.tuning._landscape import Landscape, landscape
from npga.tuning._linearise import Linearisation
from npga.tuning._measure import Measured, measure
from npga.tuning._rate import Rate, rate
from npga.tuning._solve import Search, Solution, solve
from npga.tuning._tune import tune
from npga.tuning._tuning import Ranking, Trial, Trials, Tuning

__all__ = [
    "DesignedVersion",
    "Landscape",
    "Linearisation",
    "Measured",
    "Ranking",
    "Rate",
    "Search",
    "Solution",
    "Trial",
    "Trials",
    "Tuning",
    "design",
    "landscape",
    "measure",
    "rate",
    "solve",
    "tune",
]
