"""The model of a finding: built from a description, in units that keep its symmetry."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from isotropy import nn as layers  # each kind is imported where such a model is built
from isotropy.groups import Monomial
from isotropy.groups._block_systems import components
from isotropy.reps import Symmetry, parse_rep

# what each kind of model is made with, beside the symmetry; the first ones it must have
_ARGUMENTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "emlp": (("channels", "layers"), ("bilinear", "nonlinearity")),
    "linear": ((), ("bias",)),
    "shared linear": ((), ("bias",)),
    "mlp": (("inputs", "outputs", "channels", "layers"), ()),
    "symmetrised": (("model",), ("elements", "seed")),
    "standardised": (("model",), ()),
    "homogeneous": (("model", "symmetry", "columns", "degree"), ()),
    "translated": (("model", "symmetry", "along"), ()),
    "soft": (("model", "variances"), ()),
    "image network": (("image", "outputs", "paths"), ("alpha", "group", "maps", "averaged")),
    "grid network": (("image", "outputs", "groups", "hidden"), ()),
}
_NUMBERS = ("layers", "inputs", "outputs", "elements", "alpha")
_CONSTANT = 1e-12  # of columns: what varies less is constant but for rounding


class StandardisedModel(nn.Module):
    """A model of standardised data, in the units of the data.

        y = y_mean + y_scale · model((x − x_mean) / x_scale)

    It has the model's symmetry if means and scales are the same on every column that the group
    exchanges with another: ``of`` takes them so.

    Args:
        model: A model of inputs and outputs of unit size.
        x_mean: Subtracted from inputs, shape (d_in,).
        x_scale: Divides inputs, shape (d_in,).
        y_mean: Added to outputs, shape (d_out,).
        y_scale: Multiplies outputs, shape (d_out,).

    Example:
        >>> model = StandardisedModel(nn.Identity(), [1.0], [2.0], [5.0], [4.0])
        >>> model(torch.tensor([[3.0]]))
        tensor([[9.]])
    """

    x_mean: Tensor
    x_scale: Tensor
    y_mean: Tensor
    y_scale: Tensor

    def __init__(
        self,
        model: nn.Module,
        x_mean: ArrayLike | Tensor,
        x_scale: ArrayLike | Tensor,
        y_mean: ArrayLike | Tensor,
        y_scale: ArrayLike | Tensor,
    ) -> None:
        super().__init__()
        self.model = model
        like = next(model.parameters(), torch.empty(0))
        given = {"x_mean": x_mean, "x_scale": x_scale, "y_mean": y_mean, "y_scale": y_scale}
        for name, values in given.items():
            numbers = torch.as_tensor(values, dtype=torch.float64)
            if not bool(numbers.isfinite().all()):
                raise ValueError(f"expected finite numbers as {name}, got {numbers.tolist()!r:.80}")
            if name.endswith("scale") and not bool((numbers > 0).all()):
                raise ValueError(f"expected positive numbers as {name}, got {values!r:.80}")
            self.register_buffer(name, numbers.to(like.device, like.dtype.to_real()))
        for name in ("rep_in", "rep_out", "in_features", "out_features"):
            if hasattr(model, name):  # for whoever tests it
                setattr(self, name, getattr(model, name))

    @staticmethod
    def of(
        model: nn.Module,
        x: ArrayLike | Tensor,
        y: ArrayLike | Tensor,
        *,
        permutations_in: Sequence[ArrayLike] = (),
        permutations_out: Sequence[ArrayLike] = (),
    ) -> StandardisedModel:
        """The wrapper with the mean and standard deviation of these data.

        Columns that permutations exchange have a mean and a deviation in common; a column that
        does not vary keeps its scale.

        Args:
            model: A model of inputs and outputs of unit size.
            x: Inputs, shape (n, d_in).
            y: Outputs, shape (n, d_out).
            permutations_in: Generators of the group on inputs, index arrays of shape (d_in,).
            permutations_out: The same on outputs.

        Example:
            >>> x = torch.tensor([[0.0, 4.0], [0.0, 4.0]])
            >>> StandardisedModel.of(nn.Identity(), x, x, permutations_in=[[1, 0]]).x_scale
            tensor([2., 2.])
        """
        return StandardisedModel(
            model, *_mean_and_scale(x, permutations_in), *_mean_and_scale(y, permutations_out)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Predictions in the units of the data, shape (*, d_in) to (*, d_out)."""
        y: Tensor = self.model((x - self.x_mean) / self.x_scale)
        return y * self.y_scale + self.y_mean


