"""Polynomials as people write them: few terms, whole numbers, and a constant with its digits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from isotropy.discovery.proposing.generators._thin_polynomials import (
    Array,
    IntArray,
    as_matrices,
    distance,
    gradient_gram,
    sample_weights,
    term_values,
    thin_polynomials,
)

_GREATEST_DENOMINATOR = 12


def tidied(x: Array, errors: Array, terms: IntArray, coefficients: Array) -> Array:
    """Coefficients with zeros and small whole numbers where the samples do not speak against it.

    Returns:
        Coefficients, the first of which is not negative.
    """
    unit = np.sqrt((x**2).mean(0))
    unit[unit == 0.0] = 1.0
    x, errors = x / unit, errors / unit
    size = np.append(unit, 1.0)[terms].prod(1)
    scaled = coefficients * size
    allowed = 1.5 * distance(x, errors, terms, scaled) + 1e-3
    # a product that is zero on all samples is worth as much as its gradient is
    worth = np.abs(scaled) * np.sqrt(np.diag(gradient_gram(x, errors * sample_weights(x), terms)))
    scaled = np.where(worth > 1e-9 * worth.max(), scaled, 0.0)
    for threshold in (0.3, 0.1, 0.03, 1e-2, 1e-3, 1e-4):
        support = worth >= threshold * worth.max()
        fewer = np.zeros(len(terms))
        fewer[support] = thin_polynomials(x, errors, terms[support])[0][0]
        cosine = abs(fewer @ scaled) / (np.linalg.norm(fewer) * np.linalg.norm(scaled))
        if cosine > 0.9 and distance(x, errors, terms, fewer) <= allowed:
            scaled = fewer
            break
    in_units: Array = scaled / size
    in_units = in_units / in_units[np.flatnonzero(in_units)[0]]
    for greatest in range(1, _GREATEST_DENOMINATOR + 1):
        simple = [Fraction(value).limit_denominator(greatest) for value in in_units]
        whole = math.lcm(*(fraction.denominator for fraction in simple))
        rounded = np.array([float(fraction * whole) for fraction in simple])
        if whole <= 60 and distance(x, errors, terms, rounded * size) <= allowed:
            return rounded
    return in_units


def polynomial_words(terms: IntArray, coefficients: Array, names: Sequence[str]) -> str:
    """A polynomial as people write it.

    Example:
        >>> terms = np.array([[0, 0], [0, 1], [1, -1]])
        >>> polynomial_words(terms, np.array([1.0, -2.0, 0.5]), ["x", "y"])
        'x² − 2 x·y + 0.5 y'
    """
    text = ""
    for (i, j), value in zip(terms, coefficients, strict=True):
        if value == 0.0:
            continue
        name = f"{names[i]}²" if i == j else names[i] if j < 0 else f"{names[i]}·{names[j]}"
        number = f"{abs(value):.4g}"
        sign = ("−" if value < 0 else "") if not text else (" − " if value < 0 else " + ")
        text += sign + (name if number == "1" else f"{number} {name}")
    return text


def constant_words(x: Array, errors: Array, terms: IntArray, coefficients: Array) -> str:
    """The value of a polynomial on samples, with the digits they tell."""
    quadratic, linear = as_matrices(terms, coefficients, x.shape[1])
    curved = x @ quadratic
    values = (curved * x).sum(1) + x @ linear
    variance = ((2.0 * curved + linear) ** 2 * errors**2).sum(1)
    weights = 1.0 / (variance + 0.01 * variance.mean() + 1e-300)
    weights /= weights.sum()
    value = float(weights @ values)
    error = math.sqrt(float(weights**2 @ (values - value) ** 2))
    error += 1e-12 * float(np.abs(term_values(x, terms) * coefficients).sum(1).mean())
    if abs(value) <= 3.0 * error:
        return "0"
    digits = 1 + math.floor(math.log10(abs(value))) - math.floor(math.log10(error))
    sign = "−" if value < 0 else ""
    return f"{sign}{abs(value):.{min(4, max(1, digits - 1))}g}"
