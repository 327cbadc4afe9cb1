"""Groups that hold together, and what a weak predictor would let pass."""

import numpy as np
import pytest
import torch

from isotropy._run import Patience
from isotropy.data import Dataset, load
from isotropy.discovery import discover, read_shape
from isotropy.discovery._positions import PositionOptions, PositionSearch
from isotropy.discovery._task_data import TaskData
from isotropy.discovery.naming._pair_group import PairGroup
from isotropy.discovery.permutations._proposals import Proposal


def swap(n, i, j):
    order = np.arange(n)
    order[[i, j]] = order[[j, i]]
    return PairGroup(((order, np.arange(1)),), n, 1)


def searched(x, y, groups):
    """A search whose proposals are given, up to its tests."""
    search = PositionSearch(
        TaskData.of(x, y, None, None),
        PositionOptions(moving=False),
        Patience(keep_on_interrupt=False),
    )
    proposals = tuple(Proposal(group, "given", 1e-6) for group in groups)
    search._proposals = type(search._proposals)(proposals, (), None, ())
    assert search._confirm()
    return search


def test_what_two_groups_generate_is_claimed_in_their_place():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    search = searched(x, x.sum(1) + 0.1 * rng.normal(size=400), [swap(3, 0, 1), swap(3, 1, 2)])
    first, second = search._claims
    assert first.confirmed
    assert second.confirmed
    (joined,) = search._joined([first, second])
    assert joined.group.order == 6
    assert joined.confirmed
    assert joined.test.adjusted_p_value >= max(
        first.test.adjusted_p_value, second.test.adjusted_p_value
    )


def test_of_two_that_do_not_hold_together_the_dearer_is_dropped():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 3))
    weights = np.array([1.0, 1.5, 2.0])  # neighbours are near each other, the ends are not
    search = searched(x, x @ weights, [swap(3, 0, 1), swap(3, 1, 2)])
    first, second = search._claims
    assert first.confirmed
    assert second.confirmed
    (left,) = search._joined([first, second])
    assert left is min((first, second), key=lambda claim: claim.test.effect)


def test_a_part_with_more_symmetry_than_the_task_is_not_taken_for_it():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 12))
    y = np.tanh(x - 0.5 * np.roll(x, 1, 1) + 0.25 * np.roll(x, 2, 1)).mean(1)
    y += 0.02 * y.std() * rng.normal(size=400)
    found = discover(x, y, methods="permutations")
    assert [one.group for one in found] == ["Z(12)"]  # the linear part has S(12)


def test_neighbours_on_a_ring_are_no_vectors():
    rng = np.random.default_rng(0)
    label = rng.integers(3, size=900)
    phase = rng.uniform(0, 2 * np.pi, 900)
    x = np.sin(2 * np.pi * (label + 1)[:, None] * np.arange(16) / 16 + phase[:, None])
    x += 0.4 * rng.normal(size=x.shape)
    found = discover(x, label, fit_models=False)
    assert found.best.group in ("Z(16)", "D(16)")
    assert all(one.dimension is None for one in found)


@pytest.mark.parametrize(
    ("shape", "kind", "first", "doubtful"),
    [
        ((90, 5), "vectors", False, False),
        ((90, 24, 2), "sequences", False, False),
        ((90, 1, 32), "sequences", True, False),
        ((90, 3, 50), "sequences", True, False),
        ((90, 2, 4), "sequences", False, False),
        ((90, 4, 4), "sequences", False, False),
        ((90, 8, 8), "images", False, True),
        ((90, 28, 20), "images", False, True),
        ((90, 3, 16, 16), "images", False, False),
    ],
)
def test_shapes_are_read(shape, kind, first, doubtful):
    x = np.random.default_rng(0).normal(size=shape)
    reading, _ = read_shape(load((x, np.arange(90) % 2)), ())
    assert (reading.kind, reading.channels_first, reading.doubtful) == (kind, first, doubtful)
    assert str(shape[0]) in reading.words


def test_targets_say_where_positions_are():
    x = np.random.default_rng(0).normal(size=(90, 3, 10))
    reading, _ = read_shape(load((x, x[:, :, 0])), ())
    assert not reading.channels_first
    reading, _ = read_shape(load((x, x[:, 0])), ())
    assert reading.channels_first


def test_columns_that_are_pixels_are_read_as_images():
    from sklearn.datasets import load_digits

    digits = load_digits()
    reading, data = read_shape(load((digits.data, digits.target)), ())
    assert reading.kind == "images"
    assert not reading.doubtful
    assert data.x.shape == (1797, 8, 8)
    assert read_shape(load((digits.data, digits.target)), ("permutations",))[0].kind == "vectors"
    smooth = np.cumsum(np.random.default_rng(0).normal(size=(300, 64)), 1)
    assert read_shape(load((smooth, np.arange(300) % 2)), ())[0].kind == "vectors"


def test_five_axes_are_refused():
    data = Dataset(torch.zeros(90, 2, 3, 4, 5), torch.rand(90, 1))
    with pytest.raises(ValueError, match="expected vectors of shape"):
        read_shape(data, ())
