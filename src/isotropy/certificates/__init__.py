"""What it is worth: subspaces, quantised weights, codes, bounds, certificates."""

from isotropy._run._lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    deprecated={
        "KINDS": "isotropy.certificates._bounds:KINDS",
        "CertifiedFinding": "isotropy.certificates._certify_findings:CertifiedFinding",
        "DescriptionLength": "isotropy_papers.description_length:DescriptionLength",
        "Price": "isotropy.certificates._price:Price",
        "binomial_tail": "isotropy.certificates._binomial_tail:binomial_tail",
        "catoni": "isotropy.certificates._catoni:catoni",
        "certify_pruned": "isotropy_papers.pruned:certify_pruned",
        "description_length": "isotropy_papers.description_length:description_length",
        "finite_hypothesis": "isotropy.certificates._bounds:finite_hypothesis",
        "incompressible_below": "isotropy_papers.description_length:incompressible_below",
        "kl_inverse": "isotropy.certificates._kl_inverse:kl_inverse",
        "mcallester": "isotropy.certificates._bounds:mcallester",
    },
)
