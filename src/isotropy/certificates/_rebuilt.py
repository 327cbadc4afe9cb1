"""The network that a message speaks of, built for no more than a limit allows."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from isotropy.certificates._architectures import Architecture
from isotropy.certificates._certificate import Certificate, model_digest
from isotropy.certificates._counting import BATCH_MEMORY
from isotropy.certificates._examples import Examples
from isotropy.certificates._header import Rejected
from isotropy.certificates._hypothesis import Hypothesis
from isotropy.certificates._initial import unpack_start
from isotropy.certificates._price import Limit, Price, network_price, space_price
from isotropy.certificates._row_work import RowWork, row_work
from isotropy.certificates._subspace import parameter_shapes


def rebuilt_module(
    certificate: Certificate,
    hypothesis: Hypothesis,
    sample: Examples,
    arch: nn.Module | None,
    limit: Limit,
    price: Price,
) -> tuple[nn.Module, Price, RowWork | None]:
    """The module that the message speaks of, built from the catalogue or taken from the user.

    Returns:
        The module, what it costs together with what was spent before, and what a row will take
        where that is known.

    Raises:
        Rejected: If it does not fit the data, or would cost more than the limit.
        ValueError: If ``arch`` is missing, or not wanted.
    """
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
            return _built(hypothesis, hypothesis.architecture, sample, limit, price)
        except Rejected:
            raise
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
    _require_parameters(hypothesis, module)
    price += network_price(hypothesis, module)
    limit.require(price)
    return module, price, None


def _built(
    hypothesis: Hypothesis, architecture: Architecture, sample: Examples, limit: Limit, price: Price
) -> tuple[nn.Module, Price, RowWork | None]:
    """A network of the catalogue, first without memory, to know what it costs."""
    shape, outputs = tuple(sample.x.shape[1:]), hypothesis.goal.outputs
    architecture.require_inputs(shape, outputs)
    price += space_price(architecture, shape)
    limit.require(price)
    empty = architecture.build(shape, outputs, device="meta")
    _require_parameters(hypothesis, empty)
    price += network_price(hypothesis, empty)
    limit.require(price)
    work = None
    if architecture.name != "mlp":
        rows = torch.empty(1, *shape, dtype=torch.float64, device="meta")
        work = row_work(empty.double(), rows)
        limit.require(price + counting_price(work, sample))
    return architecture.build(shape, outputs), price, work


def _require_parameters(hypothesis: Hypothesis, module: nn.Module) -> None:
    size = sum(shape.numel() for shape in parameter_shapes(module).values())
    if hypothesis.d > size:
        raise Rejected(f"the message has {hypothesis.d} weights for {size} parameters")


def counting_price(work: RowWork, rows: Examples, *, twice: bool = False) -> Price:
    """Of running rows in batches that fit."""
    memory = work.fixed_bytes + max(work.bytes, BATCH_MEMORY)
    return Price(memory, work.seconds * len(rows) * (2 if twice else 1))


def rebuilt_start(
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
    own_module = hypothesis.architecture is None
    start = unpack_start(module, certificate.start, buffers=own_module)
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
        given = {name: checkpoint[name].detach().cpu().float() for name in start}
        if not all(torch.equal(given[name], start[name].float()) for name in start):
            raise Rejected("the start in the certificate is not the checkpoint given")
    return start