class HomogeneousModel(nn.Module):
    """A model made homogeneous: f(s x) = s^degree f(x) for s > 0, the other columns left alone.

        y = r^degree · model(x / r),   r = |x|

    Args:
        model: A model of inputs of unit length.
        columns: Which columns are scaled.
        degree: How outputs grow with them; zero where they stay.

    Example:
        >>> model = HomogeneousModel(nn.Linear(3, 1), [1, 2], 2.0)
        >>> x = torch.tensor([[1.0, 3.0, 4.0]])
        >>> twice = torch.tensor([[1.0, 6.0, 8.0]])
        >>> torch.allclose(model(twice), 4 * model(x))
        True
    """

    def __init__(self, model: nn.Module, columns: Sequence[int], degree: float) -> None:
        super().__init__()
        self.model = model
        self.columns, self.degree = list(columns), float(degree)
        wide = getattr(model, "in_features", None)
        most = math.inf if wide is None else wide
        if len(set(self.columns)) < len(self.columns) or not all(
            0 <= column < most for column in self.columns
        ):
            raise ValueError(
                f"expected distinct columns among {wide or 'the'} inputs, got {self.columns!r:.80}"
            )
        for name in ("rep_in", "rep_out", "in_features", "out_features"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))

    def forward(self, x: Tensor) -> Tensor:
        """Shape (*, d_in) to (*, d_out)."""
        tiny = torch.finfo(x.dtype).tiny
        r = torch.linalg.vector_norm(x[..., self.columns], dim=-1, keepdim=True).clamp_min(tiny)
        unit = x.clone()
        unit[..., self.columns] = x[..., self.columns] / r
        y: Tensor = self.model(unit)
        scaled: Tensor = y * r**self.degree
        return scaled


class TranslationInvariantModel(nn.Module):
    """A model of what translations along some directions leave: f(x + t) = f(x).

        y = model(x − T Tᵀ x),   T orthonormal

    Args:
        model: A model of such inputs.
        along: An orthonormal basis of the translations, shape (r, d_in).

    Example:
        >>> model = TranslationInvariantModel(nn.Linear(2, 1), [[0.5**0.5, 0.5**0.5]])
        >>> x = torch.tensor([[1.0, 3.0]])
        >>> torch.allclose(model(x + 5), model(x), atol=1e-5)
        True
    """

    def __init__(self, model: nn.Module, along: ArrayLike | Tensor) -> None:
        super().__init__()
        self.model = model
        basis = torch.as_tensor(along, dtype=torch.float64)
        wide = getattr(model, "in_features", None)
        fits = basis.ndim == 2 and len(basis) <= basis.shape[1]
        if not fits or basis.shape[1] != (basis.shape[1] if wide is None else wide):
            raise ValueError(
                f"expected at most {wide or 'as many'} rows as along, as wide as the inputs, got "
                f"shape {tuple(basis.shape)}"
            )
        one = torch.eye(len(basis), dtype=torch.float64)
        if not torch.allclose(basis @ basis.T, one, atol=1e-6):
            raise ValueError(f"expected orthonormal rows as along, got {along!r:.80}")
        # no buffer, which .float() would round: that a model is exact rests on these numbers
        self.along = basis
        for name in ("in_features", "out_features"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))

    def forward(self, x: Tensor) -> Tensor:
        """Shape (*, d_in) to (*, d_out); rows far from the origin had better be in float64."""
        left = without(x, self.along.to(x))
        y: Tensor = self.model(left.to(next(self.model.parameters()).dtype))
        return y


