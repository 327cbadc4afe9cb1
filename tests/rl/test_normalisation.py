"""Scalers commute with groups and agree with data that all elements were applied to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from isotropy.groups import GL, SO, Group, Z
from isotropy.reps import Pseudoscalar, Rep, Scalar, V
from isotropy.rl import environment_symmetry
from isotropy.rl._normalisation import EquivariantScaler

SIGNS_AND_SWAPS = (2 * Scalar + 3 * Pseudoscalar + 2 * V).on([3, 0, 8, 1, 2, 5, 7, 4, 6], 9)(Z(2))
REPS = [SIGNS_AND_SWAPS, environment_symmetry("Ant-v5").observation]


def rows(rep: Rep, n: int = 40) -> Tensor:
    rng = torch.Generator().manual_seed(0)
    size = rep.size()
    scales = torch.linspace(0.1, 3, size, dtype=torch.float64)
    mixed = torch.randn(n, size, generator=rng, dtype=torch.float64) @ torch.randn(
        size, size, generator=rng, dtype=torch.float64
    )
    return scales * mixed + scales


@pytest.mark.parametrize("rep", REPS, ids=["signs and swaps", "ant"])
def test_moments_are_those_of_all_images(rep: Rep) -> None:
    x = rows(rep)
    scaler = EquivariantScaler(rep).fit(x)
    assert rep.group is not None
    images = torch.cat([x @ g.mT for g in rep.rho(rep.group.elements()).dense()])
    torch.testing.assert_close(scaler.mean, images.mean(0))
    variances = images.var(0, correction=0)
    # a quaternion's entries are mixed in pairs, whose variances all images make equal
    torch.testing.assert_close(scaler.scale, variances.sqrt())


@pytest.mark.parametrize("rep", REPS, ids=["signs and swaps", "ant"])
def test_transform_commutes_and_inverts(rep: Rep) -> None:
    x = rows(rep)
    scaler = EquivariantScaler(rep).fit(x)
    assert rep.group is not None
    y = scaler(x)
    for g in rep.rho(rep.group.elements()).dense():
        torch.testing.assert_close(scaler.transform(x @ g.mT), y @ g.mT)
    torch.testing.assert_close(scaler.inverse(y), x)
    assert scaler(x.float()).dtype == torch.float32


def test_rotations_have_one_scale_and_no_mean() -> None:
    rep = (V + Scalar)(SO(2))
    x = rows(rep)
    scaler = EquivariantScaler(rep).fit(x)
    assert scaler.mean[:2].abs().max() < 1e-12
    torch.testing.assert_close(scaler.scale[:2], x[:, :2].square().mean().sqrt().expand(2))
    torch.testing.assert_close(scaler.mean[2], x[:, 2].mean())


def test_running_is_fitting_at_once() -> None:
    x = rows(SIGNS_AND_SWAPS)
    once, bit_by_bit = (EquivariantScaler(SIGNS_AND_SWAPS) for _ in range(2))
    once.fit(rows(SIGNS_AND_SWAPS) + 5).fit(x)
    for part in x.split([1, 7, 30, 2]):
        bit_by_bit.update(part)
    torch.testing.assert_close(bit_by_bit.mean, once.mean)
    torch.testing.assert_close(bit_by_bit.scale, once.scale)
    again = EquivariantScaler(SIGNS_AND_SWAPS)
    again.load_state_dict(once.state_dict())
    assert torch.equal(again(x), once(x))


def test_constants_are_not_scaled() -> None:
    scaler = EquivariantScaler((2 * Scalar + Pseudoscalar)(Z(2)))
    scaler.fit(torch.tensor([[0.1, 1e-9, 0.0], [0.1, 3e-9, 0.0]], dtype=torch.float64))
    torch.testing.assert_close(scaler.scale, torch.tensor([1, 1e-9, 1], dtype=torch.float64))


def test_what_the_group_mixes_is_constant_together() -> None:
    """Rotations about an oblique axis, along which data lie but for a little noise."""
    rng = torch.Generator().manual_seed(0)
    axis = torch.nn.functional.normalize(torch.tensor([1.0, 1e-2, 1e-4]).double(), dim=0)
    x, y, z = axis.tolist()
    spin = torch.tensor([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    rep = V(Group([], [spin.double()]))
    noise = torch.randn(50, 3, generator=rng, dtype=torch.float64)
    for size in (1e-7, 1e-5):
        data = 5 * axis + size * noise
        scaler = EquivariantScaler(rep).fit(data)
        assert len(scaler.scale.unique()) == 1
        assert bool((scaler.scale == 1).all()) == (size == 1e-7)
        turn = torch.linalg.matrix_exp(0.7 * spin.double())
        torch.testing.assert_close(
            scaler(data @ turn.mT), scaler(data) @ turn.mT, atol=1e-6, rtol=0
        )


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a group that keeps lengths"):
        EquivariantScaler(V(GL(2)))
    scaler = EquivariantScaler(SIGNS_AND_SWAPS)
    with pytest.raises(ValueError, match=r"expected data of width 9, got shape \(4, 3\)"):
        scaler.fit(torch.zeros(4, 3))
    with pytest.raises(ValueError, match="expected at least one row"):
        scaler.fit(torch.zeros(0, 9))


def test_vectorised_environments(tmp_path: Path) -> None:
    gymnasium = pytest.importorskip("gymnasium")
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    from isotropy.rl import VecEquivariantNormalize

    symmetry = environment_symmetry("Walker2d-v5")

    def made() -> object:
        return vec_env.DummyVecEnv([lambda: gymnasium.make("Walker2d-v5")] * 2)

    envs = VecEquivariantNormalize(made(), symmetry, clip_obs=1e9)
    envs.seed(0)
    envs.reset()
    seen = [envs.get_original_obs()]
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        envs.step(2 * torch.rand(2, 6, generator=generator).numpy() - 1)
        seen.append(envs.get_original_obs())
    images = torch.cat(
        [
            torch.from_numpy(s).double() @ g.mT
            for s in seen
            for g in symmetry.matrices(symmetry.elements())[0]
        ]
    )
    # stable-baselines3 starts from a mean of 0 that counts as 1e-4 observations
    mean, variance = images.mean(0), images.var(0, correction=0)
    torch.testing.assert_close(torch.from_numpy(envs.obs_rms.mean), mean, atol=1e-3, rtol=1e-3)  # type: ignore[attr-defined]
    torch.testing.assert_close(torch.from_numpy(envs.obs_rms.var), variance, atol=1e-3, rtol=1e-3)  # type: ignore[attr-defined]
    g = symmetry.matrices(symmetry.elements())[0][1].float().numpy()
    turned = envs.normalize_obs(seen[3] @ g.T)
    torch.testing.assert_close(turned, envs.normalize_obs(seen[3]) @ g.T, atol=1e-5, rtol=1e-5)
    envs.save(str(tmp_path / "normalised.pkl"))
    again = vec_env.VecNormalize.load(str(tmp_path / "normalised.pkl"), made())
    assert (again.normalize_obs(seen[3]) == envs.normalize_obs(seen[3])).all()
    count = again.obs_rms.count
    again.reset()
    assert again.obs_rms.count == count + 2
    both = envs.obs_rms.copy()
    both.combine(envs.obs_rms)  # type: ignore[attr-defined]
    torch.testing.assert_close(both.mean, envs.obs_rms.mean)  # type: ignore[attr-defined]
    assert both.count == 2 * envs.obs_rms.count  # type: ignore[attr-defined]


def test_a_plain_environment_is_not_vectorised() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    pytest.importorskip("stable_baselines3")
    from isotropy.rl import VecEquivariantNormalize

    env = gymnasium.make("Pendulum-v1")
    with pytest.raises(TypeError, match=r"expected vectorised .*DummyVecEnv.*, got TimeLimit"):
        VecEquivariantNormalize(env, "Pendulum-v1")
