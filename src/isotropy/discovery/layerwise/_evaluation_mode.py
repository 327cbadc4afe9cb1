"""Networks looked at, and left as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """A network in evaluation mode, without gradients; every module as it was afterwards.

    Example:
        >>> model = nn.Dropout()
        >>> with evaluating(model):
        ...     model.training
        False
        >>> model.training
        True
    """
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, training in modes:
            module.training = training
