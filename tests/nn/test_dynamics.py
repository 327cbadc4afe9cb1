"""Hamiltonian fields and flows against mechanics that is known in closed form."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from isotropy.equivariance import assert_equivariant
from isotropy.groups import SL, O, O2eR3, S
from isotropy.nn import EMLP, HNN, MLP, NeuralODE
from isotropy.reps import Scalar, Symmetry, V


def rows(width: int, *batch: int) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    return torch.randn(*batch, width, dtype=torch.float64, generator=rng)


class Spring(nn.Module):
    """H = |p|²/2m + k|q|²/2 + |q|⁴/4."""

    def __init__(self, mass: float = 2.0, stiffness: float = 3.0) -> None:
        super().__init__()
        self.mass = nn.Parameter(torch.tensor(mass, dtype=torch.float64))
        self.stiffness = nn.Parameter(torch.tensor(stiffness, dtype=torch.float64))

    def forward(self, z: Tensor) -> Tensor:
        q, p = z.chunk(2, -1)
        square = q.square().sum(-1, keepdim=True)
        return (
            p.square().sum(-1, keepdim=True) / (2 * self.mass)
            + self.stiffness * square / 2
            + square.square() / 4
        )

    def by_hand(self, z: Tensor) -> Tensor:
        q, p = z.chunk(2, -1)
        force = -(self.stiffness + q.square().sum(-1, keepdim=True)) * q
        return torch.cat([p / self.mass, force], -1)


class Matrix(nn.Module):
    """dz/dt = A z."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.matrix = nn.Parameter(matrix)

    def forward(self, z: Tensor) -> Tensor:
        return z @ self.matrix.mT


# --- Hamiltonian fields -----------------------------------------------------------------------


@pytest.mark.parametrize("batch", [(), (5,), (2, 3), (0,)], ids=str)
def test_the_field_is_the_gradient_turned_by_j(batch: tuple[int, ...]) -> None:
    energy = Spring()
    z = rows(6, *batch)
    torch.testing.assert_close(HNN(energy)(z), energy.by_hand(z))


def test_the_field_is_there_without_gradients_and_leaves_no_graph() -> None:
    energy = Spring()
    field = HNN(energy)
    z = rows(4, 5)
    with torch.no_grad():
        velocity = field(z)
        given = field(z.requires_grad_())
    assert not velocity.requires_grad
    assert not given.requires_grad
    torch.testing.assert_close(velocity, energy.by_hand(z).detach())
    assert energy.mass.grad is None
    assert z.grad is None


def test_the_field_can_be_differentiated_again() -> None:
    energy = Spring()
    field = HNN(energy)
    z = rows(4, 3).requires_grad_()
    weights = rows(4, 3)
    ours = torch.autograd.grad((field(z) * weights).sum(), (z, energy.mass, energy.stiffness))
    theirs = torch.autograd.grad(
        (energy.by_hand(z) * weights).sum(), (z, energy.mass, energy.stiffness)
    )
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)
    plain = rows(4, 3)
    gradients = torch.autograd.grad((field(plain) * weights).sum(), energy.mass)
    torch.testing.assert_close(gradients[0], theirs[1])


@pytest.mark.parametrize(
    "symmetry",
    [
        Symmetry(O2eR3(), 4 * V, Scalar),
        Symmetry(S(3), 2 * V, Scalar),
        Symmetry(SL(2), 2 * V + 2 * V.T, Scalar),  # momenta transform by the dual
    ],
    ids=str,
)
def test_the_field_of_an_invariant_energy_is_equivariant(symmetry: Symmetry) -> None:
    field = HNN(EMLP(symmetry.rep_in, Scalar, symmetry.group, channels=20, layers=2))
    assert field.rep_in == field.rep_out == symmetry.rep_in
    assert field.in_features == field.out_features == symmetry.rep_in.size()
    assert_equivariant(field, rows(field.in_features, 6).float(), tolerance=1e-5)
    assert_equivariant(field.double(), rows(field.in_features, 6), tolerance=1e-12)


def test_the_gradient_of_a_learned_field_is_right() -> None:
    field = HNN(EMLP(2 * V, Scalar, O(2), channels=6, layers=1, dtype=torch.float64))
    z = rows(4, 2).requires_grad_()
    names = [name for name, _ in field.named_parameters()]

    def velocity(z: Tensor, *given: Tensor) -> Tensor:
        return torch.func.functional_call(field, dict(zip(names, given, strict=True)), (z,))

    # the start's small products would hide an error in their gradient
    given = [(p.detach() + 0.3).requires_grad_() for p in field.parameters()]
    assert torch.autograd.gradcheck(velocity, (z, *given))


