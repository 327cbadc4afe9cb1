"""A torch module whose chosen weights are θ = Aψ, many copies of it at a time."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, vmap

from isotropy.sharing._hypergradient import Weights

LossName = Literal["absolute", "squared", "cross-entropy"]
Loss: TypeAlias = LossName | Callable[[Tensor, Tensor], Tensor]

_LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "absolute": lambda found, wanted: (found - wanted).abs(),
    "squared": lambda found, wanted: (found - wanted).square(),
    "cross-entropy": lambda found, wanted: nn.functional.cross_entropy(
        found, wanted, reduction="none"
    ),
}


class SharedModule:
    """A module with one assignment A for some of its weights, evaluated for many problems at once.

    A weight of shape (…, K, …) becomes Σ_j A_ij ψ_j along the chosen axis, where ψ has as many
    slices as A has columns; with no axis chosen, entry by entry of the flattened weight. All
    chosen weights share one A. The module is copied, and computes in evaluation mode.

    Args:
        module: From a batch of inputs to a batch of outputs.
        sites: The axis along which each chosen weight is shared, by the weight's name;
            ``None`` for all its entries.
        loss: From outputs and targets to one loss for each row (further axes are averaged).
        takes_assignment: The argument of ``forward`` by which the module takes A (K × blocks) and
            applies it itself, having ψ as its weights; ``None`` where θ = Aψ is to be computed.

    Raises:
        ValueError: If a weight is not there, has no such axis, or has another size than the rest,
            or there is no such loss.
        TypeError: If the module is not one.

    Example:
        >>> shared = SharedModule(nn.Linear(4, 1), {"weight": 1}, "squared")
        >>> shared.size
        4
        >>> weights = shared.initial(seeds=[0, 1, 2], blocks=1)
        >>> {name: tuple(value.shape) for name, value in weights.items()}
        {'weight': (3, 1, 1), 'bias': (3, 1)}
        >>> x, y = torch.randn(5, 4), torch.randn(5, 1)
        >>> shared.losses(weights, torch.ones(3, 4, 1), x, y).shape
        torch.Size([3, 5])
    """

    def __init__(
        self,
        module: nn.Module,
        sites: Mapping[str, int | None],
        loss: Loss,
        takes_assignment: str | None = None,
    ) -> None:
        if not isinstance(module, nn.Module):
            raise TypeError(f"expected a torch module, got {type(module).__name__}")
        self.given = module
        self.module = copy.deepcopy(module).eval()
        self.takes_assignment = takes_assignment
        self._loss = _loss_function(loss)
        # a weight used twice has two names, of which only the first is a parameter of its own
        self._shapes = {
            name: value.shape for name, value in module.named_parameters() if value.requires_grad
        }
        self.sites, self.size = _checked_sites(dict(sites), self._shapes)
        self._constants = {
            name: value.detach()
            for name, value in (*self.module.named_parameters(), *self.module.named_buffers())
            if name not in self._shapes
        }

    def initial(self, seeds: Sequence[int], blocks: int | None = None) -> Weights:
        """Starting values of ψ and the other weights, as the module's layers draw them.

        Layers draw by ``reset_parameters``; a weight of a layer without it starts as it was given.

        Args:
            seeds: One for each problem; PyTorch's own random state stays as it is.
            blocks: How many slices ψ has, the first that were drawn; all K where ``None``.
        """
        drawn = {seed: _drawn(self.module, seed) for seed in dict.fromkeys(seeds)}
        weights = {}
        for name in self._shapes:
            values = [drawn[seed][name] for seed in seeds]
            if name in self.sites:
                values = [self._slices(name, value)[:blocks] for value in values]
            weights[name] = torch.stack(values)
        return weights

    def numbers(self, blocks: int) -> int:
        """How many trainable numbers there are where ψ has so many slices."""
        return sum(
            shape.numel() * blocks // self.size if name in self.sites else shape.numel()
            for name, shape in self._shapes.items()
        )

    def losses(
        self, weights: Weights, assignment: Tensor, x: Tensor, y: Tensor, rows: Tensor | None = None
    ) -> Tensor:
        """Losses of each problem on each row.

        Args:
            weights: As ``initial`` gives them, shape (problems, …).
            assignment: Shape (problems, K, blocks).
            x: Inputs of all problems.
            y: Their targets.
            rows: The rows to look at: shape (m,), or (problems, m) for each its own; all where
                ``None``.

        Returns:
            Shape (problems, m).
        """
        own = rows is not None and rows.ndim == 2
        if rows is not None:
            x, y = x[rows], y[rows]

        def one(weights: Weights, assignment: Tensor, x: Tensor, y: Tensor) -> Tensor:
            found = self._loss(self._output(weights, assignment, x), y)
            if found.shape[:1] != y.shape[:1]:
                raise ValueError(
                    f"expected one loss for each of {len(y)} rows, got shape {tuple(found.shape)}"
                )
            return found.flatten(1).mean(1) if found.ndim > 1 else found

        each = 0 if own else None
        found: Tensor = vmap(one, in_dims=(0, 0, each, each))(weights, assignment, x, y)
        return found

    def outputs(self, weights: Weights, assignment: Tensor, x: Tensor) -> Tensor:
        """Outputs of each problem, shape (problems, m, …); arguments as in ``losses``."""
        found: Tensor = vmap(self._output, in_dims=(0, 0, None))(weights, assignment, x)
        return found

    def _output(self, weights: Weights, assignment: Tensor, x: Tensor) -> Tensor:
        used = {**self._constants, **weights}
        taken = {}
        if self.takes_assignment is None:
            for name in self.sites:
                used[name] = self._mixed(name, assignment, weights[name])
        else:
            for name, axis in self.sites.items():
                used[name] = weights[name].movedim(0, axis or 0)
            taken[self.takes_assignment] = assignment
        output: Tensor = functional_call(self.module, used, (x,), taken)
        return output

    def _slices(self, name: str, weight: Tensor) -> Tensor:
        axis = self.sites[name]
        return weight.flatten() if axis is None else weight.movedim(axis, 0)

    def _mixed(self, name: str, assignment: Tensor, psi: Tensor) -> Tensor:
        theta: Tensor = torch.tensordot(assignment, psi, dims=([-1], [0]))
        axis = self.sites[name]
        return theta.reshape(self._shapes[name]) if axis is None else theta.movedim(0, axis)

    def placed(self, weights: Weights, labels: NDArray[np.int64]) -> nn.Module:
        """A copy of the module as it was given, with shared weights in place.

        Args:
            weights: Of one problem, without the leading axis.
            labels: The block of each element, shape (K,).
        """
        placed = copy.deepcopy(self.given)
        blocks = torch.as_tensor(labels)
        with torch.no_grad():
            for name, weight in placed.named_parameters():
                if name in weights:
                    value = weights[name]
                    if name in self.sites:
                        axis = self.sites[name]
                        # indexed, and not multiplied by A, so that blocks are equal to the bit
                        value = value[blocks.to(value.device)]
                        value = (
                            value.reshape(weight.shape) if axis is None else value.movedim(0, axis)
                        )
                    weight.copy_(value)
        return placed


def _loss_function(loss: Loss) -> Callable[[Tensor, Tensor], Tensor]:
    if callable(loss):
        return loss
    if loss not in _LOSSES:
        raise ValueError(f"expected a function or a loss among {', '.join(_LOSSES)}, got {loss!r}")
    return _LOSSES[loss]


def _checked_sites(
    sites: dict[str, int | None], shapes: Mapping[str, torch.Size]
) -> tuple[dict[str, int | None], int]:
    """Sites with axes counted from the front, and the number of elements that they share."""
    if not sites:
        raise ValueError("expected at least one weight to share, got none")
    checked: dict[str, int | None] = {}
    sizes: dict[str, int] = {}
    for name, axis in sites.items():
        if name not in shapes:
            raise ValueError(f"expected trainable weights among {', '.join(shapes)}, got {name!r}")
        shape = shapes[name]
        if axis is not None and not -len(shape) <= axis < len(shape):
            raise ValueError(f"expected an axis of {name} of shape {tuple(shape)}, got {axis}")
        checked[name] = None if axis is None else axis % len(shape)
        sizes[name] = shape.numel() if axis is None else shape[axis]
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{size} in {name}" for name, size in sizes.items())
        raise ValueError(f"expected as many elements to share in each weight, got {listed}")
    return checked, next(iter(sizes.values()))


def _drawn(module: nn.Module, seed: int) -> Weights:
    """The weights that the module's layers draw after seeding, the module left as it was."""
    fresh = copy.deepcopy(module)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for layer in fresh.modules():
            reset: Callable[[], None] | None = getattr(layer, "reset_parameters", None)
            if callable(reset):
                reset()
    return {name: value.detach() for name, value in fresh.named_parameters()}
