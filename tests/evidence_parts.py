"""What is not public in evidence and several tests speak to: one place to change."""

from isotropy.evidence._curvature_blocks import DenseBlock, KroneckerBlock
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
    "Gaussian",
    "KroneckerBlock",
    "Likelihood",
    "classes_without_samples",
]