@pytest.mark.parametrize(
    ("energy", "sentence"),
    [
        (MLP(5, 1, channels=4), r"expected a Hamiltonian of positions .* momenta, got width 5"),
        (MLP(4, 2, channels=4), r"expected a Hamiltonian with one output, got 2"),
    ],
    ids=["odd width", "two outputs"],
)
def test_impossible_energies_are_refused(energy: nn.Module, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        HNN(energy)


def test_states_of_odd_width_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected positions .* momenta, got states of width 3"):
        HNN(Spring())(rows(3, 2))


# --- flows ------------------------------------------------------------------------------------


def test_the_flow_of_a_linear_field_is_an_exponential() -> None:
    field = Matrix(torch.tensor([[0.0, 1.0], [-2.0, -0.3]], dtype=torch.float64))
    times = torch.tensor([0.0, 0.4, 1.5, 2.0], dtype=torch.float64)
    z0 = rows(2, 3, 4)
    z = NeuralODE(field, rtol=1e-10, atol=1e-10)(z0, times)
    assert z.shape == (4, 3, 4, 2)
    assert torch.equal(z[0], z0)
    for state, t in zip(z, times, strict=True):
        exact = z0 @ torch.linalg.matrix_exp(field.matrix * t).mT
        torch.testing.assert_close(state, exact, rtol=1e-7, atol=1e-7)


def test_fixed_steps_converge_at_fourth_order() -> None:
    field = Matrix(torch.tensor([[0.0, 1.0], [-2.0, -0.3]], dtype=torch.float64))
    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    z0 = rows(2, 5)
    exact = z0 @ torch.linalg.matrix_exp(field.matrix).mT
    errors = [
        float((NeuralODE(field, method="rk4", step=h)(z0, times)[-1] - exact).detach().norm())
        for h in (0.25, 0.125)
    ]
    assert 12 < errors[0] / errors[1] < 20
    coarse = NeuralODE(field, method="rk4")(z0, times)  # the given times are the steps
    assert float((coarse[-1] - exact).detach().norm()) > errors[0]


def test_gradients_go_through_the_solver() -> None:
    field = Matrix(torch.tensor([[0.0, 1.0], [-2.0, -0.3]], dtype=torch.float64))
    times = torch.tensor([0.0, 1.0], dtype=torch.float64)
    z0 = rows(2, 5)
    flow = NeuralODE(field, rtol=1e-10, atol=1e-10)
    (ours,) = torch.autograd.grad(flow(z0, times)[-1].square().sum(), field.matrix)
    exact = (z0 @ torch.linalg.matrix_exp(field.matrix).mT).square().sum()
    (theirs,) = torch.autograd.grad(exact, field.matrix)
    torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_energy_is_conserved_along_the_flow() -> None:
    energy = Spring()
    with torch.no_grad():
        z = NeuralODE(HNN(energy), rtol=1e-9, atol=1e-9)(rows(6, 4), torch.linspace(0, 3, 7))
        values = energy(z)
        torch.testing.assert_close(values, values[:1].expand_as(values), rtol=1e-6, atol=1e-6)
        assert float((z[-1] - z[0]).norm()) > 0.1


def test_what_noether_promises_is_conserved() -> None:
    """Turns about z conserve the angular momentum along z, of any invariant energy."""
    energy = EMLP(4 * V, Scalar, O2eR3(), channels=16, layers=1, dtype=torch.float64)
    with torch.no_grad():
        for parameter in energy.parameters():
            parameter.add_(torch.randn_like(parameter))
        flow = NeuralODE(HNN(energy), rtol=1e-9, atol=1e-9)
        z = flow(rows(12, 4), torch.linspace(0, 1, 4))
        q, p = (half.unflatten(-1, (2, 3)) for half in z.chunk(2, -1))
        momentum = (q[..., 0] * p[..., 1] - q[..., 1] * p[..., 0]).sum(-1)
        other = (q[..., 1] * p[..., 2] - q[..., 2] * p[..., 1]).sum(-1)
        values = energy(z)
    torch.testing.assert_close(momentum, momentum[:1].expand_as(momentum), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(values, values[:1].expand_as(values), rtol=1e-6, atol=1e-6)
    assert float((other[-1] - other[0]).abs().max()) > 1e-3


def test_the_flow_of_an_equivariant_field_is_equivariant_and_follows_its_weights() -> None:
    field = HNN(EMLP(2 * V, Scalar, S(3), channels=12, layers=1, dtype=torch.float64))
    flow = NeuralODE(field, method="rk4")
    times = torch.linspace(0, 0.5, 4)

    def end(z: Tensor) -> Tensor:
        return flow(z, times)[-1]

    z0 = rows(6, 5)
    assert_equivariant(end, z0, Symmetry(S(3), 2 * V, 2 * V), tolerance=1e-12)
    before = end(z0).detach()
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.add_(0.5)
    assert not torch.allclose(end(z0), before)


def test_weights_are_let_go_after_an_error_in_the_field() -> None:
    field = EMLP(V, V, S(3), channels=12, layers=1, dtype=torch.float64)
    flow = NeuralODE(field, method="rk4")
    z0 = rows(3, 2)
    before = field(z0).detach()
    with pytest.raises(ValueError, match=r"expected inputs of width 3"):
        flow(rows(4, 2), torch.linspace(0, 1, 3))
    with torch.no_grad():
        for parameter in field.parameters():
            parameter.add_(0.5)
    assert not torch.allclose(field(z0), before)


@pytest.mark.parametrize(
    "times",
    [[0.0], [0.0, 0.0], [1.0, 0.0], [[0.0, 1.0]], []],
    ids=["one", "equal", "decreasing", "two axes", "none"],
)
def test_times_must_increase(times: list[float]) -> None:
    flow = NeuralODE(MLP(2, 2, channels=4), method="rk4")
    with pytest.raises(ValueError, match=r"expected at least two increasing times to solve for"):
        flow(torch.zeros(3, 2), torch.tensor(times))
