"""Flexible paths whose priors are learned while many copies of a network are trained together.

A batched, simpler relative of ``isotropy.evidence.learn_priors`` for networks of any kind: the
curvature is a diagonal from random passes, and only the precisions of flexible paths are learned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, log

import torch
from torch import Tensor, nn

from isotropy.nn import tensor_priors

PROBES = 16
_LIMITS = 1e-8, 1e12
_ROUNDS = 60


class LearnedPenalties:
    """Penalties λ Σ cθ² of a mean squared error whose strengths the evidence decides.

    With precisions δ, noise s and M numbers to be predicted, λ = s²δ/M. They begin at the variances
    that the network's ``PathSum`` layers have, and stay there for the strict paths.

    Args:
        network: The network.
        copies: How many copies are trained.
        terms: M.
        noise: The standard deviation s of the observations to begin with.
        device: Where they are used.

    Example:
        >>> from isotropy.nn import PathSum
        >>> soft = PathSum({"free": nn.Linear(1, 1, bias=False)}, prior_variances={"free": 0.01})
        >>> penalties = LearnedPenalties(soft, copies=2, terms=100)
        >>> penalties.by_name()["paths.free.weight"].flatten().round(decimals=4)
        tensor([1., 1.])
    """

    def __init__(
        self,
        network: nn.Module,
        copies: int,
        terms: int,
        *,
        noise: float = 1.0,
        device: torch.device | str = "cpu",
    ) -> None:
        self.terms = terms
        self.names: list[str] = []
        self._lengths: list[Tensor] = []
        starts: list[float] = []
        for prior in tensor_priors(network):
            self.names.append(prior.name)
            c = prior.squared_lengths
            like = torch.ones(1, device=device) if c is None else c.detach().to(device)
            self._lengths.append(like.expand(prior.parameter.shape).contiguous())
            starts.append(-float(prior.log_variance))
        self._learned = torch.tensor([".free." in f".{name}" for name in self.names]).to(device)
        self.log_precisions = torch.tensor(starts).double().to(device).repeat(copies, 1)
        self.log_noise = torch.full((copies,), log(noise)).double().to(device)
        self._penalties = [
            torch.zeros(copies, *c.shape, device=device, dtype=c.dtype) for c in self._lengths
        ]
        self._write()

    def by_name(self) -> dict[str, Tensor]:
        """The present λc of every tensor, shape (copies, *its shape); updated in place."""
        return dict(zip(self.names, self._penalties, strict=True))

    @torch.no_grad()
    def update(
        self, parameters: Mapping[str, Tensor], curvature: Sequence[Tensor], squares: Tensor
    ) -> None:
        """Go to where the evidence of a given curvature is largest: γ = δ Σ cθ² in every tensor.

        The noise is the root mean square of the residuals.

        Args:
            parameters: θ of all copies by name, shape (copies, …).
            curvature: The diagonal of JᵀJ for each tensor, shape (copies, …).
            squares: The sum of squared residuals of each copy, shape (copies,).
        """
        self.log_noise = 0.5 * (squares.double().clamp_min(1e-300) / self.terms).log()
        scale = (-2 * self.log_noise).exp().unsqueeze(1)
        low, high = map(log, _LIMITS)
        for k in self._learned.nonzero().flatten().tolist():
            c, theta = self._lengths[k], parameters[self.names[k]].detach()
            values = scale * (curvature[k] / c).flatten(1).double()
            norm = (c * theta.square()).flatten(1).sum(1).double()
            found = self.log_precisions[:, k]
            for _ in range(_ROUNDS):
                effective = (values / (values + found.exp().unsqueeze(1))).sum(1)
                # the mean of both: see isotropy.evidence.best_precisions
                # where there is neither curvature nor weight, the data need none
                wanted = (effective / norm).nan_to_num(inf, inf).log().clamp(low, high)
                found = (found + wanted) / 2
            self.log_precisions[:, k] = found
        self._write()

    def _write(self) -> None:
        strength = (self.log_precisions + 2 * self.log_noise.unsqueeze(1)).exp() / self.terms
        for k, (kept, c) in enumerate(zip(self._penalties, self._lengths, strict=True)):
            kept.copy_(strength[:, k].view(-1, *[1] * c.ndim) * c)


def random_passes(
    outputs: Callable[[], Tensor], weights: Sequence[Tensor], signs: Tensor, sums: Sequence[Tensor]
) -> None:
    """Add (Jᵀv)² for signs v, whose mean is the diagonal of JᵀJ.

    Args:
        outputs: Computes the outputs of all copies, shape (copies, rows, …).
        weights: The parameters, shape (copies, …).
        signs: v, of the shape of the outputs.
        sums: What to add to, one for each of the parameters.
    """
    slopes = torch.autograd.grad(
        outputs(), weights, signs, allow_unused=True, materialize_grads=True
    )
    for total, slope in zip(sums, slopes, strict=True):
        total.add_(slope.square())
