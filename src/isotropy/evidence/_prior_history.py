"""What learning priors has found, and how it came there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import log
from typing import Any

from isotropy.evidence._effective_parameters import EffectiveParameters
from isotropy.evidence._laplace import Laplace

_FLAT = 0.05  # a slope of the evidence, for each parameter that the data determine
_STILL = log(1.2)  # a change of log δ in one update
_HALF = 0.5  # fewer parameters than this are as good as none


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


def unsettled(
    slopes: Mapping[str, float],
    noise_slope: float | None,
    effective: EffectiveParameters,
    terms: float,
) -> tuple[str, ...]:
    """The priors of which the evidence still asks for others.

    Example:
        >>> effective = EffectiveParameters({"a": 40.0, "b": 0.1}, {"a": 50, "b": 50})
        >>> unsettled({"a": 1.9, "b": 0.06}, 6.0, effective, 100)
        ('b', 'noise')
    """
    found = [
        name
        for name, slope in slopes.items()
        if not abs(slope) <= _FLAT * max(effective.counts[name], 1.0)
    ]
    if noise_slope is not None and not abs(noise_slope) <= _FLAT * terms:
        found.append("noise")
    return tuple(found)


@dataclass(frozen=True)
class LearnedPriors:
    """What ``learn_priors`` returns; the network it was given has the parameters.

    Args:
        precisions: Prior precisions by group.
        noise: The standard deviation of observations; None where the likelihood has none.
        log_marginal_likelihood: The log evidence at the end.
        effective: How many parameters the data determine, at the end.
        slopes: By how much the log evidence still changes with log δ, by group, at the end.
        noise_slope: The same with log σ; None where the noise is not learned.
        unsettled: The groups, and "noise", whose slope is not small (see ``settled``).
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
        >>> found.settled  # one update is not enough
        False
    """

    precisions: dict[str, float]
    noise: float | None
    log_marginal_likelihood: float
    effective: EffectiveParameters
    slopes: dict[str, float]
    noise_slope: float | None
    unsettled: tuple[str, ...]
    history: tuple[PriorEstimate, ...]
    losses: tuple[float, ...]
    laplace: Laplace = field(repr=False, compare=False)

    @property
    def settled(self) -> bool:
        """Whether the evidence asks for no other priors: it is as good as flat in all of them.

        That is, |slope| ≤ 0.05 max(γ, 1) for every group, where the slope is ½(γ − δ‖θ‖²): a
        precision is right to a tenth, or next to no parameter depends on it. For the noise it is
        |slope| ≤ 0.05 M/T with M target entries: σ is right to some percent. Priors that are not
        learned count too: the evidence may ask for others than those given. And no precision may
        be on its way (``moving``): weights that exchange their work between paths take long, with
        an evidence that is flat at every moment.
        """
        return not self.unsettled and not self.moving

    @property
    def moving(self) -> tuple[str, ...]:
        """The groups whose precision changed by more than a fifth in the last update.

        Of those that determine something: γ of at least one half, before or after.
        """
        updates = self.history[:-1]
        if len(updates) < 2:
            return ()
        before, after = updates[-2:]
        return tuple(
            name
            for name, precision in after.precisions.items()
            if abs(log(precision / before.precisions[name])) > _STILL
            and max(before.effective[name], after.effective[name]) >= _HALF
        )

    def to_json(self) -> dict[str, Any]:
        """All but the approximation, of what JSON knows."""
        return {
            "precisions": dict(self.precisions),
            "noise": self.noise,
            "log_marginal_likelihood": self.log_marginal_likelihood,
            "effective": dict(self.effective.counts),
            "sizes": dict(self.effective.sizes),
            "slopes": dict(self.slopes),
            "noise_slope": self.noise_slope,
            "unsettled": list(self.unsettled),
            "moving": list(self.moving),
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
        if self.unsettled:
            lines.append(f"not settled: the evidence still asks for {', '.join(self.unsettled)}")
        if self.moving:
            lines.append(f"not settled: on their way are {', '.join(self.moving)}")
        return "\n".join(lines)
