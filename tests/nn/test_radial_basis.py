"""Basis functions beside their formulas, Gaussian processes of scikit-learn, and their limits."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from math import exp
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from torch import Tensor, nn

from isotropy.nn import (
    PathSum,
    RadialBasis,
    SparseConv2d,
    SparseLinear,
    _radial_basis,
    lengthscales,
)

KINDS = pytest.mark.parametrize("kind", ["normalised", "interpolating", "plain"])


def points(n: int, d: int = 2, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(n, d, generator=rng, dtype=torch.float64) - 1


def grid_points(sizes: tuple[int, ...]) -> Tensor:
    sides = [torch.arange(n, dtype=torch.float64) - (n - 1) / 2 for n in sizes]
    return torch.cartesian_prod(*sides)


def anchors_for(at: Tensor, anchors: float | None, *, among: bool = False) -> Tensor:
    return RadialBasis(at, anchors, among=among, dtype=torch.float64).anchors


def made(
    omega: float = 1.3, *, kind: Any = "interpolating", learn_anchors: bool = False
) -> RadialBasis:
    return RadialBasis(
        points(7),
        points(4, seed=1),
        omega=omega,
        kind=kind,
        learn_anchors=learn_anchors,
        dtype=torch.float64,
    )


def test_plain_functions_are_those_of_the_paper() -> None:
    basis = made(0.7, kind="plain")
    values = basis().detach()
    for m, z in enumerate(basis.anchors.tolist()):
        for n, t in enumerate(basis.targets.tolist()):
            distance = sum((a - b) ** 2 for a, b in zip(z, t, strict=True))
            assert float(values[m, n]) == pytest.approx(exp(-0.49 * distance), rel=1e-14)


def test_normalised_functions_are_weighted_means() -> None:
    basis = made(0.7, kind="normalised")
    values = basis().detach()
    for n, t in enumerate(basis.targets.tolist()):
        weights = [
            exp(-0.49 * sum((a - b) ** 2 for a, b in zip(z, t, strict=True)))
            for z in basis.anchors.tolist()
        ]
        expected = [weight / sum(weights) for weight in weights]
        assert values[:, n].tolist() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("omega", [0.2, 1.0, 3.0])
def test_interpolating_functions_are_means_of_a_gaussian_process(omega: float) -> None:
    basis = made(omega)
    values = np.random.default_rng(0).normal(size=4)
    process = GaussianProcessRegressor(RBF(1 / omega), alpha=1e-4, optimizer=None)
    expected = process.fit(basis.anchors.numpy(), values).predict(basis.targets.numpy())
    ours = torch.from_numpy(values) @ basis()
    np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=1e-9)


@KINDS
@pytest.mark.parametrize("omega", [0.0, 0.5, -1.2])
def test_the_slope_is_the_derivative(omega: float, kind: Any) -> None:
    basis = made(omega, kind=kind)

    def values(omega: Tensor) -> Tensor:
        return torch.func.functional_call(basis, {"omega": omega})

    at = basis.omega.detach()
    expected = torch.func.jacrev(values)(at)
    torch.testing.assert_close(basis.slope(), expected, atol=1e-9, rtol=1e-9)
    step = 1e-5
    difference = (values(at + step) - values(at - step)) / (2 * step)
    torch.testing.assert_close(basis.slope(), difference, atol=1e-6, rtol=1e-6)


@KINDS
def test_values_and_slopes_can_be_differentiated(kind: Any) -> None:
    basis = made(kind=kind, learn_anchors=True)

    def both(omega: Tensor, anchors: Tensor) -> Tensor:
        given = {"omega": omega, "anchors": anchors}
        values = torch.func.functional_call(basis, given)
        later = torch.func.functional_call(_Slope(basis), {f"of.{k}": v for k, v in given.items()})
        return torch.stack([values, later])

    given = tuple(p.detach().clone().requires_grad_() for p in (basis.omega, basis.anchors))
    assert torch.autograd.gradcheck(both, given, fast_mode=True)


class _Slope(nn.Module):
    def __init__(self, of: RadialBasis) -> None:
        super().__init__()
        self.of = of

    def forward(self) -> Tensor:
        return self.of.slope_later()()


def test_a_slope_for_later_keeps_what_it_was_made_with() -> None:
    basis = made(0.5)
    other = torch.tensor(2.0, dtype=torch.float64)
    kept: list[Callable[[], Tensor]] = []

    class Keeping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.of = basis

        def forward(self) -> None:
            kept.append(self.of.slope_later())

    torch.func.functional_call(Keeping(), {"of.omega": other})
    torch.testing.assert_close(kept[0](), made(2.0).slope())
    assert not torch.allclose(kept[0](), basis.slope())


# --- limits ---------------------------------------------------------------------------------


@KINDS
def test_without_a_lengthscale_every_function_is_constant(kind: Any) -> None:
    basis = made(0.0, kind=kind, learn_anchors=True)
    values = basis()
    each = {"normalised": 1 / 4, "interpolating": 1 / (4 + 1e-4), "plain": 1.0}[kind]
    torch.testing.assert_close(values, torch.full_like(values, each), rtol=1e-11, atol=0)
    for gradient in torch.autograd.grad(values.square().sum(), list(basis.parameters())):
        assert torch.equal(gradient, torch.zeros_like(gradient))


@KINDS
def test_functions_become_constant_as_omega_falls(kind: Any) -> None:
    spread = [
        float(made(omega, kind=kind)().std(1).max().detach()) for omega in (1e-1, 1e-2, 1e-3, 1e-4)
    ]
    assert spread[-1] < 1e-4
    assert spread == sorted(spread, reverse=True)


def test_at_large_omega_values_at_anchors_stay_there() -> None:
    """Interpolating, targets that are anchors get the value of the anchor, others nothing."""
    at = grid_points((3, 3))
    basis = RadialBasis(at, at[::2], omega=20.0, dtype=torch.float64)
    expected = torch.eye(9, dtype=torch.float64)[::2] / (1 + 1e-4)
    torch.testing.assert_close(basis(), expected, rtol=1e-12, atol=1e-12)


def test_at_large_omega_normalised_functions_are_steps_and_others_vanish() -> None:
    at, anchors = grid_points((4, 4)), points(5) + 0.05
    nearest = torch.cdist(anchors, at).argmin(0)
    expected = torch.nn.functional.one_hot(nearest, 5).T.double()
    kinds: tuple[Any, ...] = ("normalised", "interpolating", "plain")
    for kind in kinds:
        values = RadialBasis(at, anchors, omega=300.0, kind=kind, dtype=torch.float64)().detach()
        assert torch.allclose(
            values, expected if kind == "normalised" else torch.zeros(5, 16).double()
        )


def test_anchors_that_nearly_coincide_do_no_harm_in_float32() -> None:
    """K_zz alone would be singular in float32, and the slope of its inverse worthless."""
    at = grid_points((8, 8))
    anchors = torch.cat([at[::2], at[::2] + 1e-6]).float()
    exact = RadialBasis(at, anchors, omega=0.3, dtype=torch.float64)
    single = RadialBasis(at, anchors, omega=0.3, dtype=torch.float32)
    # the anchors are the same: rounded before; the lengthscale is not
    with torch.no_grad():
        exact.omega.copy_(single.omega)
    assert single().dtype == torch.float32
    for ours, expected in ((single(), exact()), (single.slope(), exact.slope())):
        torch.testing.assert_close(ours.double(), expected, rtol=1e-6, atol=1e-6)


# --- fitting --------------------------------------------------------------------------------


def test_fitting_is_least_squares() -> None:
    basis, functions = made(1.0), points(6, 7, seed=2).reshape(2, 3, 7)
    fitted = basis.fit(functions)
    phi = basis().detach().numpy()
    expected = np.linalg.lstsq(phi.T, functions.reshape(6, 7).numpy().T, rcond=None)[0].T
    np.testing.assert_allclose(fitted.reshape(6, 4).numpy(), expected, rtol=1e-9)


@KINDS
@pytest.mark.parametrize("omega", [0.0, 0.1, 1.0])
def test_drawn_values_make_functions_of_the_size_asked_for(omega: float, kind: Any) -> None:
    torch.manual_seed(0)
    at = grid_points((6, 6))
    basis = RadialBasis(at, at[::2] + 0.2, omega=omega, kind=kind, dtype=torch.float64)
    values = basis.draw(400, 3, bound=0.6)
    assert values.shape == (400, 3, 18)
    found = float((values @ basis()).detach().square().mean())
    if kind == "interpolating":  # what it cannot express of independent values is left out
        singular = torch.linalg.svdvals(basis().detach())
        share = float((singular > 1e-2 * singular[0]).sum()) / 36
        assert found == pytest.approx(0.12 * share, rel=0.1)
    else:
        assert found == pytest.approx(0.12, rel=0.1)
        assert float(values.std()) < 18**0.5


@KINDS
@pytest.mark.parametrize("omega", [0.0, 1e-3, 0.03, 0.3])
def test_values_stay_moderate_where_the_basis_is_nearly_constant(omega: float, kind: Any) -> None:
    at = grid_points((8, 8))
    anchors = at[torch.arange(0, 64, 2)] + 0.3
    basis = RadialBasis(at, anchors, omega=omega, kind=kind, dtype=torch.float64)
    functions = points(20, 64, seed=3)
    values = basis.fit(functions)
    assert float(values.std()) < 20 * float(functions.std())
    # and the mean of a function is still what it can express best
    kept = (values @ basis()).mean(1)
    torch.testing.assert_close(kept, functions.mean(1), rtol=0, atol=0.02)


# --- computed once --------------------------------------------------------------------------


def computed(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The ω of every Φ that is computed from now on."""
    seen: list[float] = []
    values = _radial_basis._values

    def counted(targets: Tensor, anchors: Tensor, omega: Tensor, kind: Any) -> Tensor:
        seen.append(float(omega.detach()))
        return values(targets, anchors, omega, kind)

    monkeypatch.setattr(_radial_basis, "_values", counted)
    return seen


