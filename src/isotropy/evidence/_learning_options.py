"""How priors are learned: options, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import inf
from numbers import Integral, Real
from typing import Any, Literal, get_args

from isotropy.evidence._curvature_options import CurvatureOptions
from isotropy.evidence._prior_updates import Schedule, Steps
from isotropy.evidence._sharing import SharingModes

_CURVATURE = ("structure", "passes", "probes", "sharing", "subset", "batch_size")
_LEAST = {"epochs": 1, "batch_size": 1, "burn_in": 0, "every": 1}
_POSITIVE = ("learning_rate", "hyper_learning_rate", "temperature")
_GOLDEN = 0x9E3779B9  # odd: its multiples modulo 2**32 are all different


@dataclass(frozen=True)
class LearningOptions:
    """The options of ``learn_priors`` that are plain values; see there.

    Numbers of numpy become those of Python.

    Raises:
        TypeError: If the curvature options are no map, or the seed is no whole number.
        ValueError: If one is out of range or unknown.

    Example:
        >>> LearningOptions(epochs=22).estimates
        [10, 15, 20]
        >>> LearningOptions(epochs=10).estimates
        []
    """

    epochs: int = 100
    batch_size: int = 128
    learning_rate: float = 1e-3
    schedule: Schedule = "cosine"
    burn_in: int = 10
    every: int = 5
    steps: Steps = 20
    hyper_learning_rate: float = 0.1
    hyper_schedule: Schedule = "cosine"
    noise: float | Literal["learn"] | None = "learn"
    temperature: float = 1.0
    curvature: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    cuda_graph: bool = False

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            self._set(name, _whole(name, getattr(self, name), least))
        if not _is(self.steps, "best"):
            self._set("steps", _whole("steps", self.steps, 0, ", or 'best'"))
        for name in _POSITIVE:
            self._set(name, _positive(name, getattr(self, name)))
        if isinstance(self.noise, str) and self.noise != "learn":
            raise ValueError(f"expected a number, None or 'learn' as noise, got {self.noise!r}")
        if self.noise is not None and not isinstance(self.noise, str):
            self._set("noise", _positive("noise", self.noise))
        for name in ("schedule", "hyper_schedule"):
            if getattr(self, name) not in get_args(Schedule):
                known = " or ".join(map(repr, get_args(Schedule)))
                raise ValueError(f"expected as {name} {known}, got {getattr(self, name)!r}")
        self._set("curvature", _curvature(self.curvature))
        if isinstance(self.seed, bool) or not isinstance(self.seed, Integral):
            raise TypeError(f"expected a whole number as the seed, got {self.seed!r}")
        if not 0 <= self.seed < 2**64:
            raise ValueError(f"expected a seed in [0, 2**64), got {self.seed}")
        self._set("seed", int(self.seed))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)  # frozen for everybody else

    @property
    def estimates(self) -> list[int]:
        """After which epochs the priors are updated; there is always another epoch to follow."""
        return list(range(self.burn_in or self.every, self.epochs, self.every))

    @property
    def curvature_options(self) -> CurvatureOptions:
        """Those of a pass over data."""
        given = self.curvature
        return CurvatureOptions(
            given.get("structure", "kronecker"),
            given.get("passes", "exact"),
            given.get("probes"),
            SharingModes.of(given.get("sharing", "expand")),
            self.seed,
        )

    def seed_after(self, epoch: int) -> int:
        """The seed of the approximation after an epoch, another one for each.

        Example:
            >>> options = LearningOptions()
            >>> len({options.seed_after(epoch) % 2**32 for epoch in range(1000)})
            1000
        """
        return (self.seed + epoch * _GOLDEN) % 2**64

    def to_json(self) -> dict[str, Any]:
        """All of them, of what JSON knows."""
        return asdict(self)


def _is(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word


def _whole(name: str, value: Any, least: int, other: str = "") -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"expected {name} of at least {least}{other}, got {value!r}")
    return int(value)


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < inf:
        raise ValueError(f"expected a positive number as {name}, got {value!r}")
    return float(value)


def _curvature(given: Any) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise TypeError(f"expected a map of options as curvature, got {type(given).__name__}")
    for name in given:
        if name not in _CURVATURE:
            raise ValueError(f"expected curvature options of {', '.join(_CURVATURE)}, got {name!r}")
    plain: dict[str, Any] = {}
    for name, value in given.items():
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        plain[name] = int(value) if whole else value
    if isinstance(plain.get("sharing"), Mapping):
        plain["sharing"] = dict(plain["sharing"])
    return plain
