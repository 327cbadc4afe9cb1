"""What it is worth: subspaces, quantised weights, codes, bounds, certificates."""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.certificates._binomial_tail": "binomial_tail>smallest_bound",
    "isotropy.certificates._bounds": (
        "KINDS finite_hypothesis>smallest_bound mcallester>smallest_bound"
    ),
    "isotropy.certificates._catoni": "catoni>smallest_bound",
    "isotropy.certificates._certify_findings": "CertifiedFinding",
    "isotropy.certificates._kl_inverse": "kl_inverse>smallest_bound",
    "isotropy.certificates._price": "Price",
    "isotropy_papers.description_length": (
        "DescriptionLength description_length incompressible_below"
    ),
    "isotropy_papers.pruned": "certify_pruned",
}
__getattr__, __dir__, __all__ = lazy_names(__name__, _MOVED)
