"""Policies for SAC commute with the group, are saved and loaded, and say what does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

import gymnasium
from gymnasium import spaces
from stable_baselines3 import DDPG, PPO, SAC, TD3
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.sac.policies import Actor

from isotropy.rl import (
    EnvironmentSymmetry,
    EquivariantPolicy,
    RPPActorCriticPolicy,
    RPPPolicy,
    RPPTD3Policy,
    SymmetricReplayBuffer,
    environment_symmetry,
)

# two limbs whose torques are exchanged and change sign; a height, a tilt and two angles
SWAP = torch.tensor([[0.0, -1.0], [-1.0, 0.0]])
LIMBS = EnvironmentSymmetry.of(
    [torch.block_diag(torch.ones(1, 1), -torch.ones(1, 1), SWAP)], [SWAP]
)


class Limbs(gymnasium.Env[np.ndarray, np.ndarray]):
    """Angles follow torques; the tilt is what they differ by."""

    observation_space = spaces.Box(-np.inf, np.inf, (4,))
    action_space = spaces.Box(-2.0, 2.0, (2,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.state, self.steps = self.np_random.normal(size=4).astype(np.float32), 0
        return self.state, {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.steps += 1
        tilt = self.state[1] + 0.1 * float(action.sum())
        self.state = np.array([self.state[0], tilt, *(self.state[2:] + 0.1 * action)], np.float32)
        return self.state, -float(tilt**2), False, self.steps >= 20, {}


def policy_for(
    kind: type[RPPPolicy], symmetry: EnvironmentSymmetry, seed: int = 0, **options: Any
) -> RPPPolicy:
    torch.manual_seed(seed)
    sizes = symmetry.observation_size, symmetry.action_size
    observations, actions = (spaces.Box(-1, 1, (size,)) for size in sizes)
    options = {"net_arch": [64, 64]} | options
    return kind(observations, actions, lambda _: 3e-4, symmetry, **options)


def assert_near(found: Tensor, expected: Tensor) -> None:
    """Equal up to rounding: stable-baselines3 turns observations to float32."""
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


def cases(symmetry: EnvironmentSymmetry) -> list[tuple[Tensor, Tensor]]:
    images = (m.float() for m in symmetry.matrices(symmetry.elements()))
    return list(zip(*images, strict=True))


def inputs(symmetry: EnvironmentSymmetry, rows: int = 6) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(1)
    sizes = symmetry.observation_size, symmetry.action_size
    s, a = (torch.randn(rows, size, generator=rng) for size in sizes)
    return s, a


KNOWN = [LIMBS, *map(environment_symmetry, ("Hopper-v5", "Walker2d-v5", "Ant-v5"))]


@pytest.mark.filterwarnings("ignore:.* holds poorly:UserWarning")
@pytest.mark.parametrize("symmetry", KNOWN, ids=["limbs", "hopper", "walker", "ant"])
def test_equivariant_policy_commutes_with_every_element(symmetry: EnvironmentSymmetry) -> None:
    policy = policy_for(EquivariantPolicy, symmetry, last_layer_scale=1.0)
    s, a = inputs(symmetry)
    with torch.no_grad():
        mean, log_std, _ = policy.actor.get_action_dist_params(s)
        values = torch.cat(policy.critic(s, a), -1)
        assert mean.std() > 1e-3
        assert log_std.std() > 1e-3
        assert values.std() > 1e-3
        for on_s, on_a in cases(symmetry):
            turned_mean, turned_log_std, _ = policy.actor.get_action_dist_params(s @ on_s.mT)
            assert_near(turned_mean, mean @ on_a.mT)
            assert_near(turned_log_std, log_std @ on_a.abs().mT)
            assert_near(policy.actor(s @ on_s.mT, True), policy.actor(s, True) @ on_a.mT)
            turned = torch.cat(policy.critic(s @ on_s.mT, a @ on_a.mT), -1)
            assert_near(turned, values)


@pytest.mark.parametrize("symmetry", KNOWN[::3], ids=["limbs", "ant"])
def test_rpp_policy_starts_near_the_symmetry_and_is_free(symmetry: EnvironmentSymmetry) -> None:
    policy = policy_for(RPPPolicy, symmetry, last_layer_scale=1.0)
    s, a = inputs(symmetry)
    on_s, on_a = cases(symmetry)[-1]

    def errors() -> list[float]:
        mean = policy.actor.get_action_dist_params(s)[0]
        turned = policy.actor.get_action_dist_params(s @ on_s.mT)[0]
        values = torch.cat(policy.critic(s, a), -1)
        of_turned = torch.cat(policy.critic(s @ on_s.mT, a @ on_a.mT), -1)
        return [
            float((turned - mean @ on_a.mT).norm() / mean.norm()),
            float((of_turned - values).norm() / values.norm()),
        ]

    with torch.no_grad():
        assert all(0 < error < 0.05 for error in errors())
        for weight in policy.parameters():
            weight.add_(0.3 * torch.randn(weight.shape))
        assert all(error > 0.3 for error in errors())


def test_magnitudes_are_actions_without_signs() -> None:
    for symmetry in KNOWN:
        rep, elements = symmetry.action_magnitudes, symmetry.elements()
        expected = symmetry.action.rho(elements).dense().abs()
        assert torch.equal(rep(symmetry.group).rho(elements).dense().expand_as(expected), expected)


def test_actor_and_critic_are_chosen_one_by_one() -> None:
    policy = policy_for(RPPPolicy, LIMBS, actor="mlp", critic="equivariant", n_critics=3)
    assert type(policy.actor) is Actor
    assert len(policy.critic.q_networks) == 3
    s, a = inputs(LIMBS)
    on_s, on_a = cases(LIMBS)[1]
    for one, other in zip(
        policy.critic(s, a), policy.critic(s @ on_s.mT, a @ on_a.mT), strict=True
    ):
        torch.testing.assert_close(one, other)
    other = policy_for(EquivariantPolicy, LIMBS, critic="mlp")
    assert type(other.critic) is ContinuousCritic
    assert type(other.actor) is not Actor


def test_target_critics_start_as_critics() -> None:
    policy = policy_for(RPPPolicy, LIMBS)
    s, a = inputs(LIMBS)
    for one, other in zip(policy.critic(s, a), policy.critic_target(s, a), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("actor", ["rpp", "equivariant", "mlp"])
def test_last_layer_of_the_actor_is_scaled(actor: str) -> None:
    s, _ = inputs(LIMBS)
    found = [
        policy_for(RPPPolicy, LIMBS, actor=actor, last_layer_scale=scale)
        .actor.get_action_dist_params(s)[0]
        .detach()
        for scale in (1.0, 0.01)
    ]
    torch.testing.assert_close(found[1], 0.01 * found[0])


def test_gradients_of_actions_are_those_of_the_networks() -> None:
    policy = policy_for(RPPPolicy, LIMBS)
    s, a = inputs(LIMBS)
    a.requires_grad_()
    sum(policy.critic(s, a)).sum().backward()
    found = a.grad
    assert all(p.grad is None for p in policy.critic.parameters())
    assert all(p.requires_grad for p in policy.critic.parameters())
    a.grad = None
    sum(net(torch.cat([s, a], -1)) for net in policy.critic.q_networks).sum().backward()
    torch.testing.assert_close(found, a.grad)
    policy.critic.zero_grad()
    sum(policy.critic(s, a.detach())).sum().backward()
    assert all(p.grad is not None for p in policy.critic.parameters())


@pytest.mark.parametrize("kind", [RPPPolicy, EquivariantPolicy])
def test_trained_saved_and_loaded(kind: type[RPPPolicy], tmp_path: Path) -> None:
    model = SAC(
        kind,
        Limbs(),
        policy_kwargs={"symmetry": LIMBS, "net_arch": [32, 32], "variances": (1e4, 1.0)},
        learning_starts=20,
        batch_size=32,
        seed=0,
        device="cpu",
    )
    before = model.policy.parameters_to_vector()
    model.learn(60)
    assert not np.allclose(before, model.policy.parameters_to_vector())
    model.save(tmp_path / "model.zip")
    model.policy.save(str(tmp_path / "policy.pt"))
    s = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    actions, _ = model.predict(s, deterministic=True)
    again = SAC.load(tmp_path / "model.zip", env=Limbs(), device="cpu")
    assert again.policy.choice == model.policy.choice
    assert np.array_equal(again.predict(s, deterministic=True)[0], actions)
    again.learn(10, reset_num_timesteps=False)
    alone = kind.load(str(tmp_path / "policy.pt"), device="cpu")
    assert np.array_equal(alone.predict(s, deterministic=True)[0], actions)
    if kind is EquivariantPolicy:
        on_s, on_a = (m.numpy() for m in cases(LIMBS)[1])
        turned, _ = model.predict((s @ on_s.T).astype(np.float32), deterministic=True)
        np.testing.assert_allclose(turned, actions @ on_a.T, atol=1e-5)


def test_known_environment_by_its_id() -> None:
    policy = policy_for(RPPPolicy, environment_symmetry("Walker2d-v5"))
    by_id = RPPPolicy(
        policy.observation_space, policy.action_space, lambda _: 1e-3, "Walker2d-v5", net_arch=[8]
    )
    assert by_id.choice.symmetry == policy.choice.symmetry


ROTATED = EnvironmentSymmetry.of(
    [],
    [],
    observation_algebra=[[[0.0, -1.0], [1.0, 0.0]]],
    action_algebra=[[[0.0, -1.0], [1.0, 0.0]]],
)


@pytest.mark.parametrize(
    ("symmetry", "sizes", "options", "message"),
    [
        (LIMBS, (105, 2), {}, "expected observations of 4 entries for Z.2., got 105$"),
        (
            environment_symmetry("Ant-v5"),
            (105, 8),
            {},
            "expected observations of 27 entries for D.4., got 105: "
            r'make it with gymnasium.make\("Ant-v5", include_cfrc_ext_in_observation=False\)',
        ),
        (LIMBS, (3, 2), {}, "expected observations of 4 entries for Z.2., got 3$"),
        (LIMBS, (4, 6), {}, "expected actions of 2 entries for Z.2., got 6"),
        (LIMBS, (4, 2), {"use_sde": True}, "expected use_sde=False"),
        (LIMBS, (4, 2), {"actor": "emlp"}, "expected actor to be 'rpp', 'equivariant' or 'mlp'"),
        (LIMBS, (4, 2), {"last_layer_scale": 0}, "expected last_layer_scale above zero, got 0"),
        (ROTATED, (2, 2), {}, "expected actions whose entries a group exchanges"),
    ],
)
def test_what_does_not_fit_is_refused(
    symmetry: EnvironmentSymmetry, sizes: tuple[int, int], options: dict, message: str
) -> None:
    observations, actions = (spaces.Box(-1, 1, (size,)) for size in sizes)
    with pytest.raises(ValueError, match=message):
        RPPPolicy(observations, actions, lambda _: 1e-3, symmetry, **options)


def test_no_symmetry_and_wrong_limits_are_refused() -> None:
    box = spaces.Box(-1, 1, (4,))
    with pytest.raises(TypeError, match=r"expected a symmetry, .* got NoneType"):
        RPPPolicy(box, spaces.Box(-1, 1, (2,)), lambda _: 1e-3)
    uneven = spaces.Box(np.array([-1, -2], np.float32), np.array([1, 2], np.float32))
    with pytest.raises(ValueError, match=r"expected limits of actions that Z.2. keeps"):
        RPPPolicy(box, uneven, lambda _: 1e-3, LIMBS)


@pytest.mark.parametrize("options", [{}, {"actor": "equivariant"}, {"critic": "equivariant"}])
def test_a_warning_where_a_symmetry_is_known_not_to_hold(options: dict) -> None:
    hopper, walker = map(environment_symmetry, ("Hopper-v5", "Walker2d-v5"))
    kind = RPPPolicy if options else EquivariantPolicy
    with pytest.warns(UserWarning, match=r"Z\(2\) holds poorly, .*: policies such as RPPPolicy"):
        policy_for(kind, hopper, net_arch=[8], **options)
    # no warnings: they are errors here
    policy_for(kind, walker, net_arch=[8], **options)
    policy_for(kind, LIMBS, net_arch=[8], **options)
    policy_for(RPPPolicy, hopper, net_arch=[8])


def test_images_in_a_buffer_warn_too() -> None:
    boxes = [spaces.Box(-1, 1, (size,)) for size in (27, 8)]
    ant = environment_symmetry("Ant-v5", "world rotation")
    with pytest.warns(UserWarning, match=r"SO\(2\) holds in dynamics only"):
        SymmetricReplayBuffer(10, *boxes, device="cpu", symmetry=ant)
    SymmetricReplayBuffer(10, *boxes, device="cpu", symmetry="Ant-v5")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("symetry", "expected options of RPPPolicy, got 'symetry': did you mean symmetry[?]"),
        ("netarch", "expected options of RPPPolicy, got 'netarch': did you mean net_arch[?]"),
        ("flavour", "expected options of RPPPolicy, got 'flavour'$"),
    ],
)
def test_unknown_options_are_named(option: str, message: str) -> None:
    boxes = spaces.Box(-1, 1, (4,)), spaces.Box(-1, 1, (2,))
    with pytest.raises(TypeError, match=message):
        RPPPolicy(*boxes, lambda _: 1e-3, **{option: LIMBS})


def test_policies_say_which_algorithm_they_are_for() -> None:
    policies = RPPPolicy, RPPTD3Policy, RPPActorCriticPolicy
    fitting = {SAC: RPPPolicy, TD3: RPPTD3Policy, DDPG: RPPTD3Policy}
    hint = "that {} is for, .*RPPPolicy is for SAC, RPPTD3Policy for TD3 and DDPG, RPPActorCritic"
    small = {"symmetry": "Pendulum-v1", "net_arch": [8]}
    for algorithm, right in fitting.items():
        for policy in policies:
            arguments = {"policy_kwargs": dict(small), "buffer_size": 10, "device": "cpu"}
            if policy is right:
                algorithm(policy, "Pendulum-v1", **arguments)
                continue
            with pytest.raises((TypeError, AttributeError), match=hint.format(policy.__name__)):
                algorithm(policy, "Pendulum-v1", **arguments)
    with pytest.raises(TypeError, match=hint.format("RPPTD3Policy")):
        PPO(RPPTD3Policy, "Pendulum-v1", policy_kwargs=dict(small), device="cpu")
    for policy in (RPPPolicy, RPPTD3Policy):
        with pytest.raises(TypeError, match=r"expected a box of actions .* got Discrete\(2\)"):
            policy(spaces.Box(-1, 1, (4,)), spaces.Discrete(2), lambda _: 1e-3, "CartPole-v1")
