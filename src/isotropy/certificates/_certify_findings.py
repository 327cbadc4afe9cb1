"""Whether a discovered symmetry pays for itself: a certificate with it, and one without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from isotropy._run import ProgressCallback, Step
from isotropy.certificates._architectures import Architecture
from isotropy.certificates._bound_arguments import confidence
from isotropy.certificates._certificate import Certificate
from isotropy.certificates._certification import certify
from isotropy.certificates._certification_options import CertificationOptions
from isotropy.certificates._examples import Examples, examples
from isotropy.certificates._finding_networks import networks_for
from isotropy.certificates._recipe import Recipe

if TYPE_CHECKING:
    from isotropy.discovery import Finding

# (d, levels) of the recipes that both networks are given
_TRIALS = ((20, 5), (50, 5), (100, 5))
_IMAGE_TRIALS = ((50, 5), (150, 5))
_STEPS, _QUANTISED_STEPS = 600, 400
# products of features make gradients that are long at times
_CLIP = 1.0
# what is no lower says nothing
_EMPTY = 0.99


@dataclass(frozen=True, eq=False)
class CertifiedFinding:
    """Two certificates on the same rows, of networks with a symmetry and without it.

    Args:
        finding: The symmetry.
        with_symmetry: Of a network that has it; its message names the group.
        without: Of a plain network with about as many parameters.
        group_bits: What the first message spends on the group and how it acts.
    """

    finding: Finding
    with_symmetry: Certificate
    without: Certificate
    group_bits: int

    @property
    def paid(self) -> bool:
        """Whether the bound with the symmetry is the lower one, its name paid for."""
        return self.with_symmetry.bound < self.without.bound

    @property
    def has_too_few_rows(self) -> bool:
        """Whether neither bound is below 99 %."""
        return min(self.with_symmetry.bound, self.without.bound) >= _EMPTY

    def _errs(self) -> str:
        tolerance = self.with_symmetry.hypothesis().goal.tolerance
        return "" if tolerance is None else f"; an error is a miss by more than {tolerance:g}"

    def to_json(self) -> dict[str, Any]:
        """What ``isotropy discover --certify --json`` says of it."""
        return {
            "with": _as_json(self.with_symmetry),
            "without": _as_json(self.without),
            "group_bits": self.group_bits,
            "paid": self.paid,
        }

    def __str__(self) -> str:
        first, second = self.with_symmetry, self.without
        if self.has_too_few_rows:
            return (
                f"{first.n} rows are too few for a bound below {100 * _EMPTY:g} %, with the "
                f"symmetry ({first.message_bits} bits) or without ({second.message_bits} bits)"
            )
        verdict = "paid" if self.paid else "did not pay"
        return (
            f"the symmetry {verdict} for itself: risk at most {100 * first.bound:.2f} % with it "
            f"({first.model}, {first.message_bits} bits, {self.group_bits} of them for the group), "
            f"{100 * second.bound:.2f} % without ({second.model}, {second.message_bits} bits), "
            f"with probability {confidence(first.delta)}{self._errs()}"
        )


def certify_finding(
    finding: Finding,
    data: Any,
    *,
    delta: float = 0.05,
    tolerance: float | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
    **settings: Any,
) -> CertifiedFinding:
    """Certify a network with the symmetry that was found, and a plain one of about its size.

    All rows are certified, also those that the symmetry was found on. That is valid because a
    bound over messages holds for all of them at once, however one was chosen: the group is part of
    the message, and its choice is paid for by the bits that name it. For the same reason the best
    of a few recipes is kept, the same ones for both networks.

    For the same reason again, both certificates hold together with probability 1 - ``delta``.

    Args:
        finding: What ``discover`` found.
        data: What it was given: a ``Dataset``, (x, y), or what `isotropy.data.load` reads.
        delta: The bounds may fail with at most this probability.
        tolerance: For numbers as targets: an error is one missed by more than this; by default
            half the standard deviation of the targets. Rounded up to 16 bits.
        seed: Of both certificates.
        progress: Called with how far the work is.
        **settings: Changes to the recipes (`Recipe`); where ``d`` or ``levels`` is among them,
            there is one.

    Returns:
        Both certificates; ``paid`` says which bound is lower.

    Raises:
        CannotCertify: If no network of the catalogue has the symmetry.
        ValueError: If ``delta``, ``tolerance`` or a setting is out of range.

    Example:
        >>> import torch
        >>> from isotropy.discovery import Finding
        >>> from isotropy.groups import S
        >>> from isotropy.reps import Scalar, Symmetry, V
        >>> x = torch.randn(600, 4, generator=torch.Generator().manual_seed(0))
        >>> y = (x.sum(1) > 0).long()
        >>> symmetry = Symmetry(S(4), V, 2 * Scalar)
        >>> finding = Finding.of("S(4)", "S(4)", symmetry=symmetry)
        >>> both = certify_finding(finding, (x, y), d=5, levels=3, epochs=5)
        >>> both.with_symmetry.model, both.without.model, both.group_bits
        ('mlp-32-32 shared S(4)', 'mlp-10-10', 13)
    """
    if not 0 < delta < 1:
        raise ValueError(f"expected delta between 0 and 1, got {delta}")
    sample = examples(data)
    if sample.y.is_floating_point():
        outputs = sample.y.shape[1]
        if tolerance is None:
            tolerance = usual_tolerance(sample.y)
    else:
        outputs = int(sample.y.max()) + 1
    networks = networks_for(finding, tuple(sample.x.shape[1:]), outputs)
    options = CertificationOptions(tolerance=tolerance, input_scale=_input_scale(sample.x))
    best = [
        _best(
            network,
            sample,
            outputs,
            settings,
            progress,
            delta=delta,
            options=options,
            seed=seed,
        )
        for network in networks
    ]
    plain = Architecture(networks[0].name, networks[0].sizes)
    group_bits = networks[0].code_length - plain.code_length
    return CertifiedFinding(finding, best[0], best[1], group_bits)


def usual_tolerance(targets: Tensor) -> float:
    """Half the standard deviation of the targets.

    Example:
        >>> import torch
        >>> usual_tolerance(torch.tensor([[0.0], [4.0]]))
        1.0
    """
    numbers = targets.double()
    return float((numbers - numbers.mean(0)).square().mean().sqrt()) / 2


def _best(
    network: Architecture,
    sample: Examples,
    outputs: int,
    settings: Mapping[str, Any],
    progress: ProgressCallback | None,
    **certified: Any,
) -> Certificate:
    size = network.parameter_count(tuple(sample.x.shape[1:]), outputs)
    usual = Recipe().on(len(sample))
    steps = len(sample) // (usual.batch or len(sample))
    usual_settings = {
        "clip": _CLIP,
        "epochs": -(-_STEPS // steps),
        "quantised_epochs": -(-_QUANTISED_STEPS // steps),
    }
    pairs: Sequence[tuple[int, int]] = _TRIALS if network.name == "mlp" else _IMAGE_TRIALS
    if {"d", "levels", "recipe"} & set(settings):
        pairs = pairs[:1]
    trials = dict.fromkeys((min(d, size), levels) for d, levels in pairs)
    found = []
    for number, (d, levels) in enumerate(trials, 1):
        given = {"d": d, "levels": levels, **usual_settings, **settings}
        name = f"certifying {network}, {number}/{len(trials)}"
        named = None if progress is None else partial(_named_step, progress, name)
        found.append(certify(network, sample, progress=named, **certified, **given))
    return min(found, key=lambda certificate: certificate.bound)


def _named_step(progress: ProgressCallback, name: str, step: Step) -> None:
    progress(replace(step, message=f"{name}: {step.message}"))


def _input_scale(x: Tensor) -> float | None:
    """One number for all columns, which a symmetry of any kind allows; 16 bits, where needed."""
    if x.ndim == 4:  # networks standardise every image
        return None
    size = float(x.double().square().mean().sqrt())
    return None if 0.5 < size < 2 or size == 0 else size


def _as_json(certificate: Certificate) -> dict[str, Any]:
    return {
        "model": certificate.model,
        "bound": certificate.bound,
        "train_error": certificate.train_error,
        "message_bits": certificate.message_bits,
        "n": certificate.n,
        "delta": certificate.delta,
    }
