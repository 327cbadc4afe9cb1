"""Moved images against numpy and Pillow, and against networks that share weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from isotropy.bases import pair_orbits
from isotropy.groups import GRID_TRANSFORMATIONS, GridTransformation
from isotropy_papers import grid_image_sets, grid_images
from isotropy_papers.grid_image_sets import GridImageSet, g_mnist, grid_image_set
from isotropy_papers.grid_images import AUGMENTATIONS, transform_images, turned_to_nearest

Picture = NDArray[np.float32]

NAMES = list(GRID_TRANSFORMATIONS)
TABLE_2 = {
    "Aug0": "000000000000",
    "Aug1": "011000100001",
    "Aug2": "110000001100",
    "Aug3": "100100010010",
    "Aug4": "111111000000",
    "Aug5": "111111111111",
}


def random_images(*shape: int, seed: int = 0) -> Tensor:
    # no two pixels are equal, so that a picture tells how it was moved
    rng = torch.Generator().manual_seed(seed)
    n = int(np.prod(shape))
    return ((torch.randperm(n, generator=rng) + 1) / (n + 1)).reshape(shape)


def swapped(picture: Picture, rows: str, columns: str) -> Picture:
    """The two halves of a part of the picture change places, ``picture[..., rows, columns]``."""
    half = picture.shape[-1] // 2
    parts = {"first": slice(0, half), "last": slice(half, None)}
    moved = picture.copy()
    if rows == "both":
        moved[..., :half, parts[columns]] = picture[..., half:, parts[columns]]
        moved[..., half:, parts[columns]] = picture[..., :half, parts[columns]]
    else:
        moved[..., parts[rows], :half] = picture[..., parts[rows], half:]
        moved[..., parts[rows], half:] = picture[..., parts[rows], :half]
    return moved


def quadrants(picture: Picture) -> Picture:
    """New top left is old top right, top right bottom right, and so on counter-clockwise."""
    k = picture.shape[-1] // 2
    top_left, top_right = picture[..., :k, :k], picture[..., :k, k:]
    bottom_left, bottom_right = picture[..., k:, :k], picture[..., k:, k:]
    top = np.concatenate([top_right, bottom_right], axis=-1)
    bottom = np.concatenate([top_left, bottom_left], axis=-1)
    return np.concatenate([top, bottom], axis=-2)


# what the published code does to a picture with probability 1/2
PUBLISHED: dict[str, Callable[[Picture], Picture]] = {
    "horizontal flip": lambda x: x[..., ::-1],
    "vertical flip": lambda x: x[..., ::-1, :],
    "horizontal translation": lambda x: np.roll(x, -1, axis=-1),
    "vertical translation": lambda x: np.roll(x, -1, axis=-2),
    "rotation scramble": quadrants,
    "horizontal scramble": lambda x: np.roll(x, x.shape[-1] // 2, axis=-1),
    "vertical scramble": lambda x: np.roll(x, x.shape[-2] // 2, axis=-2),
    "left vertical scramble": lambda x: swapped(x, "both", "first"),
    "right vertical scramble": lambda x: swapped(x, "both", "last"),
    "top horizontal scramble": lambda x: swapped(x, "first", "both"),
    "bottom horizontal scramble": lambda x: swapped(x, "last", "both"),
}
# all powers of the generator on a picture with hidden units on a grid of 20
STEPS: dict[str, Callable[[Picture], Picture]] = {
    **PUBLISHED,
    "rotation": lambda x: np.rot90(x, -1, axes=(-2, -1)),
    "horizontal translation": lambda x: np.roll(x, 7, axis=-1),
    "vertical translation": lambda x: np.roll(x, 7, axis=-2),
}


def all_powers(picture: Picture, step: Callable[[Picture], Picture]) -> list[Picture]:
    found = [picture]
    while not np.array_equal(after := step(found[-1]), picture):
        found.append(after)
    return found


def which(pictures: Tensor, candidates: list[Picture]) -> list[int]:
    """For each picture, the number of the only candidate that it equals."""
    found = []
    for picture in pictures.numpy():
        (equal,) = [k for k, other in enumerate(candidates) if np.array_equal(picture, other)]
        found.append(equal)
    return found


def test_tables_2_and_8() -> None:
    for name, row in TABLE_2.items():
        assert AUGMENTATIONS[name] == tuple(
            n for n, bit in zip(NAMES, row, strict=True) if bit == "1"
        )
    assert [AUGMENTATIONS[f"IAug{k}"] for k in range(13)] == [(), *((name,) for name in NAMES)]
    assert len(AUGMENTATIONS) == 6 + 13


@pytest.mark.parametrize("name", NAMES)
def test_every_power_comes_up_equally_often(name: str) -> None:
    image = random_images(1, 2, 28, 28)
    candidates = all_powers(image[0].numpy(), STEPS[name])
    n, order = 600, GridTransformation(name).order(28, 20)
    assert len(candidates) == order
    moved = transform_images(image.expand(n, -1, -1, -1), [name], generator=0)
    counts = np.bincount(which(moved, candidates), minlength=order)
    assert abs(counts - n / order).max() < 4 * np.sqrt(n / order * (1 - 1 / order))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_moves_happen_half_of_the_time(name: str) -> None:
    image = random_images(1, 1, 28, 28)
    picture = image[0].numpy()
    moved = transform_images(image.expand(400, -1, -1, -1), [name], generator=1, published=True)
    chosen = which(moved, [picture, PUBLISHED[name](picture)])
    assert abs(sum(chosen) - 200) < 4 * 10


@pytest.mark.parametrize("shape", [(28, 28), (20, 28), (7, 5)], ids=str)
def test_turns_are_pillow_s(shape: tuple[int, int]) -> None:
    rng = torch.Generator().manual_seed(0)
    images = torch.randint(1, 256, (300, 1, *shape), generator=rng, dtype=torch.uint8)
    degrees = 360 * torch.rand(300, generator=rng, dtype=torch.float64) - 180
    degrees[:8] = torch.tensor([0, 45, -45, 135, 30, -60, 89.999999, 180])
    expected = [
        np.asarray(Image.fromarray(image[0].numpy()).rotate(angle, Image.Resampling.NEAREST))
        for image, angle in zip(images, degrees.tolist(), strict=True)
    ]
    assert np.array_equal(turned_to_nearest(images, degrees)[:, 0].numpy(), np.stack(expected))


def test_published_rotations_have_any_angle() -> None:
    n = 300
    # where the pixels of a bar far from the centre are on average tells the angle well enough
    point = torch.zeros(1, 1, 28, 28)
    point[0, 0, 12:16, 22:25] = 1.0
    turned = transform_images(
        point.expand(n, -1, -1, -1), ["rotation"], generator=0, published=True
    )
    rows, columns = torch.meshgrid(torch.arange(28) - 13.5, torch.arange(28) - 13.5, indexing="ij")
    angles = torch.atan2(-(turned[:, 0] * rows).sum((1, 2)), (turned[:, 0] * columns).sum((1, 2)))
    degrees = angles.rad2deg().sort().values
    uniform = torch.linspace(-180, 180, n)
    assert (degrees - uniform).abs().max() < 360 * 1.63 / n**0.5  # Kolmogorov, 1 %
    assert set(turned.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("published", [False, True])
def test_several_groups_one_after_the_other_in_the_order_of_the_catalogue(published: bool) -> None:
    images = random_images(20, 1, 28, 28)
    names = ["vertical scramble", "horizontal translation", "rotation"]
    together = transform_images(images, names, generator=3, published=published)
    one_by_one = images
    for name in ("rotation", "horizontal translation", "vertical scramble"):
        one_by_one = transform_images(one_by_one, [name], generator=3, published=published)
    assert torch.equal(together, one_by_one)
    assert not torch.equal(together, images)


@pytest.mark.parametrize("name", NAMES)
def test_a_layer_that_shares_weights_sees_moved_images_as_its_units_moved(name: str) -> None:
    images = random_images(12, 1, 28, 28)
    moved = transform_images(images, [name], generator=5)
    one = GridTransformation(name)
    into, out = one.permutations(28, 20)
    labels = pair_orbits([out], [into])
    rng = torch.Generator().manual_seed(0)
    weights = torch.randn(int(labels.max()) + 1, generator=rng, dtype=torch.float64)[labels]
    before, after = (x.flatten(1).double() @ weights.mT for x in (images, moved))
    for unmoved, seen in zip(before, after, strict=True):
        elements = one.powers(28, 20)[1]
        assert any(torch.allclose(seen[element], unmoved) for element in elements)


def test_more_images_do_not_change_the_first() -> None:
    images = random_images(30, 1, 8, 8)
    for published in (False, True):
        some, all_of_them = (
            transform_images(x, NAMES, generator=0, published=published, grids=(4,))
            for x in (images[:10], images)
        )
        assert torch.equal(all_of_them[:10], some)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    images = random_images(10, 1, 8, 8)
    results = []
    for block in (4096, 3):
        monkeypatch.setattr(grid_images, "IMAGES_AT_ONCE", block)
        results += [
            transform_images(images, NAMES, generator=0, published=published, grids=(4,))
            for published in (False, True)
        ]
    assert torch.equal(results[0], results[2])
    assert torch.equal(results[1], results[3])


def test_bytes_and_no_group_at_all() -> None:
    pixels = torch.randint(256, (3, 3, 6, 6), dtype=torch.uint8)
    same = transform_images(pixels, [], generator=0)
    assert torch.equal(same, pixels / 255)
    images = random_images(3, 1, 6, 6)
    same = transform_images(images, (), generator=0)
    assert torch.equal(same, images)
    assert same.data_ptr() != images.data_ptr()
    by_name = transform_images(images, "vertical flip", generator=0)
    assert torch.equal(by_name, transform_images(images, ["vertical flip"], generator=0))


def labelled(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Images of which each has its own number in every pixel, and labels that say it."""
    numbers = torch.arange(n) + 1000 * seed
    return (numbers / 10_000).reshape(n, 1, 1, 1).expand(n, 1, 8, 8), numbers


