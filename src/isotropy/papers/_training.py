"""Training with many seeds at once: one batched model, one loop, one CUDA graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy._run import generator, spawn
from isotropy.papers._ensemble import Ensemble, captured
from isotropy.papers._experiment import Schedule
from isotropy.reps import Symmetry

Rows = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Recipe:
    """How to train.

    Args:
        epochs: Passes through the training rows.
        batch: Rows in a step; all of them where there are fewer.
        learning_rate: Adam's, at the start.
        schedule: Whether it stays or falls to zero as a cosine.
        checks: How often, in all, the validation rows are looked at.

    Example:
        >>> Recipe(epochs=100).steps(1200)
        200
    """

    epochs: int
    batch: int = 500
    learning_rate: float = 3e-3
    schedule: Schedule = "constant"
    checks: int = 200

    def steps(self, rows: int) -> int:
        """How many steps that makes for so many rows; rows that do not fill a batch wait."""
        return self.epochs * (rows // min(self.batch, rows))

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step."""
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * (1 + math.cos(math.pi * step / steps)) / 2


class Moves:
    """Random group elements, as matrices on inputs and on outputs, to augment rows with.

    Elements are drawn once, into a pool; each row of each step is moved by one chosen anew.

    Args:
        symmetry: The group and its actions.
        pool: How many elements to draw.
        seed: The seed they are drawn with.
        device: Where they are used.

    Example:
        >>> from isotropy.groups import O
        >>> from isotropy.reps import Scalar, V
        >>> moves = Moves(Symmetry(O(3), V, Scalar), pool=100, seed=0)
        >>> x, y = moves(torch.ones(2, 5, 3), torch.ones(2, 5, 1), torch.zeros(2, 5).long())
        >>> torch.allclose(x.square().sum(-1), torch.tensor(3.0)), y.unique()
        (True, tensor([1.]))
    """

    def __init__(
        self, symmetry: Symmetry, pool: int, seed: int, device: torch.device | str = "cpu"
    ) -> None:
        elements = symmetry.group.sample(pool, generator=generator(seed)).unsqueeze(1)
        sides = []
        for rep, act in (
            (symmetry.rep_in, symmetry.apply),
            (symmetry.rep_out, symmetry.apply_out),
        ):
            each = torch.eye(rep.size(), dtype=torch.float64).expand(pool, -1, -1)
            sides.append(act(elements, each).to(device, torch.float32))
        self.inputs, self.outputs = sides

    def __len__(self) -> int:
        return len(self.inputs)

    def __call__(self, x: Tensor, y: Tensor, chosen: Tensor) -> Rows:
        """Move rows x (*, d_in) and y (*, d_out) by the chosen elements, shape (*)."""
        moved_x = (x.unsqueeze(-2) @ self.inputs[chosen]).squeeze(-2)
        return moved_x, (y.unsqueeze(-2) @ self.outputs[chosen]).squeeze(-2)


def squared_error(prediction: Tensor, target: Tensor) -> Tensor:
    """The mean squared error of each copy, shape (copies,).

    Example:
        >>> squared_error(torch.ones(2, 3, 1), torch.zeros(2, 3, 1))
        tensor([1., 1.])
    """
    return (prediction - target).square().flatten(1).mean(1)


