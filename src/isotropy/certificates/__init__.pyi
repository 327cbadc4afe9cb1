from isotropy.certificates._architectures import Architecture, architecture
from isotropy.certificates._bounds import Bound, smallest_bound
from isotropy.certificates._certificate import Certificate
from isotropy.certificates._certification import certify
from isotropy.certificates._certification_options import CertificationOptions
from isotropy.certificates._certify_findings import certify_finding
from isotropy.certificates._goal import Goal
from isotropy.certificates._header import Rejected
from isotropy.certificates._hypothesis import Hypothesis
from isotropy.certificates._initial import initial_parameters, trained_start
from isotropy.certificates._projectors import PROJECTORS, projector
from isotropy.certificates._quantised import Quantised
from isotropy.certificates._recipe import Recipe
from isotropy.certificates._subspace import Subspace
from isotropy.certificates._verdict import Verdict
from isotropy.certificates._verification import verification_price, verify

__all__ = [
    "PROJECTORS",
    "Architecture",
    "Bound",
    "Certificate",
    "CertificationOptions",
    "Goal",
    "Hypothesis",
    "Quantised",
    "Recipe",
    "Rejected",
    "Subspace",
    "Verdict",
    "architecture",
    "certify",
    "certify_finding",
    "initial_parameters",
    "projector",
    "smallest_bound",
    "trained_start",
    "verification_price",
    "verify",
]
