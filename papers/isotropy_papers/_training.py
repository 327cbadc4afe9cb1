"""Training with many seeds at once: one batched model, one loop, one CUDA graph."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy.reps import Symmetry
from isotropy.run import generator, spawn
from isotropy_papers._ensemble import Ensemble, captured, stream_for
from isotropy_papers._experiment import Schedule
from isotropy_papers._learned_penalties import PROBES, LearnedPenalties, random_passes

Rows = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class NetworkRecipe:
    """How to train.

    Args:
        epochs: Passes through the training rows.
        batch: Rows in a step; all of them where there are fewer.
        learning_rate: Adam's, at the start.
        schedule: Whether it stays or falls to zero as a cosine.
        checks: How often, in all, the validation rows are looked at.

    Example:
        >>> NetworkRecipe(epochs=100).steps(1200)
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


class NetworkTraining:
    """The training of every copy of an ensemble on rows of its own, step by step.

    Adam on the mean squared error. Each copy has its own order of rows, from its own seed, and
    keeps the weights with the smallest error on its validation rows (early stopping). On a GPU
    a step is one CUDA graph on a stream of its own, so that several trainings can run at once.

    Args:
        ensemble: The copies; their parameters are changed.
        train: Inputs (copies, n, *) and targets (copies, n, *).
        validation: Likewise.
        recipe: How to train.
        seeds: For the order of rows and the augmentation, one for each copy.
        moves: Augments every batch.
        penalties: What to add to the loss of every copy: λ Σ θ² for parameters by name, λ a number
            or of the parameter's shape; or strengths that are learned from the evidence, after
            a tenth of the steps and then after every twentieth.

    Example:
        >>> from isotropy.nn import MLP
        >>> x = torch.randn(2, 100, 2, generator=torch.Generator().manual_seed(0))
        >>> rows = (x, x.sum(-1, keepdim=True))
        >>> ensemble = Ensemble(MLP(2, 1, channels=16), seeds=[0, 1])
        >>> training = NetworkTraining(ensemble, rows, rows, NetworkRecipe(epochs=200), [0, 1])
        >>> fit([training])
        >>> bool((training.best_error < 0.01).all())
        True
    """

    def __init__(
        self,
        ensemble: Ensemble,
        train: Rows,
        validation: Rows,
        recipe: NetworkRecipe,
        seeds: Sequence[int],
        *,
        moves: Moves | None = None,
        penalties: Mapping[str, Tensor | float] | LearnedPenalties | None = None,
    ) -> None:
        self.ensemble, self.train, self.validation = ensemble, train, validation
        self.recipe, self.moves = recipe, moves
        copies, rows = train[0].shape[:2]
        device = train[0].device
        self._learned: LearnedPenalties | None = None
        given: Mapping[str, Tensor | float] = {}
        if isinstance(penalties, LearnedPenalties):
            self._learned, given = penalties, penalties.by_name()
        elif penalties is not None:
            given = penalties
        self._penalties = [
            torch.as_tensor(given.get(name, 0.0), dtype=weight.dtype, device=device)
            for name, weight in ensemble.parameters.items()
        ]
        self.steps, self.done = recipe.steps(rows), 0
        self.every = max(1, self.steps // recipe.checks)
        batch = min(recipe.batch, rows)
        pool = 0 if moves is None else len(moves)
        self._batches = _batches(seeds, rows, batch, recipe.epochs, pool, device)
        self._weights = list(ensemble.parameters.values())
        self._best = [weight.detach().clone() for weight in self._weights]
        self.best_error = torch.full((copies,), torch.inf, device=device)
        self._copies = torch.arange(copies, device=device).unsqueeze(1)
        self._index, self._chosen = (
            torch.zeros(copies, batch, dtype=torch.int64, device=device) for _ in range(2)
        )
        on_gpu = device.type == "cuda"
        self._rate = torch.tensor(recipe.learning_rate, device=device)
        self._optimiser = torch.optim.Adam(
            self._weights, lr=self._rate, fused=on_gpu, capturable=on_gpu
        )
        start = [weight.detach().clone() for weight in self._weights]
        self.stream = stream_for(device)
        self._take_step = captured(self._step, self.stream)
        self._take_check = captured(self._check, self.stream)
        if self._learned is not None:
            self._prepare_passes(seeds, rows, batch)
        if on_gpu:
            self._forget_recording(start)

    def _prepare_passes(self, seeds: Sequence[int], rows: int, batch: int) -> None:
        """What the random passes over training rows need, in memory of its own."""
        assert self._learned is not None
        weights = self.ensemble.parameters
        device = self.train[0].device
        self._own = [weights[name] for name in self._learned.names]
        self._sums = [torch.zeros_like(weight) for weight in self._own]
        self._few = torch.zeros(len(seeds), batch, dtype=torch.int64, device=device)
        self._signs = torch.ones(len(seeds), batch, *self.train[1].shape[2:], device=device)
        self._squares = torch.zeros(len(seeds), device=device)
        self._groups = torch.arange(rows - rows % batch, device=device).view(-1, batch)
        self._coin = generator(seeds[0])
        self._take_pass = captured(self._pass, self.stream)
        self._add_squares = captured(self._residuals, self.stream)

    def _pass(self) -> None:
        x = self.train[0][self._copies, self._few]
        random_passes(lambda: self.ensemble(x), self._own, self._signs, self._sums)

    @torch.no_grad()
    def _residuals(self) -> None:
        x, y = (values[self._copies, self._few] for values in self.train)
        self._squares.add_((self.ensemble(x) - y).square().flatten(1).sum(1))

    def _learn(self) -> None:
        """Let the evidence decide how strong the penalties are from now on."""
        assert self._learned is not None
        with torch.cuda.stream(self.stream):
            for total in (*self._sums, self._squares):
                total.zero_()
            for rows in self._groups:
                self._few.copy_(rows.expand_as(self._few))
                self._add_squares()
                for _ in range(PROBES):
                    coins = torch.randint(2, self._signs.shape, generator=self._coin)
                    self._signs.copy_(2.0 * coins - 1.0)
                    self._take_pass()
            # rows that do not fill a batch are like the others
            whole = self.train[0].shape[1] / self._groups.numel()
            mean = [total * (whole / PROBES) for total in self._sums]
            self._learned.update(self.ensemble.parameters, mean, self._squares * whole)

    def advance(self) -> None:
        """Take one step, and look at the validation rows where it is time to."""
        with torch.cuda.stream(self.stream):
            index, chosen = next(self._batches)
            self._index.copy_(index)
            if self.moves is not None:
                self._chosen.copy_(chosen)
            self._rate.fill_(self.recipe.rate(self.done, self.steps))
        self._take_step()
        self.done += 1
        share = 20 * self.done // self.steps
        if (
            self._learned is not None
            and 2 <= share < 20
            and 20 * (self.done - 1) // self.steps < share
        ):
            self._learn()
        if self.done % self.every == 0 or self.done == self.steps:
            self._take_check()

    @torch.no_grad()
    def finish(self) -> None:
        """Leave every copy with its best weights."""
        if self.stream is not None:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)
        for kept, weight in zip(self._best, self._weights, strict=True):
            weight.copy_(kept)

    def _step(self) -> None:
        x, y = (values[self._copies, self._index] for values in self.train)
        if self.moves is not None:
            x, y = self.moves(x, y, self._chosen)
        # copies share no weights, so the gradient of the sum is that of each copy's own error
        error = squared_error(self.ensemble(x), y).sum()
        slopes = torch.autograd.grad(
            error, self._weights, allow_unused=True, materialize_grads=True
        )
        for weight, slope, pull in zip(self._weights, slopes, self._penalties, strict=True):
            # one batch that leaves the range of floats must not end the training of its copy
            weight.grad = slope.nan_to_num(0.0, 0.0, 0.0).contiguous()
            weight.grad.addcmul_(weight.detach(), pull, value=2.0)
        self._optimiser.step()

    @torch.no_grad()
    def _check(self) -> None:
        x, y = self.validation
        error = squared_error(self.ensemble(x), y)
        better = error < self.best_error
        self.best_error.copy_(torch.where(better, error, self.best_error))
        for kept, weight in zip(self._best, self._weights, strict=True):
            kept.copy_(torch.where(better.view(-1, *[1] * (kept.ndim - 1)), weight, kept))

    @torch.no_grad()
    def _forget_recording(self, start: list[Tensor]) -> None:
        """Undo what recording the graphs has changed, in the memory that they use."""
        for weight, kept, initial in zip(self._weights, self._best, start, strict=True):
            weight.copy_(initial)
            kept.copy_(initial)
            for value in self._optimiser.state[weight].values():
                value.zero_()
        self.best_error.fill_(torch.inf)
        torch.cuda.synchronize(self.best_error.device)


def fit(trainings: Sequence[NetworkTraining]) -> None:
    """Train to the end, all in turn step by step: on a GPU they overlap.

    Args:
        trainings: What to train.

    Example:
        >>> fit([])
    """
    unfinished = list(trainings)
    while unfinished:
        for training in unfinished:
            training.advance()
        unfinished = [training for training in unfinished if training.done < training.steps]
    for training in trainings:
        training.finish()


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