def frozen(**options: Any) -> RadialBasis:
    return made(**options).requires_grad_(False)


def test_values_without_gradients_are_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = computed(monkeypatch)
    basis = frozen()
    first = basis()
    assert torch.equal(basis(), first)
    assert len(seen) == 1
    learned = made()
    with torch.no_grad():
        learned(), learned()
    assert len(seen) == 2
    for _ in range(2):
        assert learned().requires_grad
    assert len(seen) == 4


def _as_data(basis: RadialBasis) -> None:
    basis.omega.data.fill_(0.4)  # no version counts this


def _in_place(basis: RadialBasis) -> None:
    with torch.no_grad():
        basis.omega.mul_(0.5)


def _replaced(basis: RadialBasis) -> None:
    basis.omega = nn.Parameter(torch.tensor(0.3, dtype=torch.float64), requires_grad=False)


def _loaded(basis: RadialBasis) -> None:
    basis.load_state_dict(made(0.9).state_dict())


def _anchors_in_numpy(basis: RadialBasis) -> None:
    basis.anchors.numpy()[0, 0] += 0.5


def _other_anchors(basis: RadialBasis) -> None:
    basis.anchors = basis.anchors + 0.1


def _rounded(basis: RadialBasis) -> None:
    basis.float()


def _to_and_fro(basis: RadialBasis) -> None:
    basis.float().double()


