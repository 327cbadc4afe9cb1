"""Which parameters share a prior precision, what it is, and the priors that sums of paths carry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from math import log
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


class PathPriors:
    """Which precision groups are the prior of which path of the ``PathSum`` layers of a network.

    A sum within a path answers for its own parameters.

    Args:
        model: The network.
        groups: The group of each parameter.

    Example:
        >>> soft = PathSum(
        ...     {"strict": nn.Linear(3, 3), "free": nn.Linear(3, 3)}, prior_variances={"free": 0.25}
        ... )
        >>> priors = PathPriors(soft, path_groups(soft))
        >>> round(priors.precisions()["paths.free"], 6)
        4.0
        >>> priors.write({"paths.strict": 1.0, "paths.free": 100.0})
        >>> round(soft.prior_variances["free"], 6)
        0.01
    """

    def __init__(self, model: nn.Module, groups: Mapping[str, str]) -> None:
        owners = path_groups(model)
        self._tensors: list[tuple[PathSum, int, str]] = []
        for prefix, layer in model.named_modules():
            if not isinstance(layer, PathSum):
                continue
            start = f"{prefix}." if prefix else ""
            for index, (path, tensor) in enumerate(layer.tensors):
                name = f"{start}paths.{path}.{tensor}"
                if name in groups and owners.get(name) == f"{start}paths.{path}":
                    self._tensors.append((layer, index, groups[name]))

    def precisions(self) -> dict[str, float]:
        """1/σ² by group; of the first tensor of several."""
        found: dict[str, float] = {}
        for layer, index, group in self._tensors:
            found.setdefault(group, float((-layer.log_variances[index].double()).exp()))
        return found

    @torch.no_grad()
    def write(self, precisions: Mapping[str, float]) -> None:
        """Let the tensors of all paths carry σ² = 1/δ."""
        for layer, index, group in self._tensors:
            layer.log_variances[index] = -log(precisions[group])


def prior_lengths(model: nn.Module, names: Collection[str]) -> dict[str, Tensor]:
    """The squared lengths c of parameters whose prior is N(0, 1/(δc)), by name.

    A sum within a path answers for its own parameters; those that are not here have c = 1.

    Example:
        >>> strict = nn.Linear(2, 2, bias=False)
        >>> soft = PathSum({"a": strict}, squared_lengths={"a": {"weight": 3.0}})
        >>> prior_lengths(soft, ["paths.a.weight"])
        {'paths.a.weight': tensor(3.)}
    """
    owners = path_groups(model)
    found: dict[str, Tensor] = {}
    for prefix, layer in model.named_modules():
        if not isinstance(layer, PathSum):
            continue
        start = f"{prefix}." if prefix else ""
        for tensor, lengths in layer.tensor_squared_lengths.items():
            name = start + tensor
            path = tensor.split(".")[1]
            if name in names and owners.get(name) == f"{start}paths.{path}":
                found[name] = lengths
    return found
