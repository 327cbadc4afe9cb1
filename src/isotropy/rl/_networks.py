"""Where ``symmetric_network`` was; it is in ``isotropy.nn``."""

from isotropy.nn import NetworkKind as Kind
from isotropy.nn import symmetric_network

__all__ = ["Kind", "symmetric_network"]
