"""How priors are learned, and which, from where on and from which data: options, checked."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import inf
from numbers import Integral, Real
from typing import Any, Literal, get_args

import torch

from isotropy.evidence._curvature_options import CurvatureOptions
from isotropy.evidence._precision_groups import Groups, Precisions
from isotropy.evidence._prior_updates import Schedule, Steps

_CURVATURE = ("structure", "passes", "probes", "sharing", "subset", "batch_size")
_GOLDEN = 0x9E3779B9  # odd: its multiples modulo 2**32 are all different
_IDENTITY = (
    "epochs",
    "batch_size",
    "learning_rate",
    "schedule",
    "burn_in",
    "every",
    "steps",
    "hyper_learning_rate",
    "hyper_schedule",
    "noise",
    "temperature",
    "curvature",
    "seed",
    "cuda_graph",
)


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


@dataclass(frozen=True)
class LearningOptions:
    """How ``learn_priors`` trains parameters and priors; numbers of numpy become Python's.

    Args:
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
        curvature: How each approximation is computed; its seed follows from that of the call,
            and there is one process.
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

    Raises:
        TypeError: If the curvature is no ``CurvatureOptions``.
        ValueError: If an option is out of range or unknown.

    Example:
        >>> from torch import nn
        >>> from isotropy.evidence import learn_priors
        >>> x = torch.randn(20, 2)
        >>> often = LearningOptions(burn_in=2, every=1)
        >>> found = learn_priors(
        ...     nn.Linear(2, 1), "regression", (x, x.sum(1)), epochs=5, learning=often
        ... )
        >>> print(*(estimate.epoch for estimate in found.history))
        2 3 4 5
    """

    optimiser: Callable[..., torch.optim.Optimizer] | None = None
    schedule: Schedule = "cosine"
    burn_in: int = 10
    every: int = 5
    steps: Steps = 20
    hyper_learning_rate: float = 0.1
    hyper_schedule: Schedule = "cosine"
    curvature: CurvatureOptions = field(default_factory=CurvatureOptions)
    cuda_graph: bool = False
    checkpoint: str | os.PathLike[str] | None = None
    resume_changed: bool = False

    def __post_init__(self) -> None:
        self._set("burn_in", whole("burn_in", self.burn_in, 0))
        self._set("every", whole("every", self.every, 1))
        if not (isinstance(self.steps, str) and self.steps == "best"):
            self._set("steps", whole("steps", self.steps, 0, ", or 'best'"))
        self._set("hyper_learning_rate", positive("hyper_learning_rate", self.hyper_learning_rate))
        for name in ("schedule", "hyper_schedule"):
            if getattr(self, name) not in get_args(Schedule):
                known = " or ".join(map(repr, get_args(Schedule)))
                raise ValueError(f"expected as {name} {known}, got {getattr(self, name)!r}")
        self._set("curvature", _curvature(self.curvature))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)  # frozen for everybody else


def whole(name: str, value: Any, least: int, other: str = "") -> int:
    """A whole number that is large enough, as Python's."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"expected {name} of at least {least}{other}, got {value!r}")
    return int(value)


def positive(name: str, value: Any) -> float:
    """A positive finite number, as Python's."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < inf:
        raise ValueError(f"expected a positive number as {name}, got {value!r}")
    return float(value)


def plain_curvature(curvature: CurvatureOptions) -> dict[str, Any]:
    """Those of the options that are not the default, of what JSON knows.

    Example:
        >>> plain_curvature(CurvatureOptions("diagonal", subset=5))
        {'structure': 'diagonal', 'subset': 5}
    """
    given = {part.name: (getattr(curvature, part.name), part.default) for part in fields(curvature)}
    return {name: value for name, (value, default) in given.items() if value != default}


def _curvature(given: Any) -> CurvatureOptions:
    """The options, checked: those that ``learn_priors`` sets itself are left alone."""
    # a map is what the keyword of learn_priors took, until version 0.2
    is_map = isinstance(given, Mapping)
    for name in given if is_map else plain_curvature(CurvatureOptions.given(given)):
        if name not in _CURVATURE:
            raise ValueError(f"expected curvature options of {', '.join(_CURVATURE)}, got {name!r}")
    return CurvatureOptions(**given) if is_map else CurvatureOptions.given(given)


@dataclass(frozen=True)
class LearningPlan(LearningOptions):
    """The options of a run and what else its call sets; see ``learn_priors``.

    Raises:
        TypeError: If the seed is no whole number; or as ``LearningOptions``.
        ValueError: If a value is out of range or unknown.

    Example:
        >>> LearningPlan(epochs=22).estimates
        [10, 15, 20]
        >>> LearningPlan(epochs=10).estimates
        []
    """

    epochs: int = 100
    batch_size: int = 128
    learning_rate: float = 1e-3
    noise: float | Literal["learn"] | None = "learn"
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            self._set(name, whole(name, getattr(self, name), 1))
        super().__post_init__()
        for name in ("learning_rate", "temperature"):
            self._set(name, positive(name, getattr(self, name)))
        if isinstance(self.noise, str) and self.noise != "learn":
            raise ValueError(f"expected a number, None or 'learn' as noise, got {self.noise!r}")
        if self.noise is not None and not isinstance(self.noise, str):
            self._set("noise", positive("noise", self.noise))
        if isinstance(self.seed, bool) or not isinstance(self.seed, Integral):
            raise TypeError(f"expected a whole number as the seed, got {self.seed!r}")
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"expected a seed in [0, 2**64), got {self.seed}")
        self._set("seed", int(self.seed))

    @property
    def estimates(self) -> list[int]:
        """After which epochs the priors are updated; there is always another epoch to follow."""
        return list(range(self.burn_in or self.every, self.epochs, self.every))

    def curvature_after(self, epoch: int) -> CurvatureOptions:
        """How the approximation after an epoch is computed, with another seed for each.

        Example:
            >>> plan = LearningPlan()
            >>> len({plan.curvature_after(epoch).seed % 2**32 for epoch in range(1000)})
            1000
        """
        return replace(self.curvature, seed=(self.seed + epoch * _GOLDEN) % 2**64)

    def to_json(self) -> dict[str, Any]:
        """What a checkpoint has to agree with, of what JSON knows."""
        plain = {name: getattr(self, name) for name in _IDENTITY}
        return plain | {"curvature": plain_curvature(self.curvature)}
