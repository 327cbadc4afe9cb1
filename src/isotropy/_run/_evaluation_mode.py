"""Networks looked at, and left as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


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
