"""A network in a few dimensions: θ = θ₀ + P w, for any module, which stays as it is."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from isotropy.certificates._initial import film_names, initial_parameters
from isotropy.certificates._projectors import projector as make_projector


class Subspace(nn.Module):
    """The networks θ₀ + P w, w ∈ R^d: a module whose only parameter is ``weights`` = w.

    P is named by (``projector``, ``seed``, d) and θ₀ by ``seed`` alone, through a generator that
    gives the same numbers on every device. Buffers are part of θ₀ and never change: layers that
    keep running statistics use those they came with, in training too, since statistics of the
    training data would be a part of the network that no message carries.

    Args:
        model: Any module; it is copied, not changed.
        d: How many dimensions, from 0 to the number of parameters.
        projector: One of `PROJECTORS`.
        seed: Names θ₀ and P.
        start: θ₀: ``None`` draws it from ``seed``, ``"zero"`` is the origin, ``"given"`` takes the
            parameters that the module has, and a mapping from names to tensors gives them.

    Raises:
        ValueError: If the module has no parameters, or ``d`` is out of range.

    Example:
        >>> net = Subspace(nn.Linear(8, 2), d=5, seed=3)
        >>> [(name, tuple(p.shape)) for name, p in net.named_parameters()], net.D
        ([('weights', (5,))], 18)
        >>> net(torch.zeros(4, 8)).shape
        torch.Size([4, 2])
    """

    start: Tensor
    _model: nn.Module

    def __init__(
        self,
        model: nn.Module,
        d: int,
        *,
        projector: str = "kronecker",
        seed: int = 0,
        start: str | Mapping[str, Tensor] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        shapes = parameter_shapes(model)
        self.D = sum(shape.numel() for shape in shapes.values())
        self.d = d
        self.seed = seed
        self.projector_kind = projector
        first = start_parameters(model, seed, start)
        # the copy is hidden from `parameters()`: its tensors are replaced in every call
        hidden = copy.deepcopy(model).to(dtype)
        object.__setattr__(self, "_model", hidden)
        self._shapes = shapes
        self._buffer_names = [name for name, _ in hidden.named_buffers()]
        for index, (name, buffer) in enumerate(hidden.named_buffers()):
            value = start[name] if isinstance(start, Mapping) and name in start else buffer
            self.register_buffer(
                f"fixed_{index}", value.detach().clone().to(buffer), persistent=False
            )
        flat = torch.cat([first[name].detach().cpu().double().flatten() for name in shapes])
        self.register_buffer("start", flat.to(dtype), persistent=False)
        self.projection = make_projector(
            projector, shapes, d, seed, dtype=dtype, film=film_names(model)
        )
        self.weights = nn.Parameter(torch.zeros(d, dtype=dtype))

    def parameters_at(self, weights: Tensor) -> dict[str, Tensor]:
        """The network's parameters at a point of the subspace, by name."""
        flat = self.start + self.projection(weights) if self.d else self.start
        return dict(_split(flat, self._shapes))

    def forward(self, *inputs: Any, weights: Tensor | None = None) -> Any:
        """The network at ``weights``, by default its own."""
        return self.run(self.tensors_at(self.weights if weights is None else weights), *inputs)

    def tensors_at(self, weights: Tensor) -> dict[str, Tensor]:
        """Parameters and buffers at a point of the subspace, by name."""
        tensors = self.parameters_at(weights)
        for index, name in enumerate(self._buffer_names):
            tensors[name] = getattr(self, f"fixed_{index}")
        return tensors

    def run(self, tensors: dict[str, Tensor], *inputs: Any) -> Any:
        """The network with these tensors; many batches need them made but once."""
        return functional_call(self._model, tensors, inputs)

    def train(self, mode: bool = True) -> Subspace:
        """Training mode for dropout and the like; running statistics stay as they are."""
        super().train(mode)
        self._model.train(mode)
        for layer in self._model.modules():
            if getattr(layer, "running_mean", None) is not None:
                layer.train(False)
        return self

    def extra_repr(self) -> str:
        return f"{self.d} of {self.D} dimensions, {self.projector_kind}, seed {self.seed}"


def parameter_shapes(model: nn.Module) -> dict[str, torch.Size]:
    """The shapes of the parameters, by name, in order."""
    shapes = {}
    for name, parameter in model.named_parameters():
        if not parameter.is_floating_point():
            raise ValueError(
                f"expected parameters of real numbers, got {name} of {parameter.dtype}"
            )
        shapes[name] = parameter.shape
    if not sum(shape.numel() for shape in shapes.values()):
        raise ValueError(f"expected a model with parameters, got {type(model).__name__} with none")
    return shapes


def start_parameters(
    model: nn.Module, seed: int, start: str | Mapping[str, Tensor] | None
) -> dict[str, Tensor]:
    """θ₀, by name, in float64 on the CPU."""
    own = dict(model.named_parameters())
    if start is None:
        return initial_parameters(model, seed)
    if start == "zero":
        return {name: torch.zeros(p.shape, dtype=torch.float64) for name, p in own.items()}
    if start == "given":
        return {name: p.detach().cpu().double() for name, p in own.items()}
    if isinstance(start, str):
        raise ValueError(f"expected start None, 'zero', 'given' or tensors, got {start!r}")
    for name, parameter in own.items():
        if name not in start or start[name].shape != parameter.shape:
            got = tuple(start[name].shape) if name in start else "nothing"
            raise ValueError(
                f"expected a start of shape {tuple(parameter.shape)} for {name}, got {got}"
            )
    return {name: start[name].detach().cpu().double() for name in own}


def _split(flat: Tensor, shapes: Mapping[str, torch.Size]) -> Iterator[tuple[str, Tensor]]:
    at = 0
    for name, shape in shapes.items():
        yield name, flat[at : at + shape.numel()].view(shape)
        at += shape.numel()
