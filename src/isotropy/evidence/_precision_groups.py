"""Which parameters share a prior precision, and what it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import TypeAlias

import torch
from torch import Tensor, nn

from isotropy.nn import PathSum

Groups: TypeAlias = Mapping[str, str] | Callable[[str], str] | None
Precisions: TypeAlias = float | Tensor | Mapping[str, float | Tensor]


def groups_of(names: Iterable[str], groups: Groups) -> dict[str, str]:
    """The group of every parameter.

    Args:
        names: The parameters.
        groups: A map from their names to those of groups (parameters that it leaves out are
            groups of their own), a function from one to the other, or None for one group for
            each tensor.

    Raises:
        TypeError: If it is neither.
        ValueError: If the map names a parameter that is not there.
    """
    names = list(names)
    if groups is None:
        return {name: name for name in names}
    if isinstance(groups, Mapping):
        for name in groups:
            if name not in names:
                raise ValueError(
                    f"expected groups of {', '.join(names[:6])}{', …' * (len(names) > 6)}, "
                    f"got one for {name!r}"
                )
        return {name: str(groups.get(name, name)) for name in names}
    if not callable(groups):
        raise TypeError(
            "expected groups as a map of names, a function of a name, or None, "
            f"got {type(groups).__name__}"
        )
    return {name: str(groups(name)) for name in names}


def path_groups(model: nn.Module) -> dict[str, str]:
    """One group for each path of every ``PathSum`` of a network; give it as ``groups``.

    Parameters outside are groups of their own. Names are those of the paths:
    "layer.paths.equivariant".

    Args:
        model: A network.

    Example:
        >>> from torch import nn
        >>> from isotropy.nn import PathSum
        >>> soft = PathSum({"strict": nn.Linear(3, 3, bias=False), "free": nn.Linear(3, 3)})
        >>> for name, group in path_groups(soft).items():
        ...     print(name, "in", group)
        paths.strict.weight in paths.strict
        paths.free.weight in paths.free
        paths.free.bias in paths.free
    """
    found = {}
    for prefix, module in model.named_modules():
        if isinstance(module, PathSum):
            start = f"{prefix}.paths." if prefix else "paths."
            for path in module.paths:
                for name, _ in module.paths[path].named_parameters():
                    # sums within paths of a sum come later, and are the finer groups
                    found[f"{start}{path}.{name}"] = start + path
    own = dict(model.named_parameters())
    return {name: group for name, group in found.items() if name in own}


def precision_of(groups: Iterable[str], precisions: Precisions) -> dict[str, Tensor]:
    """The precision of every group, float64, with its graph."""
    names = list(dict.fromkeys(groups))
    if not isinstance(precisions, Mapping):
        value = _positive(precisions, "")
        return dict.fromkeys(names, value)
    for name in precisions:
        if name not in names:
            raise ValueError(
                f"expected precisions of {', '.join(names[:6])}{', …' * (len(names) > 6)}, "
                f"got one for {name!r}"
            )
    for name in names:
        if name not in precisions:
            raise ValueError(f"expected a precision for every group, got none for {name!r}")
    return {name: _positive(precisions[name], f" for {name}") for name in names}


def _positive(value: float | Tensor, of: str) -> Tensor:
    if not isinstance(value, Real | Tensor):
        raise TypeError(f"expected a number as the precision{of}, got {value!r}")
    found = torch.as_tensor(value, dtype=torch.float64)
    if found.numel() != 1:
        raise ValueError(f"expected one precision{of}, got shape {tuple(found.shape)}")
    number = float(found.detach())
    if not 0 < number < float("inf"):
        raise ValueError(f"expected a positive precision{of}, got {number}")
    return found.reshape(())
