"""The command line: one command, one verb per job."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.cli": "Frame=CommonOptions",
    "isotropy.cli._basis": "Method basis",
    "isotropy.cli._certify": "certify",
    "isotropy.cli._data": "data_app data_get",
    "isotropy.cli._discover": "discover",
    "isotropy.cli._measure": "measure",
    "isotropy.cli._verbs": "BAD_INPUT INTERRUPTED app",
    "isotropy.cli._verify": "verify",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
