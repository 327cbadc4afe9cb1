"""The priors that sums of paths carry: precision groups, and lengths of entries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import log

import torch
from torch import Tensor, nn

from isotropy.evidence._precision_groups import path_groups
from isotropy.nn import PathSum


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
