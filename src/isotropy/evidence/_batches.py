"""Batches of inputs and targets, from whatever holds them: rows, their numbers, parts of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
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
    TensorDataset,
)
from torch.utils.data import Dataset as MapStyle

from isotropy._run import generator as make_generator
from isotropy.data import Dataset

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


class Batches:
    """Batches (x, y) that can be gone through again and again; made by `batches_of`.

    Args:
        source: Whatever yields pairs (x, y) every time it is iterated.
        total: How many samples there are in all; None where only a pass can tell.
        used: How many of them a pass yields; None likewise, and then these are all.
        batches: How many batches a pass yields; None likewise.
        device: Where batches go; None for where they are.
        dtype: What floating inputs and targets become; None for what they are.

    Example:
        >>> batches = batches_of((torch.randn(5, 3), torch.randn(5)), batch_size=2)
        >>> [len(x) for x, y in batches]
        [2, 2, 1]
        >>> len(batches), batches.total, batches.used, batches.scale
        (3, 5, 5, 1.0)
    """

    def __init__(
        self,
        source: Iterable[Any],
        *,
        total: int | None = None,
        used: int | None = None,
        batches: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self._source, self._device, self._dtype = source, device, dtype
        self._total, self._used, self._batches = total, used, batches
        if used == 0:
            raise no_samples()

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for x, y in self._pairs():
            yield self._moved(x), self._moved(y)

    def __len__(self) -> int:
        if self._batches is None:
            self._count()
        assert self._batches is not None
        return self._batches

    @property
    def total(self) -> int:
        """How many samples there are in all; counted by a pass where nothing else tells."""
        return self.used if self._total is None else self._total

    @property
    def used(self) -> int:
        """How many samples a pass yields."""
        if self._used is None:
            self._count()
        assert self._used is not None
        return self._used

    @property
    def scale(self) -> float:
        """By how much a sum over a pass falls short of one over all samples: total / used."""
        return 1.0 if self._total is None else self._total / self.used

    def _pairs(self) -> Iterator[tuple[Tensor, Tensor]]:
        samples = batches = 0
        for batch in self._source:
            x, y = _pair(batch)
            samples, batches = samples + len(x), batches + 1
            yield x, y
        if samples == 0:
            raise no_samples()
        if self._used is None or self._batches is None:
            self._used, self._batches = samples, batches

    def _count(self) -> None:
        for _ in self._pairs():
            pass

    def _moved(self, values: Tensor) -> Tensor:
        dtype = self._dtype if values.is_floating_point() else None
        return values.to(device=self._device, dtype=dtype)


def batches_of(
    data: Any,
    *,
    batch_size: int,
    subset: int | None = None,
    generator: torch.Generator | int | None = None,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
) -> Batches:
    """Batches (x, y) of whatever holds inputs and targets.

    A ``DataLoader`` is iterated as it is, with its own batches, order and augmentation; the
    number of samples is then that of its sampler. Where no number is known beforehand (streams,
    samplers of the user's own, lists of batches), it is counted by a pass when asked for.

    Args:
        data: A pair (x, y) of tensors or arrays, a `Dataset` with targets, one of PyTorch's, a
            ``DataLoader``, or any list of batches (x, y) that can be iterated more than once.
        batch_size: How many samples a batch has; a loader keeps its own.
        subset: How many samples, drawn at random without replacement, are used; None for all.
            They are the same in every pass, in the order of the data. Of a loader, its data set
            and the way it makes batches are used then.
        generator: A seed or a generator for the subset.
        device: Where batches go; None for where they are.
        dtype: What floating inputs and targets become; None for what they are.

    Raises:
        TypeError: If the data are of another kind.
        ValueError: If there are no targets or no samples, lengths differ, batches are not pairs,
            the data can be iterated once only, or the subset or batch size is out of range.

    Example:
        >>> from torch.utils.data import DataLoader, TensorDataset
        >>> rows = TensorDataset(torch.arange(6.0)[:, None], torch.arange(6))
        >>> few = batches_of(DataLoader(rows, batch_size=2), batch_size=2, subset=3, generator=0)
        >>> len(few), few.total, few.used, few.scale
        (2, 6, 3, 2.0)
    """
    if isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1:
        raise ValueError(f"expected a batch size of at least one, got {batch_size!r}")
    placed: dict[str, Any] = {"device": device, "dtype": dtype}
    arrays = _arrays(data)
    if arrays is not None:
        x, y = arrays
        chosen = None if subset is None else _drawn(torch.arange(len(x)), subset, generator)
        source = _Rows(x, y, chosen, int(batch_size))
        return Batches(source, total=len(x), used=source.used, batches=len(source), **placed)
    loader = loader_of(data, int(batch_size))
    if subset is not None:
        if loader is None:
            raise ValueError(f"expected data of known rows for a subset, got {type_name(data)}")
        rows = rows_of(loader)
        chosen = _drawn(rows, subset, generator)
        part = loader_of_rows(loader, chosen.tolist(), int(batch_size))
        return Batches(part, total=len(rows), used=len(chosen), batches=len(part), **placed)
    if loader is None:
        return Batches(data, **placed)
    return Batches(loader, **numbers_of(loader), **placed)


# --- arrays -----------------------------------------------------------------------------------


class _Rows:
    """Slices of two tensors."""

    def __init__(self, x: Tensor, y: Tensor, chosen: Tensor | None, batch_size: int) -> None:
        self._x, self._y, self._chosen, self._batch_size = x, y, chosen, batch_size
        self.used = len(x) if chosen is None else len(chosen)

    def __len__(self) -> int:
        return -(-self.used // self._batch_size)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, self.used, self._batch_size):
            piece = slice(start, start + self._batch_size)
            if self._chosen is None:
                yield self._x[piece], self._y[piece]
            else:
                rows = self._chosen[piece]
                yield self._x[rows.to(self._x.device)], self._y[rows.to(self._y.device)]


def _arrays(data: Any) -> tuple[Tensor, Tensor] | None:
    """Inputs and targets, where the data are held as two arrays."""
    if isinstance(data, Tensor | np.ndarray):
        raise ValueError(f"expected inputs and targets, got one {type_name(data)} without targets")
    if isinstance(data, Dataset):
        if data.y is None:
            raise ValueError(f"{data.source}: expected inputs and targets, got no targets")
        return data.x, data.y
    if type(data) is TensorDataset and len(data.tensors) == 2:
        data = data.tensors
    if not isinstance(data, tuple | list) or not data:
        return None
    if not all(isinstance(part, Tensor | np.ndarray) or part is None for part in data):
        return None
    return _pair(data)


def _pair(batch: Any) -> tuple[Tensor, Tensor]:
    if isinstance(batch, Tensor | np.ndarray):
        raise ValueError(f"expected batches (x, y), got one {type_name(batch)} without targets")
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        count = f" of {len(batch)}" if isinstance(batch, tuple | list) else ""
        raise ValueError(f"expected a pair (x, y), got a {type_name(batch)}{count}")
    if batch[1] is None:
        raise ValueError("expected inputs and targets, got no targets")
    x, y = _tensor(batch[0], "inputs"), _tensor(batch[1], "targets")
    if len(x) != len(y):
        raise ValueError(f"expected as many targets as inputs, got {len(y)} and {len(x)}")
    return x, y


def _tensor(values: Any, what: str) -> Tensor:
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in "biuf":
            raise ValueError(f"expected numbers as {what}, got an array of {values.dtype}")
        # a read-only array, or one of foreign byte order, has to be copied
        native = np.require(values, values.dtype.newbyteorder("="), ["C", "W"])
        values = torch.from_numpy(native)
    if not isinstance(values, Tensor):
        raise TypeError(f"expected a tensor or an array as {what}, got {type_name(values)}")
    if values.ndim == 0:
        raise ValueError(f"expected {what} of shape (samples, …), got a single number")
    return values


def _drawn(rows: Tensor, subset: int, generator: torch.Generator | int | None) -> Tensor:
    if len(rows) == 0:
        raise no_samples()
    if isinstance(subset, bool) or not isinstance(subset, Integral):
        raise TypeError(f"expected a whole number of samples as the subset, got {subset!r}")
    if not 1 <= subset <= len(rows):
        raise ValueError(f"expected a subset of 1 to {len(rows)} samples, got {subset}")
    rng = make_generator(generator)
    order = torch.randperm(len(rows), generator=rng, device=rng.device).cpu()
    return rows[order[:subset].sort().values]
