"""The log marginal likelihood by laplace-torch, its curvature from curvlinops.

Its import asks for torchmetrics and asdl, which nothing here uses: where one of them is not
installed, a stand-in has its place during the import.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

_NEEDLESS = {
    "torchmetrics": (),
    "asdl": ("fisher", "grad_maker", "gradient", "hessian", "matrices"),
}


def name() -> str:
    """What to call it: its name and version.

    Raises:
        ModuleNotFoundError: If it, or something it needs, is not installed.
    """
    with _stand_ins():
        importlib.import_module("laplace")
    return f"laplace-torch {version('laplace-torch')}"


def fit(model: nn.Module, x: Tensor, y: Tensor, batch_size: int) -> Any:
    """The Kronecker-factored Laplace approximation of a classifier, prior precision 1.

    Returns:
        Its ``KronLaplace``; ``log_marginal_likelihood()`` is the evidence.
    """
    with _stand_ins():
        peer = importlib.import_module("laplace")
        curvature = importlib.import_module("laplace.curvature")
    found = peer.KronLaplace(
        model, "classification", prior_precision=1.0, backend=curvature.CurvlinopsGGN
    )
    found.fit(DataLoader(TensorDataset(x, y), batch_size=batch_size))
    return found


def input_factors(fitted: Any, model: nn.Module) -> dict[str, Tensor]:
    """The input factor of each weight by name: the mean of aaᵀ over images and positions."""
    named = zip(model.named_parameters(), fitted.H_facs.kfacs, strict=True)
    return {name: factors[1] for (name, _), factors in named if len(factors) == 2}


@contextmanager
def _stand_ins() -> Iterator[None]:
    absent = [
        name
        for package, parts in _NEEDLESS.items()
        if package not in sys.modules and find_spec(package) is None
        for name in (package, *(f"{package}.{part}" for part in parts))
    ]
    sys.modules.update({name: _StandIn(name) for name in absent})
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]


class _StandIn(ModuleType):
    """A module that has every name: classes to inherit from, constants never read."""

    def __getattr__(self, name: str) -> type[nn.Module]:
        if name.startswith("__"):
            raise AttributeError(name)
        return nn.Module
