import pytest
import torch
from torch import Tensor, nn

from isotropy.groups import SO2eR3
from isotropy.nn import EMLP, HNN, MLP, NeuralODE
from isotropy.reps import Scalar, V
from isotropy_papers._ensemble import Ensemble
from isotropy_papers._flow import Flow
from isotropy_papers._pendulum import Pendulum, rollout
from isotropy_papers._training import NetworkRecipe
from isotropy_papers.hamiltonian_systems import double_spring_pendulum
from isotropy_papers.rollout_errors import relative_error

SYSTEM = double_spring_pendulum("reference")


class TrueEnergy(nn.Module):
    def forward(self, z: Tensor) -> Tensor:
        return SYSTEM.hamiltonian(z).unsqueeze(-1)


def test_the_step_of_training_is_accurate_enough() -> None:
    start = SYSTEM.flow(SYSTEM.initial(40, generator=0), torch.tensor([0.0, 7.0]))[:, -1]
    true = SYSTEM.flow(start, torch.arange(5) * 0.2)
    errors = [
        relative_error(Flow(TrueEnergy(), hamiltonian=True, step=step)(start), true)[:, 1:].max()
        for step in (0.2, 0.1)
    ]
    assert errors[0] < 1e-3
    assert errors[1] < 5e-5
    assert 10 < errors[0] / errors[1] < 25  # order 4 halves to a sixteenth


def test_flows_are_those_of_the_library() -> None:
    torch.manual_seed(0)
    z0 = torch.randn(6, 12, dtype=torch.float64)
    times = torch.arange(5) * 0.2
    energy = EMLP(4 * V, Scalar, SO2eR3(), channels=12, layers=2, dtype=torch.float64)
    velocity = MLP(12, 12, channels=16, dtype=torch.float64)
    for network, field in ((energy, HNN(energy)), (velocity, velocity)):
        ours = Flow(network, hamiltonian=network is energy, step=0.1)(z0)
        theirs = NeuralODE(field, method="dopri5", rtol=1e-10, atol=1e-10)(z0, times)
        torch.testing.assert_close(ours, theirs.movedim(0, 1), rtol=1e-3, atol=1e-4)


def test_gradients_pass_through_the_derivative() -> None:
    torch.manual_seed(0)
    network = EMLP(4 * V, Scalar, SO2eR3(), channels=12, layers=1, dtype=torch.float64)
    flow = Flow(network, hamiltonian=True, samples=2)
    z0 = torch.randn(3, 12, dtype=torch.float64)
    loss = flow(z0).square().sum()
    weight = network.head.coefficients
    (slope,) = torch.autograd.grad(loss, weight)
    direction = torch.randn_like(weight)
    ends = []
    for sign in (1, -1):
        with torch.no_grad():
            weight.add_(sign * 1e-5 * direction)
            ends.append(flow(z0).square().sum())
            weight.sub_(sign * 1e-5 * direction)
    difference = (ends[0] - ends[1]) / 2e-5
    assert float(difference) == pytest.approx(float(slope @ direction), rel=1e-5)


def test_steps_must_fill_the_interval() -> None:
    with pytest.raises(ValueError, match=r"expected a whole number of steps in an interval, got 2"):
        Flow(TrueEnergy(), hamiltonian=True, interval=0.2, step=0.08)


class Lively(nn.Module):
    """A Hamiltonian times what makes its field of unit size at given states."""

    def __init__(self, energy: nn.Module, states: Tensor) -> None:
        super().__init__()
        self.energy, self.factor = energy, 1.0
        field = HNN(energy)(states).detach()
        self.factor = 1 / float(field.square().mean().sqrt())

    def forward(self, z: Tensor) -> Tensor:
        energy: Tensor = self.factor * self.energy(z)
        return energy


@pytest.mark.parametrize("conserved", [True, False])
def test_noether(conserved: bool) -> None:
    torch.manual_seed(0)
    start = SYSTEM.initial(4, generator=0)
    if conserved:
        energy: nn.Module = EMLP(4 * V, Scalar, SO2eR3(), channels=24, layers=2)
    else:
        energy = MLP(12, 1, channels=24)
    lively = Lively(energy.double(), start)
    momentum = SYSTEM.conserved["angular momentum"]
    drifts = []
    for step in (0.1, 0.05):
        z = Flow(lively, hamiltonian=True, samples=6, step=step)(start).detach()
        assert (z - z[:, :1]).abs().max() > 0.5
        drifts.append(float((momentum(z) - momentum(start).unsqueeze(-1)).abs().max()))
    if conserved:
        assert 1e-13 < drifts[1] < 1e-5
        assert drifts[0] / drifts[1] > 10  # order 4 or above
    else:
        assert drifts[1] > 1e-2
        assert drifts[0] / drifts[1] == pytest.approx(1, rel=1e-2)


def test_a_rollout_starts_where_it_is_told_and_follows_the_flow() -> None:
    pendulum = Pendulum((0, 1), NetworkRecipe(1), 12, 2, 1, 1, 1.0, 0.1, "cpu")
    ensemble = Ensemble(pendulum.network("N-ODE", "MLP"), pendulum.seeds)
    start = torch.randn(2, 3, 12, generator=torch.Generator().manual_seed(0))
    states = rollout(ensemble, start, 4, 0.1)
    assert torch.equal(states[:, :, 0], start)
    flow = ensemble.network
    assert isinstance(flow, Flow)
    flow.set_times(4, 0.2, 0.1)
    torch.testing.assert_close(states, ensemble(start).detach())


def test_untrained_models_start_with_a_moderate_field() -> None:
    pendulum = Pendulum((0, 1, 2), NetworkRecipe(1), 48, 3, 4, 1, 2.0, 0.2, "cpu")
    states = pendulum.rows("train")[0]
    for kind in ("N-ODE", "HNN"):
        for group in ("O(2)", "MLP"):
            flow = pendulum.training(kind, group).ensemble
            assert bool((flow(states)[:, :, -1] - states).abs().amax((1, 2)).lt(2).all())
