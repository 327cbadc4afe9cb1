from isotropy.certificates._architectures import Architecture, architecture
from isotropy.certificates._binomial_tail import binomial_tail
from isotropy.certificates._bounds import (
    KINDS,
    Bound,
    finite_hypothesis,
    mcallester,
    smallest_bound,
)
from isotropy.certificates._catoni import catoni
from isotropy.certificates._certificate import Certificate
from isotropy.certificates._certify import certify
from isotropy.certificates._certify_findings import CertifiedFinding, certify_finding
from isotropy.certificates._description_length import (
    DescriptionLength,
    description_length,
    incompressible_below,
)
from isotropy.certificates._goal import Goal
from isotropy.certificates._hypothesis import Hypothesis
from isotropy.certificates._kl_inverse import kl_inverse
from isotropy.certificates._price import Price
from isotropy.certificates._projectors import PROJECTORS, projector
from isotropy.certificates._pruned import certify_pruned
from isotropy.certificates._quantised import Quantised
from isotropy.certificates._recipe import Recipe
from isotropy.certificates._rejected import Rejected
from isotropy.certificates._subspace import Subspace
from isotropy.certificates._verdict import Verdict
from isotropy.certificates._verify import verification_price, verify

__all__ = [
    "KINDS",
    "PROJECTORS",
    "Architecture",
    "Bound",
    "Certificate",
    "CertifiedFinding",
    "DescriptionLength",
    "Goal",
    "Hypothesis",
    "Price",
    "Quantised",
    "Recipe",
    "Rejected",
    "Subspace",
    "Verdict",
    "architecture",
    "binomial_tail",
    "catoni",
    "certify",
    "certify_finding",
    "certify_pruned",
    "description_length",
    "finite_hypothesis",
    "incompressible_below",
    "kl_inverse",
    "mcallester",
    "projector",
    "smallest_bound",
    "verification_price",
    "verify",
]
