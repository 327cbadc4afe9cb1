"""The network of images: what commutes with what, exactly; and the motions that are tried."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from discovery.given_claims import Bench, Claim
from discovery.pieces import (
    SHIFTS,
    FittedPredictor,
    ImageBench,
    ImageData,
    LayerProposer,
    LearnedLayers,
    PredictorThresholds,
    Problem,
    asked_motions,
    build_model,
    moved_at_random,
    one_thread,
    replaced,
    rivals,
    usual_motions,
)
from isotropy.data import load
from isotropy.groups import p4m

FREE = ["factored", "conv"]


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    with one_thread():
        yield


def made(
    image: tuple[int, ...], paths: list[list[str]], outputs: int = 3, **options: Any
) -> nn.Module:
    torch.manual_seed(0)
    spec = {"kind": "image network", "image": image, "outputs": outputs, "paths": paths, "alpha": 3}
    return build_model({**spec, **options}).double()


def data_of(*shape: int) -> ImageData:
    rng = np.random.default_rng(0)
    return ImageData.of(load((rng.normal(size=(90, *shape)), np.arange(90) % 3)))


@pytest.mark.parametrize(
    "image", [(1, 8, 8), (2, 7, 7), (1, 6, 10), (1, 16, 16)], ids=["even", "odd", "oblong", "large"]
)
def test_convolutions_alone_are_invariant_to_every_shift(image):
    network = made(image, [["conv"]] * 4)
    x = torch.randn(3, *image, dtype=torch.float64)
    for shift in ((1, 0), (0, 1), (3, 2)):
        torch.testing.assert_close(network(x.roll(shift, (2, 3))), network(x))
    free = made(image, [["conv"]] * 3 + [FREE])
    assert (free(x.roll(1, 2)) - free(x)).abs().max() > 1e-3


@pytest.mark.parametrize("group", ["p4", "p4m"])
def test_group_convolutions_alone_are_invariant_to_turns_and_flips(group):
    network = made((1, 8, 8), [["group_conv"]] * 4, group=group)
    x = torch.randn(3, 1, 8, 8, dtype=torch.float64)
    moved = x.rot90(1, (2, 3)).roll((1, 2), (2, 3))
    torch.testing.assert_close(network(moved), network(x))
    flipped = (network(x.flip(3)) - network(x)).abs().max()
    assert flipped < 1e-9 if group == "p4m" else flipped > 1e-3


@pytest.mark.parametrize("path", ["conv", "group_conv"])
@pytest.mark.parametrize("depth", [1, 2])
def test_what_strict_layers_give_moves_along_and_the_rest_is_free(path, depth):
    network = made((1, 8, 8), [[path]] * depth + [FREE] * (4 - depth))
    seen = []
    network.layers[depth].register_forward_pre_hook(lambda layer, given: seen.append(given[0]))
    x = torch.randn(3, 1, 8, 8, dtype=torch.float64)
    changed = x.rot90(1, (2, 3)) if path == "group_conv" else x.roll((2, 2), (2, 3))
    (network(x) - network(changed)).abs().max().backward()
    plain, moved = seen
    if path == "group_conv":
        expected = plain.rot90(1, (2, 3))
    else:
        expected = plain.roll((4 // 2 ** (depth), 4 // 2 ** (depth)), (2, 3))
    torch.testing.assert_close(moved, expected)
    assert (network(x) - network(changed)).abs().max() > 1e-3


def test_large_images_are_averaged_over_squares():
    network = made((1, 32, 32), [["conv"]] * 4)
    assert (network.shrink, network.sizes[0]) == (2, (16, 16))
    x = torch.randn(2, 1, 32, 32, dtype=torch.float64)
    torch.testing.assert_close(network(x.roll((2, 4), (2, 3))), network(x))
    coarse = x.unflatten(3, (16, 2)).mean(4).unflatten(2, (16, 2)).mean(3)
    small = made((1, 16, 16), [["conv"]] * 4)
    torch.testing.assert_close(small(coarse), network(x))


def test_rows_of_pixels_and_images_are_the_same_and_units_apply():
    network = made((2, 5, 6), [FREE] * 4)
    x = torch.randn(4, 2, 5, 6, dtype=torch.float64)
    torch.testing.assert_close(network(x.flatten(1)), network(x))
    plain = network((x - 2) / 3)
    network.x_mean.fill_(2)
    network.x_scale.fill_(3)
    torch.testing.assert_close(network(x), plain)


@pytest.mark.parametrize(
    ("image", "paths", "sentence"),
    [
        ((1, 3, 9), [FREE] * 4, r"images of at least 4 by 4, got 3 by 9"),
        ((1, 8), [FREE] * 4, r"an image as \(channels, height, width\)"),
        ((1, 8, 8), [FREE] * 3, r"for each of 4 layers"),
        ((1, 8, 8), [["fc"]] * 4, r"expected paths of factored, conv, group_conv"),
        ((1, 8, 6), [["group_conv"]] * 4, r"square images to turn, got 8 by 6"),
    ],
    ids=["small", "axes", "layers", "path", "oblong"],
)
def test_bad_networks_are_refused(image, paths, sentence):
    with pytest.raises(ValueError, match=sentence):
        made(image, paths)


def test_other_images_are_refused():
    with pytest.raises(ValueError, match=r"images of shape \(n, 1, 8, 8\), got \(2, 1, 8, 6\)"):
        made((1, 8, 8), [FREE] * 4)(torch.zeros(2, 1, 8, 6))


def changes(name: str, x: torch.Tensor) -> list[torch.Tensor]:
    """All that a motion makes of an image, by torch's own verbs."""
    h, w = x.shape[-2:]
    rolls = [x.roll(s, (-2, -1)) for s in itertools.product(range(h), range(w))]
    turns = [x.rot90(k, (-2, -1)) for k in range(4)]
    both = [*turns, *(t.flip(-1) for t in turns)]

    def shifted(images: list[torch.Tensor]) -> list[torch.Tensor]:
        if h != w:
            return []
        pairs = itertools.product(images, itertools.product(range(h), range(w)))
        return [image.roll(s, (-2, -1)) for image, s in pairs]

    return {
        "translations of the image": rolls,
        "vertical translations": [x.roll(k, -2) for k in range(h)],
        "horizontal translations": [x.roll(k, -1) for k in range(w)],
        "mirror images": [x, x.flip(-1)],
        "upside down": [x, x.flip(-2)],
        "quarter turns": turns,
        "quarter turns and mirror images": both,
        "translations and quarter turns": shifted(turns),
        "translations, quarter turns and mirror images": shifted(both),
        "half turns": [x, x.flip((-2, -1))],
        "mirror images and upside down": [x, x.flip(-1), x.flip(-2), x.flip((-2, -1))],
    }[name]


