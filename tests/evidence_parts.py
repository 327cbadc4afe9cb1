"""What is not public in evidence and several tests speak to: one place to change."""

from isotropy.evidence._curvature_blocks import DenseBlock, DiagonalBlock, KroneckerBlock
from isotropy.evidence._learning_options import LearningOptions
from isotropy.evidence._likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    Likelihood,
    classes_without_samples,
)

__all__ = [
    "Bernoulli",
    "Categorical",
    "DenseBlock",
    "DiagonalBlock",
    "Gaussian",
    "KroneckerBlock",
    "LearningOptions",
    "Likelihood",
    "classes_without_samples",
]