def fit(
    ensemble: Ensemble,
    train: Rows,
    validation: Rows,
    recipe: Recipe,
    seeds: Sequence[int],
    *,
    moves: Moves | None = None,
    tick: Callable[[int, int], None] | None = None,
) -> Tensor:
    """Train every copy on its own rows, and leave each with its best weights.

    Adam on the mean squared error. Each copy has its own order of rows, from its own seed, and
    keeps the weights with the smallest error on its validation rows (early stopping).

    Args:
        ensemble: The copies; their parameters are changed.
        train: Inputs (copies, n, *) and targets (copies, n, *).
        validation: Likewise.
        recipe: How to train.
        seeds: For the order of rows and the augmentation, one for each copy.
        moves: Augments every batch.
        tick: Called with steps done and steps in all, now and then.

    Returns:
        The best validation error of each copy, shape (copies,).

    Example:
        >>> from isotropy.nn import MLP
        >>> ensemble = Ensemble(MLP(2, 1, channels=16), seeds=[0, 1])
        >>> x = torch.randn(2, 100, 2, generator=torch.Generator().manual_seed(0))
        >>> rows = (x, x.sum(-1, keepdim=True))
        >>> bool((fit(ensemble, rows, rows, Recipe(epochs=200), [0, 1]) < 0.01).all())
        True
    """
    device = train[0].device
    batch = min(recipe.batch, train[0].shape[1])
    steps = recipe.steps(train[0].shape[1])
    weights = list(ensemble.parameters.values())
    start, best = ([weight.detach().clone() for weight in weights] for _ in range(2))
    best_error = torch.full((len(ensemble),), torch.inf, device=device)
    index, chosen = (
        torch.zeros(len(ensemble), batch, dtype=torch.int64, device=device) for _ in range(2)
    )
    copies = torch.arange(len(ensemble), device=device).unsqueeze(1)
    on_gpu = device.type == "cuda"
    rate = torch.tensor(recipe.learning_rate, device=device)
    optimiser = torch.optim.Adam(weights, lr=rate, fused=on_gpu, capturable=on_gpu)

    def step() -> None:
        x, y = train[0][copies, index], train[1][copies, index]
        if moves is not None:
            x, y = moves(x, y, chosen)
        # copies share no weights, so the gradient of the sum is that of each copy's own error
        error = squared_error(ensemble(x), y).sum()
        slopes = torch.autograd.grad(error, weights, allow_unused=True, materialize_grads=True)
        for weight, slope in zip(weights, slopes, strict=True):
            weight.grad = slope
        optimiser.step()

    @torch.no_grad()
    def check() -> None:
        error = squared_error(ensemble(validation[0]), validation[1])
        better = error < best_error
        best_error.copy_(torch.where(better, error, best_error))
        for kept, weight in zip(best, weights, strict=True):
            kept.copy_(torch.where(better.view(-1, *[1] * (kept.ndim - 1)), weight, kept))

    take_step, take_check = captured(step, device), captured(check, device)
    if on_gpu:
        _forget_recording(optimiser, weights, start, best, best_error)

    every = max(1, steps // recipe.checks)
    pool = 0 if moves is None else len(moves)
    batches = _batches(seeds, train[0].shape[1], batch, recipe.epochs, pool, device)
    for i, (rows, elements) in enumerate(batches):
        index.copy_(rows)
        if moves is not None:
            chosen.copy_(elements)
        rate.fill_(recipe.rate(i, steps))
        take_step()
        if (i + 1) % every == 0 or i + 1 == steps:
            take_check()
            if tick is not None:
                tick(i + 1, steps)
    with torch.no_grad():
        for kept, weight in zip(best, weights, strict=True):
            weight.copy_(kept)
    return best_error


@torch.no_grad()
def _forget_recording(
    optimiser: torch.optim.Adam,
    weights: list[Tensor],
    start: list[Tensor],
    best: list[Tensor],
    best_error: Tensor,
) -> None:
    """Undo what happened while the graphs were recorded, in the memory that they use."""
    for weight, kept, initial in zip(weights, best, start, strict=True):
        weight.copy_(initial)
        kept.copy_(initial)
        for value in optimiser.state[weight].values():
            value.zero_()
    best_error.fill_(torch.inf)


def _batches(
    seeds: Sequence[int], rows: int, batch: int, epochs: int, pool: int, device: torch.device
) -> Iterator[Rows]:
    """Row numbers (copies, batch) of every step, and the group elements to move them by."""
    streams = [_streams(seed) for seed in seeds]
    number = rows // batch
    shape = (number, batch)
    for _ in range(epochs):
        orders = torch.stack([torch.randperm(rows, generator=order) for order, _ in streams])
        orders = orders[:, : number * batch].unflatten(1, shape).to(device)
        picks = orders
        if pool:
            drawn = [torch.randint(pool, shape, generator=elements) for _, elements in streams]
            picks = torch.stack(drawn).to(device)
        yield from zip(orders.unbind(1), picks.unbind(1), strict=True)


def _streams(seed: int) -> list[torch.Generator]:
    """Generators for the order of rows and for group elements."""
    parent = generator(seed)
    spawn(parent, 1)  # data of this seed were drawn from its first spawn
    return spawn(parent, 2)