def numbers_in(part: tuple[Tensor, Tensor]) -> list[int]:
    images, labels = part
    assert torch.equal((10_000 * images[:, 0, 0, 0]).round().long(), labels)
    return labels.tolist()


@pytest.mark.parametrize("has_test_of_its_own", [False, True])
def test_parts_share_no_image_and_keep_their_labels(has_test_of_its_own: bool) -> None:
    held_out = labelled(50, seed=1) if has_test_of_its_own else None
    made = grid_image_set(
        *labelled(100), "Aug1", held_out=held_out, train=40, validation=30, test=30, grids=(4,)
    )
    train, validation, test = map(numbers_in, (made.train, made.validation, made.test))
    assert (len(train), len(validation), len(test)) == (40, 30, 30)
    assert len({*train, *validation, *test}) == 100
    assert all((number >= 1000) == has_test_of_its_own for number in test)
    assert max(*train, *validation) < 1000


def test_the_same_seed_gives_the_same_set() -> None:
    images, labels = random_images(60, 1, 8, 8), torch.arange(60)

    def make(seed: int, train: int = 20, augmentation: str = "Aug5") -> GridImageSet:
        return grid_image_set(
            images, labels, augmentation, train=train, validation=10, test=10, seed=seed, grids=(4,)
        )

    first, again, other, longer, unmoved = (
        make(0),
        make(0),
        make(1),
        make(0, train=30),
        make(0, augmentation="Aug0"),
    )
    for part in ("train", "validation", "test"):
        for a, b in zip(getattr(first, part), getattr(again, part), strict=True):
            assert torch.equal(a, b)
        assert not torch.equal(getattr(first, part)[1], getattr(other, part)[1])
        assert torch.equal(getattr(unmoved, part)[0], images[getattr(first, part)[1]])
    assert torch.equal(first.validation[0], longer.validation[0])
    assert torch.equal(first.train[0], longer.train[0][:20])
    assert not torch.equal(first.train[0], unmoved.train[0])


