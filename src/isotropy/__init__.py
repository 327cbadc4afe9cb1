"""Symmetry in machine learning: find it, build with it, measure it, certify what it is worth.

Groups are in ``isotropy.groups``; the names here are those that every user meets. They are
loaded when first used, so that ``import isotropy`` costs nothing.
"""

from isotropy._run._lazy_names import lazy_names

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_names(__name__)
