"""Train a model together with the law of its augmentation."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor, nn

from isotropy.run import ProgressCallback, Step, moved_keywords
from isotropy_papers.augerino import Augerino

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class AugerinoOptions:
    """What a fit minimises, and when it stops, where that is unusual.

    Args:
        loss: Of predictions and targets, a number; by default the mean squared error.
        weight_decay: Of the model's parameters; a law that decays would not be learned.
        patience: Epochs without a better score after which to stop; ``None`` makes all.

    Raises:
        ValueError: If the patience is less than one epoch.

    Example:
        >>> AugerinoOptions(patience=20).weight_decay
        0.0
    """

    loss: Loss = nn.functional.mse_loss
    weight_decay: float = 0.0
    patience: int | None = None

    def __post_init__(self) -> None:
        if self.patience is not None and self.patience < 1:
            raise ValueError(
                f"expected a patience of at least one epoch or None, got {self.patience}"
            )


@dataclass(frozen=True)
class AugerinoFit:
    """What a fit has left.

    Args:
        model: The model, with the parameters of its best epoch, in evaluation mode.
        epoch: The best epoch; 0 is before the first step.
        score: The loss − breadth_weight · breadth at that epoch, on the validation rows.
        scores: The same after each epoch, from epoch 0 on.
        interrupted: Whether the work was stopped from the keyboard.

    Example:
        >>> from torch import nn
        >>> from isotropy_papers.augmentations import LearnedPermutations
        >>> model = Augerino(nn.Linear(2, 1), LearnedPermutations(2, generator=0))
        >>> fit = fit_augerino(model, torch.zeros(5, 2), torch.zeros(5, 1), epochs=3)
        >>> isinstance(fit, AugerinoFit), len(fit.scores), fit.interrupted
        (True, 4, False)
    """

    model: Augerino
    epoch: int
    score: float
    scores: tuple[float, ...]
    interrupted: bool


@moved_keywords(options=AugerinoOptions)
def fit_augerino(
    model: Augerino,
    x: Tensor,
    y: Tensor,
    *,
    validation: tuple[Tensor, Tensor] | None = None,
    breadth_weight: float = 0.01,
    learning_rate: float = 1e-3,
    epochs: int = 1000,
    options: AugerinoOptions | None = None,
    seed: torch.Generator | int | None = None,
    progress: ProgressCallback | None = None,
) -> AugerinoFit:
    """Minimise loss − breadth_weight · breadth, full batch by AdamW, and keep the best epoch.

    Stopped from the keyboard, it keeps the best epoch so far.

    Args:
        model: What is trained, in place.
        x: Inputs, shape (rows, *).
        y: Targets, shape (rows, *).
        validation: Inputs and targets that choose the best epoch; the training rows by default.
        breadth_weight: What breadth is worth.
        learning_rate: Of all parameters.
        epochs: The most steps.
        options: Another loss, weight decay, patience.
        seed: Of the transformations; ``None`` goes on with the augmentation's own generator.
        progress: Called after each epoch.

    Raises:
        ValueError: If the rows are empty, not finite or of other numbers in x and y, or if
            targets have not the shape of predictions.

    Example:
        >>> from torch import nn
        >>> from isotropy_papers.augmentations import LearnedPermutations
        >>> x = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
        >>> model = Augerino(nn.Linear(4, 1), LearnedPermutations(4, generator=0))
        >>> fit = fit_augerino(model, x, x.sum(1, keepdim=True), learning_rate=0.1, epochs=100)
        >>> fit.score < fit.scores[0]
        True
    """
    _require_epochs(epochs)
    options = options or AugerinoOptions()
    loss, patience = options.loss, options.patience
    held_x, held_y = (x, y) if validation is None else validation
    for rows, targets in ((x, y), (held_x, held_y)):
        _require_rows(model, rows, targets)
    if seed is not None:
        model.augmentation.reseed(seed)
    optimiser = _optimiser(model, learning_rate, options.weight_decay)

    def objective(rows: Tensor, targets: Tensor) -> Tensor:
        return loss(model(rows), targets) - breadth_weight * model.breadth()

    def score() -> float:
        with torch.no_grad():
            return float(objective(held_x, held_y))

    model.eval()
    scores = [score()]
    best, kept = 0, copy.deepcopy(model.state_dict())
    interrupted = False
    try:
        for epoch in range(1, epochs + 1):
            model.train()
            optimiser.zero_grad()
            objective(x, y).backward()
            optimiser.step()
            model.eval()
            scores.append(score())
            if scores[-1] < scores[best]:
                best, kept = epoch, copy.deepcopy(model.state_dict())
            if progress is not None:
                progress(Step(epoch, epochs, f"best score {scores[best]:.4g}"))
            if patience is not None and epoch - best >= patience:
                break
    except KeyboardInterrupt:
        interrupted = True
    model.load_state_dict(kept)
    model.eval()
    return AugerinoFit(model, best, scores[best], tuple(scores), interrupted)


def _optimiser(model: Augerino, rate: float, weight_decay: float) -> torch.optim.AdamW:
    """AdamW, under which the law of the augmentation does not decay."""
    law = list(model.augmentation.parameters())
    others = [p for p in model.parameters() if not any(p is q for q in law)]
    return torch.optim.AdamW(
        [{"params": law, "weight_decay": 0.0}, {"params": others, "weight_decay": weight_decay}],
        lr=rate,
    )


def _require_epochs(epochs: int) -> None:
    if epochs < 0:
        raise ValueError(f"expected no fewer than zero epochs, got {epochs}")


def _require_rows(model: Augerino, x: Tensor, y: Tensor) -> None:
    if len(x) != len(y) or len(x) == 0:
        raise ValueError(
            f"expected as many targets as rows, at least one, got {len(y)} and {len(x)}"
        )
    for what, given in (("inputs", x), ("targets", y)):
        if not bool(given.isfinite().all()):
            raise ValueError(f"expected finite {what}, got infinite ones or NaN")
    model.eval()
    with torch.no_grad():
        predicted = model(x[:1]).shape[1:]
    # whole numbers are classes; others would broadcast against predictions of another shape
    if y.is_floating_point() and y.shape[1:] != predicted:
        raise ValueError(
            f"expected targets of the shape of predictions, {('rows', *predicted)}, "
            f"got shape {tuple(y.shape)}"
        )
