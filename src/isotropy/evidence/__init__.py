"""What the data say of a network: Laplace approximations, evidence, effective parameters."""

from isotropy._run._lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    deprecated={
        "Block": "isotropy.evidence._curvature_blocks:Block",
        "DenseBlock": "isotropy.evidence._curvature_blocks:DenseBlock",
        "DiagonalBlock": "isotropy.evidence._curvature_blocks:DiagonalBlock",
        "KroneckerBlock": "isotropy.evidence._curvature_blocks:KroneckerBlock",
        "PriorEstimate": "isotropy.evidence._prior_history:PriorEstimate",
    },
)
