"""Policies for PPO and A2C commute with the group, are trained, saved and loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

import gymnasium
from gymnasium import spaces
from stable_baselines3 import PPO
from torch import nn

from isotropy.rl import (
    EnvironmentSymmetry,
    EquivariantActorCriticPolicy,
    RPPActorCriticPolicy,
    environment_symmetry,
)

CART = EnvironmentSymmetry.of([-torch.eye(4)], [[1, 0]])


def test_logits_are_exchanged_and_values_stay() -> None:
    torch.manual_seed(0)
    box, pushes = spaces.Box(-1, 1, (4,)), spaces.Discrete(2)
    policy = EquivariantActorCriticPolicy(box, pushes, lambda _: 1e-3, CART, last_layer_scale=1.0)
    s = torch.randn(8, 4)
    with torch.no_grad():
        probabilities, turned = (policy.get_distribution(x).distribution.probs for x in (s, -s))
        assert (probabilities - 0.5).abs().max() > 1e-3
        torch.testing.assert_close(turned.flip(-1), probabilities)
        torch.testing.assert_close(policy.predict_values(-s), policy.predict_values(s))
        assert policy.predict_values(s).std() > 1e-4


@pytest.mark.parametrize("id", ["Walker2d-v5", "Ant-v5"])
def test_probabilities_of_continuous_actions_stay(id: str) -> None:
    torch.manual_seed(0)
    symmetry = environment_symmetry(id)
    sizes = symmetry.observation_size, symmetry.action_size
    boxes = [spaces.Box(-1, 1, (size,)) for size in sizes]
    policy = EquivariantActorCriticPolicy(
        *boxes, lambda _: 1e-3, symmetry, last_layer_scale=1.0, net_arch=[32, 32]
    )
    s, a = (torch.randn(5, size) for size in sizes)
    with torch.no_grad():
        policy.log_std.copy_(torch.randn(policy.log_std.shape))
        values, log_prob, _ = policy.evaluate_actions(s, a)
        for on_s, on_a in zip(*symmetry.matrices(symmetry.elements()), strict=True):
            turned = policy.evaluate_actions(s @ on_s.float().mT, a @ on_a.float().mT)
            torch.testing.assert_close(turned[0], values, atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(turned[1], log_prob, atol=1e-4, rtol=1e-4)


def test_actor_and_critic_are_chosen_one_by_one() -> None:
    box, pushes = spaces.Box(-1, 1, (4,)), spaces.Discrete(2)
    policy = RPPActorCriticPolicy(box, pushes, lambda _: 1e-3, CART, actor="mlp")
    assert isinstance(policy.action_net, nn.Linear)
    assert isinstance(policy.value_net, nn.Identity)
    other = RPPActorCriticPolicy(
        box, pushes, lambda _: 1e-3, CART, critic="mlp", net_arch={"pi": [16], "vf": [8]}
    )
    assert isinstance(other.action_net, nn.Identity)
    assert isinstance(other.value_net, nn.Linear)
    trained = {id(p) for group in other.optimizer.param_groups for p in group["params"]}
    assert trained == {id(p) for p in other.parameters()}


@pytest.mark.parametrize("kind", [RPPActorCriticPolicy, EquivariantActorCriticPolicy])
def test_trained_saved_and_loaded(kind: type[RPPActorCriticPolicy], tmp_path: Path) -> None:
    env = gymnasium.make("CartPole-v1")
    model = PPO(
        kind, env, policy_kwargs={"symmetry": CART}, n_steps=64, batch_size=32, n_epochs=2, seed=0,
        device="cpu",
    )  # fmt: skip
    before = model.policy.parameters_to_vector()
    model.learn(128)
    assert not np.allclose(before, model.policy.parameters_to_vector())
    model.save(tmp_path / "model.zip")
    model.policy.save(str(tmp_path / "policy.pt"))
    s = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    expected = model.policy.get_distribution(s).distribution.probs
    again = PPO.load(tmp_path / "model.zip", device="cpu").policy
    alone = kind.load(str(tmp_path / "policy.pt"), device="cpu")
    for policy in (again, alone):
        assert torch.equal(policy.get_distribution(s).distribution.probs, expected)
    turned = model.policy.get_distribution(-s).distribution.probs.flip(-1)
    if kind is EquivariantActorCriticPolicy:
        torch.testing.assert_close(turned, expected)
    else:
        assert not torch.equal(turned, expected)


def test_signs_of_discrete_actions_are_refused() -> None:
    signed = EnvironmentSymmetry.of([-torch.eye(4)], [-torch.eye(2)])
    with pytest.raises(ValueError, match="expected a symmetry that exchanges discrete actions"):
        RPPActorCriticPolicy(spaces.Box(-1, 1, (4,)), spaces.Discrete(2), lambda _: 1e-3, signed)
