"""How priors are learned: options, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import inf
from numbers import Integral, Real
from typing import Any, get_args

from isotropy.evidence._prior_updates import Schedule

_CURVATURE = ("structure", "passes", "probes", "sharing", "subset", "batch_size")
_LEAST = {"epochs": 1, "batch_size": 1, "burn_in": 0, "every": 1, "steps": 0}
_POSITIVE = ("learning_rate", "hyper_learning_rate", "temperature", "noise")


@dataclass(frozen=True)
class LearningOptions:
    """The options of ``learn_priors`` that are plain values; see there.

    Raises:
        TypeError: If the curvature options are no map.
        ValueError: If one is out of range or unknown.

    Example:
        >>> LearningOptions(epochs=22).estimates
        [10, 15, 20]
    """

    epochs: int = 100
    batch_size: int = 128
    learning_rate: float = 1e-3
    schedule: Schedule = "cosine"
    burn_in: int = 10
    every: int = 5
    steps: int = 20
    hyper_learning_rate: float = 0.1
    hyper_schedule: Schedule = "cosine"
    noise: float | None = None
    temperature: float = 1.0
    curvature: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
                raise ValueError(f"expected {name} of at least {least}, got {value!r}")
        for name in _POSITIVE:
            value = getattr(self, name)
            if name == "noise" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < inf:
                raise ValueError(f"expected a positive number as {name}, got {value!r}")
        for name in ("schedule", "hyper_schedule"):
            if getattr(self, name) not in get_args(Schedule):
                known = " or ".join(map(repr, get_args(Schedule)))
                raise ValueError(f"expected as {name} {known}, got {getattr(self, name)!r}")
        if not isinstance(self.curvature, Mapping):
            raise TypeError(
                f"expected a map of options as curvature, got {type(self.curvature).__name__}"
            )
        for name in self.curvature:
            if name not in _CURVATURE:
                raise ValueError(
                    f"expected curvature options of {', '.join(_CURVATURE)}, got {name!r}"
                )

    @property
    def estimates(self) -> list[int]:
        """After which epochs the priors are updated."""
        first = self.burn_in or self.every
        return list(range(first, self.epochs + 1, self.every))

    def to_json(self) -> dict[str, Any]:
        """All of them, of what JSON knows."""
        plain = asdict(self)
        numbers: dict[str, Any] = {name: int(plain[name]) for name in _LEAST}
        numbers |= {n: None if plain[n] is None else float(plain[n]) for n in _POSITIVE}
        chosen = {name: self.curvature[name] for name in sorted(self.curvature)}
        return {**plain, **numbers, "curvature": chosen}
