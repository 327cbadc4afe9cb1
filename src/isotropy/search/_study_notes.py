"""What a search notes of a study and its trials, and what Optuna notes of their parameters."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from isotropy._run._json import shown
from isotropy.search._space_description import SpaceDescription, space_description
from isotropy.search._study_keys import key_parts

SETTINGS = "isotropy"
FORMAT = 1
HIDDEN = "hidden grids"
_KEYS = {"format", "space", "seed", "child", "by_network", "mark"}
_MARK = re.compile(r"[0-9a-f]{16}")
_CHILD, _TEXT, _CHOICES = 100_000, 2000, 10_000
_NUMBERS = {
    "FloatDistribution": {"low", "high", "log", "step"},
    "IntDistribution": {"low", "high", "log", "step"},
    "UniformDistribution": {"low", "high"},
    "LogUniformDistribution": {"low", "high"},
    "DiscreteUniformDistribution": {"low", "high", "q"},
    "IntUniformDistribution": {"low", "high", "step"},
    "IntLogUniformDistribution": {"low", "high", "step"},
}
_STEPS = 1e12

Choices = tuple[object, ...] | None


@dataclass(frozen=True)
class StudySettings:
    """What a study of a search is of.

    Args:
        space: What it ranges over.
        mark: What no other study has.
    """

    space: SpaceDescription
    mark: str

    def check_key(self, key: object) -> None:
        """Refuse a key of a child that is not of the space."""
        parts = key_parts(key)
        for groups, hidden in ((parts.groups, parts.hidden), parts.start or ((), 0)):
            if groups != tuple(name for name in self.space.groups if name in groups):
                raise ValueError(f"expected groups of the study's space, got {shown(key)}")
            if hidden >= len(self.space.hidden):
                raise ValueError(f"expected hidden grids of the study's space, got {shown(key)}")

    def check_choices(self, name: str, choices: Choices) -> None:
        """Refuse a parameter that is not of the space."""
        wanted = {HIDDEN: self._hidden(), **dict.fromkeys(self.space.groups, (False, True))}
        # 0 and 1 are equal to false and true, but other choices
        if choices is None or repr(choices) != repr(wanted.get(name)):
            raise ValueError(
                f"expected parameters of the study's space, got {shown(name)} among "
                f"{shown(choices)}"
            )

    def check_params(self, key: str, params: Mapping[str, object]) -> None:
        """Refuse a trial whose parameters are not those of its key."""
        parts = key_parts(key)
        wanted: dict[str, object] = {name: name in parts.groups for name in self.space.groups}
        wanted[HIDDEN] = self._hidden()[parts.hidden]
        if any(wanted[name] != value for name, value in params.items()):
            raise ValueError(f"expected the parameters of {shown(key)}, got {shown(dict(params))}")

    def _hidden(self) -> tuple[str, ...]:
        return tuple(", ".join(map(str, grids)) for grids in self.space.hidden)


def settings_from(found: object) -> StudySettings:
    """The settings of a study, as a search wrote them.

    Raises:
        ValueError: If it is something else, or of another format.
    """
    if not isinstance(found, dict):
        raise ValueError(f"expected the settings of a search, got {shown(found)}")
    if type(found.get("format")) is not int or found["format"] != FORMAT:
        raise ValueError(
            f"expected a study with the format {FORMAT}, got {shown(found.get('format'))}"
        )
    if set(found) != _KEYS:
        raise ValueError(
            f"expected {', '.join(sorted(_KEYS))} as settings, got {shown(sorted(found))}"
        )
    if type(found["seed"]) is not int or type(found["by_network"]) is not bool:
        raise ValueError(
            "expected a number as the seed and true or false as by_network, got "
            f"{shown(found['seed'])} and {shown(found['by_network'])}"
        )
    if not isinstance(found["child"], str) or len(found["child"]) > _CHILD:
        raise ValueError(
            f"expected up to {_CHILD} letters of the data and training, got {shown(found['child'])}"
        )
    if not isinstance(found["mark"], str) or not _MARK.fullmatch(found["mark"]):
        raise ValueError(f"expected a mark of 16 digits, got {shown(found['mark'])}")
    return StudySettings(space_description(found["space"]), found["mark"])


def check_accuracy(value: object) -> None:
    """Refuse an accuracy that is none.

    Raises:
        ValueError: If it is not a share.

    Example:
        >>> check_accuracy(1.5)
        Traceback (most recent call last):
        ...
        ValueError: expected an accuracy from 0 to 1, got 1.5
    """
    if not is_real(value) or not 0 <= value <= 1:
        raise ValueError(f"expected an accuracy from 0 to 1, got {shown(value)}")


def check_note(key: str, value: object) -> None:
    """Refuse a note of a trial that no search would make."""
    if key in ("key", "start"):
        key_parts(value)
    elif key in _NOTES and not _NOTES[key][0](value):
        raise ValueError(f"expected {_NOTES[key][1]}, got {shown(value)}")


def distribution_of(found: object) -> Choices:
    """What a distribution of Optuna's chooses among.

    Args:
        found: The distribution as JSON has it.

    Returns:
        Choices, or ``None`` where it is a range of numbers.

    Raises:
        ValueError: If Optuna has no such distribution.

    Example:
        >>> distribution_of(
        ...     {"name": "CategoricalDistribution", "attributes": {"choices": ["a", "b"]}}
        ... )
        ('a', 'b')
    """
    name, about = _named(found)
    if name == "CategoricalDistribution" and set(about) == {"choices"}:
        choices = about["choices"]
        if (
            isinstance(choices, list)
            and 0 < len(choices) <= _CHOICES
            and all(one is None or isinstance(one, bool | int | float | str) for one in choices)
        ):
            return tuple(choices)
    elif name in _NUMBERS and set(about) <= _NUMBERS[name] and _is_range(name, about):
        return None
    raise ValueError(f"expected a distribution of Optuna, got {shown(found)}")


def check_param(value: object, choices: Choices) -> object:
    """Refuse a parameter that is not of its distribution.

    Args:
        value: As Optuna keeps it: a number, or which of the choices.
        choices: As `distribution_of` gave them.

    Returns:
        The choice, or the number.

    Raises:
        ValueError: If it is out of range.
    """
    if not is_real(value):
        raise ValueError(f"expected a finite number as a parameter, got {shown(value)}")
    if choices is None:
        return value
    if value not in range(len(choices)):
        raise ValueError(f"expected one of {len(choices)} choices, got {shown(value)}")
    return choices[int(value)]


def _named(found: object) -> tuple[str, dict[str, Any]]:
    """The name and attributes of a distribution, also of one in Optuna's short form."""
    if isinstance(found, dict) and set(found) == {"name", "attributes"}:
        name, about = found["name"], found["attributes"]
        if isinstance(name, str) and isinstance(about, dict):
            return name, about
    if isinstance(found, dict) and isinstance(found.get("type"), str):
        kinds = {"categorical": "Categorical", "float": "Float", "int": "Int"}
        name = kinds.get(found["type"], "no") + "Distribution"
        return name, {key: value for key, value in found.items() if key != "type"}
    raise ValueError(f"expected a distribution of Optuna, got {shown(found)}")


