"""Loaders of data sets: their rows, their numbers, and parts of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
)
from torch.utils.data import Dataset as MapStyle

_ACCEPTED = "a pair (x, y) of tensors or arrays, a Dataset, a DataLoader or a list of batches"


def loader_of(data: Any, batch_size: int) -> DataLoader[Any] | None:
    """A loader of the data; None for other things that can be iterated again."""
    if isinstance(data, DataLoader):
        return data
    if isinstance(data, Iterator):
        raise ValueError(
            f"expected data that can be iterated more than once, got a {type_name(data)}"
        )
    if isinstance(data, MapStyle):
        if isinstance(data, IterableDataset) or hasattr(data, "__len__"):
            return _new_loader(data, batch_size)
        raise ValueError(f"expected a data set with a length, got a {type_name(data)} without")
    if isinstance(data, str | bytes | Mapping) or not isinstance(data, Iterable):
        raise TypeError(f"expected as data {_ACCEPTED}, got {type_name(data)}")
    return None


def _new_loader(data: MapStyle[Any], batch_size: int, **options: Any) -> DataLoader[Any]:
    if not isinstance(data, IterableDataset) and len(data) == 0:  # type: ignore[arg-type]
        raise no_samples()
    # a generator of its own: PyTorch's global one is never touched
    return DataLoader(data, batch_size, generator=torch.Generator(), **options)


def loader_of_rows(
    loader: DataLoader[Any], rows: Sequence[int], batch_size: int
) -> DataLoader[Any]:
    """A loader of these rows alone, in their order, that makes batches as the given one does."""
    return _new_loader(
        Subset(loader.dataset, rows),
        loader.batch_size or batch_size,
        collate_fn=loader.collate_fn,
        num_workers=loader.num_workers,
        worker_init_fn=loader.worker_init_fn,
    )


def numbers_of(loader: DataLoader[Any]) -> dict[str, int]:
    """What a loader will yield, where its sampler tells."""
    sampler = loader.batch_sampler
    if type(sampler) is not BatchSampler or isinstance(loader.dataset, IterableDataset):
        return {}
    try:
        total = len(sampler.sampler)  # type: ignore[arg-type]
    except TypeError:
        return {}
    used = total - total % sampler.batch_size if sampler.drop_last else total
    return {"total": total, "used": used, "batches": len(sampler)}


def rows_of(loader: DataLoader[Any]) -> Tensor:
    """The rows of its data set that a loader visits, each of them once."""
    if isinstance(loader.dataset, IterableDataset):
        raise ValueError(
            f"expected data of known rows for a subset, got the stream {type_name(loader.dataset)}"
        )
    batches = loader.batch_sampler
    sampler = batches.sampler if type(batches) is BatchSampler else None
    count = len(loader.dataset)  # type: ignore[arg-type]
    if type(sampler) is SequentialSampler:
        return torch.arange(count)
    if type(sampler) is RandomSampler and not sampler.replacement and len(sampler) == count:
        return torch.arange(count)
    if type(sampler) is SubsetRandomSampler:
        return torch.tensor(sorted(int(row) for row in sampler.indices))
    got = type_name(batches if sampler is None else sampler)
    raise ValueError(
        f"expected a loader that visits every row of its sampler once for a subset, got {got}"
    )


def no_samples() -> ValueError:
    """What to raise where the data are empty."""
    return ValueError("expected at least one sample, got none")


def type_name(value: Any) -> str:
    """What messages call a thing of the wrong kind."""
    return type(value).__name__