@pytest.mark.parametrize(
    "change",
    [
        _as_data,
        _in_place,
        _replaced,
        _loaded,
        _anchors_in_numpy,
        _other_anchors,
        _rounded,
        _to_and_fro,
    ],
    ids=lambda change: change.__name__,
)
@KINDS
def test_kept_values_are_never_stale(change: Callable[[RadialBasis], None], kind: Any) -> None:
    basis = frozen(kind=kind)
    before = basis()
    change(basis)
    now = basis()
    fresh = _radial_basis._values(basis.targets, basis.anchors, basis.omega, kind)
    assert now.dtype == fresh.dtype
    assert torch.equal(now, fresh)
    assert not torch.equal(now.double(), before)


def test_whoever_changes_the_values_changes_them_alone() -> None:
    basis = frozen()
    expected = basis().clone()
    basis().mul_(2)
    assert torch.equal(basis(), expected)


def test_copies_keep_values_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    basis = frozen()
    basis()
    twins = copy.deepcopy(basis), pickle.loads(pickle.dumps(basis))
    seen = computed(monkeypatch)
    for twin in twins:
        _as_data(twin)
        assert torch.equal(twin(), made(0.4)())
        assert not torch.equal(basis(), twin())
    assert seen.count(basis.omega.item()) == 0
    basis()
    assert len(pickle.dumps(basis)) == len(pickle.dumps(frozen()))


