"""All plain values of one run of learning priors, checked."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal

from isotropy.evidence._curvature_options import CurvatureOptions
from isotropy.evidence._learning_options import LearningOptions, plain_curvature, positive, whole

_GOLDEN = 0x9E3779B9  # odd: its multiples modulo 2**32 are all different
_IDENTITY = (
    "epochs",
    "batch_size",
    "learning_rate",
    "schedule",
    "burn_in",
    "every",
    "steps",
    "hyper_learning_rate",
    "hyper_schedule",
    "noise",
    "temperature",
    "curvature",
    "seed",
    "cuda_graph",
)


@dataclass(frozen=True)
class LearningPlan(LearningOptions):
    """The options of a run and what else its call sets; see ``learn_priors``.

    Raises:
        TypeError: If the seed is no whole number; or as ``LearningOptions``.
        ValueError: If a value is out of range or unknown.

    Example:
        >>> LearningPlan(epochs=22).estimates
        [10, 15, 20]
        >>> LearningPlan(epochs=10).estimates
        []
    """

    epochs: int = 100
    batch_size: int = 128
    learning_rate: float = 1e-3
    noise: float | Literal["learn"] | None = "learn"
    temperature: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            self._set(name, whole(name, getattr(self, name), 1))
        super().__post_init__()
        for name in ("learning_rate", "temperature"):
            self._set(name, positive(name, getattr(self, name)))
        if isinstance(self.noise, str) and self.noise != "learn":
            raise ValueError(f"expected a number, None or 'learn' as noise, got {self.noise!r}")
        if self.noise is not None and not isinstance(self.noise, str):
            self._set("noise", positive("noise", self.noise))
        if isinstance(self.seed, bool) or not isinstance(self.seed, Integral):
            raise TypeError(f"expected a whole number as the seed, got {self.seed!r}")
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"expected a seed in [0, 2**64), got {self.seed}")
        self._set("seed", int(self.seed))

    @property
    def estimates(self) -> list[int]:
        """After which epochs the priors are updated; there is always another epoch to follow."""
        return list(range(self.burn_in or self.every, self.epochs, self.every))

    def curvature_after(self, epoch: int) -> CurvatureOptions:
        """How the approximation after an epoch is computed, with another seed for each.

        Example:
            >>> plan = LearningPlan()
            >>> len({plan.curvature_after(epoch).seed % 2**32 for epoch in range(1000)})
            1000
        """
        return replace(self.curvature, seed=(self.seed + epoch * _GOLDEN) % 2**64)

    def to_json(self) -> dict[str, Any]:
        """What a checkpoint has to agree with, of what JSON knows."""
        plain = {name: getattr(self, name) for name in _IDENTITY}
        return plain | {"curvature": plain_curvature(self.curvature)}
