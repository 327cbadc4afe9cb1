"""Kernel regression: sums over positions, interactions of few of them, and polynomials.

Most targets are sums of functions of one position, or of a few at a time. A kernel says so without
saying that the functions are equal, and a few hundred rows are enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from isotropy.discovery.predictors._predictor_thresholds import PredictorThresholds

_BATCH = 2**21  # numbers of a kernel in memory
# single precision will do where the errors of its sums are so small, in deviations of the targets
_ROUGH = 1e-3


@dataclass(frozen=True)
class KernelChoice:
    """A kernel and the ridge that goes with it.

    Args:
        order: How many positions interact, for ``"sums"``; the degree of ``"polynomials"``.
        family: ``"sums"`` over positions, ``"distances"`` between rows or ``"polynomials"``.
        length: The distance over which functions change, in deviations of the inputs.
        ridge: The penalty, as a share of the mean of the diagonal.
        left: The share of the variance that is left, each row predicted by the others.
    """

    family: Literal["sums", "distances", "polynomials"]
    order: int
    length: float
    ridge: float
    left: float

    def gram(self, a: Tensor, b: Tensor, channels: int) -> Tensor:
        """The kernel between rows of two sets of standardised inputs, shape ``(A, B)``.

        With k_p(x, x′) = exp(−|x_p − x′_p|² / 2cℓ²) for the c channels of position p of n,
        it is (Σ_p k_p / n)^q for sums, Π_p k_p^(4/n) for distances, (1 + x·x′/nc)^q for
        polynomials.
        """
        if self.family == "polynomials":
            return (1 + a @ b.mT / a.shape[1]) ** self.order
        if self.family == "distances":
            apart = a.square().sum(1, keepdim=True) + b.square().sum(1) - 2 * a @ b.mT
            apart = apart.clamp_min(0)
            return (-2 * apart / (self.length**2 * a.shape[1])).exp()
        return _mean_of_positions(a, b, channels, self.length) ** self.order


def choose_kernel(x: Tensor, y: Tensor, channels: int = 1) -> KernelChoice:
    """The kernel by which each row is predicted best from the others.

    Args:
        x: Standardised inputs, shape ``(N, channels·n)``, channel by channel.
        y: Targets without their mean, shape ``(N, k)``; classes as indicators.
        channels: Columns at each position.

    Example:
        >>> x = torch.randn(200, 6, generator=torch.Generator().manual_seed(0)).double()
        >>> y = x.abs().sum(1, keepdim=True)
        >>> choose_kernel(x, y - y.mean()).family
        'sums'
    """
    limits = PredictorThresholds.now()
    x, y = x[: limits.kernel_chosen_on], y[: limits.kernel_chosen_on]
    kernels: list[tuple[Tensor, KernelChoice]] = []
    for degree in limits.kernel_degrees:
        choice = KernelChoice("polynomials", degree, 1.0, 1.0, 1.0)
        kernels.append((choice.gram(x, x, channels), choice))
    for length in limits.kernel_lengths:
        choice = KernelChoice("distances", 1, length, 1.0, 1.0)
        kernels.append((choice.gram(x, x, channels), choice))
        if _most_rows(x.shape[1] // channels) < limits.kernel_fewest_rows:
            continue
        mean = _mean_of_positions(x, x, channels, length)
        for order in limits.kernel_orders:
            kernels.append((mean**order, KernelChoice("sums", order, length, 1.0, 1.0)))
    best: KernelChoice | None = None
    for gram, choice in kernels:
        for ridge, left in _left_out(gram, y):
            if best is None or left < best.left:
                best = KernelChoice(choice.family, choice.order, choice.length, ridge, left)
    assert best is not None
    return best


def fit_kernel(
    x: Tensor, y: Tensor, choice: KernelChoice, *, channels: int = 1, classes: int | None = None
) -> Callable[[Tensor], Tensor]:
    """Kernel regression, or softmax regression on the kernel's leading functions.

    Returns:
        From inputs to values, or logits; differentiable.

    Example:
        >>> x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0)).double()
        >>> y = x.sin().sum(1, keepdim=True)
        >>> choice = KernelChoice("sums", 1, 2.0, 1e-6, 0.0)
        >>> bool((fit_kernel(x, y, choice)(x[:5]) - y[:5]).abs().max() < 0.01)
        True
    """
    limits, sums = PredictorThresholds.now(), choice.family == "sums"
    most = _most_rows(x.shape[1] // channels) if sums else limits.kernel_rows
    x, y = x[:most].double(), y[:most]
    centre, scale = x.mean(0), x.std(0).clamp_min(1e-12)
    rows = (x - centre) / scale
    if classes is None:
        gram = choice.gram(rows, rows, channels)
        offset = y.double().mean(0)
        gram.diagonal().add_(choice.ridge * float(gram.diagonal().mean()))
        weights = torch.cholesky_solve(y.double() - offset, torch.linalg.cholesky(gram))
    else:
        # functions that some of the rows span, weighted by all
        gram = choice.gram(rows, rows[: limits.kernel_landmarks], channels)
        rows = rows[: limits.kernel_landmarks]
        weights, offset = _class_weights(gram, y, classes, choice.ridge)
    spread = 1.0 if classes is not None else float(y.double().std())
    # exponents are differences of squares
    largest = max(1.0, float(rows.abs().max()) ** 2 / choice.length**2)
    rough = 1e-7 * largest * float(weights.abs().sum(0).max()) < _ROUGH * spread
    dtype = torch.float32 if rough else torch.float64
    rows, weights = rows.to(dtype), weights.to(dtype)
    batch = max(1, _BATCH // len(rows))

    def predict(at: Tensor) -> Tensor:
        unit = ((at.double() - centre) / scale).to(dtype)
        parts = [choice.gram(part, rows, channels) @ weights for part in unit.split(batch)]
        return torch.cat(parts).double() + offset

    return predict


def _most_rows(positions: int) -> int:
    limits = PredictorThresholds.now()
    return min(limits.kernel_rows, limits.kernel_work // positions)


def _mean_of_positions(a: Tensor, b: Tensor, channels: int, length: float) -> Tensor:
    """The mean over positions of exp(−|p − q|²), in units of the length.

    The exponents 2p·q − |p|² − |q|² are products of (2p, −|p|², 1) and (q, 1, −|q|²).
    """
    unit = (0.5 / channels) ** 0.5 / length
    first, second = (z.unflatten(1, (channels, -1)).permute(2, 0, 1) * unit for z in (a, b))
    left = torch.cat([2 * first, -_squares(first), torch.ones_like(first[..., :1])], 2)
    right = torch.cat([second, torch.ones_like(second[..., :1]), -_squares(second)], 2)
    total, exponents = a.new_zeros(len(a), len(b)), a.new_empty(len(a), len(b))
    for p, q in zip(left, right, strict=True):
        if torch.is_grad_enabled():
            total = total + (p @ q.mT).exp()
        else:  # no copies: most of the time of a search goes by here
            torch.mm(p, q.mT, out=exponents)
            total += exponents.exp_()
    mean: Tensor = total / len(first)
    return mean


def _squares(z: Tensor) -> Tensor:
    return z.square().sum(2, keepdim=True)


def _left_out(gram: Tensor, y: Tensor) -> list[tuple[float, float]]:
    """For each ridge the squared error, as a share, of each row predicted by all others.

    The residual of a row that is left out is α_i / (K + ρ)⁻¹_ii.
    """
    values, vectors = torch.linalg.eigh(gram)
    values = values.clamp_min(0)
    size, along = float(values.mean()), vectors.mT @ y
    whole = float(y.square().sum()) + 1e-300
    found = []
    for ridge in PredictorThresholds.now().kernel_ridges:
        shrunk = 1 / (values + ridge * size)
        residual = (vectors @ (shrunk.unsqueeze(1) * along)) / (
            vectors.square() @ shrunk
        ).unsqueeze(1)
        found.append((ridge, float(residual.square().sum()) / whole))
    return found


def _class_weights(gram: Tensor, y: Tensor, classes: int, ridge: float) -> tuple[Tensor, Tensor]:
    """Weights of landmarks and offsets of softmax regression on their leading eigenfunctions.

    Some of the rows choose the penalty.
    """
    limits = PredictorThresholds.now()
    most = limits.kernel_functions
    inner = gram[: gram.shape[1]]
    values, vectors = torch.linalg.eigh((inner + inner.mT) / 2)
    values, vectors = values[-most:].clamp_min(1e-9), vectors[:, -most:]
    # in units in which the penalty of least squares is that of weights
    unit = vectors / (values * max(ridge, 1e-12) * float(inner.diagonal().mean())).sqrt()
    features = gram @ unit
    first = max(1, int(limits.kernel_class_held_out * len(y)))

    def solved(rows: slice, penalty: float) -> tuple[Tensor, Tensor]:
        wanted = y[rows]
        return softmax_regression(
            features[rows],
            wanted,
            classes,
            lambda size: penalty * size / len(wanted),
            most_steps=limits.kernel_class_steps,
        )

    def loss(penalty: float) -> float:
        weights, offset = solved(slice(first, None), penalty)
        predicted = features[:first] @ weights + offset
        return float(functional.cross_entropy(predicted, y[:first]))

    weights, offset = solved(slice(None), min(limits.kernel_class_ridges, key=loss))
    return unit @ weights, offset


def softmax_regression(
    features: Tensor,
    y: Tensor,
    classes: int,
    penalty: Callable[[Tensor], Tensor],
    most_steps: int,
) -> tuple[Tensor, Tensor]:
    """Weights and offsets of least cross-entropy, with a penalty on the squares of the weights."""
    weights = torch.zeros(features.shape[1], classes, dtype=features.dtype, requires_grad=True)
    offset = torch.zeros(classes, dtype=features.dtype, requires_grad=True)
    solver = torch.optim.LBFGS(
        [weights, offset], max_iter=most_steps, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        solver.zero_grad()
        loss = functional.cross_entropy(features @ weights + offset, y)
        loss = loss + penalty(weights.square().sum())
        loss.backward()
        return loss

    solver.step(closure)
    return weights.detach(), offset.detach()
