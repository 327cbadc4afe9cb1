"""The priors that sums of paths carry, as precision groups."""

from __future__ import annotations

from collections.abc import Mapping
from math import log

import torch
from torch import nn

from isotropy.evidence._precision_groups import path_groups
from isotropy.nn import PathSum


class PathPriors:
    """Which precision group is the prior of which path of the ``PathSum`` layers of a network.

    A path belongs to a group where all its parameters do; a sum within a path answers for its
    own.

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
        self._paths: list[tuple[str, PathSum, int]] = []
        for prefix, layer in model.named_modules():
            if not isinstance(layer, PathSum):
                continue
            start = f"{prefix}.paths." if prefix else "paths."
            for index, path in enumerate(layer.paths):
                own = [name for name, owner in owners.items() if owner == start + path]
                held = {groups[name] for name in own if name in groups}
                if len(held) == 1:
                    self._paths.append((held.pop(), layer, index))

    def precisions(self) -> dict[str, float]:
        """1/σ² by group; of the first path of several."""
        found: dict[str, float] = {}
        for group, layer, index in self._paths:
            found.setdefault(group, float((-layer.log_variances[index].double()).exp()))
        return found

    @torch.no_grad()
    def write(self, precisions: Mapping[str, float]) -> None:
        """Let the paths carry σ² = 1/δ."""
        for group, layer, index in self._paths:
            layer.log_variances[index] = -log(precisions[group])
