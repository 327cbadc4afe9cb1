from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch

from isotropy.data import Transitions
from isotropy.rl import (
    EnvironmentSymmetry,
    TransitionModel,
    axial,
    body_turn,
    hinge,
    mirror,
    quaternion,
    scalar,
    vector,
)


@pytest.fixture(scope="module")
def table() -> EnvironmentSymmetry:
    """A body with four legs, which may be turned and mirrored."""
    legs = [hinge(f"leg {number}", "z") for number in (1, 2, 3, 4)]
    body = [scalar("height"), quaternion("body"), vector("velocity"), axial("spin"), *legs]
    turn = body_turn(90, "z", [("leg 1", "leg 2", "leg 3", "leg 4")])
    flip = mirror("y", [("leg 1", "leg 4"), ("leg 2", "leg 3")])
    return EnvironmentSymmetry.described(body, legs, [turn, flip])


@pytest.fixture(scope="module")
def flip() -> EnvironmentSymmetry:
    return EnvironmentSymmetry.of([[[-1.0, 0.0], [0.0, 1.0]]], [[[-1.0]]])


def _random(symmetry: EnvironmentSymmetry, rows: int, seed: int = 0) -> Transitions:
    source = torch.Generator().manual_seed(seed)
    n, m = symmetry.observation_size, symmetry.action_size
    s, a, change = (torch.randn(rows, size, generator=source) for size in (n, m, n))
    scale = torch.rand(n, generator=source) + 0.5
    return Transitions(s * scale + scale, a, s * scale + scale + 0.3 * change + 0.1)


def test_scales_are_those_of_all_images(table: EnvironmentSymmetry) -> None:
    data = _random(table, 40)
    model = TransitionModel(table, "equivariant", widths=(16,)).fit_scales(data)
    on_states, _ = table.matrices(table.elements())
    assert len(on_states) == 16
    legs = slice(11, 15)
    for rows, mean, scale in (
        (data.observations, model.state_mean, model.state_scale),
        (data.next_observations - data.observations, model.change_mean, model.change_scale),
    ):
        values = torch.cat([rows @ g.float().mT for g in on_states])
        assert torch.allclose(mean, values.mean(0), atol=1e-5)
        # each column's variance over images, then one for the columns that a turn exchanges
        variance = values.var(0, correction=0)
        assert torch.allclose(scale[legs].square(), variance[legs].mean(), rtol=1e-4)
        assert torch.allclose(scale[:1].square(), variance[:1], rtol=1e-4)
    free = TransitionModel(table, "mlp", widths=(16,)).fit_scales(data)
    assert torch.allclose(free.state_scale, data.observations.std(0, correction=0))


def test_columns_that_never_change_have_no_scale(flip: EnvironmentSymmetry) -> None:
    still = Transitions(torch.ones(5, 2), torch.zeros(5, 1), torch.ones(5, 2))
    for kind in ("mlp", "rpp"):
        model = TransitionModel(flip, kind, widths=(8,)).fit_scales(still)
        assert bool(model(still.observations, still.actions).isfinite().all())


@pytest.mark.parametrize("kind", ["equivariant", "rpp", "mlp"])
def test_models_commute_with_the_group(table: EnvironmentSymmetry, kind: str) -> None:
    data = _random(table, 30)
    model = TransitionModel(table, kind, widths=(32, 32), start=0.0)  # type: ignore[arg-type]
    model.fit_scales(data)
    on_states, on_actions = (m.float() for m in table.matrices(table.elements()))
    s, a = data.observations, data.actions
    with torch.no_grad():
        worst = max(
            float((model(s @ g.mT, a @ h.mT) - model(s, a) @ g.mT).abs().max())
            for g, h in zip(on_states, on_actions, strict=True)
        )
    assert worst > 0.01 if kind == "mlp" else worst < 1e-4


def test_rollout_is_one_step_after_another(flip: EnvironmentSymmetry) -> None:
    model = TransitionModel(flip, "rpp", widths=(8, 8), seed=1)
    s, a = torch.randn(3, 2), torch.randn(3, 4, 1)
    states = model.rollout(s, a)
    assert states.shape == (3, 5, 2)
    for (before, after), action in zip(pairwise(states.unbind(1)), a.unbind(1), strict=True):
        assert torch.allclose(model(before, action), after)


def test_state_dict_carries_scales(flip: EnvironmentSymmetry) -> None:
    data = _random(flip, 50)
    model = TransitionModel(flip, "rpp", widths=(8, 8), seed=1).fit_scales(data)
    other = TransitionModel(flip, "rpp", widths=(8, 8), seed=2)
    other.load_state_dict(model.state_dict())
    assert torch.equal(
        model(data.observations, data.actions), other(data.observations, data.actions)
    )
    with pytest.raises(ValueError, match="another environment"):
        model.fit_scales(Transitions(torch.ones(2, 3), torch.ones(2, 1), torch.ones(2, 3)))


def test_models_leave_the_streams_of_gpus_alone(
    flip: EnvironmentSymmetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched: list[Any] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", touched.append)
    before = torch.get_rng_state()
    models = [TransitionModel(flip, "mlp", widths=(8,), seed=seed) for seed in (5, 5, 6)]
    assert not touched
    assert torch.equal(torch.get_rng_state(), before)
    weights = [next(model.parameters()) for model in models]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_a_known_environment_by_its_id() -> None:
    model = TransitionModel("Swimmer-v5", "equivariant", widths=(8,))
    assert model.symmetry.observation_size == 8
    assert model(torch.zeros(3, 8), torch.zeros(3, 2)).shape == (3, 8)
    with pytest.raises(TypeError, match=r"EnvironmentSymmetry or the id .*, got int"):
        TransitionModel(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="did you mean Swimmer-v5"):
        TransitionModel("Swimmer-v9")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_precision_comes_back_in_that_of_the_model(
    flip: EnvironmentSymmetry, dtype: torch.dtype
) -> None:
    model = TransitionModel(flip, "equivariant", widths=(8,)).to(dtype)
    s, a = torch.randn(5, 2, dtype=torch.float64), torch.randn(5, 3, 1, dtype=torch.float64)
    expected = model.rollout(s.to(dtype), a.to(dtype))
    for values in ((s, a), (s.numpy(), a.numpy()), (s.numpy(), a)):
        got = model.rollout(*values)
        assert got.dtype == dtype
        assert torch.equal(got, expected)
    one = model(s.numpy(), a[:, 0].numpy())
    assert one.dtype == dtype
    assert torch.equal(one, expected[:, 1])
    # within vmap too, where tensors are wrapped
    assert torch.allclose(torch.func.vmap(model)(s, a[:, 0]), expected[:, 1])


@pytest.mark.parametrize(
    ("data", "got"),
    [
        ("log.npz", "str: Transitions.load reads a file"),
        (torch.zeros(3, 2), "Tensor$"),
        ({"observations": torch.zeros(3, 2)}, "dict$"),
        (3, "int$"),
    ],
)
def test_data_of_other_types_are_named(flip: EnvironmentSymmetry, data: Any, got: str) -> None:
    model = TransitionModel(flip, "mlp", widths=(8,))
    with pytest.raises(TypeError, match=f"expected Transitions or TransitionChunks, got {got}"):
        model.fit_scales(data)
