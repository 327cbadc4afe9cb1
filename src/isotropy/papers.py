"""Deprecated: the papers are a distribution of their own, ``isotropy_papers``."""

from isotropy._run._lazy_names import with_warning


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return with_warning(f"{__name__}.{name}", "isotropy_papers", name, stacklevel=3)
