import pytest
import torch
from torch import Tensor, nn

from isotropy.data import double_spring_pendulum, relative_error
from isotropy.groups import SO2eR3
from isotropy.nn import EMLP, HNN, MLP, NeuralODE
from isotropy.papers._ensemble import Ensemble
from isotropy.papers._flow import Flow
from isotropy.papers._pendulum import Pendulum, rollout
from isotropy.papers._training import Recipe
from isotropy.reps import Scalar, V

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


@pytest.mark.parametrize(("group", "conserved"), [("SO(2)", True), ("MLP", False)])
def test_noether(group: str, conserved: bool) -> None:
    pendulum = Pendulum((0, 1), Recipe(1), 12, 2, 1, 1, 1.0, 0.1, "cpu")
    ensemble = Ensemble(pendulum.network("HNN", group), pendulum.seeds).to(torch.float64)
    start = SYSTEM.initial(4, generator=0).expand(2, -1, -1)
    momentum = SYSTEM.conserved["angular momentum"]
    coarse, fine = (
        (momentum(rollout(ensemble, start, 11, step)) - momentum(start).unsqueeze(-1)).abs().max()
        for step in (0.2, 0.1)
    )
    if conserved:
        assert fine < 1e-5
        assert coarse / fine > 10
    else:
        assert fine > 1e-3
        assert coarse / fine == pytest.approx(1, rel=1e-2)


def test_a_rollout_starts_where_it_is_told_and_follows_the_flow() -> None:
    pendulum = Pendulum((0, 1), Recipe(1), 12, 2, 1, 1, 1.0, 0.1, "cpu")
    ensemble = Ensemble(pendulum.network("N-ODE", "MLP"), pendulum.seeds)
    start = torch.randn(2, 3, 12, generator=torch.Generator().manual_seed(0))
    states = rollout(ensemble, start, 4, 0.1)
    assert torch.equal(states[:, :, 0], start)
    flow = ensemble.network
    assert isinstance(flow, Flow)
    flow.set_times(4, 0.2, 0.1)
    torch.testing.assert_close(states, ensemble(start).detach())
