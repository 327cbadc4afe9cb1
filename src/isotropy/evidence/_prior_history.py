"""What learning priors has found, and how it came there."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from isotropy.evidence._effective_parameters import EffectiveParameters
from isotropy.evidence._laplace import Laplace


@dataclass(frozen=True)
class PriorEstimate:
    """The priors after one update.

    Args:
        epoch: After how many epochs.
        loss: The MAP loss of that epoch: the mean of −log p over its batches, divided by the
            temperature, and ½ Σ δ‖θ‖²/N.
        log_marginal_likelihood: The log evidence, with these precisions.
        precisions: By group.
        noise: The standard deviation of observations; None where the likelihood has none.
        effective: The number of parameters that the data determine, by group.
        hyperparameters: Values of what else the evidence learns, by name, as (nested) lists.

    Example:
        >>> estimate = PriorEstimate(10, 0.7, -80.0, {"weight": 2.0}, None, {"weight": 1.5})
        >>> PriorEstimate(**estimate.to_json()) == estimate
        True
    """

    epoch: int
    loss: float
    log_marginal_likelihood: float
    precisions: dict[str, float]
    noise: float | None
    effective: dict[str, float]
    hyperparameters: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """All of it, of what JSON knows."""
        return asdict(self)


@dataclass(frozen=True)
class LearnedPriors:
    """What ``learn_priors`` returns; the network it was given has the parameters.

    Args:
        precisions: Prior precisions by group.
        noise: The standard deviation of observations; None where the likelihood has none.
        log_marginal_likelihood: The log evidence at the end.
        effective: How many parameters the data determine, at the end.
        history: The priors after every update; the last entry is the end.
        losses: The MAP loss of every epoch.
        laplace: The approximation at the end.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from isotropy.evidence import learn_priors
        >>> x = torch.randn(40, 2)
        >>> found = learn_priors(nn.Linear(2, 1), "regression", (x, x.sum(1)), epochs=12)
        >>> sorted(found.precisions)
        ['bias', 'weight']
        >>> print(*(estimate.epoch for estimate in found.history))
        10 12
    """

    precisions: dict[str, float]
    noise: float | None
    log_marginal_likelihood: float
    effective: EffectiveParameters
    history: tuple[PriorEstimate, ...]
    losses: tuple[float, ...]
    laplace: Laplace = field(repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """All but the approximation, of what JSON knows."""
        return {
            "precisions": dict(self.precisions),
            "noise": self.noise,
            "log_marginal_likelihood": self.log_marginal_likelihood,
            "effective": dict(self.effective.counts),
            "sizes": dict(self.effective.sizes),
            "history": [estimate.to_json() for estimate in self.history],
            "losses": list(self.losses),
        }

    def __str__(self) -> str:
        noise = "" if self.noise is None else f", noise {self.noise:.3g}"
        width = max(map(len, self.precisions))
        lines = [
            f"log evidence {self.log_marginal_likelihood:.2f}{noise}",
            f"{'':{width}}  precision  effective       of  share",
        ]
        share = self.effective.normalised
        lines += [
            f"{name:{width}}  {delta:9.2e}  {self.effective.counts[name]:9.1f} "
            f"{self.effective.sizes[name]:8d} {share[name]:6.1%}"
            for name, delta in self.precisions.items()
        ]
        return "\n".join(lines)
