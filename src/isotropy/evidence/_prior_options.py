"""Which priors are learned, from where on, and from which data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from isotropy.evidence._precision_groups import Groups, Precisions


@dataclass(frozen=True)
class PriorOptions:
    """What ``learn_priors`` learns beside the parameters, and from what.

    Args:
        groups: Which parameters share a precision, as for ``laplace``; where None, one group for
            each path of a ``PathSum`` and for each other tensor.
        precisions: Precisions to begin with, one for all groups or one for each by name; where
            None those of the paths, and 1.
        noise: The standard deviation of observations, for regression: a number; 1 where None;
            "learn" (the default) to find it too, from that of the targets on (of the first
            batch, where they come from a loader).
        temperature: T, that of the likelihood; 1 by default.
        hyperparameters: Names of parameters of the model that the evidence learns instead
            (lengthscales and the like), one step of Adam for each approximation; they have no
            prior. None by default.
        evidence_data: What the evidence is computed on, where not on the training data: the same
            samples without augmentation.

    Example:
        >>> import torch
        >>> from isotropy.evidence import learn_priors
        >>> x = torch.randn(20, 2)
        >>> one = PriorOptions(groups=lambda name: "all", noise=0.1)
        >>> model = torch.nn.Linear(2, 1)
        >>> found = learn_priors(model, "regression", (x, x.sum(1)), epochs=5, priors=one)
        >>> list(found.precisions), found.noise
        (['all'], 0.1)
    """

    groups: Groups = None
    precisions: Precisions | None = None
    noise: float | Literal["learn"] | None = "learn"
    temperature: float = 1.0
    hyperparameters: Iterable[str] = ()
    evidence_data: Any = None
