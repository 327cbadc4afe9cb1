from collections import Counter

import numpy as np
import pytest
import torch
from torch.nn.functional import conv1d, pad

from isotropy_papers.sharing_tasks import SharingTask, cross_correlation, noisy_steps, shared_means


def same_block(task: SharingTask) -> np.ndarray:
    labels = task.labels.ravel()
    return labels[:, None] == labels


@pytest.mark.parametrize("dimensions", [2, 6, 30])
def test_equal_means_are_the_bare_numbers_of_the_seed(dimensions: int) -> None:
    task = shared_means(dimensions, seed=17)
    assert (task.y.numpy() == np.random.RandomState(17).randn(100, dimensions)).all()
    assert task.x is None
    assert not task.map.any()
    assert not task.labels.any()


def test_partitions_of_a_rank_are_equally_likely() -> None:
    drawn = [tuple(shared_means(4, 2, samples=1, seed=seed).labels) for seed in range(1400)]
    counts = Counter(drawn)
    assert all(set(labels) == {0, 1} for labels in counts)
    assert len({labels if labels[0] == 0 else None for labels in counts}) == 7  # Stirling S(4, 2)
    assert len(counts) == 7
    chi_squared = sum((count - 200) ** 2 / 200 for count in counts.values())
    assert chi_squared < 22.5  # 6 degrees of freedom, 0.1 %


def test_many_means_keep_the_first_of_each_block() -> None:
    labels = np.array([shared_means(40, 4, samples=1, seed=s).labels for s in range(200)])
    assert (labels[:, :4] == np.arange(4)).all()
    shares = np.bincount(labels[:, 4:].ravel()) / labels[:, 4:].size
    assert shares == pytest.approx([0.25] * 4, abs=0.02)


def test_means_are_three_apart_and_sigma_is_the_deviation() -> None:
    task = shared_means(5, 3, samples=20_000, sigma=0.5, seed=2)
    assert task.map.numpy() == pytest.approx(3.0 * task.labels)
    assert task.y.mean(0).numpy() == pytest.approx(task.map.numpy(), abs=0.02)
    assert task.y.std(0).numpy() == pytest.approx([0.5] * 5, rel=0.03)


@pytest.mark.parametrize("circular", [False, True])
def test_cross_correlation_is_a_convolution_layer(circular: bool) -> None:
    kernel = (1.0, 3.0, 5.0, -2.0)
    task = cross_correlation(9, kernel, noise=0.0, circular=circular, seed=3)
    assert task.x is not None
    signal = task.x[:, None]
    if circular:
        signal = pad(signal, (0, 3), mode="circular")
    expected = conv1d(signal, torch.tensor([[kernel]], dtype=torch.float64))[:, 0]
    torch.testing.assert_close(task.y, expected)
    torch.testing.assert_close(task.x @ task.map.mT, expected)


@pytest.mark.parametrize("kernel", [(1, 3, 5), (2, 7, 2), (4, 0, 1)])
def test_blocks_of_a_cross_correlation_are_its_equal_entries(kernel: tuple[int, ...]) -> None:
    task = cross_correlation(6, kernel, samples=1, seed=0)
    entries = task.map.numpy().ravel()
    assert task.labels.shape == tuple(task.map.shape) == (4, 6)
    assert (same_block(task) == (entries[:, None] == entries)).all()


def test_noise_of_a_cross_correlation() -> None:
    task = cross_correlation(4, (1, 3), samples=20_000, noise=0.3, seed=1)
    assert task.x is not None
    residual = task.y - task.x @ task.map.mT
    assert float(residual.std()) == pytest.approx(0.3, rel=0.02)
    assert task.x.std(0).numpy() == pytest.approx([1.0] * 4, rel=0.03)


def test_seeds_repeat_and_differ() -> None:
    for draw in (cross_correlation, noisy_steps):
        first, again, other = (draw(5, samples=3, seed=seed).y for seed in (1, 1, 2))
        assert (first == again).all()
        assert not (first == other).any()


def test_steps_rise_once_by_their_scale() -> None:
    task = noisy_steps(6, samples=5000, noise=0.0, seed=0)
    jumps = task.y.diff(dim=1)
    assert int((jumps > 1e-9).sum(1).max()) == 1
    rises = jumps[jumps > 1e-9]
    assert 1 <= float(rises.min()) < 1.2
    assert 49.8 < float(rises.max()) <= 50
    # of the seven starts, the first and the last show no jump
    assert float((jumps > 1e-9).any(1).double().mean()) == pytest.approx(5 / 7, abs=0.02)
    flat = task.y[(jumps.abs() < 1e-9).all(1)]
    assert -5 <= float(flat.min()) < -4.9
    assert 54 < float(flat.max()) <= 55


def test_the_best_denoiser_is_that_of_many_rows() -> None:
    task = noisy_steps(5, samples=200_000, noise=8.0, seed=4)
    assert task.x is not None
    fitted = torch.linalg.lstsq(task.x, task.y).solution.mT
    torch.testing.assert_close(task.map, fitted, atol=6e-3, rtol=0)
    assert float((task.x - task.y).std()) == pytest.approx(8.0, rel=0.01)


def test_blocks_of_a_denoiser_are_its_diagonals() -> None:
    task = noisy_steps(5, samples=1, seed=0)
    row, column = np.indices((5, 5)).reshape(2, -1)
    offset = column - row
    assert (same_block(task) == (offset[:, None] == offset)).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: shared_means(0), r"expected a number of dimensions of at least 1, got 0"),
        (lambda: shared_means(3, samples=0), r"expected a number of samples of at least 1, got 0"),
        (lambda: shared_means(3, 4), r"expected a rank between 1 and the 3 dimensions, got 4"),
        (lambda: shared_means(3, 0), r"expected a rank between 1 and the 3 dimensions, got 0"),
        (
            lambda: shared_means(3, sigma=-1.0),
            r"expected a standard deviation sigma that is finite and not negative, got -1\.0",
        ),
        (lambda: shared_means(3, seed=-1), r"expected a seed in \[0, 2\*\*32\), got -1"),
        (lambda: cross_correlation(0), r"expected a number of inputs of at least 1, got 0"),
        (
            lambda: cross_correlation(4, samples=0),
            r"expected a number of samples of at least 1, got 0",
        ),
        (
            lambda: cross_correlation(2, (1, 2, 3)),
            r"expected a kernel of 1 to 2 finite numbers, .*, got \(1, 2, 3\)",
        ),
        (lambda: cross_correlation(2, ()), r"expected a kernel of 1 to 2 finite numbers, .*, got"),
        (
            lambda: cross_correlation(2, (float("nan"),)),
            r"expected a kernel of 1 to 2 finite numbers, .*, got \(nan,\)",
        ),
        (
            lambda: cross_correlation(4, noise=-0.1),
            r"expected a standard deviation of the noise that is finite .*, got -0\.1",
        ),
        (lambda: noisy_steps(0), r"expected a number of places of at least 1, got 0"),
        (lambda: noisy_steps(3, samples=-2), r"expected a number of samples .*, got -2"),
        (
            lambda: noisy_steps(3, noise=float("nan")),
            r"expected a standard deviation of the noise that is finite .*, got nan",
        ),
    ],
)
def test_bad_input(build: object, message: str) -> None:
    assert callable(build)
    with pytest.raises(ValueError, match=message):
        build()
