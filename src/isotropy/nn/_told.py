"""The form in which layers of torch are told of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from torch import Tensor

Told: TypeAlias = Iterator[tuple[str, Tensor, dict[str, Any]]]
"""For each use of a parameter its name within the layer, the input, and the rest of a
``LinearOperation`` by name. Whether the layer has that parameter is not asked."""
