"""Layers that respect a symmetry: exactly, softly, or by sharing."""

from isotropy.nn._bilinear import BiLinear
from isotropy.nn._blur_pool import BlurPool2d, anti_aliased
from isotropy.nn._dynamics import HNN, NeuralODE
from isotropy.nn._emlp import EMLP, EMLPBlock
from isotropy.nn._linear import Linear, fixed_weights
from isotropy.nn._make_equivariant import make_equivariant
from isotropy.nn._mlp import MLP
from isotropy.nn._nonlinearities import GatedNonlinearity, NormNonlinearity, gated
from isotropy.nn._path_sum import PathSum
from isotropy.nn._record import record
from isotropy.nn._recorder import LinearOperation, RecordedModule
from isotropy.nn._restrict import restrict
from isotropy.nn._shared_linear import SharedLinear
from isotropy.nn._symmetrised import Symmetrised
from isotropy.nn._uniform_rep import uniform_rep

__all__ = [
    "EMLP",
    "HNN",
    "MLP",
    "BiLinear",
    "BlurPool2d",
    "EMLPBlock",
    "GatedNonlinearity",
    "Linear",
    "LinearOperation",
    "NeuralODE",
    "NormNonlinearity",
    "PathSum",
    "RecordedModule",
    "SharedLinear",
    "Symmetrised",
    "anti_aliased",
    "fixed_weights",
    "gated",
    "make_equivariant",
    "record",
    "restrict",
    "uniform_rep",
]