def orbit(images: list[torch.Tensor]) -> set[tuple[float, ...]]:
    return {tuple(image.flatten().tolist()) for image in images}


@pytest.mark.parametrize("shape", [(4, 4), (2, 4, 5)], ids=["square", "oblong"])
def test_motions_are_what_they_are_called(shape):
    data = data_of(*shape)
    x = data.maps[0]
    names = []
    for motions in usual_motions(data):
        names.append(motions.name.partition(", ")[2])
        expected = orbit(changes(names[-1], x))
        assert motions.order() == len(expected)
        rows = moved_at_random(
            motions.symmetry(data),
            torch.Generator().manual_seed(0),
            x.flatten().expand(12 * len(expected), -1),
        )
        found = orbit(list(rows))
        assert found <= expected
        assert len(found) > 0.95 * len(expected)
    assert ("quarter turns" in names) == (data.image[1] == data.image[2])


def test_candidates_permute_pixels():
    data = data_of(4, 4)
    (asked,) = asked_motions(["p4m(4)"], data)
    assert asked.group == p4m(4)
    for text in ("Z(5)", "O(16)"):
        with pytest.raises(ValueError, match=r"candidate groups that permute 16 pixels, got"):
            asked_motions([text], data)


def test_rivals_are_the_best_without_each_part():
    shifts, turns = frozenset({"up", "across"}), frozenset({"turn"})
    free, deep, turned = (
        FittedPredictor("free", torch.nn.Identity(), 0.5),
        FittedPredictor("two layers", torch.nn.Identity(), 0.3, shifts, 2),
        FittedPredictor("all layers", torch.nn.Identity(), 0.1, shifts, 4),
    )
    every = [free, deep, turned]
    assert rivals(every, shifts) == [deep]
    assert rivals(every, shifts, 2) == [free]
    assert rivals(every, turns, 1) == [turned]
    assert rivals(every, shifts | turns, 1) == [turned, free]


