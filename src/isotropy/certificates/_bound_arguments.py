"""What every bound is given, checked once."""

from __future__ import annotations

from math import inf, log
from operator import index
from sys import float_info
from typing import NamedTuple

_ROUNDING = 1 + 32 * float_info.epsilon


class BoundArguments(NamedTuple):
    """What a bound is computed from, in nats.

    Attributes:
        errors: How many samples the hypothesis gets wrong.
        n: How many samples there are.
        complexity: KL + ln(1/δ) = bits · ln 2 + ln(1/δ), never rounded down.
    """

    errors: int
    n: int
    complexity: float

    @property
    def rate(self) -> float:
        """The training error."""
        return self.errors / self.n


def checked_arguments(errors: int, n: int, bits: float, delta: float) -> BoundArguments:
    """The arguments of a bound, or one sentence on what is wrong with them.

    Raises:
        TypeError: If counts are not integers, or the others not numbers.
        ValueError: If one of them is out of range.

    Example:
        >>> checked_arguments(3, 10, 0, 0.5).rate
        0.3
    """
    n, errors = _integer("n", n), _integer("errors", errors)
    bits, delta = checked_number("bits", bits), checked_number("delta", delta)
    if n < 1:
        raise ValueError(f"expected n to be at least 1, got {n}")
    if not 0 <= errors <= n:
        raise ValueError(f"expected errors from 0 to n = {n}, got {errors}")
    if not 0 <= bits < inf:
        raise ValueError(f"expected bits to be finite and at least 0, got {bits}")
    check_delta(delta)
    return BoundArguments(errors, n, (bits * log(2) - log(delta)) * _ROUNDING)


def check_delta(delta: float) -> None:
    """Refuses what is not a probability strictly between 0 and 1.

    Raises:
        ValueError: If it is not.

    Example:
        >>> check_delta(0.05)
    """
    if not 0 < delta < 1:
        raise ValueError(f"expected delta between 0 and 1, both excluded, got {delta}")


def confidence(delta: float) -> str:
    """The probability 1 − δ in digits, or in δ where ten digits would show a one.

    Example:
        >>> confidence(0.05), confidence(1e-12)
        ('0.95', '1 - 1e-12')
    """
    digits = f"{1 - delta:.10g}"
    return digits if digits != "1" else f"1 - {delta:g}"


def checked_number(name: str, value: float) -> float:
    """A number as a float.

    Raises:
        TypeError: If it is not a number.

    Example:
        >>> checked_number("bits", 3)
        3.0
    """
    try:
        if not isinstance(value, str):
            return float(value)
    except (TypeError, ValueError, OverflowError):
        pass
    raise TypeError(f"expected a number as {name}, got {value!r}")


def rounded_up(value: float) -> float:
    """A bound on a probability, on the safe side of a few roundings, never above 1.

    Example:
        >>> 0.3 < rounded_up(0.3) < 0.3 + 1e-14, rounded_up(1.7)
        (True, 1.0)
    """
    return min(1.0, value * _ROUNDING)


def _integer(name: str, value: int) -> int:
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"expected an integer as {name}, got {value!r}") from None
