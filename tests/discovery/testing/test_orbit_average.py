"""The mean over orbits within the data: what it is, and how far orbits reach."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from isotropy.discovery import DataSupport, orbit_average

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


def test_one_dead_direction_among_live_ones_is_seen() -> None:
    # on a sphere rotations go far, scalings nowhere: together they are not confirmed
    direction = normal(500, 3, 0)
    sphere = direction / direction.norm(dim=1, keepdim=True)
    f = orbit_average(lambda x: x[:, :1], sphere, linear(*ROTATIONS), support=DataSupport(sphere))
    both = linear(*ROTATIONS, torch.eye(3))
    g = orbit_average(lambda x: x[:, :1], sphere, both, support=DataSupport(sphere))
    assert f.reach > 0.6
    assert g.reach < 0.3


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
