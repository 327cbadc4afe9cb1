"""The command line: one command, one verb per job."""

from isotropy.cli._basis import Method, basis
from isotropy.cli._certify import certify
from isotropy.cli._data import data_app, data_get
from isotropy.cli._discover import discover
from isotropy.cli._frame import BAD_INPUT, INTERRUPTED, Answer, Frame, app, main, run, verb
from isotropy.cli._measure import measure
from isotropy.cli._other_verbs import add_other_verbs
from isotropy.cli._verify import verify

__all__ = [
    "BAD_INPUT",
    "INTERRUPTED",
    "Answer",
    "Frame",
    "Method",
    "app",
    "basis",
    "certify",
    "data_app",
    "data_get",
    "discover",
    "main",
    "measure",
    "run",
    "verb",
    "verify",
]

add_other_verbs()
