"""Continuous symmetry: generators from data, snapped to an exact Lie algebra and named."""

from isotropy._run._lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
