"""Batches from every kind of data: all rows once, the same subset always, the right numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)
from torch.utils.data import Dataset as MapStyle

from isotropy.data import Dataset
from isotropy.evidence._batches import Batches, batches_of

N = 7
X = torch.arange(2.0 * N).reshape(N, 2)
Y = 10.0 * torch.arange(N)


class Items(MapStyle[tuple[Tensor, float]]):
    """Rows one by one, with targets that are plain numbers."""

    def __init__(self, n: int = N) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, row: int) -> tuple[Tensor, float]:
        return X[row], float(Y[row])


class Endless(MapStyle[tuple[Tensor, Tensor]]):
    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        return X[row], Y[row]


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    def __init__(self) -> None:
        self.passes = 0

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        self.passes += 1
        return iter(list(zip(X, Y, strict=True)))


class OwnLoader:
    """Something that yields batches, of a kind unknown to PyTorch."""

    def __iter__(self) -> Iterator[list[Tensor]]:
        return iter([[X[:4], Y[:4]], [X[4:], Y[4:]]])


def doubled(items: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    return 2 * torch.stack([x for x, _ in items]), torch.stack([y for _, y in items])


def together(batches: Batches) -> tuple[Tensor, Tensor]:
    xs, ys = zip(*batches, strict=True)
    return torch.cat(xs), torch.cat(ys)


ROWS = TensorDataset(X, Y)
KINDS: dict[str, Callable[[], Any]] = {
    "pair": lambda: (X, Y),
    "list": lambda: [X, Y],
    "arrays": lambda: (X.numpy(), Y.numpy()),
    "dataset": lambda: Dataset(X, Y),
    "tensors": lambda: ROWS,
    "items": Items,
    "stream": Stream,
    "loader": lambda: DataLoader(ROWS, batch_size=3),
    "loader-of-stream": lambda: DataLoader(Stream(), batch_size=3),
    "batch-sampler": lambda: DataLoader(ROWS, batch_sampler=[[0, 1, 2], [3, 4, 5], [6]]),
    "plain-batch-sampler": lambda: DataLoader(
        ROWS, batch_sampler=BatchSampler(SequentialSampler(ROWS), 3, False)
    ),
    "list-of-batches": lambda: [(X[:3], Y[:3]), (X[3:6], Y[3:6]), (X[6:], Y[6:])],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_yields_every_row_once(kind: str) -> None:
    batches = batches_of(KINDS[kind](), batch_size=3)
    for _ in range(2):
        x, y = together(batches)
        torch.testing.assert_close(x, X)
        torch.testing.assert_close(y.float(), Y)
    assert [len(x) for x, _ in batches] == [3, 3, 1]


@pytest.mark.parametrize("number", ["len", "total", "used", "scale"])
@pytest.mark.parametrize("kind", KINDS)
def test_numbers_are_known_before_a_pass(kind: str, number: str) -> None:
    batches = batches_of(KINDS[kind](), batch_size=3)
    found = len(batches) if number == "len" else getattr(batches, number)
    assert found == {"len": 3, "total": N, "used": N, "scale": 1.0}[number]


def test_a_loader_of_unknown_kind_is_iterated_as_it_is() -> None:
    batches = batches_of(OwnLoader(), batch_size=3)
    assert (len(batches), batches.total, batches.used, batches.scale) == (2, N, N, 1.0)
    torch.testing.assert_close(together(batches)[0], X)


def test_a_stream_is_counted_by_the_first_pass() -> None:
    stream = Stream()
    batches = batches_of(stream, batch_size=3)
    assert batches.scale == 1.0
    assert stream.passes == 0
    assert sum(len(x) for x, _ in batches) == N
    assert (len(batches), batches.total, batches.used) == (3, N, N)
    assert stream.passes == 1


def test_a_pass_left_early_is_not_a_count() -> None:
    batches = batches_of(Stream(), batch_size=3)
    next(iter(batches))
    assert batches.total == N


# --- loaders as they are ----------------------------------------------------------------------


def test_a_shuffling_loader_keeps_its_order_and_batch_size() -> None:
    loader = DataLoader(ROWS, batch_size=2, shuffle=True, generator=torch.Generator())
    batches = batches_of(loader, batch_size=100)
    assert (len(batches), batches.total) == (4, N)
    first, second = together(batches)[1], together(batches)[1]
    assert not torch.equal(first, second)
    torch.testing.assert_close(first.sort().values, Y)


def test_rows_that_a_loader_drops_count_in_the_scale() -> None:
    batches = batches_of(DataLoader(ROWS, batch_size=3, drop_last=True), batch_size=1)
    assert (len(batches), batches.total, batches.used) == (2, 7, 6)
    assert batches.scale == pytest.approx(7 / 6)
    assert len(together(batches)[0]) == 6


def test_the_rows_of_a_sampler_are_all_there_are() -> None:
    loader = DataLoader(ROWS, batch_size=2, sampler=SubsetRandomSampler([1, 3, 4]))
    batches = batches_of(loader, batch_size=100)
    assert (len(batches), batches.total, batches.scale) == (2, 3, 1.0)
    assert set(together(batches)[1].tolist()) == {10.0, 30.0, 40.0}


def test_a_sampler_without_a_length_is_counted() -> None:
    class Unsized(torch.utils.data.Sampler[int]):
        def __iter__(self) -> Iterator[int]:
            return iter([0, 2, 4])

    batches = batches_of(DataLoader(ROWS, batch_size=2, sampler=Unsized()), batch_size=1)
    assert (len(batches), batches.total) == (2, 3)


def test_a_loader_of_whole_batches_is_counted() -> None:
    class Whole(MapStyle[tuple[Tensor, Tensor]]):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, k: int) -> tuple[Tensor, Tensor]:
            return (X[:4], Y[:4]) if k == 0 else (X[4:], Y[4:])

    batches = batches_of(DataLoader(Whole(), batch_size=None), batch_size=1)
    assert (len(batches), batches.total) == (2, N)


# --- subsets ----------------------------------------------------------------------------------

SIZED = [kind for kind in KINDS if kind in ("pair", "arrays", "dataset", "tensors", "items")]
SIZED += ["loader", "plain-batch-sampler"]


@pytest.mark.parametrize("subset", [1, 4, N], ids=str)
@pytest.mark.parametrize("kind", SIZED)
def test_a_subset_stays_the_same_and_in_order(kind: str, subset: int) -> None:
    batches = batches_of(KINDS[kind](), batch_size=3, subset=subset, generator=0)
    assert (batches.total, batches.used) == (N, subset)
    assert batches.scale == pytest.approx(N / subset)
    x, y = together(batches)
    assert len(set(y.tolist())) == subset
    torch.testing.assert_close(y, y.sort().values)
    torch.testing.assert_close(x, X[(y / 10).long()])
    torch.testing.assert_close(together(batches)[1], y)
    assert len(batches) == len(list(batches)) == -(-subset // 3)
    same = batches_of(
        (X, Y), batch_size=3, subset=subset, generator=torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(together(same)[1], y.float())


def test_every_row_is_as_likely_in_a_subset() -> None:
    rng = torch.Generator().manual_seed(0)
    counts = torch.zeros(N)
    for _ in range(700):
        y = together(batches_of((X, Y), batch_size=N, subset=3, generator=rng))[1]
        counts[(y / 10).long()] += 1
    # 300 expected, with a standard deviation of 13
    assert ((counts - 300).abs() < 52).all()


def test_a_subset_of_a_loader_is_of_the_rows_it_visits_and_made_its_way() -> None:
    loader = DataLoader(
        ROWS, batch_size=2, sampler=SubsetRandomSampler([6, 1, 3, 4]), collate_fn=doubled
    )
    batches = batches_of(loader, batch_size=100, subset=3, generator=0)
    assert (len(batches), batches.total, batches.used) == (2, 4, 3)
    x, y = together(batches)
    assert set(y.tolist()) < {10.0, 30.0, 40.0, 60.0}
    torch.testing.assert_close(x, 2 * X[(y / 10).long()])
    torch.testing.assert_close(y, y.sort().values)


def test_a_subset_of_a_shuffling_loader() -> None:
    loader = DataLoader(ROWS, batch_size=2, shuffle=True)
    batches = batches_of(loader, batch_size=100, subset=5, generator=0)
    assert (batches.total, batches.used) == (N, 5)
    torch.testing.assert_close(together(batches)[1], together(batches)[1])


@pytest.mark.parametrize("kind", ["items", "loader"])
def test_randomness_elsewhere_is_left_alone(kind: str) -> None:
    before = torch.get_rng_state()
    together(batches_of(KINDS[kind](), batch_size=3, subset=4, generator=0))
    together(batches_of(Items(), batch_size=3))
    assert torch.equal(before, torch.get_rng_state())


# --- kinds of numbers -------------------------------------------------------------------------


def test_floating_numbers_are_cast_and_others_are_not() -> None:
    labels = torch.arange(N)
    x, y = together(batches_of((X, labels), batch_size=3, dtype=torch.float64))
    assert (x.dtype, y.dtype) == (torch.float64, torch.int64)
    x, y = together(batches_of((labels, Y), batch_size=3, dtype=torch.float64))
    assert (x.dtype, y.dtype) == (torch.int64, torch.float64)
    x, y = together(batches_of((X.double(), Y), batch_size=3))
    assert (x.dtype, y.dtype) == (torch.float64, torch.float32)


def test_batches_go_where_they_are_told() -> None:
    batches = batches_of((X, Y), batch_size=3, device="meta")
    assert all(x.is_meta and y.is_meta for x, y in batches)


@pytest.mark.parametrize("order", ["<", ">"], ids=["little", "big"])
def test_arrays_that_cannot_be_written_or_are_of_foreign_order(order: str) -> None:
    x = X.numpy().astype(f"{order}f4")
    x.setflags(write=False)
    found, _ = together(batches_of((x, np.arange(N)[::-1]), batch_size=3))
    torch.testing.assert_close(found, X)


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "error", "sentence"),
    [
        pytest.param(X, ValueError, r"expected inputs and targets, got one Tensor", id="tensor"),
        pytest.param(X.numpy(), ValueError, r"got one ndarray without targets", id="array"),
        pytest.param((X, None), ValueError, r"inputs and targets, got no targets", id="none"),
        pytest.param(
            Dataset(X), ValueError, r"arrays: expected inputs and targets, got no", id="dataset"
        ),
        pytest.param((X,), ValueError, r"expected a pair \(x, y\), got a tuple of 1", id="one"),
        pytest.param(
            (X, Y, Y), ValueError, r"expected a pair \(x, y\), got a tuple of 3", id="three"
        ),
        pytest.param(
            (X, Y[:3]), ValueError, r"expected as many targets as inputs, got 3 and 7", id="lengths"
        ),
        pytest.param(
            (X, Y[0]),
            ValueError,
            r"expected targets of shape \(samples, …\), got a single",
            id="0d",
        ),
        pytest.param(
            (X, np.array(["a"] * N)),
            ValueError,
            r"expected numbers as targets, got an array of <U1",
            id="text",
        ),
        pytest.param((X[:0], Y[:0]), ValueError, r"at least one sample, got none", id="empty"),
        pytest.param(Items(0), ValueError, r"at least one sample, got none", id="no-items"),
        pytest.param(
            DataLoader(Items(0)), ValueError, r"at least one sample, got none", id="empty-loader"
        ),
        pytest.param(
            DataLoader(ROWS, batch_size=8, drop_last=True),
            ValueError,
            r"at least one sample, got none",
            id="all-dropped",
        ),
        pytest.param(
            ((x, y) for x, y in [(X, Y)]),
            ValueError,
            r"expected data that can be iterated more than once, got a generator",
            id="generator",
        ),
        pytest.param(
            iter(DataLoader(ROWS)), ValueError, r"iterated more than once, got a", id="iterator"
        ),
        pytest.param(
            Endless(), ValueError, r"expected a data set with a length, got a Endless", id="endless"
        ),
        pytest.param(
            {"x": X, "y": Y}, TypeError, r"expected as data a pair .* got dict", id="mapping"
        ),
        pytest.param("train", TypeError, r"expected as data a pair .* got str", id="text-data"),
        pytest.param(None, TypeError, r"expected as data a pair .* got NoneType", id="nothing"),
    ],
)
def test_data_that_are_refused_at_once(data: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        batches_of(data, batch_size=3)


@pytest.mark.parametrize(
    ("data", "error", "sentence"),
    [
        pytest.param(
            DataLoader(TensorDataset(X)), ValueError, r"a pair \(x, y\), got a list of 1", id="one"
        ),
        pytest.param(
            DataLoader(TensorDataset(X, Y, Y)), ValueError, r"got a list of 3", id="three"
        ),
        pytest.param(
            DataLoader(X),  # type: ignore[arg-type]
            ValueError,
            r"expected batches \(x, y\), got one Tensor without targets",
            id="tensor",
        ),
        pytest.param([{"x": X, "y": Y}], ValueError, r"got a dict", id="mapping"),
        pytest.param([(X, Y[:2])], ValueError, r"as many targets as inputs", id="lengths"),
        pytest.param(
            [((X, X), Y)], TypeError, r"a tensor or an array as inputs, got tuple", id="nested"
        ),
        pytest.param([], ValueError, r"expected at least one sample, got none", id="empty"),
    ],
)
def test_data_that_are_refused_when_seen(data: Any, error: type[Exception], sentence: str) -> None:
    batches = batches_of(data, batch_size=3)
    with pytest.raises(error, match=sentence):
        list(batches)


@pytest.mark.parametrize("size", [0, -1, 2.5, True], ids=str)
def test_batch_sizes_that_are_none(size: Any) -> None:
    with pytest.raises(ValueError, match=rf"expected a batch size of at least one, got {size}"):
        batches_of((X, Y), batch_size=size)


@pytest.mark.parametrize("kind", ["pair", "items", "loader"])
@pytest.mark.parametrize("subset", [0, N + 1], ids=str)
def test_subsets_out_of_range(kind: str, subset: int) -> None:
    with pytest.raises(ValueError, match=rf"expected a subset of 1 to 7 samples, got {subset}"):
        batches_of(KINDS[kind](), batch_size=3, subset=subset)


def test_subsets_that_are_not_whole_numbers() -> None:
    with pytest.raises(TypeError, match=r"expected a whole number of samples .* got 0\.5"):
        batches_of((X, Y), batch_size=3, subset=0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        pytest.param(Stream(), r"data of known rows for a subset, got the stream Stream", id="s"),
        pytest.param(OwnLoader(), r"data of known rows for a subset, got OwnLoader", id="own"),
        pytest.param(
            DataLoader(ROWS, sampler=WeightedRandomSampler([1.0] * N, N)),
            r"visits every row of its sampler once for a subset, got WeightedRandomSampler",
            id="weighted",
        ),
        pytest.param(
            DataLoader(ROWS, sampler=RandomSampler(ROWS, replacement=True)),
            r"for a subset, got RandomSampler",
            id="replaced",
        ),
        pytest.param(
            DataLoader(ROWS, batch_sampler=[[0, 1], [2]]), r"for a subset, got list", id="lists"
        ),
        pytest.param((X[:0], Y[:0]), r"expected at least one sample, got none", id="empty"),
    ],
)
def test_data_of_which_there_is_no_subset(data: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        batches_of(data, batch_size=3, subset=2)
