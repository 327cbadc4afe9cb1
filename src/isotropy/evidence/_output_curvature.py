"""Square roots of a likelihood's curvature at the output, as cotangents for backward passes.

With Λ the Hessian of −log p(y | f) in the outputs f of one sample, cotangents v of the shape of
the outputs are made such that, sample by sample, Σ vvᵀ = Λ, exactly or in expectation. For the
likelihoods at hand Λ does not depend on y, so it is the Fisher information too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod, sqrt
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from isotropy._run import generator as make_generator
from isotropy.evidence._likelihoods import Bernoulli, Categorical, Gaussian, Likelihood

# from the numbers of some columns, shape (m,), to those columns, shape (m, *outputs.shape)
_Columns: TypeAlias = Callable[[Tensor], Tensor]


def root_count(likelihood: Likelihood, outputs: Tensor) -> int:
    """How many columns an exact square root of the curvature has.

    Example:
        >>> root_count(Categorical(), torch.zeros(5, 10))
        9
        >>> root_count(Gaussian(), torch.zeros(5, 2, 3))
        6
    """
    _check(likelihood, outputs)
    if isinstance(likelihood, Categorical):
        return (outputs.shape[1] - 1) * prod(outputs.shape[2:])
    return prod(outputs.shape[1:])


def root_columns(likelihood: Likelihood, outputs: Tensor) -> Iterator[Tensor]:
    """The columns v of an exact square root: Σ vvᵀ = Λ for every sample.

    For K classes there are K − 1 columns at each position. With q = √p and H the reflection
    that takes q to −e_m, Λ = diag(p) − ppᵀ = diag(q) (I − qqᵀ) diag(q) = SSᵀ, where S is
    diag(q) H without its column m. Its columns are

        q_c (e_c − w),    w_i = p_i / (1 + q_m),  w_m = q_m,

    and m is the likeliest class of each sample, so that nothing cancels where p_m is almost one.
    Otherwise there is a column for every entry of the output: a unit vector times √(p(1 − p)),
    or times one for regression, where Λ is meant at noise one.

    Example:
        >>> logits = torch.randn(7, 3)
        >>> hessian = sum(v[:, :, None] * v[:, None] for v in root_columns(Categorical(), logits))
        >>> p = logits.softmax(1)
        >>> torch.allclose(hessian, torch.diag_embed(p) - p[:, :, None] * p[:, None], atol=1e-6)
        True
    """
    count = root_count(likelihood, outputs)
    columns = _root(likelihood, outputs)
    numbers = torch.arange(count, device=outputs.device)
    return (columns(one)[0] for one in numbers.split(1))


def sampled_columns(
    likelihood: Likelihood,
    outputs: Tensor,
    probes: int = 1,
    generator: torch.Generator | int | None = None,
) -> Iterator[Tensor]:
    """Monte-Carlo Fisher: v = ∇_f (−log p(y | f)) / √probes with y drawn from p(y | f).

    Draws at different positions are independent and share a cotangent, so E Σ vvᵀ = Λ, between
    positions too. Each v carries a factor √p(y | f) / √p(y | f) of which only the numerator is
    differentiated: it is one, and makes derivatives in ``outputs`` unbiased although y is drawn.
    They are thus not the derivatives at fixed y.

    Example:
        >>> logits = torch.zeros(2, 3)
        >>> (v,) = sampled_columns(Categorical(), logits, generator=0)
        >>> v.sum(1).abs().max() < 1e-6
        tensor(True)
    """
    _check(likelihood, outputs)
    scale, rng = 1 / sqrt(_checked(probes)), make_generator(generator, outputs.device)
    return (scale * _sampled(likelihood, outputs, rng) for _ in range(probes))


def sign_columns(
    likelihood: Likelihood,
    outputs: Tensor,
    probes: int = 1,
    generator: torch.Generator | int | None = None,
) -> Iterator[Tensor]:
    """Random signs: v = Σ_c ε_c v_c / √probes over the columns v_c of `root_columns`.

    Signs ε are independent for every sample, column and position, so E Σ vvᵀ = Λ, and so for
    derivatives in ``outputs``. The columns are never formed.

    Example:
        >>> (v,) = sign_columns(Gaussian(), torch.zeros(1, 4), generator=0)
        >>> v.abs()
        tensor([[1., 1., 1., 1.]])
    """
    _check(likelihood, outputs)
    scale, rng = 1 / sqrt(_checked(probes)), make_generator(generator, outputs.device)
    return (scale * _signed(likelihood, outputs, _signs(outputs, rng)) for _ in range(probes))


# --- exact ------------------------------------------------------------------------------------


def _root(likelihood: Likelihood, outputs: Tensor) -> _Columns:
    if isinstance(likelihood, Categorical):
        return _categorical_root(outputs)
    if isinstance(likelihood, Bernoulli):
        return _diagonal_root(_binary_deviation(outputs))
    return _diagonal_root(torch.ones_like(outputs))


def _categorical_root(outputs: Tensor) -> _Columns:
    q, w, pivot = _reflection(outputs.flatten(2) if outputs.ndim > 2 else outputs[..., None])
    _, classes, positions = q.shape
    rows = torch.arange(classes, device=q.device)[:, None]
    places = torch.arange(positions, device=q.device)

    def columns(numbers: Tensor) -> Tensor:
        which, place = numbers // positions, numbers % positions
        label = (pivot + 1 + which[:, None, None, None]) % classes
        unit = (rows == label).to(q.dtype)
        scale = q.expand(len(numbers), *q.shape).gather(2, label)
        here = (places == place[:, None])[:, None, None]
        return (scale * (unit - w) * here).reshape(-1, *outputs.shape).to(outputs.dtype)

    return columns


def _reflection(outputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """√p, w and the pivot m of `root_columns`, with classes along axis 1."""
    # √ of an underflown p would have an infinite slope; exp has none
    q = (functional.log_softmax(_wide(outputs), 1) / 2).exp()
    pivot = q.argmax(1, keepdim=True)
    at_pivot = q.gather(1, pivot)
    w = (q.square() / (1 + at_pivot)).scatter(1, pivot, at_pivot)
    return q, w, pivot


def _diagonal_root(deviation: Tensor) -> _Columns:
    entries = torch.arange(prod(deviation.shape[1:]), device=deviation.device)
    flat = deviation.reshape(len(deviation), -1)

    def columns(numbers: Tensor) -> Tensor:
        here = (entries == numbers[:, None])[:, None]
        return (flat * here).reshape(-1, *deviation.shape)

    return columns


def _binary_deviation(outputs: Tensor) -> Tensor:
    """√(p(1 − p)), with slopes that stay finite where it underflows."""
    wide = _wide(outputs)
    both = functional.logsigmoid(wide) + functional.logsigmoid(-wide)
    return (both / 2).exp().to(outputs.dtype)


# --- random -----------------------------------------------------------------------------------


def _signed(likelihood: Likelihood, outputs: Tensor, signs: Tensor) -> Tensor:
    if isinstance(likelihood, Gaussian):
        return signs
    if isinstance(likelihood, Bernoulli):
        return signs * _binary_deviation(outputs)
    q, w, pivot = _reflection(outputs)
    signed = (q * signs).scatter(1, pivot, 0.0)
    return (signed - w * signed.sum(1, keepdim=True)).to(outputs.dtype)


def _sampled(likelihood: Likelihood, outputs: Tensor, rng: torch.Generator) -> Tensor:
    drawn = torch.empty(outputs.shape, device=rng.device, dtype=_wide_type(outputs))
    if isinstance(likelihood, Gaussian):
        return drawn.normal_(generator=rng).to(outputs)
    if isinstance(likelihood, Bernoulli):
        uniform = drawn.uniform_(generator=rng).to(outputs.device)
        return _binary_gradient(outputs, uniform < _wide(outputs).sigmoid())
    # the first of exponential clocks with rates p to ring is class c with probability p_c
    clocks = drawn.exponential_(generator=rng).to(outputs.device)
    labels = (functional.log_softmax(_wide(outputs), 1) - clocks.log()).argmax(1)
    return _categorical_gradient(outputs, labels)


def _categorical_gradient(outputs: Tensor, labels: Tensor) -> Tensor:
    """∇(−log p) at labels of shape (samples, …), times √p over itself held fixed."""
    log_p = functional.log_softmax(_wide(outputs), 1)
    chosen = log_p.gather(1, labels[:, None])
    hot = torch.zeros_like(log_p).scatter(1, labels[:, None], 1.0)
    return (_one(chosen) * (log_p.exp() - hot)).to(outputs.dtype)


def _binary_gradient(outputs: Tensor, labels: Tensor) -> Tensor:
    """∇(−log p) at labels of the shape of outputs, times √p over itself held fixed."""
    sign = torch.where(labels, 1.0, -1.0).to(_wide_type(outputs))
    signed = sign * _wide(outputs)
    weight = _one(functional.logsigmoid(signed))
    return (-weight * sign * torch.sigmoid(-signed)).to(outputs.dtype)


def _one(log_p: Tensor) -> Tensor:
    return ((log_p - log_p.detach()) / 2).exp()


def _signs(outputs: Tensor, rng: torch.Generator) -> Tensor:
    bits = torch.randint(2, outputs.shape, generator=rng, device=rng.device)
    return (2 * bits - 1).to(outputs)


# --- kinds of numbers, checks -----------------------------------------------------------------


def _wide_type(outputs: Tensor) -> torch.dtype:
    return torch.promote_types(outputs.dtype, torch.float32)


def _wide(outputs: Tensor) -> Tensor:
    return outputs.to(_wide_type(outputs))


def _check(likelihood: Likelihood, outputs: Tensor) -> None:
    if not isinstance(likelihood, Categorical | Bernoulli | Gaussian):
        raise TypeError(
            "expected a Categorical, Bernoulli or Gaussian likelihood, "
            f"got {type(likelihood).__name__}"
        )
    likelihood.check_outputs(outputs)


def _checked(probes: int) -> int:
    if probes < 1:
        raise ValueError(f"expected at least one probe, got {probes}")
    return probes