def rows_for(model: nn.Module, x: Tensor) -> Tensor:
    """Rows in the precision that a model takes, on its device.

    Where translations are taken out first, that is float64: what they leave may be far smaller.

    Example:
        >>> rows_for(nn.Linear(2, 1), torch.zeros(3, 2, dtype=torch.float64)).dtype
        torch.float32
    """
    like = next(model.parameters())
    if isinstance(model, TranslationInvariantModel):
        return x.to(like.device, torch.float64)
    return x.to(like)


def without(x: Tensor, along: Tensor) -> Tensor:
    """Rows less their components along some orthonormal directions.

    Example:
        >>> without(torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 1.0]]))
        tensor([[3., 0.]])
    """
    return x - (x @ along.T) @ along


def orbit_mean(values: ArrayLike | Tensor, permutations: Sequence[ArrayLike | Tensor]) -> Tensor:
    """Each number replaced by the mean over its orbit, which the group leaves as it is.

    Args:
        values: Shape (d,).
        permutations: Generators of the group, index arrays of shape (d,).

    Returns:
        Shape (d,), float64.

    Raises:
        ValueError: If something is not a permutation of d points.

    Example:
        >>> orbit_mean([1.0, 3.0, 7.0], [[1, 0, 2]])
        tensor([2., 2., 7.], dtype=torch.float64)
    """
    numbers = torch.as_tensor(values, dtype=torch.float64)
    maps = []
    for permutation in permutations:
        index = torch.as_tensor(np.asarray(permutation))
        if sorted(index.flatten().tolist()) != list(range(len(numbers))):
            raise ValueError(
                f"expected a permutation of {len(numbers)} points, got {index.tolist()!r:.80}"
            )
        maps.append(Monomial(index.long()))
    orbits = components(maps, len(numbers))
    totals = torch.zeros(len(numbers), dtype=torch.float64).index_add_(0, orbits, numbers)
    return (totals / orbits.bincount(minlength=len(numbers)).clamp_min(1))[orbits]


def _mean_and_scale(
    data: ArrayLike | Tensor, permutations: Sequence[ArrayLike]
) -> tuple[Tensor, Tensor]:
    columns = torch.as_tensor(data, dtype=torch.float64)
    if columns.ndim != 2 or not len(columns):
        raise ValueError(f"expected data of shape (n, columns), got {tuple(columns.shape)}")
    mean = orbit_mean(columns.mean(0), permutations)
    scale = orbit_mean((columns - mean).square().mean(0), permutations).sqrt()
    size = orbit_mean(columns.abs().amax(0), permutations)
    constant = scale <= _CONSTANT * size
    return mean, torch.where(constant, torch.ones_like(scale), scale)