def test_parts_are_moved_by_draws_of_their_own() -> None:
    image = random_images(1, 1, 8, 8).expand(90, -1, -1, -1)
    made = grid_image_set(
        image, torch.zeros(90), ["rotation"], train=30, validation=30, test=30, grids=(4,)
    )
    assert made.name == "rotation"
    assert not torch.equal(made.train[0], made.validation[0])
    assert not torch.equal(made.train[0], made.test[0])
    assert not torch.equal(made.validation[0], made.test[0])


def write_idx(folder: Path, split: str, n: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    rng = np.random.default_rng(n)
    images = rng.integers(0, 256, (n, 28, 28), dtype=np.uint8)
    labels = (np.arange(n) % 10).astype(np.uint8)
    for name, array in (
        (f"{split}-images-idx3-ubyte", images),
        (f"{split}-labels-idx1-ubyte", labels),
    ):
        head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
        (folder / name).write_bytes(head + array.tobytes())
    return images, labels


@pytest.mark.parametrize("base", ["mnist", "fashion-mnist"])
def test_g_mnist_takes_its_parts_from_the_splits(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = {split: write_idx(tmp_path, split, n) for split, n in (("train", 50), ("t10k", 20))}
    asked = []

    def fetch(name: str, *, folder: str | None) -> Path:
        asked.append((name, folder))
        return tmp_path

    monkeypatch.setattr(grid_image_sets, "fetch", fetch)
    made = g_mnist(
        "IAug0",
        base=base,
        train=20,
        validation=10,
        test=20,
        folder="here",
    )
    assert asked == [(base, "here")]
    assert made.name == f"{base} IAug0"
    rows = {}
    for part, split in (("train", "train"), ("validation", "train"), ("test", "t10k")):
        images, labels = getattr(made, part)
        found = [
            int(np.flatnonzero((splits[split][0] == image).all((1, 2)))[0])
            for image in (255 * images[:, 0]).round().to(torch.uint8).numpy()
        ]
        assert labels.tolist() == splits[split][1][found].tolist()
        rows[part] = set(found)
    assert len(rows["train"] | rows["validation"]) == 30
    assert rows["test"] == set(range(20))


def test_wrong_images() -> None:
    sizes = [torch.zeros(1, 28, 28), torch.zeros(1, 32, 32)]
    sentence = r"expected images of one shape, as one tensor, got \(1, 28, 28\) and \(1, 32, 32\)"
    with pytest.raises(ValueError, match=sentence):
        transform_images(sizes, ["rotation"], generator=0)
    with pytest.raises(TypeError, match="expected a tensor of images, got list"):
        transform_images(sizes[:1], ["rotation"], generator=0)
    with pytest.raises(ValueError, match=r"\(n, channels, height, width\), got \(4, 28, 28\)"):
        transform_images(torch.zeros(4, 28, 28), ["rotation"], generator=0)
    with pytest.raises(ValueError, match="expected pixels from 0 to 1"):
        transform_images(torch.full((1, 1, 4, 4), 2.0), ["rotation"], generator=0)
    with pytest.raises(ValueError, match="rotation: expected square grids, got 28 by 20"):
        transform_images(torch.zeros(1, 1, 28, 20), ["rotation"], generator=0)
    with pytest.raises(ValueError, match="expected grids of even height, got 7 by 7"):
        transform_images(torch.zeros(1, 1, 7, 7), ["rotation scramble"], generator=0)
    with pytest.raises(ValueError, match="got 'turn'"):
        transform_images(torch.zeros(1, 1, 4, 4), ["turn"], generator=0)


def test_wrong_sets() -> None:
    images, labels = labelled(100)
    counts = {"train": 60, "validation": 30, "test": 30}
    sentence = r"at least 120 images \(60 training, 30 validation, 30 test\), got 100"
    with pytest.raises(ValueError, match=sentence):
        grid_image_set(images, labels, "Aug0", **counts)
    with pytest.raises(ValueError, match=r"at least 30 images \(30 test\), got 20"):
        grid_image_set(images, labels, "Aug0", held_out=labelled(20), **counts)
    with pytest.raises(ValueError, match="a number of training images of at least 1, got 0"):
        grid_image_set(images, labels, "Aug0", train=0)
    with pytest.raises(ValueError, match="among Aug0 to Aug5 and IAug0 to IAug12, got 'Aug9'"):
        grid_image_set(images, labels, "Aug9")
    with pytest.raises(ValueError, match="got 'turn'"):
        grid_image_set(images, labels, ["turn"])
    with pytest.raises(ValueError, match=r"a label for each of 100 images, got shape \(99,\)"):
        grid_image_set(images, labels[:99], "Aug0")
    with pytest.raises(TypeError, match="expected a tensor of labels, got list"):
        grid_image_set(images, [0] * 100, "Aug0")
    with pytest.raises(
        ValueError, match="expected a base among mnist, fashion-mnist, got 'cifar10'"
    ):
        g_mnist("Aug0", base="cifar10")
