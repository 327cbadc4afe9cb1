"""The pull of Gaussian priors on parameters that gradient steps train."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import torch
from torch import Tensor

# of step size times pull: above 2 gradient steps diverge, and well below they oscillate
_STRONG = 0.5


class PriorPull:
    """What ½ Σ δcθ²/N adds to a loss: its value, its gradient, or an implicit step.

    Args:
        values: The parameters θ.
        lengths: Squared lengths c for each of them, of its shape or one; None for c = 1.

    Example:
        >>> theta = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
        >>> pull = PriorPull([theta], [torch.tensor([3.0, 1.0])])
        >>> pull.add_gradient([0.5])
        >>> theta.grad
        tensor([1.5000, 1.0000])
        >>> pull.value([0.5])
        tensor(1.7500, dtype=torch.float64)
    """

    def __init__(self, values: Sequence[Tensor], lengths: Sequence[Tensor | None]) -> None:
        self._values = list(values)
        self._lengths = [
            None if c is None else c.to(p).expand_as(p).contiguous()
            for p, c in zip(values, lengths, strict=True)
        ]
        self._longest = [1.0 if c is None else float(c.max()) for c in self._lengths]

    def explicit(
        self, strengths: Sequence[float], rates: Sequence[float], samples: int
    ) -> list[float]:
        """The strengths δ/N to take gradients with; zero where that would overshoot."""
        return [
            # a rate that is too large for a precision of 1 is left to diverge, which is reported
            0.0 if rate / samples < _STRONG <= rate * strength * longest else strength
            for strength, rate, longest in zip(strengths, rates, self._longest, strict=True)
        ]

    @torch.no_grad()
    def add_gradient(self, strengths: Sequence[float]) -> None:
        """Add δcθ/N to the gradient of each parameter."""
        for parameter in self._values:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [p.grad for p in self._values if p.grad is not None]
        if self._values[0].is_cuda:
            self._add_together(gradients, strengths)
            return
        every = zip(gradients, self._values, strengths, self._lengths, strict=True)
        for gradient, parameter, strength, c in every:
            if c is None:
                gradient.add_(parameter, alpha=strength)
            else:
                gradient.addcmul_(parameter, c, value=strength)

    def _add_together(self, gradients: Sequence[Tensor], strengths: Sequence[float]) -> None:
        """The same in few launches; on a processor the loop is quicker."""
        plain = [c is None for c in self._lengths]
        if any(plain):
            pulls = torch._foreach_mul(
                list(compress(self._values, plain)), list(compress(strengths, plain))
            )
            torch._foreach_add_(list(compress(gradients, plain)), list(pulls))
        scaled = [not one for one in plain]
        if any(scaled):
            torch._foreach_addcmul_(
                list(compress(gradients, scaled)),
                list(compress(self._values, scaled)),
                [c for c in self._lengths if c is not None],
                list(compress(strengths, scaled)),
            )

    @torch.no_grad()
    def shrink(
        self, strengths: Sequence[float], explicit: Sequence[float], rates: Sequence[float]
    ) -> None:
        """The implicit step θ/(1 + rate·δc/N) for strong priors, on which gradients overshoot.

        Its fixed point under gradient descent is that of the gradient, at any rate.
        """
        strong = [k for k, strength in enumerate(explicit) if strength != strengths[k]]
        plain = [k for k in strong if self._lengths[k] is None]
        if plain:
            torch._foreach_div_(
                [self._values[k] for k in plain], [1 + rates[k] * strengths[k] for k in plain]
            )
        for k in strong:
            if (c := self._lengths[k]) is not None:
                self._values[k].div_(1 + rates[k] * strengths[k] * c)

    def value(self, strengths: Sequence[float]) -> Tensor:
        """½ Σ δcθ²/N, in float64."""
        device = self._values[0].device
        total = torch.zeros((), dtype=torch.float64, device=device)
        for parameter, strength, c in zip(self._values, strengths, self._lengths, strict=True):
            squares = parameter.detach().double().square()
            one = squares.sum() if c is None else (c * squares).sum()
            total = total + strength * one.to(device)
        return total / 2
