"""What is promised: assumptions, theorems, bounds on the steps, rates, and the certificate that says so."""

from npga.theory._assumptions import Assumption
from npga.theory._certificate import Certificate
from npga.theory._certify import StepSizes, certify
from npga.theory._record import Theorem

__all__ = ["Assumption", "Certificate", "StepSizes", "Theorem", "certify"]
