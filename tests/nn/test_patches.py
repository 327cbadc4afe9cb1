"""Patches times kernels are torch's convolutions, and Gram matrices without them are theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from isotropy.nn._patches import circular_gram, every, padded, patches, zero_padded_gram

CONVOLUTIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}


def normal(*shape: int) -> Tensor:
    rng = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=rng, dtype=torch.float64)


GEOMETRIES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "line": ((9,), (3,), {}),
    "line, stride and dilation": ((11,), (3,), {"stride": (2,), "dilation": (3,)}),
    "plane": ((5, 6), (3, 2), {}),
    "plane, stride": ((7, 8), (3, 3), {"stride": (2, 3)}),
    "plane, dilation": ((9, 8), (2, 3), {"dilation": (4, 2)}),
    "plane, all": ((9, 8), (3, 2), {"stride": (3, 1), "dilation": (2, 3)}),
    "one place": ((4, 5), (1, 1), {}),
    "one place, stride": ((5, 6), (1, 1), {"stride": (2, 3)}),
    "whole map": ((4, 3), (4, 3), {}),
    "solid": ((4, 5, 3), (2, 3, 2), {"stride": (1, 2, 1)}),
}


@pytest.mark.parametrize("name", GEOMETRIES)
def test_patches_times_a_kernel_are_its_convolution(name: str) -> None:
    sizes, kernel_size, settings = GEOMETRIES[name]
    x, weight = normal(2, 3, *sizes), normal(4, 3, *kernel_size)
    rows = patches(x, kernel_size, **settings)
    expected = CONVOLUTIONS[len(sizes)](x, weight, **settings)
    torch.testing.assert_close(rows @ weight.flatten(1).T, expected.flatten(2).mT)


@pytest.mark.parametrize("mode", ["zeros", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_padding_is_that_of_each_place_of_an_index(mode: str, axes: int) -> None:
    sides = [(1, 2), (0, 3), (2, 1)][:axes]
    x = normal(2, 2, *(5, 4, 6)[:axes])
    expected = x
    for axis, (before, after) in enumerate(sides, start=2):
        size = x.shape[axis]
        places = torch.arange(-before, size + after)
        inside = (places >= 0) & (places < size)
        match mode:
            case "circular":
                places = places % size
            case "reflect":
                places = (size - 1) - (places.abs() - (size - 1)).abs()
            case _:
                places = places.clamp(0, size - 1)
        expected = expected.index_select(axis, places)
        if mode == "zeros":
            expected = expected * inside.reshape(-1, *(1,) * (axes + 1 - axis))
    assert torch.equal(padded(x, sides, mode), expected)


def test_zeros_may_be_taken_away() -> None:
    x = normal(1, 1, 6)
    assert torch.equal(padded(x, [(-1, -2)]), x[..., 1:-2])


def test_nothing_is_copied_where_nothing_changes() -> None:
    x = normal(2, 3, 4, 5)
    assert padded(x, [(0, 0), (0, 0)], "circular") is x
    assert patches(x, (1, 1)).data_ptr() == x.data_ptr()


def test_products_over_all_rows_need_no_copy() -> None:
    rows = patches(normal(2, 3, 4, 5), (2, 2))
    assert rows.reshape(-1, 12).data_ptr() == rows.data_ptr()


def test_every_is_a_view_along_the_last_axes() -> None:
    x = normal(2, 5, 7)
    seen = every(x, (2, 3))
    assert torch.equal(seen, x[:, ::2, ::3])
    assert seen.data_ptr() == x.data_ptr()


def test_patches_are_differentiable_twice() -> None:
    x = normal(1, 2, 4, 3).requires_grad_()

    def cubes(x: Tensor) -> Tensor:
        settings: dict[str, Any] = {"stride": (2, 1), "padding_mode": "reflect"}
        return patches(x, (2, 2), padding=[(1, 1), (0, 1)], **settings) ** 3

    assert torch.autograd.gradcheck(cubes, x)
    assert torch.autograd.gradgradcheck(cubes, x)


def test_settings_that_do_not_fit_the_axes_are_refused() -> None:
    with pytest.raises(ValueError, match=r"for each of 2 axes, got \(3,\), \(1, 1\), \(1, 1\)"):
        patches(normal(1, 1, 4, 4), (3,))


def test_a_kernel_larger_than_the_map_is_refused() -> None:
    with pytest.raises(ValueError, match=r"at least \(5, 3\) after padding, got \(4, 4\)"):
        patches(normal(1, 1, 4, 2), (3, 3), dilation=(2, 1), padding=[(0, 0), (1, 1)])


TORI: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]] = {
    "line": ((7,), (3,), (1,), 1),
    "plane of even and odd size": ((6, 5), (3, 3), (1, 1), 1),
    "even kernel": ((5, 6), (2, 4), (1, 1), 1),
    "dilation": ((7, 6), (3, 2), (2, 3), 1),
    "groups": ((4, 5), (3, 3), (1, 1), 3),
    "each channel alone": ((4, 5), (3, 3), (1, 1), 6),
    "kernel beyond the map": ((2, 3), (5, 3), (1, 1), 1),
    "a single place": ((1, 1), (3, 3), (1, 1), 2),
    "solid": ((3, 4, 5), (3, 1, 3), (1, 1, 1), 2),
}


@pytest.mark.parametrize("name", TORI)
def test_gram_on_a_torus_is_that_of_rolled_maps(name: str) -> None:
    sizes, kernel_size, dilation, groups = TORI[name]
    x = normal(3, 6, *sizes)
    axes = tuple(range(2, x.ndim))
    places = torch.cartesian_prod(*(torch.arange(n) for n in kernel_size)).reshape(-1, len(sizes))
    rolled = [
        x.roll([-int(n) for n in place * torch.tensor(dilation)], dims=axes) for place in places
    ]
    rows = torch.stack(rolled, dim=2).flatten(3).unflatten(1, (groups, 6 // groups))
    expected = torch.einsum("ngckp,ngdlp->gckdl", rows, rows).flatten(3).flatten(1, 2)
    gram = circular_gram(x, kernel_size, dilation=dilation, groups=groups)
    torch.testing.assert_close(gram, expected if groups > 1 else expected[0])


def test_gram_on_a_torus_is_that_of_circular_patches() -> None:
    x = normal(3, 2, 5, 6)
    rows = patches(x, (3, 3), padding=[(1, 1), (1, 1)], padding_mode="circular").flatten(0, 1)
    torch.testing.assert_close(circular_gram(x, (3, 3)), rows.T @ rows)


FRAMES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "same": ((5, 6), (3, 3), {"padding": [(1, 1), (1, 1)]}),
    "valid": ((5, 6), (3, 2), {"padding": [(0, 0), (0, 0)]}),
    "sides that differ": ((5, 6), (3, 4), {"padding": [(2, 0), (1, 2)]}),
    "every position that meets the map": ((5, 6), (3, 3), {"padding": [(2, 2), (2, 2)]}),
    "further than the kernel": ((5, 6), (3, 3), {"padding": [(4, 1), (0, 5)]}),
    "dilation": ((7, 6), (3, 2), {"padding": [(2, 1), (0, 3)], "dilation": (2, 3)}),
    "groups": ((5, 6), (3, 3), {"padding": [(1, 0), (1, 1)], "groups": 3}),
    "one position": ((3, 4), (3, 4), {"padding": [(0, 0), (0, 0)]}),
    "line": ((5,), (4,), {"padding": [(1, 2)]}),
    "solid": ((3, 4, 5), (3, 1, 3), {"padding": [(1, 1), (0, 0), (0, 1)], "groups": 2}),
}


@pytest.mark.parametrize("name", FRAMES)
def test_gram_with_zeros_beyond_the_border_is_that_of_patches(name: str) -> None:
    sizes, kernel_size, settings = FRAMES[name]
    x = normal(3, 6, *sizes)
    groups = settings.get("groups", 1)
    about = {key: value for key, value in settings.items() if key != "groups"}
    rows = patches(x, kernel_size, **about).flatten(0, 1).unflatten(1, (groups, -1))
    expected = torch.einsum("rgi,rgj->gij", rows, rows)
    gram = zero_padded_gram(x, kernel_size, **settings)
    torch.testing.assert_close(gram, expected if groups > 1 else expected[0])


GRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "circular": lambda x: circular_gram(x, (3, 1)),
    "zeros": lambda x: zero_padded_gram(x, (2, 2), padding=[(1, 0), (0, 0)]),
}


@pytest.mark.parametrize("name", GRAMS)
def test_gram_is_differentiable_twice(name: str) -> None:
    x = normal(1, 2, 3, 2).requires_grad_()
    assert torch.autograd.gradcheck(GRAMS[name], x)
    assert torch.autograd.gradgradcheck(lambda x: GRAMS[name](x) ** 2, x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", GRAMS)
def test_gram_is_accumulated_in_single_precision_or_better(name: str, dtype: torch.dtype) -> None:
    x = (30 * normal(8, 2, 16, 16)).to(dtype)
    gram, exact = GRAMS[name](x), GRAMS[name](x.double())
    assert gram.dtype == torch.float32
    assert exact.max() > torch.finfo(torch.float16).max
    assert (gram - exact).abs().max() < 1e-5 * exact.abs().max()
