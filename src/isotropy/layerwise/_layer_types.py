"""What every layer has become: the path whose weights the data determine most."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from torch import Tensor, nn

from isotropy.evidence import EffectiveParameters, path_groups
from isotropy.nn import PathSum, RadialBasis

_NOTHING = "none"  # the kind of a layer of which the data determine no weight


@dataclass(frozen=True)
class LayerType:
    """The learned type of one ``PathSum`` (van der Ouderaa et al. 2023, Table 4).

    All numbers are by path, of its weights: biases are left out.

    Args:
        paths: The relative effective number, (γ/P) over its sum over the paths.
        normalised: γ/P, the share of the P weights that the data determine.
        precisions: The prior precision; the largest where there are several tensors, for of
            factors one that is off switches off all.
        mean_squares: ‖θ‖²/P; the smallest where there are several tensors.

    Example:
        >>> layer = LayerType.of({"fc": 2.0, "conv": 30.0}, {"fc": 1000, "conv": 50})
        >>> layer.kind
        'conv'
        >>> print(f"{layer.normalised['conv']:.1f} {layer.paths['fc']:.4f}")
        0.6 0.0033
    """

    paths: dict[str, float]
    normalised: dict[str, float]
    precisions: dict[str, float]
    mean_squares: dict[str, float]

    @classmethod
    def of(
        cls,
        counts: Mapping[str, float],
        sizes: Mapping[str, int],
        precisions: Mapping[str, float] | None = None,
        mean_squares: Mapping[str, float] | None = None,
    ) -> LayerType:
        """The type that effective numbers γ and numbers of weights P make, by path."""
        found = EffectiveParameters(dict(counts), dict(sizes))
        return cls(
            found.relative(), found.normalised, dict(precisions or {}), dict(mean_squares or {})
        )

    @property
    def kind(self) -> str:
        """The path with the largest relative number; "none" where the data determine nothing."""
        if not any(self.normalised.values()):
            return _NOTHING
        return max(self.paths, key=self.paths.__getitem__)

    def to_json(self) -> dict[str, Any]:
        """All of it, of what JSON knows."""
        return {"kind": self.kind, **asdict(self)}


def layer_types(
    model: nn.Module,
    effective: EffectiveParameters,
    precisions: Mapping[str, float] | None = None,
) -> dict[str, LayerType]:
    """The type of every ``PathSum`` of a network.

    A path of several weight tensors, such as the two factors of a ``FactoredLinear``, has
    γ/P = (Σ γ)/(Σ P). Left out are biases, lengthscales and anchors, tensors without an effective
    number (frozen ones, hyperparameters), and paths and layers that have no other.

    Args:
        model: The network.
        effective: Effective numbers of parameters by tensor.
        precisions: Prior precisions by tensor; where None, those that the paths carry.

    Returns:
        The types by the layers' names in ``model.named_modules()``, in that order.

    Raises:
        ValueError: If there is no ``PathSum``, effective numbers are of something else than
            tensors of the model or of no weights in paths, or a precision is missing.

    Example:
        >>> import torch
        >>> from isotropy.evidence import laplace
        >>> soft = PathSum({"conv": nn.Conv1d(1, 1, 3, padding=1), "fc": nn.Linear(8, 8)})
        >>> model = nn.Sequential(soft, nn.Flatten())
        >>> data = torch.randn(50, 1, 8), torch.randn(50, 8)
        >>> found = laplace(model, "regression", data)
        >>> types = layer_types(model, found.effective_parameters(by="tensor"))
        >>> list(types), list(types["0"].paths)
        (['0'], ['conv', 'fc'])
    """
    model = bare(model)
    weights = path_weights(model, effective.counts)
    types = {}
    for layer, paths in weights.items():
        numbers = _by_path(paths, effective)
        module = model.get_submodule(layer)
        assert isinstance(module, PathSum)
        if precisions is None:
            carried = module.prior_variances
            found = {path: 1 / carried[path] if carried[path] else inf for path in paths}
        else:
            found = {p: max(_known(precisions, n) for n in names) for p, names in paths.items()}
        squares = {
            path: min(_mean_square(model.get_parameter(name)) for name in names)
            for path, names in paths.items()
        }
        types[layer] = LayerType.of(numbers.counts, numbers.sizes, found, squares)
    return types


def relative_numbers(
    weights: Mapping[str, Mapping[str, list[str]]], effective: EffectiveParameters
) -> dict[str, dict[str, float]]:
    """The relative effective numbers of the paths of every layer.

    Args:
        weights: The weight tensors of each path of each layer, as ``path_weights`` has them.
        effective: Effective numbers by tensor.

    Example:
        >>> found = EffectiveParameters({"a": 1.0, "b": 2.0, "c": 9.0}, {"a": 2, "b": 4, "c": 6})
        >>> relative_numbers({"0": {"factored": ["a", "b"], "conv": ["c"]}}, found)
        {'0': {'factored': 0.25, 'conv': 0.75}}
    """
    return {layer: _by_path(paths, effective).relative() for layer, paths in weights.items()}


def path_weights(model: nn.Module, tensors: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Those of some tensors that are weights of a path, by ``PathSum`` and path.

    Raises:
        ValueError: If the network has no ``PathSum`` or no such parameter, or none is a weight.
    """
    model = bare(model)
    if not any(isinstance(module, PathSum) for module in model.modules()):
        raise ValueError(
            f"expected a model with PathSum layers, whose paths compete, got none in "
            f"{type(model).__name__}"
        )
    own, wanted = dict(model.named_parameters()), set(tensors)
    for name in sorted(wanted - set(own)):
        raise ValueError(f"expected numbers by tensor of the model, got one of {name!r}")
    shapes = _parameters_of_bases(model)
    weights: dict[str, dict[str, list[str]]] = {}
    for name, owner in path_groups(model).items():
        is_bias = "bias" in name.rpartition(".")[2]
        if name not in wanted or is_bias or name in shapes:
            continue
        sum_of_paths, _, path = owner.rpartition(".")
        layer = sum_of_paths.removesuffix("paths").removesuffix(".")
        weights.setdefault(layer, {}).setdefault(path, []).append(name)
    if not weights:
        raise ValueError("expected weights in paths of a PathSum that are learned, got none")
    return weights