def test_values_kept_in_inference_mode_can_be_trained_with() -> None:
    basis = frozen()
    with torch.inference_mode():
        basis()
    u = torch.ones(4, dtype=torch.float64, requires_grad=True)
    (u @ basis()).sum().backward()
    torch.testing.assert_close(u.grad, basis().sum(1))


@pytest.mark.parametrize("name", ["omega", "anchors"])
def test_tensors_that_stand_in_carry_their_derivatives(name: str) -> None:
    basis = frozen()
    basis()
    at = basis.get_parameter(name) if name == "omega" else basis.get_buffer(name)
    at = at.detach().clone()

    def values(given: Tensor) -> Tensor:
        return torch.func.functional_call(basis, {name: given})

    expected = torch.autograd.functional.jacobian(values, at)
    _, forward = torch.func.jvp(values, (at,), (torch.ones_like(at),))
    torch.testing.assert_close(forward, expected.reshape(*forward.shape, -1).sum(-1))
    assert float(forward.abs().max()) > 1e-2
    both = torch.func.vmap(values)(torch.stack([at, 0.5 * at]))
    torch.testing.assert_close(both, torch.stack([values(at), values(0.5 * at)]))


def test_compiled_with_values_kept() -> None:
    basis = frozen()
    expected = basis()
    compiled = torch.compile(basis, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(), expected)
    _as_data(basis)
    torch.testing.assert_close(compiled(), made(0.4)().detach())


# --- names ----------------------------------------------------------------------------------


def test_names_of_lengthscales() -> None:
    net = nn.Sequential(
        PathSum({"fc": SparseLinear(1, 2, 3), "conv": SparseConv2d(1, 2)}), nn.Linear(1, 1), made()
    )
    every = [name for name, _ in net.named_parameters() if name.endswith("omega")]
    assert lengthscales(net) == every
    assert len(every) == 4
    assert lengthscales(net, SparseConv2d) == ["0.paths.conv.basis.omega"]
    assert lengthscales(net, RadialBasis) == every
    assert lengthscales(made()) == ["omega"]
    assert lengthscales(nn.Linear(1, 1)) == []


# --- points ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("anchors", "expected"),
    [(None, 5), (0.8, 8), (1.0, 9), (0.01, 1), (3, 3), (20, 20)],
    ids=["half", "share", "all", "at least one", "number", "more than places"],
)
def test_how_many_anchors(anchors: float | None, expected: int) -> None:
    at = grid_points((3, 3))
    found = anchors_for(at, anchors)
    assert found.shape == (expected, 2)
    assert bool((found.abs() <= 1).all())


def test_anchors_fill_the_box_of_the_targets() -> None:
    torch.manual_seed(0)
    at = grid_points((3, 9)) + torch.tensor([10.0, 0.0])
    found = anchors_for(at, 4000)
    edges = torch.tensor([[9.0, -4.0], [11.0, 4.0]], dtype=torch.float64)
    assert bool(((found >= edges[0]) & (found <= edges[1])).all())
    torch.testing.assert_close(found.mean(0), edges.mean(0), rtol=0, atol=0.15)
    torch.testing.assert_close(found.std(0), (edges[1] - edges[0]) / 12**0.5, rtol=0.05, atol=0)


