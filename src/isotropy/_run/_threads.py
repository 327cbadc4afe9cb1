"""One thread for work made of many small steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch and the libraries of linear algebra use one thread within the block.

    Small networks gain nothing by more: threads that wait for each other make them several times
    slower.

    Example:
        >>> import torch
        >>> with one_thread():
        ...     torch.get_num_threads()
        1
    """
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)
