"""The soft model that comes with a symmetry that holds in part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from torch import nn

from isotropy.discovery.testing._soft_comparison import SoftComparison


@dataclass(frozen=True, eq=False)
class SoftOffer:
    """A model that prefers a symmetry, and how it compares.

    Args:
        comparison: With the strict model and the free predictor, on rows held out.
        model: The model.
        model_spec: What ``build_model`` makes such a model from.

    Example:
        >>> comparison = SoftComparison(0.5, 0.4, 0.3, 0.2, 0.02, 0.1, 0.03, 1e-4, 100)
        >>> SoftOffer(comparison).comparison.soft
        0.3
    """

    comparison: SoftComparison
    model: nn.Module | None = field(default=None, repr=False)
    model_spec: Mapping[str, Any] | None = None

    @property
    def is_better(self) -> bool:
        """Whether there is a model that predicted the rows held out better than the strict one."""
        return self.model is not None and self.comparison.soft < self.comparison.strict

    def to_json(self) -> dict[str, Any]:
        """The comparison, and the description of the model."""
        spec = None if self.model_spec is None else dict(self.model_spec)
        return {"comparison": asdict(self.comparison), "model": spec}
