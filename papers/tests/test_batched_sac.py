"""Batched soft actor-critic against one written out plainly."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Independent, Normal, TanhTransform, TransformedDistribution

from isotropy_papers import Settings, _sac_figure, experiment
from isotropy_papers._batched_sac import BatchedSac, SacOptions, StackedNetwork
from isotropy_papers._sac_curves import METHODS, AgentPlan, learning_curves
from isotropy_papers._sac_figure import sac_task

N, M, BATCH = 3, 2, 16


def _network(into: int, out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(into, 8), nn.Tanh(), nn.Linear(8, out))


def _agents(seeds: range, **options: float) -> BatchedSac:
    chosen = SacOptions(batch=BATCH, policy_start=1.0, learning_rate=1e-2, **options)
    return BatchedSac(
        lambda: _network(N, 2 * M),
        lambda: _network(N + M, 1),
        seeds,
        observation_size=N,
        action_size=M,
        capacity=50,
        options=chosen,
    )


def _fill(agents: BatchedSac, rows: int) -> None:
    rng = torch.Generator().manual_seed(3)
    for _ in range(rows):
        s, after = torch.randn(2, agents.agents, N, generator=rng)
        a = torch.rand(agents.agents, M, generator=rng) * 2 - 1
        reward = torch.randn(agents.agents, generator=rng)
        ended = (torch.rand(agents.agents, generator=rng) < 0.3).float()
        agents.store(s, a, after, reward, ended)


def test_stacked_networks_are_the_networks() -> None:
    networks = [_network(N, 2) for _ in range(3)]
    x = torch.randn(3, 5, N)
    wanted = torch.stack([network(own) for network, own in zip(networks, x, strict=True)])
    assert torch.allclose(StackedNetwork(networks)(x), wanted, atol=1e-6)


def test_an_update_is_the_one_of_the_paper() -> None:
    agents = _agents(range(1))
    _fill(agents, 40)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        actor = _network(N, 2 * M)
        critics = [_network(N + M, 1), _network(N + M, 1)]
    targets = copy.deepcopy(critics)
    start = {name: value.clone() for name, value in actor.named_parameters()}

    torch.manual_seed(5)
    agents._update()

    torch.manual_seed(5)
    drawn = (torch.rand(1, BATCH) * 40).long()[0]
    s, a, after, reward, ended = (agents.buffer[k][0, drawn] for k in agents.buffer)
    reward, ended = reward[:, 0], ended[:, 0]
    noises = torch.randn(1, BATCH, M)[0], torch.randn(1, BATCH, M)[0]

    def sampled(state: torch.Tensor, noise: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_std = actor(state).chunk(2, -1)
        law = TransformedDistribution(
            Independent(Normal(mean, log_std.exp()), 1), [TanhTransform(cache_size=1)]
        )
        action = (mean + log_std.exp() * noise).tanh()
        return action, law.log_prob(action)

    def value(
        networks: list[nn.Sequential], state: torch.Tensor, action: torch.Tensor
    ) -> torch.Tensor:
        return torch.stack([network(torch.cat([state, action], -1))[:, 0] for network in networks])

    chosen, density = sampled(s, noises[0])
    with torch.no_grad():
        following, following_density = sampled(after, noises[1])
        ahead = value(targets, after, following).min(0).values - following_density
        goal = reward + 0.99 * (1 - ended) * ahead
    critic_loss = sum(0.5 * (q - goal).square().mean() for q in value(critics, s, a))
    optimiser = torch.optim.Adam([p for network in critics for p in network.parameters()], 1e-2)
    critic_loss.backward()
    optimiser.step()
    policy_optimiser = torch.optim.Adam(actor.parameters(), 1e-2)
    (density - value(critics, s, chosen).min(0).values).mean().backward()
    policy_optimiser.step()

    for name, wanted in actor.named_parameters():
        assert torch.allclose(agents.actor.parameters[name][0], wanted, atol=1e-5)
        assert not torch.allclose(start[name], wanted, atol=1e-4)
    for k, network in enumerate(critics):
        for name, wanted in network.named_parameters():
            assert torch.allclose(agents.critic.parameters[name][k], wanted, atol=1e-5)
            old = dict(targets[k].named_parameters())[name]
            followed = old + 0.005 * (wanted - old)
            assert torch.allclose(agents.target.parameters[name][k], followed, atol=1e-6)
    # entropy above its goal of −2: the temperature falls
    direction = float((-(density + -M)).mean().detach())
    assert np.sign(float(agents.log_temperature.detach())) == -np.sign(direction)


class _Head(nn.Module):
    """A network with one hidden layer, of the shape that stable-baselines3 makes."""

    def __init__(self, into: int, out: int) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(into, 16), nn.Linear(16, out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.hidden(x).relu())


def test_updates_are_those_of_stable_baselines3(monkeypatch: pytest.MonkeyPatch) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    baselines = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.logger import Logger
    from stable_baselines3.common.type_aliases import ReplayBufferSamples

    class Still(gymnasium.Env):  # type: ignore[name-defined]
        observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (N,))
        action_space = gymnasium.spaces.Box(-1, 1, (M,))

    theirs = baselines.SAC(
        "MlpPolicy",
        Still(),
        learning_rate=1e-2,
        batch_size=BATCH,
        policy_kwargs={"net_arch": [16]},
        device="cpu",
    )
    theirs.set_logger(Logger(None, []))
    ours = BatchedSac(
        lambda: _Head(N, 2 * M),
        lambda: _Head(N + M, 1),
        [0, 1],
        observation_size=N,
        action_size=M,
        capacity=50,
        options=SacOptions(batch=BATCH, policy_start=1.0, learning_rate=1e-2),
    )
    _fill(ours, 40)
    own = 1  # the second of two agents
    with torch.no_grad():
        ours.log_temperature.fill_(-1.3)
        theirs.log_ent_coef.fill_(-1.3)
        weights = {name: value[own] for name, value in ours.actor.parameters.items()}
        actor = theirs.policy.actor
        for kind in ("weight", "bias"):
            getattr(actor.latent_pi[0], kind).copy_(weights[f"hidden.{kind}"])
            getattr(actor.mu, kind).copy_(weights[f"head.{kind}"][:M])
            getattr(actor.log_std, kind).copy_(weights[f"head.{kind}"][M:])
            for critics in (theirs.critic, theirs.critic_target):
                for k, network in enumerate(critics.q_networks):
                    of = {n: v[2 * own + k] for n, v in ours.critic.parameters.items()}
                    getattr(network[0], kind).copy_(of[f"hidden.{kind}"])
                    getattr(network[2], kind).copy_(of[f"head.{kind}"])
    rng = torch.Generator().manual_seed(11)
    for _ in range(4):
        drawn = torch.rand(2, BATCH, generator=rng)
        noises = [torch.randn(2, BATCH, M, generator=rng) for _ in range(2)]
        for_ours, for_theirs = iter(noises), iter([noise[own] for noise in noises])
        rows = {k: v[own, (drawn[own] * 40).long()] for k, v in ours.buffer.items()}
        batch = ReplayBufferSamples(
            rows["s"], rows["a"], rows["after"], rows["ended"], rows["reward"]
        )
        with monkeypatch.context() as patched:
            patched.setattr(torch, "rand", lambda *a, drawn=drawn, **k: drawn)
            patched.setattr(torch, "randn_like", lambda x, noise=for_ours: next(noise))
            ours._update()
        with monkeypatch.context() as patched:
            patched.setattr(theirs.replay_buffer, "sample", lambda *a, batch=batch, **k: batch)
            patched.setattr(
                Normal,
                "rsample",
                lambda law, shape=None, noise=for_theirs: law.loc + law.scale * next(noise),
            )
            theirs.train(1, BATCH)
    head = ours.actor.parameters["head.weight"][own]
    assert torch.allclose(head[:M], actor.mu.weight, atol=1e-4)
    assert torch.allclose(head[M:], actor.log_std.weight, atol=1e-4)
    for critics, mine in ((theirs.critic, ours.critic), (theirs.critic_target, ours.target)):
        for k, network in enumerate(critics.q_networks):
            got = mine.parameters["hidden.weight"][2 * own + k]
            assert torch.allclose(got, network[0].weight, atol=3e-4)
    assert torch.allclose(ours.log_temperature[own], theirs.log_ent_coef[0], atol=1e-5)
    assert abs(float(ours.log_temperature.detach()[own]) + 1.3) > 1e-2


def test_images_of_transitions_are_what_is_learnt_from() -> None:
    # one element, which turns all signs: as if the buffer held the mirrored transitions
    moved, mirrored = _agents(range(1)), _agents(range(1))
    moved._images = (-torch.eye(N)[None], -torch.eye(M)[None])
    mirrored._images = (torch.eye(N)[None], torch.eye(M)[None])
    for agents in (moved, mirrored):
        _fill(agents, 20)
    for name in ("s", "a", "after"):
        mirrored.buffer[name].neg_()
    for agents in (moved, mirrored):
        torch.manual_seed(1)
        agents._update()
    for name, value in moved.critic.parameters.items():
        assert torch.allclose(value, mirrored.critic.parameters[name], atol=1e-6)


def test_the_oldest_transitions_make_room() -> None:
    agents = _agents(range(2))
    for k in range(60):
        value = torch.full((2, N), float(k))
        agents.store(value, torch.zeros(2, M), value + 1, torch.zeros(2), torch.zeros(2))
    kept = sorted(agents.buffer["s"][0, :, 0].tolist())
    assert kept == [float(k) for k in range(10, 60)]


def test_transitions_of_an_agent_follow_each_other() -> None:
    pytest.importorskip("gymnasium")
    plan = AgentPlan(
        seeds=[0, 1], steps=420, judge_every=420, episodes=1, widths=(8,), random_steps=400
    )
    curves = learning_curves(sac_task("Pendulum-v1"), ["SAC", "RPP"], plan, keep=["SAC"])
    assert curves.returns["RPP"].shape == (1, 2)
    met = curves.transitions["SAC"]
    assert len(met) == 420
    assert met.episodes is not None
    assert met.episodes.tolist() == [k // 200 for k in range(420)]
    same = met.episodes[1:] == met.episodes[:-1]
    assert torch.equal(met.next_observations[:-1][same], met.observations[1:][same])
    assert not torch.equal(met.next_observations[199], met.observations[200])
    assert float(met.actions.abs().max()) > 1.5  # in the units of the environment, up to 2


@pytest.mark.parametrize("name", ["finzi2023/figure3.4", "finzi2023/figureA.2"])
def test_figures(name: str, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gymnasium")
    monkeypatch.setitem(_sac_figure._JUDGEMENTS, False, 4)
    one = experiment(name)
    result = one.run(
        Settings(sizes=(40,), seeds=1, channels=8, test_rows=1, out=tmp_path), lambda step: None
    )
    rows = {cell.row.split(": ")[1] for cell in result.cells}
    assert rows <= set(METHODS)
    assert len(rows) == 4
    assert all(-2000 < cell.ours < 0 for cell in result.cells)
    for row in {cell.row for cell in result.cells}:
        values = {cell.column: cell.ours for cell in result.cells if cell.row == row}
        curve = [value for column, value in values.items() if column.endswith("steps")]
        assert len(curve) == 4
        assert values["best"] == max(curve)
        assert values["last quarter"] == pytest.approx(curve[-1])
    assert one.plot is not None
    assert one.plot(result, tmp_path / "curves.png").stat().st_size > 5000


def test_one_number_of_steps() -> None:
    with pytest.raises(ValueError, match="expected one number of steps"):
        experiment("finzi2023/figure3.4").run(Settings(sizes=(1, 2)), lambda step: None)
