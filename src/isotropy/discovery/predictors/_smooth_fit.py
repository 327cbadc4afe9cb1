"""A smooth function fitted to data twice over, so that the error of its gradients is known.

Two fits to separate halves of the rows have errors of their own: where they agree is the function,
where they differ is noise. A polynomial is taken where it does, else a network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.discovery.predictors._differentiable_fits import (
    Smooth,
    kernel_pair,
    links,
    network_pair,
    polynomials,
)
from isotropy.discovery.predictors._free_predictor import Task, held_out_rows, sample_losses
from isotropy.discovery.predictors._predictor_thresholds import PredictorThresholds

GIVEN = "the model given"
_ROUNDING = 1e-12  # of the variance, left by a fit that is exact but for rounding
_CHUNK = 512  # rows of Jacobians in memory


@dataclass(frozen=True, eq=False)
class SmoothFit:
    """A function of the inputs in two independent estimates.

    Args:
        kind: Of what family it is, in words.
        halves: The two estimates: inputs of shape ``(N, n)`` to predictions ``(N, m)``, in
            float64; differentiable.
        unexplained: The loss of their mean on rows that neither has seen, as a share of the
            constant's.
    """

    kind: str
    halves: tuple[Smooth, Smooth]
    unexplained: float

    @property
    def is_given(self) -> bool:
        """Whether it is the user's own model, of whose error nothing is known."""
        return self.kind == GIVEN

    @property
    def is_linear(self) -> bool:
        """Whether it is a linear function of the inputs."""
        return self.kind == "a polynomial of degree 1"

    @property
    def is_exact(self) -> bool:
        """Whether it fits up to rounding, and both estimates are one."""
        return self.unexplained <= _ROUNDING

    def __call__(self, x: Tensor) -> Tensor:
        """The mean of the two."""
        return (self.halves[0](x) + self.halves[1](x)) / 2

    def values_and_jacobians(self, x: Tensor) -> tuple[tuple[Tensor, Tensor], ...]:
        """For each estimate its values ``(N, m)`` and Jacobians ``(N, m, n)``."""
        return tuple(values_and_jacobian(half, x) for half in self.halves)


def values_and_jacobian(function: Smooth, x: Tensor) -> tuple[Tensor, Tensor]:
    """The values of a function at some points, and its Jacobians there.

    Example:
        >>> values_and_jacobian(lambda x: x.square(), torch.tensor([[3.0]]))
        (tensor([[9.]]), tensor([[[6.]]]))
    """
    values, rows = [], []
    for part in x.split(_CHUNK):
        at = part.detach().requires_grad_()
        with torch.enable_grad():
            out = function(at)
            columns = [
                torch.autograd.grad(out[:, j].sum(), at, retain_graph=j + 1 < out.shape[1])[0]
                for j in range(out.shape[1])
            ]
        values.append(out.detach())
        rows.append(torch.stack(columns, 1))
    return torch.cat(values), torch.cat(rows)


def fit_smooth(
    x: Tensor,
    y: Tensor,
    task: Task = "regression",
    *,
    classes: int | None = None,
    groups: NDArray[np.int64] | None = None,
    channels: int = 1,
    thorough: bool = True,
    networks: bool = True,
    seed: int = 0,
) -> SmoothFit:
    """Fit polynomials up to degree four, also of functions of y, a kernel or a network.

    Args:
        x: Inputs of about unit size, shape ``(N, n)``.
        y: Targets, shape ``(N, m)``, or classes ``(N,)``.
        task: What the targets are.
        classes: How many classes there are.
        groups: Which rows belong together, and stay in one half.
        channels: Columns at each position of the input, laid out channel by channel.
        thorough: Whether to try a network also where the target seems to be linear: two more
            degrees explain no more than one does.
        networks: Whether networks are tried at all.
        seed: Of the halves and the network.

    Example:
        >>> x = torch.randn(300, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> fit = fit_smooth(x, x.square().sum(1, keepdim=True).sqrt())
        >>> fit.kind, fit.is_exact
        ('a polynomial of degree 2 whose square root is y', True)
    """
    limits, rng = PredictorThresholds.now(), make_generator(seed)
    x = x.double()
    seen, judges = held_out_rows(len(x), limits.smooth_held_out, groups, rng)
    inner = None if groups is None else groups[seen]
    first, second = held_out_rows(len(seen), 0.5, inner, rng)
    halves = [torch.as_tensor(seen[part]) for part in (first, second)]
    judge = torch.as_tensor(judges)
    width = y.shape[1] if y.ndim == 2 else max(int(y.max()) + 1, classes or 0)
    worst = _constant_loss(y[torch.as_tensor(seen)], y[judge], task, width)

    def unexplained(pair: tuple[Smooth, Smooth]) -> float:
        with torch.no_grad():
            mean = (pair[0](x[judge]) + pair[1](x[judge])) / 2
        loss = float(sample_losses(mean, y[judge], task).mean()) / worst
        return loss if np.isfinite(loss) else np.inf

    best: SmoothFit | None = None
    enough = False
    if task == "regression":
        y = y.double()
        best, reached = _best_polynomial(x, y, halves, unexplained)
        if best is not None and best.is_exact:
            return best
        enough = best is not None and (
            best.unexplained <= limits.polynomial_enough
            or (not thorough and _levelled_off(reached))
        )
    if best is None or (networks and not enough):
        pair = kernel_pair(x, y, task, width, halves, channels)
        fit = SmoothFit("a kernel", pair, unexplained(pair))
        if best is None or fit.unexplained * limits.much_better < best.unexplained:
            best = fit
    if networks and not enough and best.unexplained > limits.polynomial_enough:
        pair = network_pair(x, y, task, width, halves, rng)
        fit = SmoothFit("a network", pair, unexplained(pair))
        if fit.unexplained * limits.much_better < best.unexplained:
            best = fit
    return best


def _best_polynomial(
    x: Tensor,
    y: Tensor,
    halves: Sequence[Tensor],
    unexplained: Callable[[tuple[Smooth, Smooth]], float],
) -> tuple[SmoothFit | None, list[float]]:
    """The best polynomial, and what those of y itself leave, degree by degree."""
    limits = PredictorThresholds.now()
    best: SmoothFit | None = None
    reached: list[float] = []
    for link in links(y):
        for kind, pair in polynomials(x, y, link, halves):
            fit = SmoothFit(kind, pair, unexplained(pair))
            if fit.is_exact:
                return fit, reached
            if pair[0] is pair[1]:
                continue  # one fit to all rows tells nothing of its error
            if not link.words:
                reached.append(fit.unexplained)
            factor = limits.transformed_better if link.words else limits.much_better
            if best is None or fit.unexplained * factor < best.unexplained:
                best = fit
    return best, reached


def _levelled_off(reached: Sequence[float]) -> bool:
    """Whether the target is linear: the next one or two degrees explain no more."""
    limits = PredictorThresholds.now()
    first, *after = reached[:3] or [1.0]
    # far worse is no better a sign: tails that no polynomial fits
    best, worst = min(after, default=0.0), max(after, default=0.0)
    alike = limits.higher_degree_leaves * first < best <= worst < limits.tails_leave * first
    return first < limits.linear_leaves and alike


def _constant_loss(seen: Tensor, judged: Tensor, task: Task, width: int) -> float:
    if task == "classification":
        counts = torch.bincount(seen, minlength=width).double() + 0.5
        constant = (counts / counts.sum()).log()
    else:
        constant = seen.double().mean(0)
    return float(sample_losses(constant.expand(len(judged), -1), judged, task).mean()) + 1e-300
