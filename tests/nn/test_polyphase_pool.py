"""Polyphase pooling against phases taken one by one, and what shifts and turns do to it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from isotropy.nn import CircularConv2d, GroupPool, Lift, PolyphasePool2d


def maps(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=rng)


def by_hand(x: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """The chosen phase of one sample, and which it is."""
    best, chosen = -1.0, (0, 0)
    for i in range(2):
        for j in range(2):
            size = float(x[..., i::2, j::2].abs().max())
            if size > best:
                best, chosen = size, (i, j)
    return x[..., chosen[0] :: 2, chosen[1] :: 2], chosen


@pytest.mark.parametrize("shape", [(3, 8, 6), (1, 2, 2), (2, 4, 4, 10), (3, 8, 2, 4)], ids=str)
def test_every_sample_keeps_its_phase_with_the_largest_value(shape: tuple[int, ...]) -> None:
    x = maps(40, *shape)
    y = PolyphasePool2d()(x)
    found = [by_hand(sample) for sample in x]
    assert torch.equal(y, torch.stack([phase for phase, _ in found]))
    assert {chosen for _, chosen in found} == {(0, 0), (0, 1), (1, 0), (1, 1)}


def test_slices_may_choose_one_by_one() -> None:
    x = maps(10, 3, 4, 6, 4)
    y = PolyphasePool2d(per_slice=True)(x)
    expected = [torch.stack([by_hand(s)[0] for s in sample.unbind(1)], 1) for sample in x]
    assert torch.equal(y, torch.stack(expected))
    assert not torch.equal(y, PolyphasePool2d()(x))


def test_the_largest_is_that_of_absolute_values() -> None:
    x = torch.zeros(1, 2, 4, 4)
    x[0, 0, 0, 0], x[0, 1, 3, 2] = 5, -6
    assert torch.equal(PolyphasePool2d()(x), x[..., 1::2, ::2])


def test_the_first_of_equally_large_phases_is_kept() -> None:
    x = torch.zeros(1, 1, 4, 4)
    x[0, 0, 1, 0] = x[0, 0, 1, 3] = x[0, 0, 0, 1] = 2
    assert torch.equal(PolyphasePool2d()(x), x[..., ::2, 1::2])
    x = torch.arange(16.0).reshape(1, 1, 4, 4).clamp_min(15)
    assert torch.equal(PolyphasePool2d()(x), x[..., ::2, ::2])


@pytest.mark.parametrize("shape", [(3, 8, 8), (2, 4, 8, 8)], ids=str)
def test_every_shift_of_the_maps_shifts_the_coarse_maps(shape: tuple[int, ...]) -> None:
    pool = PolyphasePool2d()
    for seed in range(4):
        x = maps(1, *shape, seed=seed)
        y, (i, j) = pool(x), by_hand(x[0])[1]
        for down in range(8):
            for right in range(8):
                moved = pool(x.roll((down, right), (-2, -1)))
                coarse = ((i + down) // 2, (j + right) // 2)
                assert torch.equal(moved, y.roll(coarse, (-2, -1)))


@pytest.mark.parametrize("name", ["p4", "p4m"])
def test_turns_of_the_maps_turn_the_coarse_maps(name: Any) -> None:
    pool, group = PolyphasePool2d(), Lift(name).group
    x, features = maps(6, 3, 8, 8), maps(6, 3, group.order, 6, 6)
    for k in range(group.order):
        assert torch.equal(pool(group.turn(x, k)), group.turn(pool(x), k))
        turned = group.turn_slices(features, k)
        assert torch.equal(pool(turned), group.turn_slices(pool(features), k))
        assert torch.equal(GroupPool()(turned), group.turn(GroupPool()(features), k))


def test_a_sample_does_not_depend_on_the_batch() -> None:
    pool, x = PolyphasePool2d(), maps(12, 3, 4, 6, 6)
    assert torch.equal(pool(x), torch.cat([pool(sample) for sample in x.split(1)]))
    assert pool(x[:0]).shape == (0, 3, 4, 3, 3)


def test_gradients_go_to_the_chosen_phase_alone() -> None:
    x = maps(5, 2, 4, 6).requires_grad_()
    weights = maps(5, 2, 2, 3, seed=1)
    (gradient,) = torch.autograd.grad((PolyphasePool2d()(x) * weights).sum(), x)
    for sample, found, expected in zip(x.detach(), gradient, weights, strict=True):
        i, j = by_hand(sample)[1]
        assert torch.equal(found[:, i::2, j::2], expected)
        found[:, i::2, j::2] = 0
        assert not found.any()
    assert torch.autograd.gradcheck(PolyphasePool2d(), (x,))


def test_slices_are_pooled_by_their_maximum() -> None:
    x = maps(2, 3, 4, 5, 5)
    y = GroupPool()(x)
    assert torch.equal(y, torch.stack(x.unbind(2)).max(0).values)


@pytest.mark.parametrize("per_slice", [False, True], ids=["together", "one by one"])
def test_manners_of_a_module(per_slice: bool) -> None:
    pool, x = PolyphasePool2d(per_slice=per_slice), maps(5, 3, 4, 6, 6)
    y = pool(x)
    for twin in (copy.deepcopy(pool), pickle.loads(pickle.dumps(pool))):
        assert torch.equal(twin(x), y)
    assert torch.equal(torch.compile(pool, fullgraph=True, backend="eager")(x), y)
    assert torch.equal(torch.vmap(lambda one: pool(one[None])[0])(x), y)
    assert pool(x.bfloat16()).dtype == torch.bfloat16
    assert pool.state_dict() == {}
    assert pool(x.to("meta")).shape == y.shape
    assert torch.equal(pool(x.transpose(1, 2).contiguous().transpose(1, 2)), y)
    assert repr(pool) == f"PolyphasePool2d({'per_slice=True' if per_slice else ''})"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_pooling_in_a_graph_of_a_gpu() -> None:
    pool = PolyphasePool2d()
    still = torch.zeros(5, 3, 4, 6, 6, device="cuda")
    pool(still)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = pool(still)
    for seed in range(3):
        x = maps(5, 3, 4, 6, 6, seed=seed).float()
        still.copy_(x)
        graph.replay()
        assert torch.equal(y.cpu(), pool(x))
        assert torch.equal(pool(x.double().cuda()).cpu(), pool(x.double()))


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda: PolyphasePool2d()(torch.zeros(3, 8, 8)),
            r"expected maps of shape \(n, channels, h, w\) or .*, got \(3, 8, 8\)",
        ),
        (
            lambda: PolyphasePool2d()(torch.zeros(2, 3, 1, 8)),
            r"expected maps of at least 2 by 2 to halve, got 1 by 8: the maps are too small",
        ),
        (
            lambda: PolyphasePool2d()(torch.zeros(2, 3, 4, 6, 7)),
            r"expected maps of even height and width to halve, got 6 by 7",
        ),
        (
            lambda: PolyphasePool2d(per_slice=True)(torch.zeros(2, 3, 8, 8)),
            r"expected slices \(n, channels, slices, h, w\) .*, got shape \(2, 3, 8, 8\)",
        ),
        (
            lambda: GroupPool()(torch.zeros(2, 3, 8, 8)),
            r"expected features of shape \(n, channels, slices, h, w\), got \(2, 3, 8, 8\)",
        ),
    ],
    ids=["three axes", "one row", "odd", "no slices", "nothing to pool"],
)
def test_bad_inputs(build: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_images_with_flat_areas_are_followed(dtype: torch.dtype) -> None:
    # two levels: all four phases have the same largest value
    torch.manual_seed(0)
    x = (torch.rand(30, 1, 8, 8) > 0.7).to(dtype)
    conv = CircularConv2d(1, 3, 3, dtype=dtype)
    pool = PolyphasePool2d()
    energies = torch.stack(
        [x[..., i::2, j::2].sum((1, 2, 3)) for i in (0, 1) for j in (0, 1)], 1
    ).sort(1)[0]
    clear = energies[:, -1] > energies[:, -2]  # and one of them the largest Σ m²
    assert int(clear.sum()) > 10
    kept, moved = pool(x[clear]), pool(x[clear].roll((3, 5), (2, 3)))
    shifts = [
        [torch.equal(moved[k], kept[k].roll((a, b), (1, 2))) for a in (1, 2) for b in (2, 3)]
        for k in range(len(kept))
    ]
    assert all(any(found) for found in shifts)
    with torch.no_grad():
        sums = pool(conv(x)).sum((2, 3)), pool(conv(x.roll((3, 5), (2, 3)))).sum((2, 3))
    near = (sums[0] - sums[1]).abs().amax(1) < 1e-4
    assert float(near.double().mean()) > 0.9
