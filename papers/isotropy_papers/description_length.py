"""How short a model makes the labels, and how short no model can make random ones."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, log2

import torch
from torch import Tensor


@dataclass(frozen=True)
class DescriptionLength:
    """The labels sent as a model and what the model leaves open, in bits.

    Attributes:
        model_bits: The length K(h) of the model in a prefix-free code.
        nll_bits: The negative log likelihood of the labels, −Σᵢ log₂ h(xᵢ)_{yᵢ}.
        raw_bits: The length of the labels without a model, n log₂ classes.

    Example:
        >>> length = DescriptionLength(model_bits=100, nll_bits=49.0, raw_bits=300.0)
        >>> length.label_bits, length.total_bits, length.ratio
        (50.0, 150.0, 0.5)
    """

    model_bits: float
    nll_bits: float
    raw_bits: float

    @property
    def label_bits(self) -> float:
        """The labels given the model: a Shannon code of them all takes less than NLL + 1."""
        return self.nll_bits + 1

    @property
    def total_bits(self) -> float:
        """The model and the labels given the model."""
        return self.model_bits + self.label_bits

    @property
    def ratio(self) -> float:
        """The total over the raw labels: below 1 where the model compresses them."""
        return self.total_bits / self.raw_bits


def description_length(
    message_bits: float, logits: Tensor, labels: Tensor, *, classes: int | None = None
) -> DescriptionLength:
    """The labels sent as a model and what it leaves open: K(h) + NLL (Figure A.6).

    Args:
        message_bits: The length of the model in a prefix-free code.
        logits: What the model says of each sample, (n, classes): logits or logarithms of
            probabilities.
        labels: The classes of the samples, (n,), integers from 0 on.
        classes: The number of classes, where it is to be checked.

    Raises:
        TypeError: If the labels are not integers, or the bits not a number.
        ValueError: If the bits are negative, shapes do not fit, a label is out of range, or a
            row of logits has no probabilities.

    Example:
        >>> sure = torch.tensor([[9.0, -9.0], [-9.0, 9.0]]).repeat(500, 1)
        >>> length = description_length(40, sure, torch.tensor([0, 1]).repeat(500))
        >>> length.raw_bits, round(length.total_bits, 3)
        (1000.0, 41.0)
    """
    bits = _number("message_bits", message_bits)
    if not 0 <= bits < inf:
        raise ValueError(f"expected message_bits to be finite and at least 0, got {bits}")
    _check_shapes(logits, labels, classes)
    # taking logarithms of probabilities for logits changes nothing
    log_probabilities = torch.log_softmax(logits.detach().double(), dim=1)
    if bool(log_probabilities.isnan().any()):
        raise ValueError("expected logits with a finite largest one in every row, got NaN or ∞")
    chosen = labels.long().to(log_probabilities.device)[:, None]
    nll = -float(log_probabilities.gather(1, chosen).sum()) / log(2)
    count, classes = logits.shape
    return DescriptionLength(bits, max(nll, 0.0), count * log2(classes))


def incompressible_below(raw_bits: float, nll_bits: float, delta: float) -> float:
    """The bits that every model of random labels has at least, with probability 1 − δ.

        K(h) > raw_bits − NLL − log₂(1/δ)   for all h of a prefix-free code at once.

    The labels are drawn uniformly from 2^raw_bits strings: n log₂ classes where each label is
    uniform, log₂ of the number of rearrangements where given labels are shuffled. A prefix-free
    code and models that give probabilities have Σ_D Σ_h 2^{−K(h)} h(D) ≤ 1 over label strings D,
    so the mean over D of max_h 2^{−K(h) − NLL(D|h)} is at most 2^{−raw_bits}, and by Markov's
    inequality it exceeds 2^{−raw_bits}/δ with probability at most δ.

    (A.15) of Finzi (2023) has two bits less on the right: one because it counts all programs and
    not only prefix-free ones, one because it rounds the NLL up to a whole code. Both are valid;
    for a prefix-free code neither is needed, and no constant above this one is valid.

    Args:
        raw_bits: The length of the labels without a model.
        nll_bits: Their negative log likelihood under the model, in bits.
        delta: The probability with which some model may be shorter.

    Returns:
        The bits, 0 where nothing can be said.

    Raises:
        TypeError: If one of them is not a number.
        ValueError: If one of them is out of range.

    Example:
        >>> round(incompressible_below(60_000 * log2(10), 0.0, 0.05))
        199311
    """
    raw, nll = _number("raw_bits", raw_bits), _number("nll_bits", nll_bits)
    delta = _number("delta", delta)
    for name, value in (("raw_bits", raw), ("nll_bits", nll)):
        if not value >= 0:
            raise ValueError(f"expected {name} to be at least 0, got {value}")
    if raw == inf:
        raise ValueError("expected raw_bits to be finite, got inf")
    if not 0 < delta < 1:
        raise ValueError(f"expected delta between 0 and 1, both excluded, got {delta}")
    return max(raw - nll + log2(delta), 0.0)


def _number(name: str, value: float) -> float:
    try:
        if not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise TypeError(f"expected a number as {name}, got {value!r}")


def _check_shapes(logits: Tensor, labels: Tensor, classes: int | None) -> None:
    if logits.ndim != 2 or logits.shape[0] < 1 or logits.shape[1] < 2:
        got = tuple(logits.shape)
        raise ValueError(f"expected logits of shape (n, classes) with 2 classes or more, got {got}")
    if classes is not None and classes != logits.shape[1]:
        raise ValueError(f"expected logits of {classes} classes, got {logits.shape[1]}")
    if labels.shape != logits.shape[:1]:
        got = tuple(labels.shape)
        raise ValueError(f"expected labels of shape ({len(logits)},), got {got}")
    if labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise TypeError(f"expected integers as labels, got {labels.dtype}")
    least, most = int(labels.min()), int(labels.max())
    if least < 0 or most >= logits.shape[1]:
        wrong = least if least < 0 else most
        raise ValueError(f"expected labels from 0 to {logits.shape[1] - 1}, got {wrong}")
