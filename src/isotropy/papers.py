"""Deprecated: the papers are a distribution of their own, ``isotropy_papers``."""

import warnings
from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """A name of ``isotropy_papers``, with a warning; gone in the release after next."""
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(import_module("isotropy_papers"), name)
    except ModuleNotFoundError as error:
        if error.name != "isotropy_papers":
            raise
        raise AttributeError(
            f"{name!r} is in isotropy_papers, which is not installed: pip install ./papers, from a "
            "checkout of isotropy"
        ) from None
    warnings.warn(
        f"isotropy.papers is now isotropy_papers: import {name} from there",
        DeprecationWarning,
        stacklevel=2,
    )
    return found
