"""Prior precisions to begin with: paths of less symmetry than others are held back."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

import torch
from torch import nn

from isotropy.evidence import path_groups
from isotropy.layerwise._layer_types import bare, path_weights
from isotropy.nn import FactoredLinear, GroupConv2d, MapLinear, PathSum, SparseLinear

_FREE = (MapLinear, FactoredLinear, SparseLinear)


class StartingPrecisions(dict[str, float]):
    """Precisions by tensor, and what they were made by.

    Args:
        found: The precisions.
        hold_back: As for ``starting_precisions``.
    """

    def __init__(self, found: Mapping[str, float], hold_back: float | None) -> None:
        super().__init__(found)
        # the numbers follow from the weights, which are others when a run is gone on with
        self.identity = {"hold_back": hold_back}


def starting_precisions(
    model: nn.Module, tensors: list[str], hold_back: float | None
) -> StartingPrecisions:
    """A precision for each tensor; those of paths of less symmetry narrow their initial draw.

    Where all paths begin with the same prior, a path that is not equivariant has learned much of
    the training data by heart before the evidence is first asked, and the evidence of what it has
    learned is all that can be compared. Held back, it is opened where the data ask for it.

    Free paths (FC, F-FC, S-FC) have less symmetry than convolutions and the rest, and these less
    than group convolutions; of every layer all but the most symmetric paths are held back.

    Args:
        model: The network, with ``PathSum`` layers and weights as they were drawn.
        tensors: Names of the parameters that have a prior.
        hold_back: The precision of a weight in such a path, over that of its draw, 1/mean square;
            of a bias, over 1. None to hold nothing back.

    Returns:
        By tensor; what the paths carry, where that is not a variance of 1, is left as it is.

    Raises:
        ValueError: If ``hold_back`` is not positive.

    Example:
        >>> layer = PathSum({"fc": MapLinear(1, 1, 4), "conv": nn.Conv2d(1, 1, 3, padding=1)})
        >>> names = [name for name, _ in layer.named_parameters()]
        >>> found = starting_precisions(layer, names, 10.0)
        >>> square = layer.paths["fc"].weight.detach().square().mean()
        >>> round(found["paths.fc.weight"] * float(square), 4)
        10.0
        >>> found["paths.conv.weight"]
        1.0
    """
    if hold_back is not None and not (isfinite(hold_back) and hold_back > 0):
        raise ValueError(f"expected hold_back to be positive or None, got {hold_back}")
    model = bare(model)
    groups = path_groups(model)
    weights = {
        name
        for paths in path_weights(model, tensors).values()
        for names in paths.values()
        for name in names
    }
    found = dict.fromkeys(tensors, 1.0)
    for prefix, layer in model.named_modules():
        if not isinstance(layer, PathSum):
            continue
        start = f"{prefix}." if prefix else ""
        degrees = {path: _symmetry(module) for path, module in layer.paths.items()}
        for (path, tensor), variance in zip(
            ((path, name) for path, name in layer.tensors if name),
            layer.tensor_variances.values(),
            strict=True,
        ):
            name = f"{start}paths.{path}.{tensor}"
            if name not in found or groups[name] != f"{start}paths.{path}":
                continue
            found[name] = 1 / variance
            held = hold_back is not None and degrees[path] < max(degrees.values())
            if not held or variance != 1:
                continue
            assert hold_back is not None
            if name in weights:
                square = float(model.get_parameter(name).detach().double().square().mean())
                found[name] = hold_back / (square or 1.0)
            elif "bias" in tensor.rpartition(".")[2]:
                found[name] = hold_back
    return StartingPrecisions(found, hold_back)


@torch.no_grad()
def begin_with_strict_paths(model: nn.Module) -> None:
    """Let the most symmetric paths of averages begin with the gain of all paths.

    Of an average of n paths, n − 1 of which are held back, 1/n is left: a deep network with such
    layers hardly tells its inputs apart, and few images do not suffice to wake it up. With weights
    n times as large it begins as the strict network would.

    Example:
        >>> layer = PathSum({"fc": MapLinear(1, 1, 4), "conv": nn.Conv2d(1, 1, 3)}, average=True)
        >>> before = layer.paths["conv"].weight.clone()
        >>> begin_with_strict_paths(layer)
        >>> torch.equal(layer.paths["conv"].weight, 2 * before)
        True
    """
    for layer in bare(model).modules():
        if not isinstance(layer, PathSum) or not layer.average:
            continue
        degrees = {path: _symmetry(module) for path, module in layer.paths.items()}
        strict = [path for path, degree in degrees.items() if degree == max(degrees.values())]
        gain = len(layer.paths) / len(strict) ** 0.5
        for path in strict:
            named = layer.paths[path].named_parameters()
            weights = [weight for name, weight in named if layer.is_weight(path, name)]
            for weight in weights:  # factors, or stages, one after the other
                weight.mul_(gain ** (1 / len(weights)))


def _symmetry(path: nn.Module) -> int:
    """How much of it a path has, as far as paths can be compared."""
    modules = list(path.modules())
    if any(isinstance(module, GroupConv2d) for module in modules):
        return 2
    return 0 if any(isinstance(module, _FREE) for module in modules) else 1
