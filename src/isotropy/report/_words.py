"""What a linear motion does in words (rotates, boosts, scales), and numbers as we write them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


NEGLIGIBLE = 1e-5  # size of a share that is no more than a rounding error


def percent(share: float) -> str:
    """A share in percent, with two digits; or that it is less than can matter.

    Example:
        >>> percent(-0.0123), percent(5.5e-12), percent(0.0)
        ('−1.2 %', '< 0.001 %', '0 %')
    """
    if 0 < abs(share) < NEGLIGIBLE:
        return f"< {NEGLIGIBLE * 100:g} %"
    return true_minus(f"{float(f'{share * 100:.2g}') + 0.0:g} %")  # of −0 the sum is 0


def short_number(number: float) -> str:
    """Two digits or a whole number, and a power of ten where it is far from one."""
    if number == math.inf:
        return "∞"
    if 99.5 <= number < 1e7 and not isinstance(number, int):
        number = int(float(f"{number:.2g}"))
    if not 0 < number < math.inf or 1e-3 <= number < 1e7:
        return true_minus(f"{number:,}" if isinstance(number, int) else f"{number:.2g}")
    size = math.log10(number)  # of whole numbers beyond any float as well
    power = math.floor(size + 1 - math.log10(9.95))  # 9.96 is 1.0 × 10¹
    return f"{10 ** (size - power):.1f} × 10{raised(str(power))}"


def raised(digits: str) -> str:
    """Digits as an exponent.

    Example:
        >>> f"10{raised('-6')}"
        '10⁻⁶'
    """
    return digits.translate(_RAISED)


def three_digits(value: float) -> str:
    """Three digits, with a true minus sign."""
    return true_minus(f"{value:.3g}")


def true_minus(number: str) -> str:
    """A number in text with minus signs for hyphens."""
    return number.replace("-", "\N{MINUS SIGN}")


Array = NDArray[Any]

EXACT = 1e-9  # relative size of what is taken for a rounding error
_LONGEST, _NAMED = 18, 4  # letters of a name, and names in a row


def in_words(matrix: ArrayLike, names: Sequence[str], affine: bool = False) -> str:
    """What the flow x' = A x does, where that is plain; else which coordinates it mixes.

    Args:
        matrix: A, of shape (d, d).
        names: Those of the d coordinates.
        affine: Whether the last coordinate is always 1, and the last column a translation.

    Example:
        >>> in_words([[0, -1], [1, 0]], ["px", "py"])
        'rotates px into py'
        >>> in_words([[0, 1], [1, 0]], ["E", "px"])
        'boost mixing E and px'
        >>> in_words([[0, 2], [0, 0]], ["x", "1"], affine=True)
        'adds to x'
    """
    a = without_rounding(np.asarray(matrix, dtype=np.float64))
    names = [short_name(name) for name in names]
    drift = np.zeros(len(a))
    if affine:
        a, drift, names = a[:-1, :-1], a[:-1, -1], names[:-1]
    # what of the drift a shift of the origin explains, and what is left
    centre = without_rounding(-np.linalg.pinv(a, rcond=EXACT) @ drift)
    rest = drift + a @ centre
    rest[np.abs(rest) <= EXACT * np.abs(drift).max(initial=0.0)] = 0.0
    phrases = _phrases(a, names)
    if centre.any():
        at = [f"{names[i]} = {three_digits(centre[i])}" for i in _places(a.any(0))]
        phrases[-1] += f" about {_listed(at) if len(at) <= _NAMED else 'a point'}"
    if rest.any():
        phrases.append(f"adds to {_weighted(rest, names)}")
    return ", and ".join(phrases) or "moves nothing"


def short_name(name: str) -> str:
    """A name cut in the middle where it is long: ends differ.

    Example:
        >>> short_name("temperature at level 12"), short_name("px")
        ('temperat… level 12', 'px')
    """
    half = _LONGEST // 2
    return name if len(name) <= _LONGEST else f"{name[: half - 1]}…{name[-half:]}"


def squares_in_words(rates: Array, names: Sequence[str]) -> str:
    """The form Σ rate · coordinate², as one writes it."""
    words = ""
    for rate, name in zip(rates, map(short_name, names), strict=True):
        if rate:
            words += f" {'−' if rate < 0 else '+'} "
            words += "" if abs(rate) == 1 else f"{three_digits(abs(rate))}·"
            words += f"{name}²" if name.replace("_", "").isalnum() else f"({name})²"
    return words.removeprefix(" + ") if rates[rates != 0][0] > 0 else f"−{words[3:]}"


def without_rounding(matrix: Array) -> Array:
    """A copy in which rounding errors are zeros."""
    return np.where(np.abs(matrix) > EXACT * np.abs(matrix).max(initial=0.0), matrix, 0.0)


def _phrases(a: Array, names: Sequence[str]) -> list[str]:
    rates = np.diag(a)
    off = a - np.diag(rates)
    turns = _turns(off, names)
    # a sum says what its parts do only where they do not disturb each other
    if turns is None or (np.abs(off * (rates - rates[:, None])) > EXACT * np.abs(a).max()).any():
        touched = [names[i] for i in _places(a.any(0) | a.any(1))]
        return [f"mixes {'all' if len(touched) == len(names) else _listed(touched)}"]
    if not rates.any():
        return turns
    uniform = len(rates) > 1 and rates.all() and not _at_rates(rates)
    return [*turns, f"scales {'all' if uniform else _weighted(rates, names)}"]


def _turns(off: Array, names: Sequence[str]) -> list[str] | None:
    """Rotations, boosts and shears of pairs of coordinates; None where there is anything else."""
    touched = _places(off.any(0) | off.any(1))
    if len(touched) == 3 and np.abs(off + off.T).max() <= EXACT * np.abs(off).max():
        i, j, k = touched
        axis = np.array([off[k, j], off[i, k], off[j, i]])
        along = ", ".join(map(three_digits, axis / np.abs(axis).max()))
        return [f"rotates {_listed([names[at] for at in touched])} about ({along})"]
    pairs = [(i, j) for i in touched for j in touched if i < j and (off[i, j] or off[j, i])]
    if 2 * len(pairs) > len(touched):
        return None
    seen: dict[str, list[tuple[str, float]]] = {"rotates": [], "boost mixing": [], "adds": []}
    ellipses = ""
    for i, j in pairs:
        there, back = off[j, i], off[i, j]
        speed = math.copysign(math.sqrt(abs(there * back)), there)
        if there * back < 0:
            start, end = (i, j) if there > 0 else (j, i)
            seen["rotates"].append((f"{names[start]} into {names[end]}", abs(speed)))
            ellipses = ellipses if math.isclose(there, -back) else " on ellipses"
        elif there * back > 0:
            seen["boost mixing"].append((f"{names[i]} and {names[j]}", speed))
        else:
            start, end = (i, j) if there else (j, i)
            seen["adds"].append((f"{names[start]} to {names[end]}", there + back))
    return [
        f"{verb} {_listed([words for words, _ in several], ', and ')}"
        f"{ellipses if verb == 'rotates' else ''}{_at_rates([rate for _, rate in several])}"
        for verb, several in seen.items()
        if several
    ]


def _weighted(rates: Array, names: Sequence[str]) -> str:
    """The coordinates with a rate, and these where they differ."""
    moved = _places(rates)
    return _listed([names[i] for i in moved]) + _at_rates(rates[moved])


def _at_rates(rates: ArrayLike) -> str:
    rates = np.asarray(rates)
    if np.allclose(rates, rates[0], rtol=EXACT, atol=0):
        return ""
    if len(rates) > _NAMED:
        return ", at different rates"
    least = np.abs(rates).min() * np.sign(rates[0])
    return f", at rates {' : '.join(map(three_digits, rates / least))}"


def _listed(words: Sequence[str], last: str = " and ") -> str:
    if len(words) > _NAMED:
        words = [*words[: _NAMED - 1], f"{len(words) - _NAMED + 1} more"]
    return last.join(filter(None, (", ".join(words[:-1]), words[-1])))


def _places(wanted: ArrayLike) -> list[int]:
    return [int(place) for place in np.flatnonzero(np.asarray(wanted))]
