"""The old place of ``isotropy.naming``: its names work until version 0.2, and warn."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.naming": "SharingName automorphisms name_sharing",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
