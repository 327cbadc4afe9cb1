"""Checking a certificate: decode, rebuild, recount, recompute."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from isotropy._run import ProgressCallback
from isotropy.certificates._bounds import Bound, smallest_bound
from isotropy.certificates._certificate import Certificate, model_digest
from isotropy.certificates._counting import count_errors
from isotropy.certificates._examples import Examples, dealt_rows, examples
from isotropy.certificates._hypothesis import Hypothesis
from isotropy.certificates._rejected import Rejected
from isotropy.certificates._starts import pack_start, unpack_start
from isotropy.certificates._subspace import Subspace, parameter_shapes


@dataclass(frozen=True)
class Verdict:
    """What `verify` found.

    Args:
        valid: Whether every claim that can be computed was found to hold.
        bound: The bound that the bytes and the data give; ``None`` where they give none.
        reason: Why it was rejected, or a sentence that sums up what holds.
        assumes: What no computation can check, for the reader to judge.
        details: Errors, rows, bits, δ, the kind of bound, the network, what counts as an error.
    """

    valid: bool
    bound: float | None
    reason: str
    assumes: tuple[str, ...] = ()
    details: Any = None

    def __bool__(self) -> bool:
        return self.valid


def verify(
    certificate: Certificate | bytes | str | os.PathLike[str],
    data: Any,
    *,
    arch: nn.Module | None = None,
    checkpoint: Mapping[str, Tensor] | None = None,
    progress: ProgressCallback | None = None,
) -> Verdict:
    """Check a certificate against the data it speaks of, trusting nothing in it.

    The message is decoded, the network rebuilt and run in float64 on the CPU, its errors counted
    and the bound computed anew; the header's claims are compared with what comes out. No code
    named by the file is run.

    Args:
        certificate: The certificate, its bytes, or the path of the file.
        data: The sample: (x, y), a `Dataset`, or what `isotropy.data.load` reads.
        arch: The user's own module, where the certificate speaks of one.
        checkpoint: Tensors by name that the start must be, where the certificate holds one.
        progress: Told as rows are counted.

    Returns:
        The verdict; true where the certificate holds.

    Raises:
        ValueError: If the data cannot be read, or ``arch`` or ``checkpoint`` is missing or not
            wanted.

    Example:
        >>> import torch
        >>> from isotropy import certify
        >>> x = torch.randn(500, 2, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] > 0).long()
        >>> certificate = certify("mlp-8", (x, y), d=5, epochs=5)
        >>> verify(certificate, (x, y)).valid
        True
        >>> verify(certificate, (x, 1 - y)).reason
        'the data are not those of the certificate: their SHA-256 is ...'
    """
    sample = examples(data)
    try:
        if isinstance(certificate, bytes):
            certificate = Certificate.from_bytes(certificate)
        elif not isinstance(certificate, Certificate):
            certificate = Certificate.load(certificate)
        return _verified(certificate, sample, arch, checkpoint, progress)
    except Rejected as rejection:
        return Verdict(False, None, str(rejection))


def _verified(
    certificate: Certificate,
    sample: Examples,
    arch: nn.Module | None,
    checkpoint: Mapping[str, Tensor] | None,
    progress: ProgressCallback | None,
) -> Verdict:
    digest = sample.digest()
    if digest != certificate.data:
        raise Rejected(
            f"the data are not those of the certificate: their SHA-256 is {digest[:16]}…, "
            f"it speaks of {certificate.data[:16]}…"
        )
    _require_classes(certificate, sample)
    hypothesis = certificate.hypothesis()
    if hypothesis.to_message() != certificate.message:
        raise Rejected("the message is not the one that says its network")
    module = rebuilt_module(certificate, hypothesis, sample, arch)
    try:
        hypothesis.goal.check(sample.y)
    except ValueError as error:
        raise Rejected(f"the network and the data do not fit: {error}") from None
    start = _start(certificate, hypothesis, module, checkpoint)
    try:
        network = hypothesis.network(module, start)
    except ValueError as error:
        raise Rejected(f"the message cannot be decoded into a network: {error}") from None
    bound = recount(network, hypothesis, sample, certificate.delta, progress)
    details = {
        "errors": bound.errors,
        "n": bound.n,
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
                False,
                bound.value,
                f"the certificate claims {_text(name, claimed)}, "
                f"the bytes and the data give {_text(name, found)}",
                details=details,
            )
    missed = hypothesis.goal.tolerance
    risk = "risk" if missed is None else f"risk of missing by more than {missed:g}"
    return Verdict(
        True,
        bound.value,
        f"{risk} at most {100 * bound.value:.2f} % with probability {1 - bound.delta:g}",
        _assumptions(certificate, hypothesis),
        details,
    )


def _start(
    certificate: Certificate,
    hypothesis: Hypothesis,
    module: nn.Module,
    checkpoint: Mapping[str, Tensor] | None,
) -> dict[str, Tensor] | None:
    """θ₀, where the certificate holds it."""
    if hypothesis.start not in ("given", "rows"):
        if certificate.start:
            raise Rejected("the certificate holds a start that its message has no use for")
        if checkpoint is not None:
            raise ValueError(
                "expected no checkpoint for a certificate whose start is named by a seed, got one"
            )
        return None
    start = unpack_start(module, certificate.start)
    if checkpoint is not None:
        own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        for name, tensor in checkpoint.items():
            if name not in own or own[name].shape != tensor.shape:
                raise ValueError(
                    f"expected a checkpoint of {certificate.model[:80]!r}, got one with {name!r} "
                    f"of shape {tuple(tensor.shape)}"
                )
        missing = [name for name in start if name not in checkpoint]
        if missing:
            raise ValueError(f"expected {missing[0]!r} in the checkpoint, got none")
        if pack_start(module, checkpoint) != certificate.start:
            raise Rejected("the start in the certificate is not the checkpoint given")
    return start


def rebuilt_module(
    certificate: Certificate,
    hypothesis: Hypothesis,
    sample: Examples,
    arch: nn.Module | None,
) -> nn.Module:
    """The module that the message speaks of, built from the catalogue or taken from the user."""
    shape, outputs = tuple(sample.x.shape[1:]), hypothesis.goal.outputs
    if hypothesis.architecture is not None:
        if arch is not None:
            raise ValueError(
                f"expected no architecture for a certificate of {hypothesis.architecture}, got one"
            )
        if str(hypothesis.architecture) != certificate.model:
            raise Rejected(
                f"the certificate claims {certificate.model[:80]!r}, "
                f"its message is of {str(hypothesis.architecture)[:80]!r}"
            )
        if certificate.model_digest is not None:
            raise Rejected("the certificate holds the digest of a module that it has no use for")
        try:
            size = hypothesis.architecture.parameter_count(shape, outputs)
            module: nn.Module = hypothesis.architecture.build(shape, outputs)
        except ValueError as error:
            raise Rejected(f"the network does not fit the data: {error}") from None
    else:
        if arch is None:
            raise ValueError(
                f"expected the architecture of {certificate.model[:80]!r}, which is not in the "
                "catalogue; give it with --arch path/to/module.py:factory"
            )
        module = arch
        if (type(module).__name__, model_digest(module)) != (
            certificate.model,
            certificate.model_digest,
        ):
            raise Rejected("the architecture given is not the one of the certificate")
        size = sum(shape.numel() for shape in parameter_shapes(module).values())
    if hypothesis.d > size:
        raise Rejected(f"the message has {hypothesis.d} weights for {size} parameters")
    return module


def recount(
    network: Subspace,
    hypothesis: Hypothesis,
    sample: Examples,
    delta: float,
    progress: ProgressCallback | None = None,
) -> Bound:
    """Count the errors on the certified rows, in float64 on the CPU, and bound the risk."""
    if hypothesis.percent is not None:
        try:
            sample = sample.rows(dealt_rows(len(sample), hypothesis.percent)[1])
        except ValueError as error:
            raise Rejected(str(error)) from None
    bits = 8 * len(hypothesis.to_message())
    errors = count_errors(network, hypothesis.goal, sample, hypothesis.input_scale, progress)
    # the tail is below every other kind at the same delta, so there is no choice to pay for
    return smallest_bound(errors, len(sample), bits, delta, kinds=("binomial_tail",))


def _require_classes(certificate: Certificate, sample: Examples) -> None:
    """The same numbers may stand for other classes, where they have names."""
    named = (certificate.notes or {}).get("classes")
    if named is not None and sample.classes is not None and list(sample.classes) != named:
        raise Rejected("the classes of the data are not those of the certificate")


def _assumptions(certificate: Certificate, hypothesis: Hypothesis) -> tuple[str, ...]:
    found = [
        "the rows are independent draws from the distribution that the risk refers to; delta, and "
        "which classes there are, was known beforehand"
    ]
    if hypothesis.architecture is None:
        found.append(
            f"the module {certificate.model[:80]!r}, its constants and its buffers were made "
            "without looking at the rows"
        )
    if hypothesis.groups:
        names = ", ".join(map(str, hypothesis.groups))
        found.append(f"the module uses no symmetry but {names[:200]}, which is paid for")
    if hypothesis.start == "given":
        found.append("the start was fixed before the rows were seen")
    if hypothesis.start == "rows":
        found.append(
            f"the start was trained on the {hypothesis.percent} % dealt to it and no other row, "
            "and not chosen among several by how they do on the others"
        )
    return tuple(found)


def _text(name: str, value: float) -> str:
    return f"a bound of {100 * value:.4f} %" if name == "bound" else f"{value} {name}"
