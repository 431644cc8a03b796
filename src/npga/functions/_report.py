"""What `check` found."""

from __future__ import annotations

from dataclasses import dataclass

from npga.errors import FunctionError


@dataclass(frozen=True)
class Finding:
    """Outcome of one check: the worst relative error met, and how much is allowed.

    `sentence` says what was compared; `error` is None when the check does not apply.
    """

    name: str
    error: float | None
    tolerance: float
    sentence: str

    @property
    def ok(self) -> bool:
        """Whether the check passed or does not apply; NaN fails."""
        return self.error is None or self.error <= self.tolerance


@dataclass(frozen=True)
class CheckReport:
    """Outcome of all checks of one function; ``print(report)`` shows a table."""

    subject: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        return all(finding.ok for finding in self.findings)

    @property
    def failures(self) -> list[str]:
        """One sentence per failed check."""
        return [
            f"{finding.name}: {finding.sentence} (error {finding.error:.2g}, allowed {finding.tolerance:.2g})"
            for finding in self.findings
            if not finding.ok
        ]

    def raise_if_failed(self) -> None:
        """Raise a `FunctionError` that lists the failures, if there are any."""
        if not self.ok:
            listing = "\n  ".join(self.failures)
            raise FunctionError(
                f"{self.subject} is not what it claims to be; correct the callables or the facts:\n  {listing}"
            )

    def __str__(self) -> str:
        width = max(len(finding.name) for finding in self.findings)
        count = len(self.failures)
        verdict = "all checks passed" if self.ok else f"{count} check{'s' if count > 1 else ''} failed"
        lines = [f"{self.subject}: {verdict}"]
        for finding in self.findings:
            if finding.error is None:
                lines.append(f"  {finding.name:<{width}}  -")
                continue
            outcome = "ok" if finding.ok else f"FAILED: {finding.sentence}"
            lines.append(f"  {finding.name:<{width}}  {finding.error:8.1e} <= {finding.tolerance:.0e}  {outcome}")
        return "\n".join(lines)
