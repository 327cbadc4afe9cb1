from __future__ import annotations

import logging
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from isotropy.data import TransitionChunks, Transitions
from isotropy.nn import log_prior
from isotropy.rl import EnvironmentSymmetry, TransitionModel
from isotropy.run import generator, spawn
from isotropy_papers.transition_errors import (
    group_images,
    one_step_error,
    rollout_error,
    rollout_errors,
    transition_equivariance_error,
)
from isotropy_papers.transition_training import TransitionRecipe, fit_transition_model


@pytest.fixture(scope="module")
def flip() -> EnvironmentSymmetry:
    return EnvironmentSymmetry.of([[[-1.0, 0.0], [0.0, 1.0]]], [[[-1.0]]])


def _random(symmetry: EnvironmentSymmetry, rows: int, seed: int = 0) -> Transitions:
    source = torch.Generator().manual_seed(seed)
    n, m = symmetry.observation_size, symmetry.action_size
    s, a, change = (torch.randn(rows, size, generator=source) for size in (n, m, n))
    scale = torch.rand(n, generator=source) + 0.5
    return Transitions(s * scale + scale, a, s * scale + scale + 0.3 * change + 0.1)


def _pulled(rows: int, seed: int) -> Transitions:
    """A cart that a force pushes: linear, and mirrored by ``flip``."""
    source = torch.Generator().manual_seed(seed)
    s, a = (torch.randn(rows, size, generator=source) for size in (2, 1))
    change = torch.stack([0.3 * a[:, 0] - 0.1 * s[:, 0], 0.2 * s[:, 0] * a[:, 0]], 1)
    return Transitions(s, a, s + change)


@pytest.mark.parametrize("loss", ["l1", "mse"])
def test_training_is_adam_on_loss_and_prior(flip: EnvironmentSymmetry, loss: str) -> None:
    """Against a plain loop with torch's own pieces and ``log_prior``."""
    data = _pulled(20, 0)
    recipe = TransitionRecipe(
        steps=6,
        batch=20,
        learning_rate=0.01,
        loss=loss,  # type: ignore[arg-type]
        noise=0.5,
        weight_decay=0.1,
    )
    variances = (2.0, 0.01)
    fast, slow = (
        TransitionModel(flip, "rpp", widths=(8, 8), seed=4, variances=variances, start=0.5)
        for _ in range(2)
    )
    chunks = TransitionChunks(
        torch.stack([data.observations, data.next_observations], 1), data.actions.unsqueeze(1)
    )
    fit_transition_model(fast, data, recipe, seed=7)

    order = spawn(generator(7), 1)[0]
    slow.fit_scales(chunks)
    adam = torch.optim.AdamW(slow.parameters(), lr=0.01, weight_decay=0.1)
    for step in range(6):
        adam.param_groups[0]["lr"] = 0.01 * (1 + math.cos(math.pi * step / 6)) / 2
        rows = torch.randint(20, (20,), generator=order)
        errors = slow(data.observations[rows], data.actions[rows]) - data.next_observations[rows]
        errors = errors / slow.change_scale
        likelihood = errors.abs().mean() if loss == "l1" else errors.square().mean()
        # minus log posterior over 40 numbers, times what makes the data's part the mean loss
        unit = 2 * 0.25 if loss == "mse" else 0.5 / math.sqrt(2)
        adam.zero_grad()
        (likelihood - unit * log_prior(slow.network, samples=40)).backward()
        adam.step()
    for ours, theirs in zip(fast.parameters(), slow.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_models_trained_together_are_those_trained_alone(flip: EnvironmentSymmetry) -> None:
    recipe = TransitionRecipe(steps=10, batch=16, learning_rate=0.01)
    sets = [_pulled(40, seed) for seed in (0, 1)]
    together = [TransitionModel(flip, "rpp", widths=(8, 8), seed=seed) for seed in (0, 1)]
    fit_transition_model(together, sets, recipe)
    alone = TransitionModel(flip, "rpp", widths=(8, 8), seed=0)
    fit_transition_model(alone, sets[0], recipe)
    for ours, theirs in zip(together[0].parameters(), alone.parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)
    assert not torch.equal(together[0].state_mean, together[1].state_mean)
    with pytest.raises(ValueError, match="data for each of 2 models"):
        fit_transition_model(together, sets[:1], recipe)
    wider = TransitionModel(flip, "rpp", widths=(16, 8))
    with pytest.raises(ValueError, match="one kind and size"):
        fit_transition_model([alone, wider], sets, recipe)


def test_models_that_differ_in_more_than_weights_are_refused() -> None:
    data = _pulled(20, 0)
    recipe = TransitionRecipe(steps=2, batch=8)
    signs = [[[-1.0, 0.0], [0.0, 1.0]]], [[[1.0, 0.0], [0.0, -1.0]]]
    flips = [EnvironmentSymmetry.of(on_states, [[[-1.0]]]) for on_states in signs]
    expected = "expected models that differ in their weights only, got other symmetries or priors"
    for kind in ("equivariant", "rpp"):
        models = [TransitionModel(one, kind, widths=(8,)) for one in flips]  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=expected):
            fit_transition_model(models, [data, data], recipe)
        # not even their scales are touched
        assert all(bool((model.state_scale == 1).all()) for model in models)
    priors = [
        TransitionModel(flips[0], "rpp", widths=(8,), variances=variances)
        for variances in ((1e6, 3.0), (1e6, 1e-12))
    ]
    with pytest.raises(ValueError, match=expected):
        fit_transition_model(priors, [data, data], recipe)
    kinds = [TransitionModel(flips[0], kind, widths=(8,)) for kind in ("rpp", "mlp")]  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one kind and size"):
        fit_transition_model(kinds, [data, data], recipe)


