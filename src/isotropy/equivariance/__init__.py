"""How far a function is from a symmetry."""

from isotropy.equivariance._elements import all_elements
from isotropy.equivariance._tester import assert_equivariant, equivariance_error

__all__ = ["all_elements", "assert_equivariant", "equivariance_error"]
