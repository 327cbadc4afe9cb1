"""Gradients through a lower level that has been minimised, by implicit differentiation."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

Weights: TypeAlias = dict[str, Tensor]
"""Tensors by name, all with a leading axis of independent problems."""

HessianProduct: TypeAlias = Callable[[Weights], Weights]
Losses: TypeAlias = Callable[[Weights, Weights], Tensor]


def inverse_hvp_neumann(
    product: HessianProduct, v: Weights, *, terms: int = 20, step: float = 1e-2
) -> Weights:
    """H⁻¹v for many problems by a truncated Neumann series.

        H⁻¹ v ≈ step · Σ_{k < terms} (1 − step·H)ᵏ v

    It converges where the eigenvalues of H are between 0 and 2 / step. Cut short, it is what
    gradients through the last ``terms`` steps of gradient descent would give.

    Args:
        product: From tensors u to Hu, one Hessian for each problem.
        v: What to solve for.
        terms: Terms of the series; one product each, save the first.
        step: The step; without it as a factor the answer is 1 / step times too large.

    Raises:
        ValueError: If a number is not positive.

    Example:
        >>> halved = inverse_hvp_neumann(
        ...     lambda u: {"w": 2 * u["w"]}, {"w": torch.ones(1, 3)}, terms=50, step=0.3
        ... )
        >>> halved["w"]
        tensor([[0.5000, 0.5000, 0.5000]])
    """
    if terms < 1:
        raise ValueError(f"expected at least 1 term, got {terms}")
    if not step > 0:
        raise ValueError(f"expected a positive step, got {step}")
    power, total = v, v
    for _ in range(terms - 1):
        power = _added(power, product(power), -step)
        total = _added(total, power)
    return {name: step * value for name, value in total.items()}


def inverse_hvp_cg(
    product: HessianProduct,
    v: Weights,
    *,
    iterations: int = 20,
    damping: float = 0.0,
    tolerance: float = 1e-6,
) -> Weights:
    """(H + damping)⁻¹v for many problems by conjugate gradients.

    Each problem has its own step sizes, and rests once its residual is small or once it meets a
    direction without positive curvature: networks have such directions, along which the lower
    level is not at a minimum. A problem whose first direction has none is answered with v, the
    direction of steepest descent.

    Args:
        product: From tensors u to Hu, one Hessian for each problem.
        v: What to solve for.
        iterations: The most products to take.
        damping: Added to every eigenvalue.
        tolerance: A problem rests at a residual of this share of v.

    Raises:
        ValueError: If a number is out of range.

    Example:
        >>> scale = torch.tensor([[1.0, 2.0, 4.0]])
        >>> inverse_hvp_cg(lambda u: {"w": scale * u["w"]}, {"w": torch.ones(1, 3)})["w"]
        tensor([[1.0000, 0.5000, 0.2500]])
    """
    if iterations < 1:
        raise ValueError(f"expected at least 1 iteration, got {iterations}")
    if damping < 0 or tolerance < 0:
        raise ValueError(
            f"expected damping and tolerance of at least 0, got {damping} and {tolerance}"
        )
    solution = {name: torch.zeros_like(value) for name, value in v.items()}
    residual, direction = v, v
    size = _dot(v, v)
    enough = size * tolerance**2
    going = size > enough
    for iteration in range(iterations):
        moved = _added(product(direction), direction, damping)
        curvature = _dot(direction, moved)
        positive = curvature > 0
        if iteration == 0:
            refused = going & ~positive
            solution = {
                name: torch.where(_along(refused, value), value, solution[name])
                for name, value in v.items()
            }
        going = going & positive
        if not bool(going.any()):
            break
        length = torch.where(going, size / torch.where(going, curvature, 1.0), 0.0)
        solution = _added(solution, direction, length)
        residual = _added(residual, moved, -length)
        previous, size = size, _dot(residual, residual)
        going = going & (size > enough)
        ratio = torch.where(going, size / torch.where(going, previous, 1.0), 0.0)
        direction = _added(residual, direction, ratio)
    return solution


def hypergradient(
    lower: Losses,
    upper: Losses,
    weights: Weights,
    choices: Weights,
    *,
    inverse: Callable[[HessianProduct, Weights], Weights] | None = None,
) -> tuple[Weights, Tensor]:
    """The gradient of an upper loss in choices that the lower level's minimum depends on.

    With ψ*(a) = argmin_ψ L_T(ψ, a),

        d L_V(ψ*(a), a) / da = ∂_a L_V − ∂_ψ L_V (∂²_ψ L_T)⁻¹ ∂_ψ ∂_a L_T

    (Lorraine et al. 2020; the bilevel problem is Eq. 6 of Yeh et al. 2022). Problems are
    independent: they lie along the leading axis of every tensor, and losses are given one by one.

    Args:
        lower: L_T from (weights, choices), shape (problems,).
        upper: L_V from (weights, choices), shape (problems,).
        weights: ψ, at the minimum of the lower level.
        choices: a.
        inverse: Solves with the Hessian; ``inverse_hvp_neumann`` with its defaults where ``None``.

    Returns:
        The gradient, one tensor for each choice, and the upper losses.

    Example:
        >>> gradient, loss = hypergradient(
        ...     lambda w, a: (w["w"] - a["a"] ** 2).square().sum(1),  # so w* = a²
        ...     lambda w, a: (w["w"] - 1).square().sum(1),
        ...     {"w": torch.tensor([[9.0]])},
        ...     {"a": torch.tensor([[3.0]])},
        ...     inverse=inverse_hvp_cg,
        ... )
        >>> gradient["a"], loss  # 2 (a² − 1) 2a
        (tensor([[96.]]), tensor([64.]))
    """
    solve = inverse_hvp_neumann if inverse is None else inverse
    weights = {name: value.detach().requires_grad_() for name, value in weights.items()}
    choices = {name: value.detach().requires_grad_() for name, value in choices.items()}
    losses = upper(weights, choices)
    slopes = _slopes(losses.sum(), {**weights, **_prefixed(choices)})
    v = {name: slopes[name] for name in weights}
    first = _slopes(lower(weights, choices).sum(), weights, again=True)

    def product(u: Weights) -> Weights:
        return _slopes(_inner(first, u), weights, keep=True)

    u = solve(product, v)
    mixed = _slopes(_inner(first, u), choices)
    total = {name: slopes[_PREFIX + name] - mixed[name] for name in choices}
    return total, losses.detach()


_PREFIX = "choice "


def _prefixed(choices: Weights) -> Weights:
    return {_PREFIX + name: value for name, value in choices.items()}


def _slopes(of: Tensor, by: Weights, *, again: bool = False, keep: bool = False) -> Weights:
    """Derivatives by tensors, zero where one plays no part."""
    if not of.requires_grad:
        return {name: torch.zeros_like(value) for name, value in by.items()}
    found = torch.autograd.grad(
        of,
        list(by.values()),
        create_graph=again,
        retain_graph=again or keep,
        allow_unused=True,
        materialize_grads=True,
    )
    return dict(zip(by, found, strict=True))


def _inner(a: Weights, b: Weights) -> Tensor:
    total = torch.stack([(a[name] * b[name].detach()).sum() for name in a])
    return total.sum()


def _dot(a: Weights, b: Weights) -> Tensor:
    """Dot products, one for each problem."""
    return torch.stack([(a[name] * b[name]).flatten(1).sum(1) for name in a]).sum(0)


def _along(values: Tensor, like: Tensor) -> Tensor:
    """Values of the problems, to be broadcast against a tensor of theirs."""
    return values.view(-1, *[1] * (like.ndim - 1))


def _added(a: Weights, b: Weights, factor: Tensor | float = 1.0) -> Weights:
    """The sum a + factor · b, with one factor or one for each problem."""
    if isinstance(factor, Tensor):
        return {name: a[name] + _along(factor, b[name]) * b[name] for name in a}
    return {name: torch.add(a[name], b[name], alpha=factor) for name in a}
