from isotropy.nn._bilinear import BiLinear
from isotropy.nn._blur_pool import BlurPool2d, anti_aliased
from isotropy.nn._circular_conv import CircularConv2d
from isotropy.nn._dynamics import HNN, NeuralODE
from isotropy.nn._emlp import EMLP, EMLPBlock
from isotropy.nn._factored_linear import FactoredLinear
from isotropy.nn._grid_network import GridNetwork, grid_sharing
from isotropy.nn._group_conv import GroupConv2d, Lift
from isotropy.nn._layerwise_network import LayerwiseNetwork
from isotropy.nn._linear import Linear, fixed_weights
from isotropy.nn._log_prior import log_prior, sample_prior, tensor_priors
from isotropy.nn._map_linear import MapLinear
from isotropy.nn._nonlinearities import GatedNonlinearity, NormNonlinearity, gated
from isotropy.nn._path_sum import PathSum
from isotropy.nn._polyphase_pool import GroupPool, PolyphasePool2d
from isotropy.nn._radial_basis import RadialBasis, lengthscales
from isotropy.nn._recorder import RecordedModule
from isotropy.nn._restrict import make_equivariant, restrict
from isotropy.nn._shared_linear import SharedLinear
from isotropy.nn._soft_linear import soft_linear
from isotropy.nn._soften import soften
from isotropy.nn._sparse_conv import SparseConv2d
from isotropy.nn._sparse_linear import SparseLinear
from isotropy.nn._symmetric_network import MLP, symmetric_network
from isotropy.nn._symmetrised import Symmetrised
from isotropy.nn._torch_layers import record
from isotropy.nn._uniform_rep import uniform_rep

__all__ = [
    "EMLP",
    "HNN",
    "MLP",
    "BiLinear",
    "BlurPool2d",
    "CircularConv2d",
    "EMLPBlock",
    "FactoredLinear",
    "GatedNonlinearity",
    "GridNetwork",
    "GroupConv2d",
    "GroupPool",
    "LayerwiseNetwork",
    "Lift",
    "Linear",
    "MapLinear",
    "NeuralODE",
    "NormNonlinearity",
    "PathSum",
    "PolyphasePool2d",
    "RadialBasis",
    "RecordedModule",
    "SharedLinear",
    "SparseConv2d",
    "SparseLinear",
    "Symmetrised",
    "anti_aliased",
    "fixed_weights",
    "gated",
    "grid_sharing",
    "lengthscales",
    "log_prior",
    "make_equivariant",
    "record",
    "restrict",
    "sample_prior",
    "soft_linear",
    "soften",
    "symmetric_network",
    "tensor_priors",
    "uniform_rep",
]