def test_gradients_that_are_not_finite_are_told(
    flip: EnvironmentSymmetry, caplog: pytest.LogCaptureFixture
) -> None:
    source = torch.Generator().manual_seed(0)
    chunks = TransitionChunks(
        torch.randn(50, 11, 2, generator=source), torch.randn(50, 10, 1, generator=source)
    )
    one, other = (TransitionModel(flip, "mlp", widths=(8, 8), seed=seed) for seed in (0, 1))
    wild = TransitionRecipe(steps=20, learning_rate=1e6, raw=True)
    with pytest.raises(
        ValueError, match=r"learning rate 1e\+06 over rollouts of 10 steps, got none"
    ):
        fit_transition_model(one, chunks, wild)
    caplog.set_level(logging.WARNING)
    fit_transition_model(other, chunks, TransitionRecipe(steps=20, raw=True))
    assert not caplog.records
    # one row of twenty is beyond the range of floats, and some batches have it
    data = _pulled(20, 0)
    states = torch.stack([data.observations, data.next_observations], 1)
    states[3, 1] = math.inf
    spoiled = TransitionChunks(states, data.actions.unsqueeze(1))
    whole = TransitionChunks(states.nan_to_num(0.0, 0.0, 0.0), spoiled.actions)
    models = [TransitionModel(flip, "rpp", widths=(8,), seed=seed) for seed in (0, 1)]
    recipe = TransitionRecipe(steps=20, batch=10, loss="mse")
    fit_transition_model(models, [whole, spoiled], recipe, scales=False)
    order = spawn(generator(0), 2)[1]
    lost = sum(3 in torch.randint(20, (10,), generator=order).tolist() for _ in range(20))
    assert 0 < lost < 19
    assert f"{lost} of 20 steps of model 1 had no finite gradient" in caplog.text
    assert "1 of 2 models" in caplog.text
    assert all(bool(weight.isfinite().all()) for weight in models[1].parameters())


def test_images_of_an_infinite_group_begin_with_the_data() -> None:
    turn = [[0.0, -1.0], [1.0, 0.0]]
    plane = EnvironmentSymmetry.of([], [], observation_algebra=[turn], action_algebra=[turn])
    data = _random(plane, 5)
    images = group_images(data, plane, generator=3)
    assert len(images) == 33 * 5
    for ours, given in (
        (images.observations, data.observations),
        (images.actions, data.actions),
        (images.next_observations, data.next_observations),
    ):
        assert torch.equal(ours[:5], given)
        assert torch.allclose(ours.norm(dim=1), given.norm(dim=1).repeat(33), atol=1e-5)
    assert len(images.actions.round(decimals=4).unique(dim=0)) == 33 * 5


def test_symmetry_helps_where_data_are_few(flip: EnvironmentSymmetry) -> None:
    train, test = _pulled(24, 0), _pulled(500, 1)
    errors = {}
    for kind in ("equivariant", "rpp", "mlp"):
        model = TransitionModel(flip, kind, widths=(32, 32), seed=0)
        recipe = TransitionRecipe(steps=400, batch=24, learning_rate=0.01, loss="mse")
        fit_transition_model(model, train, recipe)
        errors[kind] = one_step_error(model, test)
    assert errors["equivariant"] < errors["mlp"]
    assert errors["rpp"] < errors["mlp"]


