"""Online empirical Bayes: parameters by their posterior, priors by the evidence, in turn."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from torch import nn

from isotropy._run import ProgressCallback
from isotropy._run._moved_keywords import moved_keywords
from isotropy.evidence._learning_options import LearningOptions, LearningPlan, PriorOptions
from isotropy.evidence._learning_run import LearningRun
from isotropy.evidence._prior_history import LearnedPriors


@moved_keywords(learning=LearningOptions, priors=PriorOptions)
def learn_priors(
    model: nn.Module,
    loss: Any,
    data: Any,
    *,
    epochs: int = 100,
    batch_size: int = 128,
    learning_rate: float = 1e-3,
    learning: LearningOptions | None = None,
    priors: PriorOptions | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> LearnedPriors:
    """Train a network, and learn from the same data how strong its priors should be.

    The parameters θ follow the posterior, with the loss (−log p(D|θ)/T + ½ Σ δ‖θ‖²)/N. Every few
    epochs a pass over the data gives the Laplace approximation at the current parameters, and on
    its fixed curvature the log precisions of all groups, and the noise of regression, take steps
    up the log evidence (paper section 4). A path that the data do not need ends with a high
    precision and close to zero.

    Entries with squared lengths c in a ``PathSum`` have the prior N(0, 1/(δc)), and δcθ² in place
    of δθ². For a network of which ``laplace`` does not hear all operations (a Hamiltonian one,
    the solver of a differential equation) take
    ``LearningOptions(curvature=CurvatureOptions("diagonal", passes="summed"))``.

    The parameters of ``model`` are trained in place; frozen ones stay. Where it has ``PathSum``
    layers, their prior variances begin and are kept at what is learned, tensor by tensor:
    σ² = 1/δ. Whatever stops the training, the
    network is left as it was after the last whole epoch, all of it finite.

    Look at ``settled`` of the result: it tells whether the evidence asks for yet other priors.

    Args:
        model: A network, as for ``laplace``, but not one that several processes train.
        loss: "classification", "binary" or "regression", or a loss of torch that means it.
        data: What to train on: a pair (inputs, targets) or a data set, shuffled anew in every
            epoch; or a loader, which is iterated as it is, with its own augmentation.
        epochs: How often to go through the data.
        batch_size: Samples in a batch; a loader has its own.
        learning_rate: Of the parameters.
        learning: How parameters and priors are trained: the optimiser, when and how priors are
            updated, how the curvature is computed, and the checkpoint of a run.
        priors: Which priors there are: their groups, the precisions to begin with, the noise of
            regression, hyperparameters, and the data that the evidence is computed on.
        seed: Of the order of samples, dropout, subsets and random passes (others each time).
        progress: Called after every epoch.

    Raises:
        TypeError: If model, data, loss or an option are of the wrong kind.
        ValueError: As ``laplace``; or if an option is out of range, the checkpoint is of another
            model, data or options, or loss or evidence are not finite in some epoch.

    Example:
        >>> import torch
        >>> x = torch.randn(60, 2)
        >>> y = x[:, :1] + 0.1 * torch.randn(60, 1)  # the second input does not matter
        >>> class ByInput(nn.Module):
        ...     def __init__(self) -> None:
        ...         super().__init__()
        ...         self.first = nn.Linear(1, 1, bias=False)
        ...         self.second = nn.Linear(1, 1, bias=False)
        ...
        ...     def forward(self, x: torch.Tensor) -> torch.Tensor:
        ...         return self.first(x[:, :1]) + self.second(x[:, 1:])
        >>> often = LearningOptions(every=2)
        >>> data = x, y
        >>> found = learn_priors(ByInput(), "regression", data, learning_rate=0.05, learning=often)
        >>> found.precisions["second.weight"] > 10 * found.precisions["first.weight"]
        True
    """
    if progress is not None and not callable(progress):
        raise TypeError(f"expected a function as progress, got {type(progress).__name__}")
    learning = LearningOptions() if learning is None else learning
    priors = PriorOptions() if priors is None else priors
    plan = LearningPlan(
        **{part.name: getattr(learning, part.name) for part in fields(LearningOptions)},
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        noise=priors.noise,
        temperature=priors.temperature,
        seed=seed,
    )
    return LearningRun(model, loss, data, plan, priors).learned(progress)
