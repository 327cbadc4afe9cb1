"""Digits turned, moved and placed in quadrants, against scipy's interpolation image by image."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import ndimage, stats
from torch import Tensor

from isotropy_papers import _image_warps, digit_tasks
from isotropy_papers._image_warps import moved, turned
from isotropy_papers.digit_tasks import QuadrantDigits, in_quadrants, rotated, translated

Pixels = NDArray[np.float64]
Task = Callable[..., Tensor]

SHAPES = pytest.mark.parametrize(
    "shape",
    [(5, 1, 28, 28), (3, 3, 32, 32), (4, 2, 7, 12)],
    ids=["mnist", "cifar", "not-square"],
)
TASKS = pytest.mark.parametrize("task", [rotated, translated], ids=["rotated", "translated"])


def random_images(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


def slow_affine(images: Tensor, backwards: Pixels, offsets: Pixels) -> Pixels:
    """Pixels by scipy, one image and channel at a time, with (row, column) coordinates.

    A frame of zeros makes scipy fade at the border; without it, it drops to zero there.
    """
    margin = 1
    result = np.empty(images.shape)
    for i, image in enumerate(images.numpy()):
        centre = (np.array(image.shape[-2:]) + 2 * margin - 1) / 2
        offset = centre + offsets[i] - backwards[i] @ centre
        for c, channel in enumerate(image):
            framed = np.pad(channel.astype(np.float64), margin)
            warped = ndimage.affine_transform(
                framed, backwards[i], offset, order=1, mode="constant", cval=0.0
            )
            result[i, c] = warped[margin:-margin, margin:-margin]
    return result


def slow_turned(images: Tensor, degrees: Pixels) -> Pixels:
    # counter-clockwise as seen, rows pointing down: (row, column) of the source of each pixel
    radians = np.deg2rad(degrees)
    backwards = np.array([[[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]] for a in radians])
    return slow_affine(images, backwards, np.zeros((len(images), 2)))


def slow_moved(images: Tensor, shifts: Pixels) -> Pixels:
    return slow_affine(images, np.tile(np.eye(2), (len(images), 1, 1)), -shifts[:, ::-1])


def slow_resized(image: Pixels, size: int) -> Pixels:
    """Bilinear between the centres of pixels, the outermost values continued outwards."""
    rows, columns = ((np.arange(size) + 0.5) * n / size - 0.5 for n in image.shape)
    grid = np.meshgrid(rows, columns, indexing="ij")
    interpolated: Pixels = ndimage.map_coordinates(image, grid, order=1, mode="nearest")
    return interpolated


@SHAPES
def test_turning_agrees_with_scipy(shape: tuple[int, ...]) -> None:
    images = random_images(*shape)
    degrees = np.linspace(-171, 163, shape[0])
    result = turned(images, torch.from_numpy(degrees))
    np.testing.assert_allclose(result.numpy(), slow_turned(images, degrees), atol=1e-12)


@SHAPES
def test_moving_agrees_with_scipy(shape: tuple[int, ...]) -> None:
    images = random_images(*shape)
    shifts = np.random.default_rng(0).uniform(-8, 8, (shape[0], 2))
    result = moved(images, torch.from_numpy(shifts))
    np.testing.assert_allclose(result.numpy(), slow_moved(images, shifts), atol=1e-12)


@pytest.mark.parametrize("quarters", [-1, 0, 1, 2])
def test_quarter_turns_are_those_of_rot90(quarters: int) -> None:
    images = random_images(3, 2, 9, 9)
    result = turned(images, torch.full((3,), 90.0 * quarters))
    torch.testing.assert_close(result, torch.rot90(images, quarters, (2, 3)))


def test_whole_shifts_go_right_and_down() -> None:
    images = random_images(2, 1, 6, 8)
    result = moved(images, torch.tensor([[2.0, 1.0], [-3.0, 0.0]]))
    expected = torch.zeros_like(images)
    expected[0, :, 1:, 2:] = images[0, :, :-1, :-2]
    expected[1, :, :, :-3] = images[1, :, :, 3:]
    torch.testing.assert_close(result, expected)


def test_angles_are_uniform_on_the_circle() -> None:
    # the centre of mass of one bright pixel shows how far it went round
    n = 4000
    images = torch.zeros(n, 1, 31, 31, dtype=torch.float64)
    images[:, :, 15, 27] = 1.0
    result = rotated(images, generator=3)[:, 0]
    position = torch.arange(31, dtype=torch.float64) - 15
    total = result.sum((1, 2))
    right = (result.sum(1) @ position) / total
    up = -(result.sum(2) @ position) / total
    angles = torch.atan2(up, right).rad2deg().numpy()
    assert stats.kstest(angles, stats.uniform(-180, 360).cdf).pvalue > 0.01


def test_shifts_are_uniform_within_eight_fourteenths() -> None:
    n = 2000
    images = torch.zeros(n, 1, 28, 40, dtype=torch.float64)
    images[:, :, 13, 19] = 1.0
    result = translated(images, generator=3)[:, 0]
    torch.testing.assert_close(result.sum((1, 2)), torch.ones(n, dtype=torch.float64))
    down = (result.sum(2) @ torch.arange(28, dtype=torch.float64)).numpy() - 13
    right = (result.sum(1) @ torch.arange(40, dtype=torch.float64)).numpy() - 19
    for shifts, extent in ((down, 28), (right, 40)):
        reach = 8 / 14 * (extent - 1) / 2
        assert np.abs(shifts).max() <= reach + 1e-9
        assert stats.kstest(shifts, stats.uniform(-reach, 2 * reach).cdf).pvalue > 0.01
    assert abs(np.corrcoef(down, right)[0, 1]) < 0.1


def test_rotation_is_the_published_one_without_aligned_corners() -> None:
    images = random_images(6, 3, 32, 32)
    drawn = torch.rand(6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    angles = torch.pi * (2 * drawn - 1)
    maps = torch.zeros(6, 2, 3, dtype=torch.float64)
    maps[:, 0, 0] = maps[:, 1, 1] = angles.cos()
    maps[:, 0, 1], maps[:, 1, 0] = -angles.sin(), angles.sin()
    grid = torch.nn.functional.affine_grid(maps, [6, 3, 32, 32], align_corners=False)
    published = torch.nn.functional.grid_sample(images, grid, align_corners=False)
    torch.testing.assert_close(rotated(images, generator=5), published)


def test_translation_is_the_published_one_with_aligned_corners() -> None:
    images = random_images(6, 1, 28, 28)
    drawn = torch.rand(6, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    shifts = 8 / 14 * (2 * drawn - 1)
    maps = torch.cat([torch.eye(2).double().expand(6, 2, 2), -shifts[:, :, None]], dim=-1)
    grid = torch.nn.functional.affine_grid(maps, [6, 1, 28, 28], align_corners=True)
    published = torch.nn.functional.grid_sample(images, grid, align_corners=True)
    torch.testing.assert_close(translated(images, generator=5), published)


def test_every_image_lies_in_its_quadrant() -> None:
    images, digits = random_images(40, 2, 28, 28), torch.arange(40) % 10
    placed = in_quadrants(images, digits, generator=0)
    assert placed.images.shape == (40, 2, 32, 32)
    assert set(placed.quadrants.tolist()) == {0, 1, 2, 3}
    corners = {0: (0, 0), 1: (0, 28), 2: (28, 0), 3: (28, 28)}
    for image, result, quadrant in zip(images, placed.images, placed.quadrants, strict=True):
        down, right = corners[int(quadrant)]
        for channel, shrunk in zip(image.numpy(), result.numpy(), strict=True):
            canvas = np.zeros((56, 56))
            canvas[down : down + 28, right : right + 28] = channel
            np.testing.assert_allclose(shrunk, slow_resized(canvas, 32), atol=1e-12)
        # 16 rows and columns of the result see nothing of the other three quadrants
        outside = result.clone()
        outside[:, down * 4 // 7 :, right * 4 // 7 :][:, :16, :16] = 0.0
        assert not outside.any()


def test_labels_are_digits_and_ten_times_the_quadrant() -> None:
    digits = torch.arange(4000, dtype=torch.int32) % 10
    placed = in_quadrants(torch.zeros(4000, 1, 2, 2), digits, generator=1)
    assert isinstance(placed, QuadrantDigits)
    both = placed.digits_and_quadrants
    assert both.dtype == placed.digits.dtype == placed.quadrants.dtype == torch.int64
    assert torch.equal(placed.digits, digits.long())
    for digit, quadrant, label in zip(
        digits.tolist(), placed.quadrants.tolist(), both.tolist(), strict=True
    ):
        assert label == digit + 10 * quadrant
    assert set(both.tolist()) == set(range(40))
    counts = np.bincount(placed.quadrants.numpy(), minlength=4)
    assert stats.chisquare(counts).pvalue > 0.01


@TASKS
def test_seeds_repeat_and_generators_go_on(task: Task) -> None:
    images = random_images(6, 1, 8, 8)
    first, again, other = (task(images, generator=seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    stream = torch.Generator().manual_seed(0)
    assert torch.equal(task(images, generator=stream), first)
    assert not torch.equal(task(images, generator=stream), first)
    before = torch.get_rng_state()
    assert not torch.equal(task(images), task(images))
    assert torch.equal(torch.get_rng_state(), before)


def test_quadrants_repeat_by_seed() -> None:
    images, digits = torch.zeros(60, 1, 2, 2), torch.zeros(60, dtype=torch.int64)
    first, again, other = (
        in_quadrants(images, digits, generator=seed).quadrants for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@TASKS
def test_images_are_moved_each_by_itself(task: Task) -> None:
    same = random_images(1, 1, 8, 8).expand(5, 1, 8, 8)
    results = task(same, generator=0)
    assert len({tuple(image.flatten().tolist()) for image in results}) == 5


@TASKS
def test_bytes_and_floats_give_the_same(task: Task) -> None:
    levels = torch.randint(256, (5, 3, 10, 10), generator=torch.Generator().manual_seed(0))
    from_bytes = task(levels.to(torch.uint8), generator=0)
    assert from_bytes.dtype == torch.float32
    assert from_bytes.min() >= 0
    assert from_bytes.max() <= 1
    from_doubles = task(levels.double() / 255, generator=0)
    assert from_doubles.dtype == torch.float64
    torch.testing.assert_close(from_bytes.double(), from_doubles, atol=2e-5, rtol=0)


def test_white_images_stay_within_the_range() -> None:
    white = torch.ones(300, 1, 28, 28)
    for result in (rotated(white, generator=0), translated(white, generator=0)):
        assert float(result.max()) == 1.0
        assert float(result.min()) == 0.0


def test_blocks_of_images_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    images, digits = random_images(7, 1, 8, 8), torch.arange(7)
    whole = (
        rotated(images, generator=0),
        translated(images, generator=0),
        in_quadrants(images, digits, generator=0).images,
    )
    monkeypatch.setattr(_image_warps, "IMAGES_AT_ONCE", 3)
    monkeypatch.setattr(digit_tasks, "IMAGES_AT_ONCE", 3)
    parts = (
        rotated(images, generator=0),
        translated(images, generator=0),
        in_quadrants(images, digits, generator=0).images,
    )
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b)


@TASKS
def test_the_images_given_are_left_alone(task: Task) -> None:
    images = random_images(3, 1, 8, 8)
    copy = images.clone()
    task(images, generator=0)
    assert torch.equal(images, copy)


@pytest.mark.parametrize(
    "task",
    [rotated, translated, lambda images: in_quadrants(images, torch.tensor([1]))],
    ids=["rotated", "translated", "in-quadrants"],
)
@pytest.mark.parametrize(
    ("images", "error", "sentence"),
    [
        (np.zeros((1, 1, 2, 2)), TypeError, r"expected a tensor of images, got ndarray"),
        (
            torch.zeros(1, 28, 28),
            ValueError,
            r"expected images of shape \(n, channels, height, width\), got \(1, 28, 28\)",
        ),
        (torch.zeros(0, 1, 2, 2), ValueError, r"expected images .* got \(0, 1, 2, 2\)"),
        (
            torch.zeros(1, 1, 2, 2, dtype=torch.int64),
            TypeError,
            r"expected pixels as uint8, float32 or float64, got torch.int64",
        ),
    ],
    ids=["numpy", "three-axes", "empty", "integers"],
)
def test_what_are_not_images_is_refused(
    task: Callable[[object], object], images: object, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        task(images)


@pytest.mark.parametrize(
    "task",
    [rotated, translated, lambda images: in_quadrants(images, torch.tensor([1]))],
    ids=["rotated", "translated", "in-quadrants"],
)
@pytest.mark.parametrize(
    ("pixel", "got"),
    [(-0.5, r"-0\.5 to 0"), (255.0, r"0 to 255"), (float("nan"), r"nan to nan")],
    ids=["standardised", "levels", "nan"],
)
def test_pixels_out_of_range_are_refused(
    task: Callable[[Tensor], object], pixel: float, got: str
) -> None:
    images = torch.zeros(1, 1, 4, 4)
    images[0, 0, 1, 1] = pixel
    sentence = rf"expected pixels from 0 to 1, before any standardisation, got {got}$"
    with pytest.raises(ValueError, match=sentence):
        task(images)


@pytest.mark.parametrize(
    ("labels", "error", "sentence"),
    [
        ([1, 2], TypeError, r"expected a tensor of labels, got list"),
        (torch.ones(2), TypeError, r"expected labels as integers, got torch.float32"),
        (torch.ones(2).bool(), TypeError, r"expected labels as integers, got torch.bool"),
        (torch.tensor([1]), ValueError, r"expected labels of shape \(2,\), got \(1,\)"),
        (torch.tensor([1, 10]), ValueError, r"expected labels from 0 to 9, got 1 to 10"),
        (torch.tensor([-1, 9]), ValueError, r"expected labels from 0 to 9, got -1 to 9"),
    ],
    ids=["list", "floats", "truth-values", "too-few", "too-large", "negative"],
)
def test_what_are_not_digits_is_refused(
    labels: Tensor, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        in_quadrants(torch.zeros(2, 1, 4, 4), labels)


def test_amounts_that_do_not_fit_the_images_are_refused() -> None:
    images = torch.zeros(3, 1, 4, 4)
    with pytest.raises(ValueError, match=r"expected angles of shape \(3,\), got \(2,\)"):
        turned(images, torch.zeros(2))
    with pytest.raises(ValueError, match=r"expected shifts of shape \(3, 2\), got \(3,\)"):
        moved(images, torch.zeros(3))
    with pytest.raises(ValueError, match=r"expected finite angles, got NaN or infinity"):
        turned(images, torch.full((3,), float("inf")))


def test_a_seed_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match=r"expected an int, a torch.Generator or None as the seed"):
        rotated(torch.zeros(1, 1, 4, 4), generator="0")  # type: ignore[arg-type]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_gives_the_same_for_the_same_seed() -> None:
    images, digits = random_images(20, 1, 28, 28, dtype=torch.float32), torch.arange(20) % 10
    for task in (rotated, translated):
        on_device = task(images.cuda(), generator=0)
        assert on_device.is_cuda
        torch.testing.assert_close(on_device.cpu(), task(images, generator=0), atol=2e-5, rtol=0)
    here = in_quadrants(images, digits, generator=0)
    there = in_quadrants(images.cuda(), digits, generator=0)
    assert torch.equal(there.digits_and_quadrants.cpu(), here.digits_and_quadrants)
    torch.testing.assert_close(there.images.cpu(), here.images)
