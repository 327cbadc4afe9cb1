"""Layers that respect a symmetry: exactly, softly, or by sharing."""

from isotropy.nn._bilinear import BiLinear
from isotropy.nn._dynamics import HNN, NeuralODE
from isotropy.nn._emlp import EMLP, EMLPBlock
from isotropy.nn._linear import Linear, SharedLinear, fixed_weights
from isotropy.nn._mlp import MLP
from isotropy.nn._nonlinearities import GatedNonlinearity, NormNonlinearity, gated
from isotropy.nn._recorder import LinearOperation, record
from isotropy.nn._symmetrised import Symmetrised
from isotropy.nn._uniform_rep import uniform_rep

__all__ = [
    "EMLP",
    "HNN",
    "MLP",
    "BiLinear",
    "EMLPBlock",
    "GatedNonlinearity",
    "Linear",
    "LinearOperation",
    "NeuralODE",
    "NormNonlinearity",
    "SharedLinear",
    "Symmetrised",
    "fixed_weights",
    "gated",
    "record",
    "uniform_rep",
]
