"""Learned sharing of the weights of any torch module: search, round, refine, refit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from isotropy._run import ProgressCallback
from isotropy._run import generator as make_generator
from isotropy._run._moved_keywords import moved_keywords
from isotropy.sharing._assignment import rounded
from isotropy.sharing._bilevel import BilevelOptions, Searched, search_assignments
from isotropy.sharing._hypergradient import Weights
from isotropy.sharing._partition_choice import PartitionScores, refined_partition
from isotropy.sharing._partition_fits import FitOptions, PartitionFits, fit_partitions
from isotropy.sharing._shared_module import Loss, SharedModule

Labels = NDArray[np.int64]
Rows = tuple[Tensor, Tensor]

# few steps of the weights for each of the assignments, from where they were, do as well as the 250
# of the paper; so do larger steps of the assignments, and fewer terms of the series
_SEARCH = BilevelOptions(inner_steps=20, outer_steps=100, outer_rate=5e-2, patience=30, terms=5)
_FIT_STEPS, _WEIGH_STEPS = 1000, 300
# learning rates to choose from, where none is given
_RATES = (1e-3, 3e-3, 1e-2, 1e-1)
_FEWEST_ROWS = 10


@dataclass(frozen=True, eq=False)
class ModuleSharingOptions:
    """How the sharing of a module's weights is searched, weighed and refitted.

    Args:
        search: How to search; by default with fewer steps than ``BilevelOptions`` itself.
        restarts: Starts of the search.
        weigh: How to train under a partition that is weighed; where ``None``, 300 steps at the
            learning rate that does best without sharing, on held-out rows.
        fit: How to train under the partition that is found; where ``None``, 1000 steps, likewise.
        folds: Of the cross-validation by which partitions are weighed.
        tolerance: Partitions whose held-out loss is within so many standard errors of the least
            count as good as the best; of them, the one with the fewest blocks is chosen.
        most_neighbours: How many neighbours of a partition to weigh, drawn where there are more.
        early: Further rows (x, y) to stop the refit on; where ``None``, a fold of the given ones.
        takes_assignment: The argument of ``forward`` through which the module takes an assignment
            matrix and applies it itself; see ``SharedModule``. ``None`` where there is none.

    Raises:
        ValueError: If a number is out of range.

    Example:
        >>> ModuleSharingOptions(folds=2, fit=FitOptions(steps=50)).restarts
        3
    """

    search: BilevelOptions = _SEARCH
    restarts: int = 3
    weigh: FitOptions | None = None
    fit: FitOptions | None = None
    folds: int = 5
    tolerance: float = 2.0
    most_neighbours: int = 100
    early: Rows | None = None
    takes_assignment: str | None = None

    def __post_init__(self) -> None:
        if (
            self.restarts < 1
            or self.folds < 2
            or self.most_neighbours < 1
            or not self.tolerance >= 0
        ):
            raise ValueError(
                "expected restarts and most_neighbours of at least 1, folds of at least 2 and "
                f"tolerance of at least 0, got {self.restarts}, {self.most_neighbours}, "
                f"{self.folds}, {self.tolerance}"
            )


@dataclass(frozen=True, eq=False)
class ModuleSharingResult:
    """A learned partition of weights, and the module that has it.

    Args:
        labels: The block of each element, shape (K,).
        model: A copy of the module, trained, its weights equal within blocks.
        assignment: The relaxed assignments that the restarts found, shape (restarts, K, K).
        losses: The mean held-out loss of every partition that was weighed, by its labels.
        history: The search's validation losses with penalties, shape (steps, restarts).
        interrupted: Whether the work was stopped from the keyboard, and this is the best so far.
    """

    labels: Labels
    model: nn.Module
    assignment: Tensor
    losses: dict[tuple[int, ...], float]
    history: Tensor
    interrupted: bool


@moved_keywords(options=ModuleSharingOptions)
def learn_module_sharing(
    module: nn.Module,
    x: Tensor,
    y: Tensor,
    *,
    sites: Mapping[str, int | None],
    loss: Loss = "squared",
    train: Sequence[int] | Tensor | None = None,
    validation: Sequence[int] | Tensor | None = None,
    options: ModuleSharingOptions | None = None,
    seed: int | torch.Generator | None = None,
    progress: ProgressCallback | None = None,
) -> ModuleSharingResult:
    """Find which weights of a module should be one, and train it so (Yeh et al. 2022, Eq. 6).

    1. Search: relaxed assignments that minimise the validation loss of weights fitted to the
       training rows, from several starts.
    2. Round each of them, and weigh the partitions by cross-validation over all rows.
    3. Refine the chosen one, step by step: merge two blocks, move an element, split one off.
    4. Refit on all rows.

    Stopped from the keyboard in the first three, it goes on with the last at once; stopped there,
    it keeps the weights that it has.

    Partitions are chosen in favour of fewer blocks: of those whose held-out loss is within
    ``options.tolerance`` standard errors (of the difference, row by row) of the least, the one
    that has the fewest.

    Args:
        module: The module; its own weights matter only where a layer cannot draw new ones.
        x: Inputs, shape (n, …).
        y: Targets, shape (n, …).
        sites: The axis along which each chosen weight is shared, by the weight's name;
            ``None`` for all its entries. All have one partition.
        loss: ``"absolute"``, ``"squared"``, ``"cross-entropy"``, or a function from outputs and
            targets to one loss for each row.
        train: The rows that weights are fitted to in the search; two fifths where ``None``.
        validation: The rows that assignments are fitted to; the rest where ``None``.
        options: How to search, weigh and refit.
        seed: Of everything random.
        progress: Called as each stage goes on.

    Returns:
        The partition and the model. Stopped from the keyboard, the best so far.

    Raises:
        ValueError: If there are too few rows, the targets are constant, or a number is not finite.

    Example:
        >>> x = torch.randn(120, 3, generator=make_generator(0))
        >>> y = x @ torch.tensor([[1.0], [1.0], [-2.0]])
        >>> options = ModuleSharingOptions(
        ...     search=BilevelOptions(
        ...         inner_steps=3, outer_steps=15, outer_rate=0.2, inner_rate=0.1, terms=5
        ...     ),
        ...     weigh=FitOptions(steps=50, rate=0.2),
        ...     fit=FitOptions(steps=50, rate=0.2),
        ...     folds=2,
        ... )
        >>> found = learn_module_sharing(
        ...     nn.Linear(3, 1), x, y, sites={"weight": 1}, options=options, seed=0
        ... )
        >>> found.labels
        array([0, 0, 1])
    """
    options = options or ModuleSharingOptions()
    restarts, folds = options.restarts, options.folds
    model = SharedModule(module, sites, loss, options.takes_assignment)
    device = next(module.parameters()).device
    x, y = (part.to(device) for part in _checked(x, y, folds))
    early = None if options.early is None else _checked(*options.early, folds=1)
    rng = make_generator(seed)
    rows = _split(len(x), train, validation, rng)
    seeds = torch.randint(2**31, (restarts + 2,), generator=rng).tolist()
    searched = _search(model, x, y, rows, options.search, seeds[:restarts], rng, progress)
    starts = rounded(searched.assignment)
    weigh, fit = options.weigh, options.fit
    if weigh is None or fit is None:
        rate = _best_rate(model, x, y, rows, seeds[restarts], rng)
        weigh = weigh or FitOptions(steps=_WEIGH_STEPS, rate=rate)
        fit = fit or FitOptions(steps=_FIT_STEPS, rate=rate)
    scores = PartitionScores(
        model,
        x,
        y,
        folds=folds,
        options=weigh,
        tolerance=options.tolerance,
        seed=seeds[restarts],
        generator=rng,
        progress=progress,
    )
    if searched.interrupted:
        labels = starts[int(searched.losses.argmin())]
    else:
        most = options.most_neighbours
        labels = refined_partition(scores, list(starts), most=most, generator=rng)
    final = _refit(scores, labels, early, fit, seeds[-1])
    return ModuleSharingResult(
        labels,
        model.placed(final.weights[0], labels),
        searched.assignment,
        scores.means(),
        searched.history,
        searched.interrupted or scores.interrupted or final.interrupted,
    )


def _search(
    model: SharedModule,
    x: Tensor,
    y: Tensor,
    rows: tuple[Tensor, Tensor],
    options: BilevelOptions,
    seeds: list[int],
    rng: torch.Generator,
    progress: ProgressCallback | None,
) -> Searched:
    weights = model.initial(seeds)
    of_site = weights[next(iter(model.sites))]
    start = torch.empty(len(seeds), model.size, model.size).uniform_(-0.1, 0.1, generator=rng)

    def losses(weights: Weights, assignment: Tensor, rows: Tensor) -> Tensor:
        return model.losses(weights, assignment, x, y, rows)

    return search_assignments(
        losses, weights, start.to(of_site), *rows, options, generator=rng, progress=progress
    )


def _best_rate(
    model: SharedModule,
    x: Tensor,
    y: Tensor,
    rows: tuple[Tensor, Tensor],
    seed: int,
    rng: torch.Generator,
) -> float:
    """The learning rate that does best without sharing: too small a one compares beginnings."""
    apart = [np.arange(model.size)]
    train, held_out = (part.to(x.device) for part in rows)
    losses = []
    for rate in _RATES:
        options = FitOptions(steps=_WEIGH_STEPS, rate=rate)
        fits = fit_partitions(
            model, apart, x, y, (train, held_out), options, seeds=[seed], generator=rng
        )
        loss = float(fits.losses.mean())
        losses.append(loss if np.isfinite(loss) else np.inf)
    return _RATES[int(np.argmin(losses))]


def _refit(
    scores: PartitionScores, labels: Labels, early: Rows | None, options: FitOptions, seed: int
) -> PartitionFits:
    """Train on all rows, stopping on further ones or on a fold."""
    x, y = scores.x, scores.y
    train, held_out = scores.rest[0], scores.held_out[0]
    if early is not None:
        more_x, more_y = early
        train = torch.arange(len(x), device=x.device)
        held_out = torch.arange(len(x), len(x) + len(more_x), device=x.device)
        x, y = torch.cat([x, more_x.to(x)]), torch.cat([y, more_y.to(y)])
    return fit_partitions(
        scores.model,
        [labels],
        x,
        y,
        (train, held_out),
        options,
        seeds=[seed],
        generator=scores.generator,
        progress=scores.progress,
    )


def _checked(x: Tensor, y: Tensor, folds: int) -> Rows:
    for name, value in (("inputs", x), ("targets", y)):
        if not isinstance(value, Tensor):
            raise TypeError(f"expected {name} as a tensor, got {type(value).__name__}")
        if not bool(value.isfinite().all()):
            raise ValueError(f"expected finite {name}, got NaN or infinity")
    if x.ndim < 1 or y.ndim < 1 or len(x) != len(y):
        raise ValueError(
            f"expected as many targets as inputs, got shapes {tuple(x.shape)} and {tuple(y.shape)}"
        )
    if folds > 1:
        if len(x) < max(_FEWEST_ROWS, 2 * folds):
            raise ValueError(
                f"expected at least {max(_FEWEST_ROWS, 2 * folds)} rows to split, got {len(x)}"
            )
        if bool((y == y[0]).all()):
            raise ValueError("expected targets that vary, got the same one in every row")
    return x, y


def _split(
    n: int,
    train: Sequence[int] | Tensor | None,
    validation: Sequence[int] | Tensor | None,
    rng: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """Numbers of training and validation rows."""
    order = torch.randperm(n, generator=rng)
    given = [None if rows is None else torch.as_tensor(rows) for rows in (train, validation)]
    for name, rows in zip(("train", "validation"), given, strict=True):
        if rows is None:
            continue
        if rows.ndim != 1 or rows.dtype != torch.int64 or not len(rows):
            raise ValueError(f"expected a list of row numbers as {name}, got {rows!r:.80}")
        outside = rows[(rows < 0) | (rows >= n)]
        if len(outside):
            raise ValueError(f"expected {name} rows in [0, {n}), got {int(outside[0])}")
    first, second = given
    if first is None and second is None:
        return order[: 2 * n // 5], order[2 * n // 5 :]
    if first is None:
        assert second is not None
        return _rest(order, second), second
    if second is None:
        return first, _rest(order, first)
    if bool(torch.isin(first, second).any()):
        raise ValueError("expected train and validation rows that do not overlap, got some that do")
    return first, second


def _rest(order: Tensor, taken: Tensor) -> Tensor:
    rest = order[~torch.isin(order, taken)]
    if not len(rest):
        raise ValueError("expected rows left for both training and validation, got none")
    return rest