def build_model(
    spec: Mapping[str, Any],
    symmetry: Symmetry | None = None,
    labels: NDArray[np.int64] | None = None,
) -> nn.Module:
    """A model with fresh weights, from a description that is plain data.

    Args:
        spec: ``"kind"`` and its arguments: ``"emlp"`` (channels, a number or a hidden
            representation as text; layers), ``"linear"`` (bias), ``"shared linear"`` (bias),
            ``"mlp"`` (inputs, outputs, channels, layers), ``"symmetrised"`` (model: a
            description; elements, seed), ``"standardised"`` (model: a description),
            ``"homogeneous"`` (model: a description; symmetry, the part without scalings, as text;
            columns, degree), ``"translated"`` (model: a description; symmetry, the part without
            translations, as text or None; along, a basis of these), ``"soft"`` (model: a
            description; variances of its strict and flexible paths), ``"image network"`` (image,
            outputs, paths; alpha, group, maps, averaged), ``"grid network"`` (image, outputs,
            groups: names of grid transformations; hidden: the side of each hidden grid).
        symmetry: What the model has; ``"mlp"``, ``"shared linear"``, ``"image network"`` and
            ``"grid network"`` need none.
        labels: Which weights of ``"shared linear"`` are equal, shape (d_out, d_in).

    Raises:
        ValueError: If the description names no such model.

    Example:
        >>> model = build_model(
        ...     {"kind": "mlp", "inputs": 3, "outputs": 1, "channels": 8, "layers": 1}
        ... )
        >>> model(torch.zeros(2, 3)).shape
        torch.Size([2, 1])
    """
    kind, arguments = _read(spec)
    if "model" in arguments:
        return _wrapped(kind, arguments, symmetry, labels)
    if kind == "mlp":
        return layers.MLP(arguments.pop("inputs"), arguments.pop("outputs"), **arguments)
    if kind == "image network":
        from isotropy.discovery.predictors._image_network import ImageNetwork

        image, outputs = arguments.pop("image"), arguments.pop("outputs")
        return ImageNetwork(image, outputs, arguments.pop("paths"), **arguments)
    if kind == "grid network":
        channels, height, width = arguments["image"]
        sides = {"hidden": arguments["hidden"], "classes": arguments["outputs"]}
        return layers.GridNetwork((channels, height, width), arguments["groups"], **sides)
    if kind == "shared linear":
        if labels is None:
            raise ValueError(f"expected labels for a model of kind {kind!r}, got none")
        return layers.SharedLinear(torch.from_numpy(np.array(labels)), **arguments)
    if symmetry is None:
        raise ValueError(f"expected a symmetry for a model of kind {kind!r}, got none")
    if isinstance(arguments.get("channels"), str):
        arguments["channels"] = parse_rep(arguments["channels"])
    make: Any = layers.EMLP if kind == "emlp" else layers.Linear
    built: nn.Module = make(symmetry.rep_in, symmetry.rep_out, symmetry.group, **arguments)
    return built


def _wrapped(
    kind: str,
    arguments: Mapping[str, Any],
    symmetry: Symmetry | None,
    labels: NDArray[np.int64] | None,
) -> nn.Module:
    """A model around another one."""
    if kind == "symmetrised" and symmetry is None:
        raise ValueError(f"expected a symmetry for a model of kind {kind!r}, got none")
    within = symmetry
    if kind in ("homogeneous", "translated"):
        text = arguments["symmetry"]
        within = None if text is None else Symmetry.parse(text)
    inner: Any = build_model(arguments["model"], within, labels)
    if kind == "standardised":
        zeros, ones = torch.zeros, torch.ones
        wide, out = inner.in_features, inner.out_features
        return StandardisedModel(inner, zeros(wide), ones(wide), zeros(out), ones(out))
    if kind == "soft":
        return layers.soften(inner, variances=arguments["variances"])
    if kind == "homogeneous":
        return HomogeneousModel(inner, arguments["columns"], arguments["degree"])
    if kind == "translated":
        return TranslationInvariantModel(inner, arguments["along"])
    assert symmetry is not None
    elements, seed = arguments.get("elements"), arguments.get("seed", 0)
    return layers.Symmetrised(inner, symmetry, samples=elements, generator=seed)


def _read(spec: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    kind = spec.get("kind") if isinstance(spec, Mapping) else None
    if kind not in _ARGUMENTS:
        raise ValueError(
            f"expected a model of kind {', '.join(map(repr, _ARGUMENTS))}, got {spec!r:.80}"
        )
    needed, known = _ARGUMENTS[kind]
    arguments = {name: value for name, value in spec.items() if name != "kind"}
    missing = [name for name in needed if name not in arguments]
    unknown = [name for name in arguments if name not in (*needed, *known)]
    if missing or unknown:
        raise ValueError(
            f"expected a model of kind {kind!r} with {', '.join(needed) or 'no arguments'}, "
            f"got {', '.join(map(str, arguments)) or 'none'}"
        )
    for name in _NUMBERS:
        value = arguments.get(name, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"expected a positive number as {name}, got {value!r:.80}")
    return kind, arguments
