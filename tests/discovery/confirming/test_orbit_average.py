"""The mean over orbits within the data: what it is, when it says nothing, how often it errs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from isotropy.discovery.confirming._claim_test import claim_test
from isotropy.discovery.confirming._orbit_average import (
    ActionTest,
    DataSupport,
    confirm_action,
    cost_of_average,
    orbit_average,
    why_untested,
)

TURN = torch.tensor([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]]).double()


def normal(n: int, width: int, seed: int) -> Tensor:
    return torch.randn(n, width, generator=torch.Generator().manual_seed(seed)).double()


def linear(*matrices: Tensor, copies: int = 1) -> Tensor:
    """Generators on rows of several copies."""
    rows = torch.stack([torch.block_diag(*[m.double()] * copies) for m in matrices])
    return nn.functional.pad(rows, (0, 1))


def plane(d: int, i: int, j: int, sign: float = -1.0) -> Tensor:
    matrix = torch.zeros(d, d)
    matrix[i, j], matrix[j, i] = sign, 1.0
    return matrix


ROTATIONS = [plane(3, 0, 1), plane(3, 0, 2), plane(3, 1, 2)]
LORENTZ = [plane(4, 0, i, 1.0) for i in (1, 2, 3)] + [
    plane(4, 1, 2),
    plane(4, 1, 3),
    plane(4, 2, 3),
]


def scaling(n: int) -> Tensor:
    return linear(torch.eye(n))


# --- where the data are -------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 6])
def test_support_holds_most_new_data_and_nothing_far(n: int) -> None:
    support = DataSupport(normal(500, n, 0))
    assert support.contains(normal(1000, n, 1)).double().mean() > 0.88
    assert not support.contains(normal(100, n, 2) + 8).any()
    assert not support.contains(torch.full((1, n), math.inf)).any()


def test_support_does_not_depend_on_linear_coordinates() -> None:
    x, images = normal(300, 3, 0), 2 * normal(500, 3, 1)
    change = torch.diag(torch.tensor([1e6, 1.0, 1e-5]).double()) @ (normal(3, 3, 2) + torch.eye(3))
    inside = DataSupport(x).contains(images)
    assert 0.1 < inside.double().mean() < 0.9
    assert torch.equal(inside, DataSupport(x @ change.T + 5).contains(images @ change.T + 5))


def test_support_keeps_to_what_is_constant() -> None:
    x = normal(100, 2, 0)
    x = torch.cat([x, x.sum(1, keepdim=True)], 1)
    support = DataSupport(x)
    assert support.directions == 2
    assert support.contains(x).double().mean() > 0.8
    assert not support.contains(x + torch.tensor([0.0, 0.0, 0.01])).any()


def test_support_errors() -> None:
    with pytest.raises(ValueError, match=r"expected at least 20 rows of data, got 19"):
        DataSupport(normal(19, 2, 0))
    with pytest.raises(ValueError, match=r"expected real data of shape \(N, n\), got .* \(30,\)"):
        DataSupport(torch.zeros(30))
    with pytest.raises(ValueError, match=r"expected finite data, got NaN or infinity"):
        DataSupport(torch.full((30, 2), math.nan))
    with pytest.raises(ValueError, match=r"expected data that vary, got the same row throughout"):
        DataSupport(torch.ones(30, 2))
    with pytest.raises(ValueError, match=r"expected a coverage between 0 and 1, got 1"):
        DataSupport(normal(30, 2, 0), coverage=1)
    with pytest.raises(ValueError, match=r"expected rows of width 2, got shape \(3, 3\)"):
        DataSupport(normal(30, 2, 0)).contains(normal(3, 3, 0))


# --- the mean -----------------------------------------------------------------------------------


def arc_means(f: object, x: Tensor, support: DataSupport) -> Tensor:
    """Means over a grid of all rotations of each row that stay within the data."""
    angles = torch.linspace(0, 2 * math.pi, 361).double()[:-1]
    turns = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], 1)
    images = torch.einsum("gij,nj->ngi", turns.reshape(-1, 2, 2), x).reshape(-1, 2)
    inside = support.contains(images).double().reshape(len(x), -1)
    values = f(images).reshape(len(x), -1)  # type: ignore[operator]
    return (values * inside).sum(1) / inside.sum(1)


@pytest.mark.parametrize("quarter", [False, True])
def test_mean_is_over_the_part_of_the_orbit_within_the_data(quarter: bool) -> None:
    x = normal(1000, 2, 0)
    x = x.abs() if quarter else x
    support = DataSupport(x)
    x = x[:150]

    def f(x: Tensor) -> Tensor:
        return x[:, :1] + x[:, :1] * x[:, 1:]

    average = orbit_average(f, x, TURN, support=support, elements=400)
    ours, theirs = average.values[average.tested, 0], arc_means(f, x, support)[average.tested]
    assert average.share > 0.9
    assert average.reach > 0.5
    spread = f(x).std()
    assert (ours - theirs).square().mean().sqrt() < 0.15 * spread
    assert (f(x)[average.tested, 0] - theirs).square().mean().sqrt() > 0.3 * spread


def test_places_count_by_volume() -> None:
    x = normal(2000, 3, 0)
    support = DataSupport(x)
    radii = torch.linspace(0.01, 6, 600).double()
    expected = []
    x = x[:100]
    for row in x:
        inside = support.contains(radii.unsqueeze(1) * row / row.norm()).double()
        expected.append((inside * radii**3).sum() / (inside * radii**2).sum())
    average = orbit_average(
        lambda x: x.norm(dim=1, keepdim=True), x, scaling(3), support=support, elements=600
    )
    ours, theirs = average.values[average.tested, 0], torch.stack(expected)[average.tested]
    assert average.share > 0.9
    assert (ours - theirs).abs().mean() < 0.1


@pytest.mark.parametrize(
    ("generators", "copies"), [(ROTATIONS, 2), (LORENTZ, 1), ([torch.eye(3)], 1)]
)
def test_equivariant_predictions_stay(generators: list[Tensor], copies: int) -> None:
    d = len(generators[0])
    x = normal(300, d * copies, 0)
    average = orbit_average(
        lambda x: x[:, :d],
        x,
        linear(*generators, copies=copies),
        torch.stack(generators),
        support=DataSupport(x),
    )
    assert average.share > 0.8
    assert average.kept.double().mean() > 5
    torch.testing.assert_close(average.values, x[:, :d], rtol=1e-6, atol=1e-6)


def test_lorentz_average_of_a_vector_that_ought_to_be_invariant() -> None:
    x = normal(400, 8, 0)
    generators = linear(*LORENTZ, copies=2)
    metric = torch.tensor([1.0, -1.0, -1.0, -1.0]).double()
    support = DataSupport(x)
    mass = orbit_average(
        lambda x: (x[:, :4] ** 2 * metric).sum(1, keepdim=True), x, generators, support=support
    )
    torch.testing.assert_close(mass.values[:, 0], (x[:, :4] ** 2 * metric).sum(1))
    energy = orbit_average(lambda x: x[:, :1], x, generators, support=support)
    lost = (energy.values - x[:, :1])[energy.tested].square().mean()
    assert energy.reach > 0.6
    assert lost > 0.5


def test_result_does_not_depend_on_linear_coordinates() -> None:
    x = normal(200, 2, 0)
    change = torch.tensor([[1e4, 30.0], [0.0, 1e-3]]).double()
    shift = torch.tensor([7.0, -2.0]).double()
    back = torch.linalg.inv(change)
    # P A P⁻¹ (z − s): the offset is −P A P⁻¹ s
    moved = change @ TURN[:, :, :2] @ back
    moved = torch.cat([moved, -(moved @ shift).unsqueeze(2)], 2)
    z = x @ change.T + shift
    here = orbit_average(lambda x: x[:, :1], x, TURN, support=DataSupport(x))
    there = orbit_average(
        lambda z: ((z - shift) @ back.T)[:, :1], z, 1e5 * moved, support=DataSupport(z)
    )
    torch.testing.assert_close(here.values, there.values, rtol=1e-5, atol=1e-5)
    assert here.reach == pytest.approx(there.reach, rel=1e-5)


def test_repeats_with_its_seed() -> None:
    x = normal(50, 2, 0)
    support = DataSupport(x)
    means = [
        orbit_average(lambda x: x[:, :1], x, TURN, support=support, seed=seed).values
        for seed in (1, 1, 2)
    ]
    assert torch.equal(means[0], means[1])
    assert not torch.equal(means[0], means[2])


def test_module_keeps_its_mode_and_precision() -> None:
    model = nn.Sequential(nn.Linear(2, 1), nn.Dropout(0.5)).train()
    x = normal(40, 2, 0).float()
    average = orbit_average(model, x, TURN, support=DataSupport(x))
    assert model.training
    assert torch.isfinite(average.values).all()


def test_average_errors() -> None:
    x = normal(30, 2, 0)
    support = DataSupport(x)

    def average(x: Tensor = x, turn: Tensor = TURN, out: Tensor | None = None, **kw: int) -> None:
        orbit_average(lambda x: x[:, :1], x, turn, out, support=support, **kw)

    with pytest.raises(ValueError, match=r"expected at least 2 elements, got 1"):
        average(elements=1)
    with pytest.raises(ValueError, match=r"expected finite inputs, got NaN or infinity"):
        average(x * math.nan)
    with pytest.raises(ValueError, match=r"expected inputs of the data's width 2, got 3"):
        average(normal(30, 3, 0))
    with pytest.raises(
        ValueError, match=r"generators \[A\|b\] of shape \(D, 2, 3\), got \(1, 2, 2"
    ):
        average(turn=TURN[:, :, :2])
    with pytest.raises(ValueError, match=r"expected finite generators, got NaN or infinity"):
        average(turn=TURN * math.nan)
    with pytest.raises(ValueError, match=r"outputs of shape \(1, 1, 1\), got \(1, 2, 2\)"):
        average(out=torch.zeros(1, 2, 2))
    with pytest.raises(ValueError, match=r"expected predictions of shape \(30, k\), got \(30,\)"):
        orbit_average(lambda x: x[:, 0], x, TURN, support=support)


# --- the test -----------------------------------------------------------------------------------


def quadratic_fit(x: Tensor, y: Tensor) -> object:
    def features(x: Tensor) -> Tensor:
        i, j = torch.triu_indices(x.shape[1], x.shape[1])
        return torch.cat([torch.ones(len(x), 1).double(), x, x[:, i] * x[:, j]], 1)

    weights = torch.linalg.lstsq(features(x), y).solution
    return lambda rows: features(rows) @ weights


def confirmations(tilt: float, repeats: int, positive: bool) -> int:
    """Claims of so(2) for |x|² + tilt·x₀, from 100 noisy rows to fit and 100 to confirm."""
    count = 0
    for seed in range(repeats):
        x = normal(200, 2, seed) + torch.tensor([2.0, 0.0])
        x = x.abs() if positive else x
        y = x.square().sum(1, keepdim=True) + tilt * x[:, 1:]
        y = y + 1.5 * normal(200, 1, seed + 10**6)
        predict = quadratic_fit(x[:100], y[:100])
        test = confirm_action(
            predict,  # type: ignore[arg-type]
            x[100:],
            y[100:],
            TURN,
            support=DataSupport(x[:100]),
            constant=y[:100].mean(0),
            elements=32,
            seed=seed,
        )
        count += test.test.confirmed
    return count


@pytest.mark.parametrize("positive", [False, True])
def test_power_and_false_claims(positive: bool) -> None:
    assert confirmations(0.0, 20, positive) >= 18
    # x₁ varies by about 1 (by 0.6 where it is positive) along an orbit; f by 4.7, so that this is
    # 8 % of its variance, where the margin is 5 %
    assert confirmations(2.2 if positive else 1.6, 40, positive) <= 4


def test_gain_by_evening_out_errors_does_not_hide_a_cost() -> None:
    even, odd, error = (normal(400, 1, seed) for seed in range(3))
    y = even + 0.35 * odd  # 11 % of the variance
    free = y + 0.6 * error
    losses = [(p - y).square()[:, 0] for p in (even, free, 0 * y)]
    assert claim_test(*losses).confirmed
    assert not cost_of_average(free, even[None], y, constant=torch.zeros(1)).confirmed
    y = even
    free = y + 0.2 * error
    assert cost_of_average(free, even[None], y, constant=torch.zeros(1)).confirmed


def test_chance_in_the_mean_does_not_count_as_cost() -> None:
    even, error, *chance = (normal(2000, 1, seed) for seed in range(4))
    means = torch.stack([even + 0.25 * c for c in chance])
    free = even + 0.4 * error
    cost = cost_of_average(free, means, even, constant=torch.zeros(1)).effect
    both = cost_of_average(free, means.mean(0, keepdim=True), even, constant=torch.zeros(1)).effect
    assert abs(cost) < 0.02
    assert both > 0.025  # half of 0.25², as a share of 1 − 0.4²


def test_logits_and_groups() -> None:
    x = normal(600, 2, 0)
    logits = torch.cat([x.square().sum(1, keepdim=True) - 2, torch.zeros(600, 1)], 1)
    chances = logits.softmax(1)
    y = torch.multinomial(chances, 1, generator=torch.Generator().manual_seed(0))[:, 0]
    for tilt, confirmed in ((0.0, True), (2.0, False)):

        def predict(x: Tensor, tilt: float = tilt) -> Tensor:
            first = x.square().sum(1, keepdim=True) - 2 + tilt * x[:, :1]
            return torch.cat([first, torch.zeros(len(x), 1)], 1)

        y = torch.multinomial(predict(x).softmax(1), 1, generator=torch.Generator().manual_seed(0))[
            :, 0
        ]
        action = confirm_action(
            predict,
            x,
            y,
            TURN,
            support=DataSupport(x),
            constant=(torch.bincount(y) / len(y)).log(),
            loss="cross-entropy",
            margin=0.1,
            groups=np.repeat(np.array([f"g{i}" for i in range(300)]), 2),
        )
        assert action.test.confirmed is confirmed
        assert 250 < action.test.samples <= 300


def confirmed_for(x: Tensor, generators: Tensor, **given: object) -> ActionTest:
    y = x[:, -1:]
    return confirm_action(
        lambda x: x[:, -1:],
        x,
        y,
        generators,
        support=DataSupport(x),
        constant=y.mean(0),
        **given,  # type: ignore[arg-type]
    )


def test_nothing_is_claimed_where_nothing_was_averaged() -> None:
    direction = normal(300, 3, 0)
    sphere = direction / direction.norm(dim=1, keepdim=True)
    assert not (off := confirmed_for(sphere, scaling(3))).told
    assert (off.test.p_value, off.test.confirmed) == (1.0, False)
    # a column that is twice another one, moved alone
    line = torch.cat([direction[:, :1], 2 * direction[:, :1]], 1)
    shift = torch.tensor([[[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]])
    assert confirmed_for(line, shift).reason == (
        "0 inputs have images within the data, fewer than 20"
    )
    # rotations of two columns that are zero, beside one that can be shifted
    flat = torch.cat([0 * direction[:, :2], direction[:, 2:]], 1)
    turn_and_shift = linear(plane(3, 0, 1), torch.zeros(3, 3))
    turn_and_shift[1, 2, 3] = 1.0
    refused = confirmed_for(flat, turn_and_shift)
    assert refused.reach == 0.0
    assert refused.reason.startswith("images within the data are too near to tell: 0 of the dist")


def test_one_dead_direction_among_live_ones_is_seen() -> None:
    # on a sphere rotations go far, scalings nowhere: together they are not confirmed
    direction = normal(500, 3, 0)
    sphere = direction / direction.norm(dim=1, keepdim=True)
    f = orbit_average(lambda x: x[:, :1], sphere, linear(*ROTATIONS), support=DataSupport(sphere))
    both = linear(*ROTATIONS, torch.eye(3))
    g = orbit_average(lambda x: x[:, :1], sphere, both, support=DataSupport(sphere))
    assert f.reach > 0.6
    assert g.reach < 0.3


def test_why_untested() -> None:
    tested = torch.arange(100) < 60
    assert why_untested(tested, None, 0.5) == ""
    assert why_untested(tested, torch.arange(100) // 5, 0.5) == (
        "12 groups of inputs have images within the data, fewer than 20"
    )
    assert "40% of the inputs" in why_untested(torch.arange(100) < 40, None, 0.5)
    assert "0.1 of the distance between data" in why_untested(tested, None, 0.1)


def test_confirm_errors() -> None:
    x = normal(60, 2, 0)
    given = {"support": DataSupport(x), "constant": torch.zeros(1)}

    def first(x: Tensor) -> Tensor:
        return x[:, :1]

    with pytest.raises(ValueError, match=r"as many targets as inputs, got 59 and 60"):
        confirm_action(first, x, x[1:, :1], TURN, **given)
    with pytest.raises(ValueError, match=r"expected a group for each of 60 samples, got \(3,\)"):
        confirm_action(first, x, x[:, :1], TURN, groups=[1, 2, 3], **given)
    with pytest.raises(
        ValueError, match=r"expected a constant prediction of shape \(1,\), got \(2"
    ):
        confirm_action(first, x, x[:, :1], TURN, support=given["support"], constant=torch.zeros(2))
    with pytest.raises(ValueError, match=r"averages of shape \(1 or 2, 60, 1\), got \(60, 1\)"):
        cost_of_average(x[:, :1], x[:, :1], x[:, :1], constant=torch.zeros(1))
