"""What is promised: assumptions, theorems, bounds on the steps, rates, and the certificate that says so.

The room owns every statement about convergence; it reads problems, networks and steps, and runs nothing. Chapters in
reading order:

    _certify              the call: which theorem covers a set-up, and what would have to change
    _coverage             every theorem at given steps, or at the steps that minimise its rate
    _theorems             one record for each theorem, with its formulas
    _smallest_eigenvalue  the np x np eigenvalue behind the rates of Theorems 1 to 3, or a proved lower bound
    _assumptions          one predicate for each numbered assumption
    _problem_facts        curvature, rank, saddle point
    _network_facts        spectra of B^2, C and D
    _certificate          what a theorem says, what all of them say, and how it is shown
    _certificate_words    its verdict, steps and tables in words, for print and for a report
    _instance             a proof for one A, one W and the steps at hand, or a member of the class that is unstable
    _matrix_inequality    its matrix P, the check of it with a bound on rounding, the best rate
    _multipliers          the quadratic forms in it, and their weights from frequencies
    _feedback             the set-up as a linear system in feedback with what is not affine
"""

from npga.theory._assumptions import Assumption
from npga.theory._certificate import Certificate, Coverage
from npga.theory._certify import StepSizes, certify
from npga.theory._feedback import states
from npga.theory._instance import (
    STATES,
    InstanceCertificate,
    certify_instance,
    linearised_rate,
    sketch_rate,
    slowest_member,
)
from npga.theory._theorems import Theorem

__all__ = [
    "STATES",
    "Assumption",
    "Certificate",
    "Coverage",
    "InstanceCertificate",
    "StepSizes",
    "Theorem",
    "certify",
    "certify_instance",
    "linearised_rate",
    "sketch_rate",
    "slowest_member",
    "states",
]
