"""Online empirical Bayes: parameters by their posterior, priors by the evidence, in turn."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import torch
from torch import nn

from isotropy._run import ProgressCallback
from isotropy.evidence._learning_options import LearningOptions
from isotropy.evidence._learning_run import LearningRun, Resume
from isotropy.evidence._precision_groups import Groups, Precisions
from isotropy.evidence._prior_history import LearnedPriors
from isotropy.evidence._prior_updates import Schedule, Steps


def learn_priors(
    model: nn.Module,
    loss: Any,
    data: Any,
    *,
    epochs: int = 100,
    batch_size: int = 128,
    learning_rate: float = 1e-3,
    optimiser: Callable[..., torch.optim.Optimizer] | None = None,
    schedule: Schedule = "cosine",
    burn_in: int = 10,
    every: int = 5,
    steps: Steps = 20,
    hyper_learning_rate: float = 0.1,
    hyper_schedule: Schedule = "cosine",
    groups: Groups = None,
    precisions: Precisions | None = None,
    noise: float | Literal["learn"] | None = "learn",
    temperature: float = 1.0,
    hyperparameters: Iterable[str] = (),
    evidence_data: Any = None,
    curvature: Mapping[str, Any] | None = None,
    seed: int = 0,
    cuda_graph: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    resume_changed: bool = False,
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
    ``curvature={"structure": "diagonal", "passes": "summed"}``.

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
        optimiser: Called with the parameters and ``lr=learning_rate``: a class of
            ``torch.optim``, or ``partial(torch.optim.SGD, momentum=0.9)``; Adam where None.
            Where paths can do each other's work, momentum follows the exchange sooner. There
            must be no weight decay, which would be another prior.
        schedule: "cosine" to let the rate fall to zero step by step, or "constant".
        burn_in: After how many epochs the priors are updated first; after ``every`` where 0.
            After the last epoch they are not, for the parameters could not follow: with no more
            epochs than ``burn_in`` the priors stay as given.
        every: After how many more epochs each time.
        steps: Steps of Adam on the log precisions for each approximation; or "best" to set them
            to the ``best_precisions`` of each, without rate or schedule. That takes few updates
            where parameters are near their mode, and may drop groups too soon where not.
        hyper_learning_rate: Of what the evidence learns.
        hyper_schedule: As ``schedule``, over all these steps.
        groups: Which parameters share a precision, as for ``laplace``; where None, one group for
            each path of a ``PathSum`` and for each other tensor.
        precisions: Precisions to begin with, one for all groups or one for each by name; where
            None those of the paths, and 1.
        noise: The standard deviation of observations, for regression: a number; 1 where None;
            "learn" to find it too, from that of the targets on (of the first batch, where they
            come from a loader).
        temperature: T, that of the likelihood.
        hyperparameters: Names of parameters of the model that the evidence learns instead
            (lengthscales and the like), one step of Adam for each approximation; they have no
            prior.
        evidence_data: What the evidence is computed on, where not on ``data``: the same samples
            without augmentation.
        curvature: Options of ``laplace``: structure, passes, probes, sharing, subset, batch_size.
        seed: Of the order of samples, dropout, subsets and random passes (others each time).
        cuda_graph: Capture a training step on a GPU once and replay it: several times as quick
            for small networks. The network has to do the same for every batch, by means of
            tensors alone.
        checkpoint: A file in which the state is kept now and then and whenever the training
            stops. The same call goes on from there, to the same result as if it had not stopped
            (on a processor to the last bit; augmentation has to draw from torch's generators).
            Data sets are known by length, first and last item, streams by their kind alone, the
            network by ``str(model)`` and its shapes: see to it that the rest is the same.
        resume_changed: Whether to go on from a checkpoint of a run with other rates, schedules,
            epochs or curvature: after a divergence, the same call with a smaller learning rate.
        progress: Called after every epoch.

    Raises:
        TypeError: If model, data, loss or an option are of the wrong kind.
        ValueError: As ``laplace``; or if an option is out of range, the checkpoint is of another
            model, data or options, or loss or evidence are not finite in some epoch.

    Example:
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
        >>> found = learn_priors(ByInput(), "regression", (x, y), learning_rate=0.05, every=2)
        >>> found.precisions["second.weight"] > 10 * found.precisions["first.weight"]
        True
    """
    if progress is not None and not callable(progress):
        raise TypeError(f"expected a function as progress, got {type(progress).__name__}")
    options = LearningOptions(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        schedule=schedule,
        burn_in=burn_in,
        every=every,
        steps=steps,
        hyper_learning_rate=hyper_learning_rate,
        hyper_schedule=hyper_schedule,
        noise=noise,
        temperature=temperature,
        curvature={} if curvature is None else curvature,
        seed=seed,
        cuda_graph=cuda_graph,
    )
    run = LearningRun(
        model,
        loss,
        data,
        options,
        optimiser=torch.optim.Adam if optimiser is None else optimiser,
        groups=groups,
        precisions=precisions,
        hyperparameters=hyperparameters,
        evidence_data=data if evidence_data is None else evidence_data,
        resume=Resume(checkpoint, resume_changed),
    )
    return run.learned(progress)