def test_fewer_rows_keep_all_groups_that_they_can():
    rng = np.random.default_rng(0)
    groups = np.concatenate([np.repeat(np.arange(3), 100), np.arange(3, 23)])
    x, y = rng.normal(size=(320, 1, 4, 4)), np.arange(320) % 2
    data = ImageData.of(load((x, y), groups=groups))
    few = data.at_most(60, seed=0)
    assert few.groups is not None
    assert (len(few.x), len(np.unique(few.groups))) == (60, 23)
    assert len(data.at_most(10, seed=0).x) == 10
    assert data.at_most(320, seed=0) is data


def image_bench(*fitted: FittedPredictor) -> ImageBench:
    """Predictors of small images, some of them fitted already."""
    bench = Bench(Problem.of(data_of(1, 4, 4), "images"), margin=0.05, level=0.05)
    bench.found.update(enumerate(fitted))
    return ImageBench(bench)


def test_constant_channels_keep_their_scale():
    x = np.stack([np.full((90, 4, 4), 7.0), np.random.default_rng(0).normal(size=(90, 4, 4))], 1)
    problem = Problem.of(ImageData.of(load((x, np.arange(90) % 3))), "images")
    with replaced(PredictorThresholds(image_steps=1)):
        bench = ImageBench(Bench(problem, margin=0.05, level=0.05))
        model = bench.network("conv", 4, "all layers strict").network
    seen = bench.rows.maps
    assert model.x_mean[0] == 7
    assert model.x_scale[0] == 1
    torch.testing.assert_close(model.x_scale[1, 0, 0], seen[:, 1].std(correction=0))
    torch.testing.assert_close(model.x_mean[1, 0, 0], seen[:, 1].mean())


def test_candidates_are_held_against_networks_that_are_not_built_with_them():
    free, strict = (made((1, 4, 4), [paths] * 4).float() for paths in (FREE, ["conv"]))
    without = FittedPredictor("free", free, 0.9)
    shifted = FittedPredictor("strict", strict, 0.1, SHIFTS, 4)
    images = image_bench(without, shifted)
    rows = images.outside
    (asked,) = asked_motions(["Z(4)*Trivial(4)"], rows)
    mine, others = images.of_motions(asked, rows)
    assert [torch.equal(other, images.losses(without, rows)) for other in others] == [True]
    # the strict network is its own average, and would have lost nothing to itself
    assert not torch.allclose(mine, others[0])
    turns = next(one for one in usual_motions(rows) if one.name.startswith("C(4)"))
    assert turns.is_usual
    _, others = images.of_motions(turns, rows)
    assert torch.equal(others[0], images.losses(shifted, rows))


