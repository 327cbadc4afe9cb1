from isotropy.naming._automorphisms import automorphisms
from isotropy.naming._naming import SharingName, name_sharing

__all__ = [
    "SharingName",
    "automorphisms",
    "name_sharing",
]