def _is_range(name: str, about: Mapping[str, Any]) -> bool:
    """Whether Optuna would take it as a range of numbers."""
    low, high, log = about.get("low"), about.get("high"), about.get("log", False)
    step = about.get("step", about.get("q"))
    if not (is_real(low) and is_real(high) and type(log) is bool):
        return False
    if step is not None and not (is_real(step) and step > 0):
        return False
    whole = name.startswith("Int")
    logarithmic = log or "Log" in name
    if whole and any(type(one) is not int for one in (low, high, about.get("step", 1))):
        return False
    if logarithmic and (low <= 0 or step not in ((None, 1) if whole else (None,))):
        return False
    return low <= high and (step is None or (high - low) / step <= _STEPS)


def is_real(value: object) -> TypeGuard[float]:
    """Whether it is a number, neither true nor false nor endless."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) < 1e300 and math.isfinite(value)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= _TEXT


def _whole_up_to(most: int) -> Callable[[object], bool]:
    return lambda value: is_real(value) and 0 <= value <= most and not value % 1


def _up_to(most: float) -> Callable[[object], bool]:
    return lambda value: is_real(value) and 0 <= value <= most


# what a note of each name must be
_NOTES: dict[str, tuple[Callable[[object], bool], str]] = {
    "parameters": (_whole_up_to(2**53), f"parameters up to {2**53}"),
    "epochs": (_whole_up_to(10**9), f"epochs up to {10**9}"),
    "seconds": (_up_to(1e10), "seconds up to 1e+10"),
    "finished": (_up_to(1e11), "finished up to 1e+11"),
    "worker": (_is_text, f"worker of up to {_TEXT} letters"),
    "error": (_is_text, f"error of up to {_TEXT} letters"),
    "seed": (lambda value: type(value) is int, "a whole number as the seed"),
    "start weights": (
        lambda value: value in ("found", "missing"),
        "start weights found or missing",
    ),
}
