"""Steps on what the evidence learns: precisions and noise on given curvature, hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping
from math import cos, inf, log, pi
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from torch import Tensor

from isotropy.evidence._best_precisions import LIMITS, best_precisions
from isotropy.evidence._laplace import Laplace

if TYPE_CHECKING:
    from isotropy.evidence._learning_options import LearningPlan

Schedule: TypeAlias = Literal["cosine", "constant"]
Steps: TypeAlias = int | Literal["best"]


def share_of_rate(schedule: Schedule, done: float) -> float:
    """What the learning rate is multiplied by, when a share of the work is done.

    Example:
        >>> share_of_rate("cosine", 0.5), share_of_rate("constant", 0.5)
        (0.5, 1.0)
    """
    return 1.0 if schedule == "constant" else (1 + cos(pi * min(done, 1.0))) / 2


class PriorUpdates:
    """Adam on the logarithms of prior precisions, and of the noise; its state persists."""

    def __init__(
        self,
        start: Mapping[str, float],
        options: LearningPlan,
        *,
        noise: float | None,
        learns_noise: bool,
    ) -> None:
        self._groups = list(start)
        low, high = map(log, LIMITS)
        logs = torch.tensor([log(start[group]) for group in start], dtype=torch.float64)
        self.log_precisions = logs.clamp(low, high).requires_grad_()
        self._given_noise, self._learns_noise = noise, learns_noise
        self.log_noise = torch.tensor(log(noise or 1.0), dtype=torch.float64)
        self.log_noise.requires_grad_(learns_noise)
        learned = [self.log_precisions, *([self.log_noise] if learns_noise else [])]
        self._rate, self._schedule = options.hyper_learning_rate, options.hyper_schedule
        self.adam = torch.optim.Adam(learned, lr=self._rate, maximize=True)
        self._steps, self._updates = options.steps, len(options.estimates)
        self._temperature = options.temperature

    @property
    def precisions(self) -> dict[str, float]:
        """By group."""
        values = self.log_precisions.detach().exp().tolist()
        return dict(zip(self._groups, values, strict=True))

    @property
    def noise(self) -> float | None:
        """The standard deviation of observations; None where there is none."""
        return float(self.log_noise.detach().exp()) if self._learns_noise else self._given_noise

    @torch.no_grad()
    def begin_noise(self, targets: Tensor) -> None:
        """Let the noise, where it is learned, begin at that of a model with constant outputs."""
        if not self._learns_noise:
            return
        values = targets.double()
        deviation = float((values - values.mean(0)).square().mean().sqrt())
        if 0 < deviation < inf:  # else there is nothing to go by
            self.log_noise.fill_(log(deviation))
            self._keep_within_limits()

    def evidence(self, found: Laplace) -> Tensor:
        """The log evidence of an approximation with these priors."""
        values = self.log_precisions.exp().unbind()
        return found.log_marginal_likelihood(
            dict(zip(self._groups, values, strict=True)),
            noise=self.log_noise.exp() if self._learns_noise else self._given_noise,
            temperature=self._temperature,
        )

    def update(self, found: Laplace, before: int) -> None:
        """Take the steps for one approximation."""
        if self._steps == "best":
            self._go_to_the_best(found)
            return
        for k in range(self._steps):
            done = (before + k / self._steps) / self._updates
            for group in self.adam.param_groups:
                group["lr"] = self._rate * share_of_rate(self._schedule, done)
            with torch.enable_grad():
                value = self.evidence(found)
            if not bool(value.isfinite()):
                return  # whoever asked for it says when
            self.adam.zero_grad()
            value.backward()
            self.adam.step()
            self._keep_within_limits()
        self.adam.zero_grad()

    def slopes(self, found: Laplace) -> tuple[dict[str, float], float | None]:
        """By how much the log evidence changes with log δ of each group, and with log σ.

        Returns:
            The slopes by group, and that of the noise; None where it is not learned.
        """
        learned = [self.log_precisions, *([self.log_noise] if self._learns_noise else [])]
        with torch.enable_grad():
            by_group, *rest = torch.autograd.grad(self.evidence(found), learned)
        slopes = dict(zip(self._groups, by_group.tolist(), strict=True))
        return slopes, float(rest[0]) if rest else None

    @torch.no_grad()
    def _go_to_the_best(self, found: Laplace) -> None:
        precisions, noise = best_precisions(
            found,
            noise="learn" if self._learns_noise else self._given_noise,
            temperature=self._temperature,
        )
        self.log_precisions.copy_(
            torch.tensor([log(precisions[g]) for g in self._groups], dtype=torch.float64)
        )
        if self._learns_noise and noise is not None:
            self.log_noise.fill_(log(noise))

    @torch.no_grad()
    def _keep_within_limits(self) -> None:
        low, high = map(log, LIMITS)
        self.log_precisions.clamp_(low, high)
        self.log_noise.clamp_(-high / 2, -low / 2)


class HyperparameterUpdates:
    """Adam on parameters of layers along the gradient of the evidence."""

    def __init__(self, parameters: Mapping[str, Tensor], options: LearningPlan) -> None:
        self.parameters = dict(parameters)
        self._rate, self._schedule = options.hyper_learning_rate, options.hyper_schedule
        values = list(parameters.values())
        self.adam = torch.optim.Adam(values, lr=self._rate, maximize=True) if values else None
        self._all = len(options.estimates)

    def update(self, gradient: Mapping[str, Tensor], before: int) -> None:
        """Take a step."""
        assert self.adam is not None
        for group in self.adam.param_groups:
            group["lr"] = self._rate * share_of_rate(self._schedule, before / self._all)
        for name, parameter in self.parameters.items():
            parameter.grad = gradient[name].to(parameter)
        self.adam.step()
        self.adam.zero_grad()