def test_anchors_among_points_are_points_of_their_own() -> None:
    at = points(6, 3)
    found = anchors_for(at, 6, among=True)
    assert sorted(found.tolist()) == sorted(at.tolist())


def test_the_grid_is_in_the_order_of_flattened_maps() -> None:
    layer = SparseLinear(1, 1, (4, 5))
    rows, columns = layer.inner_basis.targets.reshape(4, 5, 2).unbind(-1)
    assert rows[:, 0].tolist() == [-1.5, -0.5, 0.5, 1.5]
    assert columns[0].tolist() == [-2, -1, 0, 1, 2]
    assert bool((rows == rows[:, :1]).all())
    assert bool((columns == columns[:1]).all())


# --- manners --------------------------------------------------------------------------------


def test_copies_and_states() -> None:
    torch.manual_seed(0)
    basis = RadialBasis(points(5), points(3, seed=4), omega=0.6)
    assert list(basis.state_dict()) == ["omega", "anchors"]
    other = RadialBasis(points(5), points(3, seed=5))
    other.load_state_dict(basis.state_dict())
    for twin in (other, copy.deepcopy(basis), pickle.loads(pickle.dumps(basis))):
        assert torch.equal(twin(), basis())


def test_targets_are_not_rounded_on_the_way() -> None:
    basis = RadialBasis(points(5), points(3, seed=4))
    assert torch.equal(basis.half().double().targets, points(5))


def test_learned_anchors_are_parameters() -> None:
    assert [n for n, _ in made().named_parameters()] == ["omega"]
    assert [n for n, _ in made(learn_anchors=True).named_parameters()] == ["omega", "anchors"]
    assert "learned" in repr(made(learn_anchors=True))
    assert "learned" not in repr(made())


def test_without_memory() -> None:
    basis = RadialBasis(points(5), points(3, seed=4), device="meta")
    assert basis().shape == (3, 5)
    assert basis().is_meta
    at, anchors = points(5), points(3)
    with torch.device("meta"):
        assert RadialBasis(at, anchors).omega.is_meta


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RadialBasis(points(5), points(3, 3)),
            r"expected anchors of shape \(m, 2\) as the targets have, got \(3, 3\)",
        ),
        (
            lambda: RadialBasis(points(5)[:, 0], points(3)),
            r"expected targets of shape \(n, d\), got \(5,\)",
        ),
        (
            lambda: RadialBasis(points(5), points(3)[:0]),
            r"expected anchors of shape \(n, d\), got \(0, 2\)",
        ),
        (
            lambda: RadialBasis(points(5) / 0, points(3)),
            r"expected finite targets, got some that are not",
        ),
        (
            lambda: RadialBasis(points(5), points(3), omega=float("nan")),
            r"expected a finite omega, got nan",
        ),
        (
            lambda: RadialBasis(points(5), points(3), kind="smooth"),  # type: ignore[arg-type]
            r"expected a basis of the kind 'normalised', 'interpolating', 'plain', got 'smooth'",
        ),
        (
            lambda: anchors_for(points(5), 0),
            r"expected anchor points, or a number or share of them above zero, got 0",
        ),
        (
            lambda: anchors_for(points(5), float("inf")),
            r"expected anchor points, or a number or share of them above zero, got inf",
        ),
        (
            lambda: anchors_for(points(5), True),
            r"expected anchor points, or a number or share of them above zero, got True",
        ),
        (
            lambda: anchors_for(points(5), 6, among=True),
            r"expected anchor points, .* above zero and at most 5, got 6",
        ),
    ],
    ids=[
        "spaces",
        "shape",
        "none",
        "infinite",
        "omega",
        "kind",
        "zero",
        "share",
        "bool",
        "too many",
    ],
)
def test_bad_input(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