@pytest.mark.parametrize(
    ("costs", "depth", "words"),
    [
        ([0, 0], 4, "all layers"),
        ([1, 0, 1, 0, 0], 2, "layers 0–1"),
        ([0, 1, 1, 1, 0], 1, "layer 0"),
    ],
)
def test_a_claim_is_held_against_one_strict_layer_less(monkeypatch, costs, depth, words):
    """Costs of claims in turn, each asked again beside one layer less where it was nothing."""
    images, left, rivalled = image_bench(), list(costs), []
    row = dict.fromkeys(("layer", "maps", "type", "shares"), "")

    def learned(data, path, *rest):
        return LearnedLayers(path, 4 if path == "conv" else 0, (4, 4), (row,) * 4)

    def fit(data, paths, *seed, **options):
        strict = sum(path == ["conv"] for path in paths)
        return made((1, 4, 4), paths).float(), {}, 0.5 - 0.1 * strict  # deeper ones do better

    def cost(self, compared):
        rivalled.append(compared[1])
        return float(left.pop(0))

    monkeypatch.setattr(LearnedLayers, "of", learned)
    monkeypatch.setattr(ImageBench, "cost", cost)
    for place in ("testing._image_bench", "predictors._image_predictors"):
        monkeypatch.setattr(f"isotropy.discovery.{place}.fit_image_network", fit)
    with replaced(PredictorThresholds(image_steps=1)):
        found = LayerProposer().propose(images.bench, lambda words: None)
        claims = [one for one in found if isinstance(one, Claim)]
    assert [claim.label for claim in claims] == [f"translation in {words}"]
    assert not left
    (rival,) = rivalled[-1]
    less = images.network("conv", depth - 1, "one strict layer less")
    assert torch.equal(rival, images.losses(less, images.apart))


@pytest.mark.parametrize("averaged", [["turn"], ["left-right"], ["turn", "left-right"]])
def test_averages_have_their_motions_and_no_others(averaged):
    x = torch.randn(3, 1, 6, 6, dtype=torch.float64)
    turned, mirrored = x.rot90(1, (2, 3)), x.flip(3)
    network = made((1, 6, 6), [FREE] * 4, averaged=averaged).eval()
    for name, moved in (("turn", turned), ("left-right", mirrored)):
        same = torch.allclose(network(moved), network(x), atol=1e-9)
        assert same == (name in averaged)
    maps = made((1, 6, 6), [FREE] * 4, 36, maps=True, averaged=averaged).eval()
    (plain,) = maps(x).unflatten(1, (1, 6, 6)).unbind(1)
    for name, moved in (("turn", turned), ("left-right", mirrored)):
        expected = plain.rot90(1, (1, 2)) if name == "turn" else plain.flip(2)
        same = torch.allclose(maps(moved).unflatten(1, (6, 6)), expected, atol=1e-9)
        assert same == (name in averaged)


def test_images_of_convolutions_move_along_and_keep_their_units():
    network = made((2, 7, 6), [["conv"]] * 4, 42, maps=True)
    x = torch.randn(3, 2, 7, 6, dtype=torch.float64)
    before = network(x)
    moved = network(x.roll((2, 5), (2, 3))).unflatten(1, (7, 6))
    torch.testing.assert_close(moved, before.unflatten(1, (7, 6)).roll((2, 5), (1, 2)))
    network.rescale(torch.full((42,), 3.0), torch.full((42,), 2.0))
    torch.testing.assert_close(network(x), 2 * before + 3)
    free = made((2, 7, 6), [["conv"]] * 3 + [FREE], 42, maps=True)
    assert free.places is not None


def test_phases_make_averaged_squares_commute_with_every_shift():
    network = made((1, 20, 20), [["conv"]] * 4, averaged=["phases"]).eval()
    assert network.shrink == 2
    x = torch.randn(2, 1, 20, 20, dtype=torch.float64)
    torch.testing.assert_close(network(x.roll((3, 5), (2, 3))), network(x))
    plain = made((1, 20, 20), [["conv"]] * 4).eval()
    assert (plain(x.roll(1, 2)) - plain(x)).abs().max() > 1e-4
