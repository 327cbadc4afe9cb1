"""Names of a room that are imported when first used, and old ones that still work, with a warning.

What a room offers stands once, in the ``__init__.pyi`` beside its ``__init__.py``: type checkers
read it as it is, and so does this module. The pattern is that of scientific Python's SPEC 1.
"""

from __future__ import annotations

import ast
import pkgutil
import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter

_PAPERS = "isotropy_papers"


def lazy_names(
    room: str, moved: Mapping[str, str] | None = None
) -> tuple[Callable[..., object], Callable[[], list[str]], list[str]]:
    """What a room's ``__getattr__``, ``__dir__`` and ``__all__`` are.

    A room that wraps its ``__getattr__`` passes 4 as its second argument, so that warnings are of
    the line that asks for an old name.

    Args:
        room: The ``__name__`` of the package; its ``__init__.pyi`` imports each public name from
            the module that holds it.
        moved: Old names, separated by blanks, by the module that holds them now; ``old=new`` where
            it has another name there, ``old>use`` where another name does what it did.

    Example:
        >>> find, _, names = lazy_names("isotropy.bases")
        >>> "equivariant_basis" in names, find("equivariant_basis").__name__
        (True, 'equivariant_basis')
    """
    package = sys.modules[room]
    places = _imports((pkgutil.get_data(room, "__init__.pyi") or b"").decode())
    old: dict[str, tuple[str, str, str]] = {}
    for module, name in ((m, one) for m, names in (moved or {}).items() for one in names.split()):
        name, _, use = name.partition(">")
        name, _, now = name.partition("=")
        old[name] = (module, now or name, use)

    def __getattr__(name: str, stacklevel: int = 3) -> object:
        if name in places:
            found = getattr(import_module(places[name]), name)
            setattr(package, name, found)
            return found
        if name in old:
            return with_warning(f"{room}.{name}", *old[name], stacklevel=stacklevel)
        if not name.startswith("_") and find_spec(f"{room}.{name}") is not None:
            return import_module(f"{room}.{name}")
        raise AttributeError(f"module {room!r} has no attribute {name!r}")

    names = sorted(places)
    return __getattr__, lambda: names, names


def _imports(stub: str) -> dict[str, str]:
    """The module of each name that a stub imports."""
    return {
        alias.name: str(node.module)
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def with_warning(old: str, module: str, name: str, use: str = "", *, stacklevel: int) -> object:
    """What an old name is now, with a warning that says so."""
    try:
        found: object = attrgetter(name)(import_module(module))
    except ModuleNotFoundError as error:
        if error.name != _PAPERS:
            raise
        raise ModuleNotFoundError(
            f"{old} is in {_PAPERS}, which is not installed: pip install ./papers, from a checkout "
            "of isotropy"
        ) from None
    if not use and not any(part.startswith("_") for part in module.split(".")):
        use = f"{module}.{name}"
    instead = f"use {use}" if use else "it is part of how isotropy works inside"
    warnings.warn(
        f"{old} goes in version 0.2: {instead}", DeprecationWarning, stacklevel=stacklevel
    )
    return found