def test_fitting_stretches_makes_rollouts_follow_the_truth(flip: EnvironmentSymmetry) -> None:
    source = torch.Generator().manual_seed(0)
    actions = torch.randn(200, 6, 1, generator=source)
    states = [torch.randn(200, 2, generator=source)]
    for action in actions.unbind(1):
        s = states[-1]
        states.append(s + torch.stack([0.3 * action[:, 0] - 0.1 * s[:, 0], -0.1 * s[:, 1]], 1))
    chunks = TransitionChunks(torch.stack(states, 1), actions)
    model = TransitionModel(flip, "equivariant", widths=(16, 16))
    before = rollout_error(rollout_errors(model, chunks), 6)
    steps: list[int] = []
    fit_transition_model(
        model,
        chunks,
        TransitionRecipe(steps=200, batch=64, learning_rate=0.01, raw=True),
        progress=lambda step: steps.append(step.done),
    )
    assert rollout_error(rollout_errors(model, chunks), 6) < 0.15 * before
    assert steps[:3] == [0, 2, 4]


def test_rollout_errors_in_closed_form(flip: EnvironmentSymmetry) -> None:
    model = _still(flip)
    truth = torch.tensor([[[1.0, 0.0], [3.0, 0.0], [1.0, 0.0]]])
    errors = rollout_errors(model, TransitionChunks(truth, torch.zeros(1, 2, 1)))
    assert errors.tolist() == [[0.5, 0.0]]  # |3 - 1| / (3 + 1)
    assert rollout_error(errors, 1) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="between 1 and 2"):
        rollout_error(errors, 3)


def test_equivariance_error_in_closed_form(flip: EnvironmentSymmetry) -> None:
    start = TransitionChunks(torch.zeros(1, 4, 2), torch.ones(1, 3, 1))
    model = _still(flip)
    # a change (c, 0) that does not turn round under the mirror: |(-c) - c| / 2c
    model.change_mean.copy_(torch.tensor([0.5, 0.0]))
    assert transition_equivariance_error(model, start) == pytest.approx(1.0)
    model.change_mean.copy_(torch.tensor([0.3, 0.4]))
    assert transition_equivariance_error(model, start) == pytest.approx(0.6)
    model.change_mean.copy_(torch.tensor([0.0, 0.5]))
    assert transition_equivariance_error(model, start) < 1e-6


def test_equivariance_error_of_groups_that_leave_states(flip: EnvironmentSymmetry) -> None:
    start = TransitionChunks(torch.zeros(1, 4, 2), torch.ones(1, 3, 1))
    model = TransitionModel(flip, "mlp", widths=(8,), seed=1)
    nothing = EnvironmentSymmetry.of([torch.eye(2)], [torch.eye(1)], name="nothing")
    with pytest.raises(ValueError, match="more than the identity, got nothing"):
        transition_equivariance_error(model, start, nothing)
    # only actions change sign, and the network's answer with them
    actions_only = EnvironmentSymmetry.of([torch.eye(2)], [-torch.eye(1)])
    assert transition_equivariance_error(model, start, actions_only) > 0.01


def test_one_step_error_of_the_mean_change_is_one(flip: EnvironmentSymmetry) -> None:
    data, model = _pulled(200, 0), _still(flip)
    change = data.next_observations - data.observations
    model.change_mean.copy_(change.mean(0))
    assert one_step_error(model, data, rows=64) == pytest.approx(1.0, rel=1e-5)


def test_recipes_say_what_is_wrong() -> None:
    with pytest.raises(ValueError, match="positive steps"):
        TransitionRecipe(steps=0)
    with pytest.raises(ValueError, match="'l1' or 'mse'"):
        TransitionRecipe(loss="l2")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="weight_decay"):
        TransitionRecipe(weight_decay=-1.0)


def _still(symmetry: EnvironmentSymmetry) -> TransitionModel:
    """A model whose network gives zeros."""
    model = TransitionModel(symmetry, "mlp", widths=(4,))
    parameters: list[Tensor] = list(model.network.parameters())
    with torch.no_grad():
        for weight in parameters:
            weight.zero_()
    return model


@pytest.mark.parametrize(
    ("data", "got"),
    [
        ("log.npz", "str: Transitions.load reads a file"),
        (torch.zeros(3, 2), "Tensor$"),
        ({"observations": torch.zeros(3, 2)}, "dict$"),
        ([torch.zeros(3, 2)], "Tensor$"),
        (3, "int$"),
    ],
)
def test_data_of_other_types_are_named(flip: EnvironmentSymmetry, data: Any, got: str) -> None:
    model = TransitionModel(flip, "mlp", widths=(8,))
    with pytest.raises(TypeError, match=f"expected Transitions or TransitionChunks, got {got}"):
        fit_transition_model(model, data)
    if not isinstance(data, list):
        with pytest.raises(TypeError, match="expected Transitions, got"):
            group_images(data, flip)
        with pytest.raises(TypeError, match="expected a TransitionModel, got"):
            fit_transition_model(data, _pulled(5, 0))
