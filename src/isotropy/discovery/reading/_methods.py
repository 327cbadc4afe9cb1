"""What ``discover`` may look for, and which data each method and option is for."""

from __future__ import annotations

import os
from typing import Any, Literal

from isotropy.discovery.reading._shape_reading import Kind

Method = Literal["permutations", "generators", "layers", "transitions", "groups"]
METHODS: tuple[Method, ...] = ("permutations", "generators", "layers", "transitions")
_ON_REQUEST: tuple[Method, ...] = ("groups",)  # takes long
_SUITING: dict[Kind, tuple[Method, ...]] = {
    "vectors": ("permutations", "generators"),
    "sequences": ("permutations", "generators"),
    "images": ("layers", "groups"),
    "transitions": ("transitions",),
}


def known_methods(methods: Any) -> tuple[Method, ...]:
    """The methods that are asked for, once each.

    Raises:
        ValueError: If a name is unknown, or there is none.

    Example:
        >>> known_methods("layers")
        ('layers',)
    """
    chosen = (methods,) if isinstance(methods, str) else tuple(methods)
    known = (*METHODS, *_ON_REQUEST)
    if not chosen or not set(chosen) <= set(known):
        raise ValueError(f"expected methods among {', '.join(known)}, got {methods!r:.80}")
    if "groups" in chosen and len(set(chosen)) > 1:
        raise ValueError(
            "expected the method 'groups' alone, since it corrects for its own claims only, got "
            f"{', '.join(chosen)}"
        )
    return tuple(dict.fromkeys(chosen))


def suiting_methods(methods: tuple[Method, ...], kind: Kind) -> tuple[Method, ...]:
    """Those of the methods that are for data of a kind.

    Raises:
        ValueError: If there is none.

    Example:
        >>> suiting_methods(METHODS, "images")
        ('layers',)
    """
    suiting = tuple(method for method in methods if method in _SUITING[kind])
    if suiting:
        return suiting
    there = " or ".join(repr(method) for method in sorted(_SUITING[kind]))
    what = {"vectors": "vectors", "sequences": "sequences and sets"}.get(kind, kind)
    raise ValueError(f"expected the method {there} for {what}, got {', '.join(methods)}")


def refuse_search_options(
    study: str | os.PathLike[str] | None, strategy: str, children: int | None
) -> None:
    """Refuse the options of a search among groups, where there is none.

    Raises:
        ValueError: If one of them is not as usual.
    """
    usual = strategy == "lattice"
    for name, given in (("study", study), ("strategy", None if usual else strategy)):
        if given is not None:
            raise ValueError(f"expected the method 'groups' with a {name}, got another method")
    if children is not None:
        raise ValueError("expected the method 'groups' with children, got another method")


def refuse_options(what: str = "images", /, **options: Any) -> None:
    """Refuse options that are not for images, or other data.

    Raises:
        ValueError: If one of them is not None.
    """
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"expected no {name} for {what}, got {value!r:.80}")
