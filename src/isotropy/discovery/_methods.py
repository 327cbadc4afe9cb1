"""What ``discover`` may look for, and which data each method and option is for."""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np

from isotropy.data import Dataset, Transitions

Method = Literal["permutations", "generators", "layers", "transitions", "groups"]
METHODS: tuple[Method, ...] = ("permutations", "generators", "layers", "transitions")
_ON_REQUEST: tuple[Method, ...] = ("groups",)  # takes long
_OF_IMAGES = {"layers", "groups"}


def checked_methods(methods: Any, x: Any) -> tuple[Method, ...]:
    """The methods that apply to data of this kind, with so many axes.

    Args:
        methods: One name or several.
        x: The inputs.

    Raises:
        ValueError: If a name is unknown, or nothing that is asked for suits the data.

    Example:
        >>> checked_methods(METHODS, np.zeros((9, 1, 4, 4)))
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
    if isinstance(x, Transitions):
        if "transitions" not in chosen:
            raise ValueError(
                f"expected the method 'transitions' for transitions, got {', '.join(chosen)}"
            )
        return ("transitions",)
    if set(chosen) == {"transitions"}:
        raise ValueError(
            f"expected Transitions for the method 'transitions', got {type(x).__name__}"
        )
    axes = _axes(x)
    if axes == 4 or (axes == 3 and set(chosen) <= _OF_IMAGES):
        suiting = tuple(dict.fromkeys(method for method in chosen if method in _OF_IMAGES))
        if not suiting:
            raise ValueError(
                f"expected the method 'groups' or 'layers' for images, got {', '.join(chosen)}"
            )
        return suiting
    rest = tuple(m for m in chosen if m not in _OF_IMAGES and m != "transitions")
    if not rest:
        raise ValueError(
            "expected images of shape (rows, channels, height, width) or (rows, height, width) for "
            f"the method {chosen[0]!r}, got {axes} axes"
        )
    return rest


def _axes(x: Any) -> int:
    if isinstance(x, Dataset):
        return x.x.ndim
    try:
        return np.ndim(x)
    except ValueError:
        raise ValueError("expected inputs of one shape, got rows of different shapes") from None


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
