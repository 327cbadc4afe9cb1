"""What the data say of a network: Laplace approximations, evidence, effective parameters."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.evidence._curvature_blocks": "Block DenseBlock DiagonalBlock KroneckerBlock",
    "isotropy.evidence._prior_history": "PriorEstimate",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
