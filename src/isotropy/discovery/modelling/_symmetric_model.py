"""Fit the model of a finding: a linear layer or an EMLP that has the symmetry exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from isotropy._run import generator as make_generator
from isotropy.discovery.modelling._modelling_thresholds import ModellingThresholds
from isotropy.discovery.modelling._standardised import (
    StandardisedModel,
    TranslationInvariantModel,
    build_model,
    without,
)
from isotropy.discovery.predictors._free_predictor import Task, held_out_rows
from isotropy.discovery.reading._task_data import TaskData
from isotropy.groups import LinearMap
from isotropy.reps import Symmetry

if TYPE_CHECKING:
    from isotropy.discovery.claims._generator_claim import GeneratorClaim

_ROUNDING = 1e-11  # of coordinates and of entries of generators: what is smaller is zero

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
    limits = ModellingThresholds.now()
    inner: dict[str, Any] = {"kind": "linear"}
    if not linear:
        inner = {"kind": "emlp", "channels": channels, "layers": limits.model_layers}
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
        steps = max(limits.model_steps, len(draws.rest) // limits.rows_per_model_step)
        steps = min(limits.most_model_steps, steps)
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
    limits = ModellingThresholds.now()
    copies = max(1, min(limits.permuted_copies, limits.permuted_width // size))
    return f"{copies}*V+{limits.permuted_scalars}*Scalar"


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
        share = ModellingThresholds.now().model_held_out
        rest, held = map(torch.as_tensor, held_out_rows(count, share, groups, rng))
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
    steps = ModellingThresholds.now().linear_model_steps
    solver = torch.optim.LBFGS(
        network.parameters(), max_iter=steps, tolerance_grad=1e-9, line_search_fn="strong_wolfe"
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
    steps: int,
    penalty: Penalty = no_penalty,
    weight_decay: float | None = None,
    learning_rate: float | None = None,
) -> float:
    """Adam with a falling step, stopped where the loss on a fifth of the rows is least.

    Args:
        network: What is trained, in place.
        x: Inputs, in its units.
        y: Targets, in its units, or classes.
        task: What the targets are.
        draws: What chance decides.
        steps: About how many, unless that is too few epochs or too many.
        penalty: Added to the loss.
        weight_decay: By default the usual one of models.
        learning_rate: By default the usual one of models.

    Returns:
        That loss.
    """
    limits = ModellingThresholds.now()
    decay = limits.model_decay if weight_decay is None else weight_decay
    rate = limits.model_rate if learning_rate is None else learning_rate
    rest, held, rng = draws.rest, draws.held, draws.batches
    batch = min(limits.model_batch, len(rest))
    fewest, most = limits.model_epochs
    epochs = max(fewest, min(most, steps * batch // len(rest)))
    solver = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=decay)
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


def fit_continuous_model(
    claim: GeneratorClaim, data: TaskData, *, seed: int = 0
) -> tuple[StandardisedModel | TranslationInvariantModel, dict[str, Any]]:
    """Fit an EMLP that has a symmetry exactly; of what translations leave, where there are any.

    Returns:
        The model, in units of the data and in evaluation mode, and the description that
        ``build_model`` makes its like from.
    """
    limits = ModellingThresholds.now()
    inner: dict[str, Any] = {
        "kind": "emlp",
        "channels": limits.continuous_channels,
        "layers": limits.model_layers,
    }
    symmetry: Symmetry | None = claim.symmetry
    shifts = claim.translations
    x = data.x
    if shifts is not None:
        symmetry = shifts.rest
        x = without(x, torch.as_tensor(shifts.along))
        if symmetry is None:
            outputs = claim.symmetry.rep_out.size()
            inner |= {"kind": "mlp", "inputs": x.shape[1], "outputs": outputs}
    if claim.scaling is not None:
        # an EMLP has few weights that scalings leave: what they do is done by the length instead
        inner = {
            "kind": "homogeneous",
            "model": inner,
            "symmetry": str(claim.scaling.rest),
            "columns": list(claim.scaling.columns),
            "degree": claim.scaling.degree,
        }
    draws = FitDraws.of(seed, len(data.x), data.groups)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draws.weights)
        network = build_model(inner, symmetry)
    x_mean, x_scale = _input_units(claim, x, data.x.abs().amax(0))
    y_mean, y_scale = _output_units(claim, data)
    model = StandardisedModel(network, x_mean, x_scale, y_mean, y_scale)
    inputs, targets = in_units_of(model, x, data.y, data.task)
    train_network(network, inputs, targets, data.task, draws, steps=limits.continuous_steps)
    model.requires_grad_(True).eval()
    spec: dict[str, Any] = {"kind": "standardised", "model": inner}
    if shifts is None:
        return model, spec
    along = shifts.along.tolist()
    text = None if symmetry is None else str(symmetry)
    spec = {"kind": "translated", "model": spec, "symmetry": text, "along": along}
    return TranslationInvariantModel(model, along).eval(), spec


def _input_units(claim: GeneratorClaim, x: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """Columns that turn have the centre and one scale; the others a mean and a scale each.

    Translations are gone when units are applied, and what they leave has any units. What is no more
    than rounding of numbers of the given size stays so.
    """
    centre = torch.as_tensor(claim.centre)
    linear = torch.as_tensor(claim.rows[:, :, :-1]).abs()
    turned = (linear.amax((0, 2)) > _ROUNDING) | (linear.amax((0, 1)) > _ROUNDING)
    mean = torch.where(turned, centre, x.mean(0))
    about = (x - mean).square().mean(0)
    scale = torch.where(turned, about[turned].mean(), about).sqrt()
    constant = scale <= _ROUNDING * size
    return mean, torch.where(constant, torch.ones_like(scale), scale)


def _output_units(claim: GeneratorClaim, data: TaskData) -> tuple[Tensor, Tensor]:
    width = claim.symmetry.rep_out.size()
    if data.task == "classification":
        return torch.zeros(width), torch.ones(width)
    if claim.outputs is None:
        scale = data.y.std(0)
        return data.y.mean(0), torch.where(scale > 0, scale, torch.ones_like(scale))
    size = data.y.square().mean().sqrt()
    return torch.zeros(width), size.expand(width)
