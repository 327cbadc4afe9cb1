"""Checking a certificate: decode, rebuild, recount, recompute."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from isotropy._run import ProgressCallback
from isotropy.bases import solved_anew
from isotropy.certificates._architectures import MOST_ITERATED
from isotropy.certificates._bound_arguments import check_delta, confidence
from isotropy.certificates._certificate import Certificate
from isotropy.certificates._counting import Recount
from isotropy.certificates._examples import Examples, examples
from isotropy.certificates._header import Rejected
from isotropy.certificates._price import (
    MOST_MEMORY,
    MOST_SECONDS,
    UNLIMITED,
    Limit,
    Price,
    decoding_price,
)
from isotropy.certificates._rebuilt import counting_price, rebuilt_module, rebuilt_start
from isotropy.certificates._verdict import ALWAYS_ASSUMED, Verdict, unchecked


def verify(
    certificate: Certificate | bytes | bytearray | str | os.PathLike[str],
    data: Any,
    *,
    arch: nn.Module | None = None,
    checkpoint: Mapping[str, Tensor] | None = None,
    delta: float | None = None,
    most_memory: int = MOST_MEMORY,
    most_time: float = MOST_SECONDS,
    progress: ProgressCallback | None = None,
) -> Verdict:
    """Check a certificate against the data it speaks of, trusting nothing in it.

    The message is decoded, the network rebuilt and run in float64 on the CPU, its errors counted
    and the bound computed anew; the header's claims are compared with what comes out. No code
    named by the file is run, and no cache is read.

    Args:
        certificate: The certificate, its bytes, or the path of the file.
        data: The sample: (x, y), a `Dataset`, or what `isotropy.data.load` reads.
        arch: The user's own module, where the certificate speaks of one.
        checkpoint: Tensors by name that the start must be, where the certificate holds one. You
            vouch that they were made without the rows.
        delta: The largest δ that you accept, fixed before you saw the certificate. By default
            one over 0.05 is named as something that nobody checked.
        most_memory: Bytes that checking may take; what would take more is rejected, by an
            estimate, before anything is built. Beside the data, which you have loaded.
        most_time: Seconds of one core that it may take, likewise.
        progress: Called as rows are counted.

    Returns:
        The verdict; true where it is "verified".

    Raises:
        ValueError: If the data cannot be read, ``arch`` or ``checkpoint`` is missing or not
            wanted, or a limit is not positive.

    Example:
        >>> import torch
        >>> from isotropy import certify
        >>> x = torch.randn(500, 2, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] > 0).long()
        >>> certificate = certify("mlp-8", (x, y), d=5, epochs=5)
        >>> verify(certificate, (x, y)).verdict
        'verified'
        >>> verify(certificate, (x, 1 - y)).reason
        'the data are not those of the certificate: their SHA-256 is ...'
    """
    sample, limit = examples(data), Limit(most_memory, most_time)
    if delta is not None:
        check_delta(delta)
    try:
        if isinstance(certificate, bytes | bytearray):
            certificate = Certificate.from_bytes(bytes(certificate))
        elif not isinstance(certificate, Certificate):
            certificate = Certificate.load(certificate)
        _require_delta(certificate, delta)
        with solved_anew(most_work=MOST_ITERATED, clear_ranks=True):
            return _verified(certificate, sample, arch, checkpoint, delta, limit, progress)
    except Rejected as rejection:
        return Verdict("rejected", None, str(rejection))


def _require_delta(certificate: Certificate, most: float | None) -> None:
    if most is not None and certificate.delta > most:
        raise Rejected(f"its delta is {certificate.delta:g}, more than {most:g}")


def _verified(
    certificate: Certificate,
    sample: Examples,
    arch: nn.Module | None,
    checkpoint: Mapping[str, Tensor] | None,
    delta: float | None,
    limit: Limit,
    progress: ProgressCallback | None,
) -> Verdict:
    digest = sample.digest()
    if digest != certificate.data:
        short = Examples(sample.x.float(), sample.y)
        hint = "; they are in float32, which these are not" * (short.digest() == certificate.data)
        raise Rejected(
            f"the data are not those of the certificate: their SHA-256 is {digest[:16]}…, "
            f"it speaks of {certificate.data[:16]}…{hint}"
        )
    _require_classes(certificate, sample)
    recount, price = _decoded(certificate, sample, arch, checkpoint, limit)
    limit.require(price)
    hypothesis = recount.hypothesis
    bound, repeats = recount.bound(certificate.delta, progress), sample.repeats()
    details = {
        "errors": bound.errors,
        "n": bound.n,
        "repeated_rows": repeats,
        "delta": bound.delta,
        "message_bits": certificate.message_bits,
        "kind": bound.kind,
        "model": str(hypothesis.architecture or certificate.model),
        "d": hypothesis.d,
        "levels": len(hypothesis.codebook),
        "goal": hypothesis.goal.kind,
        "tolerance": hypothesis.goal.tolerance,
        "start": hypothesis.start,
        "groups": [str(group) for group in hypothesis.groups],
    }
    if certificate.claims["kind"] != bound.kind:
        raise Rejected(f"the certificate claims another kind of bound than the {bound.kind}")
    for name, found, claimed in (
        ("message bits", certificate.message_bits, certificate.claims["message_bits"]),
        ("rows", bound.n, certificate.n),
        ("errors", bound.errors, certificate.errors),
        ("bound", bound.value, certificate.bound),
    ):
        # another machine may round the last digits of the bound otherwise
        slack = 1e-9 if name == "bound" else 0
        # what is not a number is not above anything either
        if not found <= claimed + slack or (name == "rows" and found != claimed):
            return Verdict(
                "rejected",
                bound.value,
                f"the certificate claims {_text(name, claimed)}, "
                f"the bytes and the data give {_text(name, found)}",
                details=details,
            )
    missed = hypothesis.goal.tolerance
    risk = "risk" if missed is None else f"risk of missing by more than {missed:g}"
    holds = f"{risk} at most {100 * bound.value:.2f} % with probability {confidence(bound.delta)}"
    named = unchecked(certificate, hypothesis, checkpoint is not None, delta, repeats)
    if not named:
        return Verdict("verified", bound.value, holds, ALWAYS_ASSUMED, details)
    reason = f"{holds}, given that {'; that '.join(named)}"
    return Verdict("verified given", bound.value, reason, (*ALWAYS_ASSUMED, *named), details)


def _decoded(
    certificate: Certificate,
    sample: Examples,
    arch: nn.Module | None,
    checkpoint: Mapping[str, Tensor] | None,
    limit: Limit,
) -> tuple[Recount, Price]:
    """The network, ready to be counted, and what all of it costs."""
    price = decoding_price(certificate.message)
    limit.require(price)
    hypothesis = certificate.hypothesis()
    if hypothesis.to_message() != certificate.message:
        raise Rejected("the message is not the one that says its network")
    try:
        hypothesis.goal.check(sample.y)
    except ValueError as error:
        raise Rejected(f"the network and the data do not fit: {error}") from None
    module, price, work = rebuilt_module(certificate, hypothesis, sample, arch, limit, price)
    start = rebuilt_start(certificate, hypothesis, module, checkpoint)
    try:
        network = hypothesis.network(module, start)
    except ValueError as error:
        raise Rejected(f"the message cannot be decoded into a network: {error}") from None
    recount = Recount(network, hypothesis, sample, work)
    counting = counting_price(recount.work, recount.rows, twice=hypothesis.architecture is None)
    return recount, price + counting


def verification_price(
    certificate: Certificate, data: Any, *, arch: nn.Module | None = None
) -> Price:
    """What checking a certificate costs, by the estimate that `verify` holds against its limits.

    Args:
        certificate: One that you trust, such as your own.
        data: The sample.
        arch: The user's own module, where the certificate speaks of one.

    Raises:
        ValueError: If it is not a certificate of these data and this module.

    Example:
        >>> import torch
        >>> from isotropy import certify
        >>> x = torch.randn(500, 2, generator=torch.Generator().manual_seed(0))
        >>> certificate = certify("mlp-8", (x, (x[:, 0] > 0).long()), d=5, epochs=5)
        >>> verification_price(certificate, (x, (x[:, 0] > 0).long())).seconds < 1
        True
    """
    with solved_anew(most_work=MOST_ITERATED, clear_ranks=True):
        return _decoded(certificate, examples(data), arch, None, UNLIMITED)[1]


def _require_classes(certificate: Certificate, sample: Examples) -> None:
    """The same numbers may stand for other classes, where they have names."""
    named = (certificate.notes or {}).get("classes")
    if named is not None and sample.classes is not None and list(sample.classes) != named:
        raise Rejected("the classes of the data are not those of the certificate")


def _text(name: str, value: float) -> str:
    return f"a bound of {100 * value:.4f} %" if name == "bound" else f"{value} {name}"
