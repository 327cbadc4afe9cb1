"""The command line: one command, one verb per job."""

from isotropy._run._lazy_names import lazy_names
from isotropy.cli import (  # noqa: F401  (each adds its verb, in the order of the help)
    _basis,
    _certify,
    _data,
    _discover,
    _measure,
    _verify,
)
from isotropy.cli._other_verbs import add_other_verbs

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    deprecated={
        "BAD_INPUT": "isotropy.cli._verbs:BAD_INPUT",
        "INTERRUPTED": "isotropy.cli._verbs:INTERRUPTED",
        "Frame": "isotropy.cli:CommonOptions",
        "Method": "isotropy.cli._basis:Method",
        "app": "isotropy.cli._verbs:app",
        "basis": "isotropy.cli._basis:basis",
        "certify": "isotropy.cli._certify:certify",
        "data_app": "isotropy.cli._data:data_app",
        "data_get": "isotropy.cli._data:data_get",
        "discover": "isotropy.cli._discover:discover",
        "measure": "isotropy.cli._measure:measure",
        "verify": "isotropy.cli._verify:verify",
    },
)

add_other_verbs()
