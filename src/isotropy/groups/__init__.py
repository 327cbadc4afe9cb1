"""What a symmetry group is: generators and Lie algebra, products, the catalogue of names."""

from isotropy._run._lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
