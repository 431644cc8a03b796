"""Optional dependencies: imported when they are used, and named with their extra when they are missing."""

from __future__ import annotations

import importlib
from typing import Any

from npga.errors import MissingExtraError


def load(module: str, extra: str, purpose: str, package: str | None = None) -> Any:
    """The module, imported now.

    Parameters
    ----------
    module
        What to import, such as "matplotlib.pyplot".
    extra
        The extra of npga that installs it.
    purpose
        What needs it, as the beginning of a sentence.
    package
        Name of the package where it differs from that of the module, such as "grpcio" for "grpc".
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingExtraError(package or module.split(".")[0], extra, purpose) from None
