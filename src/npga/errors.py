"""The exceptions that `npga` raises.

Every message says three things: what arrived, what was expected, and what to do about it. They are raised
before iteration zero and leave their arguments as they were.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class NpgaError(Exception):
    """Base of every error raised on purpose by `npga`."""


class InputError(NpgaError, ValueError):
    """An argument has the wrong value, shape or type."""


class FunctionError(InputError):
    """A convex function was given impossible parameters or asked for what it does not have."""


class NetworkError(InputError):
    """A graph or mixing matrix is not one on which the agents can agree."""


class VersionError(InputError):
    """An unknown version of NPGA, or network matrices whose fixed points are not solutions."""


class ProblemError(InputError):
    """Agents, coupling function and start do not fit together."""


class MissingExtraError(NpgaError, ImportError):
    """An optional dependency is needed and not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed; run: pip install 'npga[{extra}]'"
        )


def nearest(word: str, known: Iterable[str]) -> str:
    """Sentence fragment that suggests the known word closest to `word`, or lists all of them."""
    names = sorted(known)
    match = difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.5)
    listing = ", ".join(names)
    return f"did you mean {match[0]!r}? (known: {listing})" if match else f"known: {listing}"
