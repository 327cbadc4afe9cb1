"""States of torch that hold for a while: one thread, networks in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


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


@contextmanager
def evaluation_mode(*models: nn.Module) -> Iterator[None]:
    """Networks in evaluation mode; every module in its own mode again afterwards.

    Modes are set module by module: an exported program refuses ``eval()``.

    Example:
        >>> model = nn.Dropout()
        >>> with evaluation_mode(model):
        ...     model.training
        False
        >>> model.training
        True
    """
    modes = [(module, module.training) for model in models for module in model.modules()]
    try:
        for module, _ in modes:
            module.training = False
        yield
    finally:
        for module, training in modes:
            module.training = training
