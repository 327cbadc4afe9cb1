"""Learned parameter-sharing: which parameters of a model are equal."""

from isotropy._run._lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
