"""Groups that hold together, and what a weak predictor would let pass."""

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from discovery.given_claims import (
    Bench,
    all_tested,
    bench_of,
    chosen,
    group_claims,
    groups_tested,
    moving_claims,
    orders,
)
from discovery.pieces import PairGroup, Patience, Tested, symmetric
from isotropy.data import Dataset, load
from isotropy.discovery import DiscoverOptions, discover, read_shape

PROPOSER = "isotropy.discovery.proposing.permutations._permutation_proposer"
JOINED = "isotropy.discovery.testing._joined_groups"


def swap(n, i, j):
    order = np.arange(n)
    order[[i, j]] = order[[j, i]]
    return PairGroup(((order, np.arange(1)),), n, 1)


def test_what_two_groups_generate_is_claimed_in_their_place():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    bench = bench_of(x, x.sum(1) + 0.1 * rng.normal(size=400))
    (first, second), left = groups_tested(bench, [swap(3, 0, 1), swap(3, 1, 2)])
    assert first.confirmed
    assert second.confirmed
    assert orders(left) == [6]
    (joined,) = (one for one in left if one.reported)
    assert joined.test.adjusted_p_value >= max(
        first.test.adjusted_p_value, second.test.adjusted_p_value
    )


def test_of_two_that_do_not_hold_together_the_dearer_is_dropped():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 3))
    weights = np.array([1.0, 1.25, 1.5])  # neighbours are near each other, the ends are not
    (first, second), left = groups_tested(bench_of(x, x @ weights), [swap(3, 0, 1), swap(3, 1, 2)])
    assert first.confirmed
    assert second.confirmed
    (kept,) = (one for one in left if one.reported)
    assert kept.claim is min((first, second), key=lambda one: one.test.effect).claim


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


def turned(kind: str = "") -> tuple[Tested, Bench]:
    """A rotation that is confirmed, and what it was tested with."""
    x = np.random.default_rng(0).normal(size=(300, 2))
    y = (x**2).sum(1)
    bench = bench_of(x, y, smooth=True)
    tested = all_tested(moving_claims(bench), bench)
    assert tested[0].confirmed
    smooth = bench.smooth_one
    known = {("smooth", bench.problem.fitted): replace(smooth, kind=kind or smooth.kind)}
    return tested[0], replace(bench, found={**bench.found, **known})


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("quadratic", ""),
        ("linear", "the target is linear in the columns, and has many such motions"),
    ],
)
def test_motions_of_what_is_linear_say_nothing(kind, why):
    one, bench = turned(kind)
    (left,) = chosen([one], bench, Patience())
    assert left.confirmed == (not why)
    assert left.note == why


def test_what_costs_something_is_not_claimed_beside_what_is_exact():
    exact, bench = turned()
    dearer = replace(exact.test, effect=0.03, interval=(0.02, 0.04))
    other = replace(exact, claim=copy(exact.claim), test=dearer)
    (alone,) = chosen([other], bench, Patience())
    assert alone.confirmed  # there is nothing better
    first, second = chosen([exact, other], bench, Patience())
    assert first.confirmed
    assert not second.confirmed


def test_motions_of_columns_that_hardly_matter_are_no_symmetries():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 8))
    y = 3 * np.tanh(x[:, 6] + x[:, 7] ** 2) + 0.02 * np.cos(x[:, :6] @ np.arange(1, 7))
    found = discover(x, y, methods="generators")
    assert not len(found)
    assert not found.nearly
    tested = [one for one in found.tried if isinstance(one, dict)]
    assert any(abs(one["effect"]) < 0.01 and not one["confirmed"] for one in tested)


def test_what_all_columns_but_some_share_is_found_among_them():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(2000, 7))
    y = np.sin(x[:, :5]).sum(1) + x[:, 5] ** 2 + np.exp(x[:, 6] / 2)
    found = discover(x, y + 0.05 * rng.normal(size=2000), methods="permutations", fit_models=False)
    assert [one.order for one in found] == [120]
    assert "0–4" in found.best.action or "x0" in found.best.action


def test_a_poor_network_does_not_speak_against_what_an_average_shows(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 6))
    y = np.abs(x).sum(1) + rng.normal(size=900)
    everything = PairGroup(tuple((p, np.arange(1)) for p in symmetric([range(6)], 6)), 6, 1)
    bench = bench_of(x, y, networks=True)
    (claim,) = group_claims(bench, [everything])
    tested = all_tested([claim], bench)
    assert tested[0].confirmed

    def network(symmetry, x, y, task, **options):
        """Poorer with all permutations than with shifts, and no better than the average."""
        error = 2.0 if symmetry.group == claim.symmetry.group else 1.0
        model = nn.Module()
        model.register_buffer("x_mean", torch.zeros(6))
        model.forward = lambda x: (
            x.abs().sum(1, keepdim=True) + error * torch.sin(9 * x.sum(1))[:, None]
        )
        return model, {}

    monkeypatch.setattr(f"{JOINED}.fit_symmetric_model", network)
    assert orders(chosen(tested, bench, Patience())) == [720]


def test_what_was_proposed_before_an_interruption_is_tested(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 4))

    def interrupted(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{PROPOSER}.swap_symmetries", interrupted)
    found = discover(
        x, np.abs(x).sum(1), methods="permutations", options=DiscoverOptions(keep_on_interrupt=True)
    )
    assert [one.group for one in found] == ["S(4)"]
    assert found.stopped == "interrupted while looking for permutations"


def test_equal_outputs_are_trivial():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 4))
    y = x @ np.array([1.0, 2.0, -3.0, 0.5]) + 0.05 * rng.normal(size=500)
    found = discover(x, np.stack([y, y], 1), methods="permutations", fit_models=False)
    assert not len(found)
    assert "columns of the target are equal" in [one.trivial for one in found.trivial]


def test_running_out_of_time_keeps_groups_that_are_confirmed(monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 6))
    everything = PairGroup(tuple((p, np.arange(1)) for p in symmetric([range(6)], 6)), 6, 1)
    bench = bench_of(x, np.abs(x).sum(1) + rng.normal(size=900), networks=True)
    tested = all_tested(group_claims(bench, [everything]), bench)

    def late(*given, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"{JOINED}.held_against_subgroups", late)
    patience = Patience(keep_on_interrupt=True)
    assert orders(chosen(tested, bench, patience)) == [720]
    assert patience.stopped == "interrupted while holding groups against smaller ones"


def test_that_a_quadratic_form_has_a_group_of_its_own_says_nothing():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 4))
    form = rng.normal(size=(4, 4))
    found = discover(x, np.einsum("ri,ij,rj->r", x, form, x), methods="generators")
    assert not len(found)
    assert any(
        "every quadratic form" in str(one.get("note")) for one in found.tried if "note" in one
    )
    kept = discover(x, (x**2 * [1, -1, -1, -1]).sum(1), methods="generators", fit_models=False)
    assert [one.group for one in kept] == ["SO13p"]