def layer_table(types: Mapping[str, LayerType]) -> str:
    """The types of layers as text, a row for each path (van der Ouderaa et al. 2023, Table 4).

    Args:
        types: By layer, as ``layer_types`` gives them.

    Example:
        >>> layer = LayerType.of(
        ...     {"fc": 2.0, "conv": 30.0},
        ...     {"fc": 1000, "conv": 50},
        ...     {"fc": 3.6e6, "conv": 0.075},
        ...     {"fc": 0.0, "conv": 10.7},
        ... )
        >>> print(layer_table({"layers.0": layer}))
        layer     path  precision  mean square  normalised  relative  type
        layers.0  fc     3.60e+06     0.00e+00     0.00200   0.00332
                  conv   7.50e-02     1.07e+01     0.60000   0.99668  conv
    """
    paths = [path for layer in types.values() for path in layer.paths]
    first = max([5, *(len(_shown(name)) for name in types)])
    second = max([4, *map(len, paths)])
    lines = [
        f"{'layer':{first}}  {'path':{second}}  precision  mean square  normalised  relative  type"
    ]
    for name, layer in types.items():
        for k, path in enumerate(layer.paths):
            chosen = path if path == layer.kind else ""
            if layer.kind == _NOTHING and k == 0:
                chosen = _NOTHING
            lines.append(
                f"{_shown(name) if k == 0 else '':{first}}  {path:{second}}  "
                f"{_exponential(layer.precisions, path):>9}  "
                f"{_exponential(layer.mean_squares, path):>11}  "
                f"{layer.normalised[path]:10.5f}  {layer.paths[path]:8.5f}  {chosen}".rstrip()
            )
    return "\n".join(lines)


def _by_path(paths: Mapping[str, list[str]], effective: EffectiveParameters) -> EffectiveParameters:
    counts = {path: sum(effective.counts[n] for n in names) for path, names in paths.items()}
    sizes = {path: sum(effective.sizes[n] for n in names) for path, names in paths.items()}
    return EffectiveParameters(counts, sizes)


def _mean_square(weights: Tensor) -> float:
    return float(weights.detach().double().square().mean())


def _shown(layer: str) -> str:
    return layer or "model"  # a sum that is the whole network has no name in it


def _exponential(values: Mapping[str, float], path: str) -> str:
    return f"{values[path]:.2e}" if path in values else ""


def _known(precisions: Mapping[str, float], name: str) -> float:
    if name not in precisions:
        raise ValueError(f"expected a precision for every tensor, got none for {name!r}")
    return precisions[name]


def _parameters_of_bases(model: nn.Module) -> set[str]:
    """Lengthscales and anchors shape weights, and are none."""
    return {
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules()
        if isinstance(module, RadialBasis)
        for name, _ in module.named_parameters()
    }


def bare(model: nn.Module) -> nn.Module:
    """The network inside what ``torch.compile`` has made of it.

    Example:
        >>> model = nn.Linear(2, 3)
        >>> bare(model) is model
        True
    """
    compiled = getattr(model, "_orig_mod", None)
    return compiled if isinstance(compiled, nn.Module) else model
