"""Policies for TD3 commute with the group, are trained, saved and loaded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

from gymnasium import spaces
from stable_baselines3 import TD3
from stable_baselines3.td3.policies import Actor

from isotropy.rl import (
    EnvironmentSymmetry,
    EquivariantTD3Policy,
    RPPTD3Policy,
    environment_symmetry,
    make_environment,
)


@pytest.mark.parametrize("id", ["Walker2d-v5", "Ant-v5"])
def test_equivariant_policy_commutes_with_every_element(id: str) -> None:
    torch.manual_seed(0)
    symmetry = environment_symmetry(id)
    sizes = symmetry.observation_size, symmetry.action_size
    boxes = [spaces.Box(-1, 1, (size,)) for size in sizes]
    policy = EquivariantTD3Policy(
        *boxes, lambda _: 1e-3, symmetry, last_layer_scale=30.0, net_arch=[32, 32]
    )
    s, a = (torch.randn(5, size) for size in sizes)
    with torch.no_grad():
        actions, values = policy.actor(s), policy.critic.q1_forward(s, a)
        assert actions.std() > 0.05
        for on_s, on_a in zip(*symmetry.matrices(symmetry.elements()), strict=True):
            turned = s @ on_s.float().mT
            torch.testing.assert_close(
                policy.actor(turned), actions @ on_a.float().mT, atol=1e-4, rtol=1e-4
            )
            of_turned = policy.critic.q1_forward(turned, a @ on_a.float().mT)
            torch.testing.assert_close(of_turned, values, atol=1e-5, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:.* holds poorly:UserWarning")
@pytest.mark.parametrize("kind", [RPPTD3Policy, EquivariantTD3Policy])
def test_trained_saved_and_loaded(kind: type[RPPTD3Policy], tmp_path: Path) -> None:
    env = make_environment("Hopper-v5")
    options = {"symmetry": "Hopper-v5", "net_arch": [32, 32]}
    model = TD3(
        kind, env, policy_kwargs=options, learning_starts=10, batch_size=16, seed=0, device="cpu",
        buffer_size=100,
    )  # fmt: skip
    before = model.actor.parameters_to_vector()
    model.learn(40)
    assert not np.allclose(before, model.actor.parameters_to_vector())
    s = np.random.default_rng(0).normal(size=(5, 11)).astype(np.float32)
    actions, _ = model.predict(s)
    model.save(tmp_path / "model.zip")
    assert np.array_equal(TD3.load(tmp_path / "model.zip", device="cpu").predict(s)[0], actions)
    model.policy.save(str(tmp_path / "policy.pt"))
    alone = kind.load(str(tmp_path / "policy.pt"), device="cpu")
    assert np.array_equal(alone.predict(s)[0], actions)


def test_choices_and_errors() -> None:
    plane = spaces.Box(-1, 1, (2,))
    turn = [[0.0, -1.0], [1.0, 0.0]]
    rotated = EnvironmentSymmetry.of([], [], observation_algebra=[turn], action_algebra=[turn])
    with pytest.raises(ValueError, match="expected actions whose entries a group exchanges"):
        RPPTD3Policy(plane, plane, lambda _: 1e-3, rotated)
    flip = EnvironmentSymmetry.of([-torch.eye(2)], [-torch.eye(2)])
    policy = RPPTD3Policy(plane, plane, lambda _: 1e-3, flip, actor="mlp")
    assert type(policy.actor) is Actor
