"""What is not public in evidence and several tests speak to: one place to change."""

from dataclasses import fields
from typing import Any

from isotropy.evidence import CurvatureOptions, LearningOptions, PriorOptions
from isotropy.evidence._curvature_blocks import DenseBlock, DiagonalBlock, KroneckerBlock
from isotropy.evidence._learning_options import LearningPlan
from isotropy.evidence._likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    classes_without_samples,
    likelihood_of,
)

__all__ = [
    "Bernoulli",
    "Categorical",
    "DenseBlock",
    "DiagonalBlock",
    "Gaussian",
    "KroneckerBlock",
    "LearningPlan",
    "Likelihood",
    "classes_without_samples",
    "curvature_options",
    "learning_options",
    "likelihood_of",
]


def curvature_options(**options: Any) -> dict[str, Any]:
    """The keywords of ``laplace``, from options by name alone: for tests that vary them."""
    return _gathered(options, curvature=CurvatureOptions)


def learning_options(**options: Any) -> dict[str, Any]:
    """The keywords of ``learn_priors``, from options by name alone: for tests that vary them."""
    return _gathered(options, learning=LearningOptions, priors=PriorOptions)


def _gathered(options: dict[str, Any], **kinds: Any) -> dict[str, Any]:
    found = dict(options)
    for argument, kind in kinds.items():
        names = [part.name for part in fields(kind) if part.name in found]
        if names:
            found[argument] = kind(**{name: found.pop(name) for name in names})
    return found
