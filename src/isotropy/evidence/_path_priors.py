"""The priors that sums of paths carry, as precision groups."""

from __future__ import annotations

from collections.abc import Mapping
from math import log

import torch
from torch import nn

from isotropy.evidence._precision_groups import path_groups
from isotropy.nn import PathSum


class PathPriors:
    """Which precision groups are the prior of which path of the ``PathSum`` layers of a network.

    A sum within a path answers for its own parameters. A path whose parameters are in several
    groups carries the mean of their variances, weighted by their numbers of parameters: that of
    a parameter taken at random.

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
        owners, own = path_groups(model), dict(model.named_parameters())
        self._paths: list[tuple[PathSum, int, dict[str, int]]] = []
        for prefix, layer in model.named_modules():
            if not isinstance(layer, PathSum):
                continue
            start = f"{prefix}.paths." if prefix else "paths."
            for index, path in enumerate(layer.paths):
                sizes: dict[str, int] = {}
                for name, owner in owners.items():
                    if owner == start + path and name in groups:
                        group = groups[name]
                        sizes[group] = sizes.get(group, 0) + own[name].numel()
                if sizes:
                    self._paths.append((layer, index, sizes))

    def precisions(self) -> dict[str, float]:
        """1/σ² by group; of the first path of several."""
        found: dict[str, float] = {}
        for layer, index, sizes in self._paths:
            for group in sizes:
                found.setdefault(group, float((-layer.log_variances[index].double()).exp()))
        return found

    @torch.no_grad()
    def write(self, precisions: Mapping[str, float]) -> None:
        """Let the paths carry σ² = 1/δ, or its mean over parameters."""
        for layer, index, sizes in self._paths:
            whole = sum(size / precisions[group] for group, size in sizes.items())
            layer.log_variances[index] = log(whole / sum(sizes.values()))
