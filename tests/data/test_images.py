"""Images resized and standardised, against scipy and numpy; the digits of scikit-learn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import ndimage
from sklearn.datasets import load_digits
from torch import Tensor

from isotropy.data import resized, small_digits, standardised

Pixels = NDArray[np.float64]


def random_images(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=dtype)


def slow_resized(image: Pixels, size: int) -> Pixels:
    """Bilinear between the centres of pixels, the outermost values continued outwards."""
    rows, columns = ((np.arange(size) + 0.5) * n / size - 0.5 for n in image.shape)
    grid = np.meshgrid(rows, columns, indexing="ij")
    interpolated: Pixels = ndimage.map_coordinates(image, grid, order=1, mode="nearest")
    return interpolated


@pytest.mark.parametrize(
    ("shape", "size"),
    [((2, 1, 28, 28), 32), ((2, 1, 56, 56), 32), ((1, 3, 8, 8), 28), ((1, 1, 5, 9), 6)],
    ids=["mnist", "canvas", "enlarged", "not-square"],
)
def test_resizing_agrees_with_scipy(shape: tuple[int, ...], size: int) -> None:
    images = random_images(*shape)
    result = resized(images, size)
    assert result.shape == (*shape[:2], size, size)
    slow = [[slow_resized(channel, size) for channel in image] for image in images.numpy()]
    np.testing.assert_allclose(result.numpy(), np.array(slow), atol=1e-12)


def test_resizing_and_standardising_take_values_of_any_range() -> None:
    images = 7 * random_images(2, 1, 4, 4) - 3
    torch.testing.assert_close(resized(images, 4), images)
    torch.testing.assert_close(standardised(images)[0], standardised((images + 3) / 7)[0])


def test_standardisation_is_that_of_the_training_images() -> None:
    train = torch.randint(256, (50, 3, 6, 6), generator=torch.Generator().manual_seed(0))
    train[:, 1] = train[:, 1] // 3
    test = train[:20] // 2
    results = standardised(train.to(torch.uint8), test.to(torch.uint8))
    mean = train.numpy().mean((0, 2, 3), keepdims=True)
    deviation = train.numpy().std((0, 2, 3), keepdims=True)
    for result, levels in zip(results, (train, test), strict=True):
        np.testing.assert_allclose(result, (levels.numpy() - mean) / deviation, atol=1e-5)


def test_a_constant_channel_is_only_shifted() -> None:
    train, test = standardised(torch.full((400, 1, 9, 9), 0.1), torch.full((1, 1, 2, 2), 0.6))
    assert float(train.abs().max()) < 1e-6
    torch.testing.assert_close(test, torch.full((1, 1, 2, 2), 0.5))


def test_the_small_digits_are_those_of_scikit_learn() -> None:
    images, labels = small_digits()
    source = load_digits()
    assert images.dtype == torch.float32
    assert images.shape == (1797, 1, 28, 28)
    assert labels.dtype == torch.int64
    np.testing.assert_array_equal(labels, source.target)
    assert float(images.min()) == 0.0
    assert 0.9 < float(images.max()) <= 1.0
    for i in (0, 17, 1796):
        np.testing.assert_allclose(images[i, 0], slow_resized(source.images[i] / 16, 28), atol=1e-6)


@pytest.mark.parametrize("size", [0, -2, 2.5, True], ids=str)
def test_a_size_that_is_no_count_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=r"expected a number of pixels of at least 1, got"):
        resized(torch.zeros(1, 1, 4, 4), size)


def test_other_images_must_have_the_channels_of_the_training_ones() -> None:
    with pytest.raises(ValueError, match=r"expected images with 3 channels, got 1"):
        standardised(torch.rand(2, 3, 4, 4), torch.rand(2, 1, 4, 4))


@pytest.mark.parametrize(
    "task",
    [standardised, lambda images: resized(images, 4)],
    ids=["standardised", "resized"],
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
