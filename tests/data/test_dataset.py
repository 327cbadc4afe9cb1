"""A data set in PyTorch's hands."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from isotropy.data import Augment, Dataset, load
from isotropy.groups import SO
from isotropy.reps import Scalar, Symmetry, V


def test_a_loader_takes_a_data_set() -> None:
    data = Dataset(torch.arange(12.0).reshape(6, 2), torch.arange(6.0).reshape(6, 1))
    batches = list(DataLoader(data, batch_size=4))
    assert [tuple(x.shape) for x, _ in batches] == [(4, 2), (2, 2)]
    assert torch.equal(torch.cat([y for _, y in batches]), data.y)
    assert torch.equal(next(iter(DataLoader(Dataset(data.x), batch_size=6))), data.x)


def test_a_split_keeps_rows_and_groups_together() -> None:
    x = torch.arange(20.0).reshape(20, 1)
    first, second = Dataset(x, x).split(0.75, generator=0)
    assert (len(first), len(second)) == (15, 5)
    assert torch.equal(torch.cat([first.x, second.x]).sort(0)[0], x)
    assert torch.equal(first.x, first.y)
    again, _ = Dataset(x, x).split(0.75, generator=0)
    assert torch.equal(first.x, again.x)
    grouped = Dataset(x, x, groups=torch.arange(20) // 4)
    first, second = grouped.split(0.6, generator=1)
    assert not set(first.groups.tolist()) & set(second.groups.tolist())
    with pytest.raises(ValueError, match=r"expected a share that leaves rows in both sets, got 1"):
        grouped.split(1.0)


def test_labels_of_an_invariant_task_stay_as_they_are() -> None:
    labels = torch.arange(5)
    augment = Augment(Symmetry(SO(3), V, Scalar), generator=0)
    moved, kept = augment(torch.randn(5, 3), labels)
    assert kept is labels
    assert moved.shape == (5, 3)


def test_large_unsigned_integers_do_not_wrap() -> None:
    x = np.array([[2**63 + 5], [1]], np.uint64)
    assert float(load((x, np.array([0.5, 1.0]))).x[0, 0]) > 9e18


def test_a_damaged_archive_gets_a_sentence(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "data.npz"
    np.savez_compressed(path, x=np.random.default_rng(0).normal(size=(200, 5)), y=np.ones(200))
    content = bytearray(path.read_bytes())
    content[100:400] = bytes(byte ^ 255 for byte in content[100:400])
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match=r"data\.npz: expected .* got a damaged one"):
        load(path)


def test_deep_pixels_of_either_byte_order(tmp_path) -> None:  # type: ignore[no-untyped-def]
    image = pytest.importorskip("PIL.Image")
    folder = tmp_path / "images" / "c"
    folder.mkdir(parents=True)
    values = (np.arange(16).reshape(4, 4) * 4000).astype(">u2")
    image.frombytes("I;16B", (4, 4), values.tobytes()).save(folder / "a.tif")
    expected = torch.from_numpy(values.astype(np.float32)) / 65535
    torch.testing.assert_close(load(folder.parent).x[0, 0], expected)
