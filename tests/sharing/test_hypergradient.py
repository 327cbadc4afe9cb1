"""Hypergradients: exact on quadratics, by finite differences elsewhere, one problem at a time."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import Tensor

from isotropy.sharing._hypergradient import (
    Weights,
    hypergradient,
    inverse_hvp_cg,
    inverse_hvp_neumann,
)

PROBLEMS, SIZE, CHOICES = 3, 4, 2


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def positive(problems: int, size: int) -> Tensor:
    """Hessians with eigenvalues between 0.5 and 4."""
    frames = torch.linalg.qr(draw(problems, size, size)).Q
    values = torch.linspace(0.5, 4, size, dtype=torch.float64)
    return frames @ (values[:, None] * frames.mT)


def product_with(hessians: Tensor, u: Weights) -> Weights:
    """As if the weights were two tensors, of shapes (problems, 1, 2) and (problems, 2)."""
    flat = torch.cat([u["a"].flatten(1), u["b"]], 1)
    image = (hessians @ flat[..., None]).squeeze(-1)
    return {"a": image[:, :2].unsqueeze(1), "b": image[:, 2:]}


def as_two(flat: Tensor) -> Weights:
    return {"a": flat[:, :2].unsqueeze(1), "b": flat[:, 2:]}


def flat(weights: Weights) -> Tensor:
    return torch.cat([value.flatten(1) for value in weights.values()], 1)


@pytest.mark.parametrize("damping", [0.0, 0.3])
def test_conjugate_gradients_are_exact_after_as_many_steps_as_dimensions(damping: float) -> None:
    hessians, v = positive(PROBLEMS, SIZE), draw(PROBLEMS, SIZE, seed=1)
    found = inverse_hvp_cg(
        partial(product_with, hessians), as_two(v), iterations=SIZE, damping=damping, tolerance=0
    )
    wanted = torch.linalg.solve(hessians + damping * torch.eye(SIZE), v)
    torch.testing.assert_close(flat(found), wanted, rtol=1e-8, atol=1e-8)


def test_the_neumann_series_has_the_scale_of_the_inverse() -> None:
    hessians, v = positive(PROBLEMS, SIZE), draw(PROBLEMS, SIZE, seed=1)
    product, step = partial(product_with, hessians), 0.4
    exact = flat(inverse_hvp_cg(product, as_two(v), iterations=SIZE, tolerance=0))
    series = flat(inverse_hvp_neumann(product, as_two(v), terms=150, step=step))
    torch.testing.assert_close(series, exact, rtol=1e-8, atol=1e-8)
    # without the step as a factor it would be this much too large
    assert float((series / step - exact).norm()) > 1.4 * float(exact.norm())


def test_a_cut_series_is_the_sum_of_its_terms() -> None:
    hessians, v = positive(PROBLEMS, SIZE), draw(PROBLEMS, SIZE, seed=1)
    found = flat(inverse_hvp_neumann(partial(product_with, hessians), as_two(v), terms=3, step=0.1))
    shrink = torch.eye(SIZE, dtype=torch.float64) - 0.1 * hessians
    by_hand = sum((torch.linalg.matrix_power(shrink, k) @ v[..., None]) for k in range(3))
    torch.testing.assert_close(found, 0.1 * torch.as_tensor(by_hand).squeeze(-1))


def test_problems_do_not_see_one_another() -> None:
    hessians, v = positive(PROBLEMS, SIZE), draw(PROBLEMS, SIZE, seed=1)
    # ill-conditioned beside well-conditioned: common step sizes would serve neither
    hessians[0] *= 100
    v[2] = 0
    together = flat(
        inverse_hvp_cg(partial(product_with, hessians), as_two(v), iterations=3, tolerance=0)
    )
    for i in range(PROBLEMS):
        alone = inverse_hvp_cg(
            partial(product_with, hessians[i : i + 1]),
            as_two(v[i : i + 1]),
            iterations=3,
            tolerance=0,
        )
        torch.testing.assert_close(together[i : i + 1], flat(alone))
    assert not together[2].any()


def test_a_small_residual_ends_the_iteration() -> None:
    calls = []

    def twice(u: Weights) -> Weights:
        calls.append(1)
        return {"w": 2 * u["w"]}

    found = inverse_hvp_cg(twice, {"w": draw(1, 5)}, iterations=50, tolerance=1e-6)
    torch.testing.assert_close(found["w"], draw(1, 5) / 2)
    assert len(calls) <= 2


def test_directions_without_positive_curvature_are_left_out() -> None:
    curvature = torch.tensor([[-1.0, -1.0], [2.0, 2.0]])
    v = torch.tensor([[1.0, 2.0], [1.0, 2.0]])
    found = inverse_hvp_cg(lambda u: {"w": curvature * u["w"]}, {"w": v})
    torch.testing.assert_close(found["w"], torch.tensor([[1.0, 2.0], [0.5, 1.0]]))


def test_hypergradient_of_quadratics() -> None:
    """With L_T = ½ψᵀHψ − ψᵀ(c + Ba), ψ* = H⁻¹(c + Ba), everything is known in closed form."""
    hessians = positive(PROBLEMS, SIZE)
    linear, mixing = draw(PROBLEMS, SIZE, seed=1), draw(PROBLEMS, SIZE, CHOICES, seed=2)
    target, direct = draw(PROBLEMS, SIZE, seed=3), draw(PROBLEMS, CHOICES, seed=4)
    a = draw(PROBLEMS, CHOICES, seed=5)

    def times(matrices: Tensor, vectors: Tensor) -> Tensor:
        return (matrices @ vectors[..., None]).squeeze(-1)

    def lower(weights: Weights, choices: Weights) -> Tensor:
        psi = flat(weights)
        pull = linear + times(mixing, choices["c"])
        return (psi * times(hessians, psi) / 2 - psi * pull).sum(1)

    def upper(weights: Weights, choices: Weights) -> Tensor:
        return (flat(weights) - target).square().sum(1) + (direct * choices["c"].sin()).sum(1)

    best = torch.linalg.solve(hessians, linear + times(mixing, a))
    residual = 2 * (best - target)
    wanted = direct * a.cos() + times(mixing.mT, torch.linalg.solve(hessians, residual))
    for inverse in (
        partial(inverse_hvp_cg, iterations=SIZE, tolerance=0),
        partial(inverse_hvp_neumann, terms=150, step=0.4),
    ):
        found, losses = hypergradient(lower, upper, as_two(best), {"c": a}, inverse=inverse)
        torch.testing.assert_close(found["c"], wanted, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(losses, upper(as_two(best), {"c": a}))


def test_hypergradient_against_finite_differences_of_a_solved_network() -> None:
    """A small network with a penalty that depends on the choices, solved to rounding."""
    x, y = draw(20, 3), draw(20, 1, seed=1)
    held_out = draw(15, 3, seed=2), draw(15, 1, seed=3)

    def error(weights: Weights, x: Tensor, y: Tensor) -> Tensor:
        hidden = torch.tanh(x @ weights["first"])
        return (hidden @ weights["second"] - y).square().mean((1, 2))

    def lower(weights: Weights, choices: Weights) -> Tensor:
        decay = choices["log decay"].exp()
        sizes = torch.stack([weights[name].square().flatten(1).sum(1) for name in weights], 1)
        return error(weights, x, y) + (decay * sizes).sum(1)

    def upper(weights: Weights, choices: Weights) -> Tensor:
        return error(weights, *held_out) + 0.01 * choices["log decay"].square().sum(1)

    def unflat(values: Tensor) -> Weights:
        return {"first": values[:6].view(1, 3, 2), "second": values[6:].view(1, 2, 1)}

    def solved(choices: Weights, start: Tensor, descents: int = 0) -> Tensor:
        def loss(values: Tensor) -> Tensor:
            return lower(unflat(values), choices).sum()

        values = start.clone()
        for _ in range(descents):
            values = values - 0.3 * torch.func.grad(loss)(values)
        for _ in range(5):  # descent comes near, Newton's steps come to rounding
            slope, curvature = torch.func.grad(loss)(values), torch.func.hessian(loss)(values)
            values = values - torch.linalg.solve(curvature, slope)
        assert float(torch.func.grad(loss)(values).norm()) < 1e-12
        return values

    at = torch.tensor([[-3.0, -2.5]], dtype=torch.float64)
    best = solved({"log decay": at}, 0.5 * draw(8, seed=4), descents=300)
    found, _ = hypergradient(
        lower,
        upper,
        unflat(best),
        {"log decay": at},
        inverse=partial(inverse_hvp_cg, iterations=60, tolerance=1e-12),
    )
    step = 1e-4
    for i in range(2):
        values = []
        for sign in (1, -1):
            near = {"log decay": at + sign * step * torch.eye(2)[i]}
            values.append(float(upper(unflat(solved(near, best)), near)))
        slope = (values[0] - values[1]) / (2 * step)
        assert float(found["log decay"][0, i]) == pytest.approx(slope, rel=1e-5)


def test_a_choice_without_effect_has_no_gradient() -> None:
    found, _ = hypergradient(
        lambda w, c: w["w"].square().sum(1),
        lambda w, c: (w["w"] - 1).square().sum(1),
        {"w": torch.ones(2, 3)},
        {"c": torch.ones(2, 1)},
    )
    assert not found["c"].any()


def test_bad_input() -> None:
    v = {"w": torch.ones(1, 1)}
    with pytest.raises(ValueError, match=r"expected at least 1 term, got 0"):
        inverse_hvp_neumann(lambda u: u, v, terms=0)
    with pytest.raises(ValueError, match=r"expected a positive step, got -1"):
        inverse_hvp_neumann(lambda u: u, v, step=-1)
    with pytest.raises(ValueError, match=r"expected at least 1 iteration, got 0"):
        inverse_hvp_cg(lambda u: u, v, iterations=0)
    with pytest.raises(ValueError, match=r"expected damping and tolerance of at least 0, got -1"):
        inverse_hvp_cg(lambda u: u, v, damping=-1)
