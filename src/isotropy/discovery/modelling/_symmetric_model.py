"""Fit the model of a finding: a linear layer or an EMLP that has the symmetry exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from isotropy._run import generator as make_generator
from isotropy.discovery.modelling._standardised import StandardisedModel, build_model
from isotropy.discovery.predictors._free_predictor import Task, held_out_rows
from isotropy.groups import LinearMap
from isotropy.reps import Symmetry

_WIDTH, _SCALARS, _MOST_COPIES = 320, 64, 64  # of a hidden layer: copies of V, and what stays
_LAYERS = 2
_STEPS, _MOST_STEPS, _ROWS_A_STEP = 1200, 4000, 3  # more rows have more to tell
_RATE = 1e-2
_HELD_OUT = 0.2

Penalty: TypeAlias = Callable[[nn.Module], Tensor]


def fit_symmetric_model(
    symmetry: Symmetry,
    x: Tensor,
    y: Tensor,
    task: Task,
    *,
    linear: bool,
    channels: int | str | None = None,
    groups: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> tuple[StandardisedModel, dict[str, Any]]:
    """Fit a model that has a symmetry.

    Args:
        symmetry: What it is to have, a group of permutations.
        x: Inputs, shape ``(N, d_in)``.
        y: Targets, shape ``(N, d_out)``, or classes ``(N,)``.
        task: What the targets are.
        linear: Whether a linear layer will do; otherwise it is an EMLP.
        channels: Of the EMLP: a width, or a hidden representation as text; by default copies of
            the space that the group permutes, and scalars.
        groups: Which rows belong together, and are held out together.
        seed: Of weights and batches.

    Returns:
        The model, in units of the data and in evaluation mode, and the description that
        ``build_model`` makes its like from.

    Example:
        >>> from isotropy.groups import S
        >>> from isotropy.reps import Scalar, V
        >>> x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
        >>> symmetry = Symmetry(S(3), V, Scalar)
        >>> model, spec = fit_symmetric_model(
        ...     symmetry, x, x.sum(1, keepdim=True), "regression", linear=True
        ... )
        >>> bool((model(x) - x.sum(1, keepdim=True)).abs().max() < 1e-4)
        True
    """
    inner: dict[str, Any] = {"kind": "linear"}
    if not linear:
        inner = {"kind": "emlp", "channels": channels, "layers": _LAYERS}
        if channels is None:
            # entries go through the nonlinearity one by one: no products are needed beside it
            inner |= {"channels": hidden_channels(symmetry.group.d), "bilinear": False}
    draws = FitDraws.of(seed, len(x), groups)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draws.weights)
        network = build_model(inner, symmetry)
    wide = y if task == "regression" else torch.zeros(len(y), symmetry.rep_out.size())
    model = StandardisedModel.of(
        network,
        x,
        wide,
        permutations_in=_permutations(symmetry, symmetry.rep_in),
        permutations_out=_permutations(symmetry, symmetry.rep_out),
    )
    inputs, targets = in_units_of(model, x, y, task)
    if linear:
        solve_linear(network, inputs, targets, task)
    else:
        steps = min(_MOST_STEPS, max(_STEPS, len(draws.rest) // _ROWS_A_STEP))
        train_network(network, inputs, targets, task, draws, steps=steps)
    return model.requires_grad_(True).eval(), {"kind": "standardised", "model": inner}


def hidden_channels(size: int) -> str:
    """A hidden representation of a group that permutes so many things.

    Copies of what it permutes, as the channels of a convolution or of a deep set, do far better
    than tensors of mixed ranks of the same width.

    Example:
        >>> hidden_channels(8)
        '40*V+64*Scalar'
    """
    copies = max(1, min(_MOST_COPIES, _WIDTH // size))
    return f"{copies}*V+{_SCALARS}*Scalar"


def _permutations(symmetry: Symmetry, rep: Any) -> list[list[int]]:
    """Where the generators take the columns of a representation."""
    size = rep.size()
    places = torch.arange(size, dtype=torch.float64)
    apply = symmetry.apply if rep is symmetry.rep_in else symmetry.apply_out
    moved = []
    for h in symmetry.group.discrete:
        assert isinstance(h, LinearMap)
        moved.append(apply(h, places[None])[0].round().long().tolist())
    return moved


def loss_of(prediction: Tensor, y: Tensor, task: Task) -> Tensor:
    if task == "classification":
        return functional.cross_entropy(prediction, y)
    return functional.mse_loss(prediction, y)


@dataclass(frozen=True)
class FitDraws:
    """What chance decides in a fit: the same for all fits with one seed to the same rows.

    So a model that starts from the weights of another is stopped by rows that neither saw.
    """

    weights: int
    rest: Tensor
    held: Tensor
    batches: torch.Generator

    @staticmethod
    def of(seed: int, count: int, groups: NDArray[np.int64] | None) -> FitDraws:
        """Draw them, groups kept whole.

        Example:
            >>> draws = FitDraws.of(0, 10, None)
            >>> len(draws.rest), len(draws.held)
            (8, 2)
        """
        rng = make_generator(seed)
        weights = int(torch.randint(2**31, (), generator=rng))
        rest, held = map(torch.as_tensor, held_out_rows(count, _HELD_OUT, groups, rng))
        return FitDraws(weights, rest, held, rng)


def in_units_of(
    model: StandardisedModel, x: Tensor, y: Tensor, task: Task
) -> tuple[Tensor, Tensor]:
    """Data in the units of the model inside."""
    inputs = (x.to(model.x_mean) - model.x_mean) / model.x_scale
    if task == "classification":
        return inputs, y
    return inputs, (y.to(model.y_mean) - model.y_mean) / model.y_scale


def no_penalty(_network: nn.Module) -> Tensor:
    """Nothing to add to the loss."""
    return torch.zeros(())


def solve_linear(
    network: nn.Module, x: Tensor, y: Tensor, task: Task, penalty: Penalty = no_penalty
) -> None:
    """Minimise the mean loss and a penalty that is convex, to rounding."""
    solver = torch.optim.LBFGS(
        network.parameters(), max_iter=300, tolerance_grad=1e-9, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        solver.zero_grad()
        loss = loss_of(network(x), y, task) + penalty(network)
        loss.backward()
        return loss

    solver.step(closure)


def train_network(
    network: nn.Module,
    x: Tensor,
    y: Tensor,
    task: Task,
    draws: FitDraws,
    *,
    penalty: Penalty = no_penalty,
    steps: int = _STEPS,
    weight_decay: float = 1e-4,
    learning_rate: float = _RATE,
) -> float:
    """Adam with a falling step, stopped where the loss on a fifth of the rows is least.

    Returns:
        That loss.
    """
    rest, held, rng = draws.rest, draws.held, draws.batches
    batch = min(256, len(rest))
    epochs = max(10, min(300, steps * batch // len(rest)))
    solver = torch.optim.AdamW(network.parameters(), lr=learning_rate, weight_decay=weight_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(solver, epochs)
    best, kept = float("inf"), {k: v.clone() for k, v in network.state_dict().items()}
    for _ in range(epochs):
        for rows in rest[torch.randperm(len(rest), generator=rng)].split(batch):
            solver.zero_grad()
            (loss_of(network(x[rows]), y[rows], task) + penalty(network)).backward()
            solver.step()
        schedule.step()
        with torch.no_grad():
            reached = float(loss_of(network(x[held]), y[held], task))
        if reached < best:
            best, kept = reached, {k: v.clone() for k, v in network.state_dict().items()}
    network.load_state_dict(kept)
    return best
