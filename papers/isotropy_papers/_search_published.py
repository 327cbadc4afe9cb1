"""The printed numbers of Tables 3 to 7, 9 and 10 of Basu et al. 2021.

Scrambles have other numbers in the paper's networks than in its data: the code that shares weights
takes position 6 of an array for the vertical scramble, the code that moves images for the rotation
scramble, and so on. Counts of parameters tell: Table 3 agrees with `CODE_ORDER` only.
"""

from __future__ import annotations

CODE_ORDER = (
    "rotation",
    "horizontal flip",
    "vertical flip",
    "horizontal translation",
    "vertical translation",
    "vertical scramble",
    "left vertical scramble",
    "right vertical scramble",
    "top horizontal scramble",
    "bottom horizontal scramble",
    "rotation scramble",
    "horizontal scramble",
)
"""Transformations of the columns Eq1 to Eq12, and of the digits of arrays in Tables 9 and 10."""


def groups_of(array: str, order: tuple[str, ...] = CODE_ORDER) -> tuple[str, ...]:
    """The transformations of an array of Tables 9 and 10.

    Args:
        array: Twelve digits, 0 or 1.
        order: What the digits stand for.

    Example:
        >>> groups_of("000001000000")
        ('vertical scramble',)
    """
    return tuple(name for name, digit in zip(order, array, strict=True) if digit == "1")


def _rows(text: str) -> dict[str, tuple[float, ...]]:
    lines = (line.split() for line in text.strip().splitlines())
    return {name: tuple(map(float, numbers)) for name, *numbers in lines}


def _top(text: str) -> dict[str, list[tuple[str, str]]]:
    """For each data set arrays with their millions of parameters, as printed."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in text.strip().splitlines():
        name, array, millions = line.split()
        found.setdefault(name, []).append((array, millions))
    return found


TABLE_3 = (0.47, 0.12, 0.24, 0.24, 0.04, 0.04, 0.24, 0.30, 0.30, 0.30, 0.30, 0.12, 0.24)
"""Millions of parameters of Eq0 to Eq12, cut to two decimals."""

TABLE_4 = _rows(
    """
    IAug0 95.9 96.7 95.8 96.4 83.2 65.7 95.8 95.3 96.1 96.4 96.1 96.0 96.6
    IAug1 83.5 87.2 85.6 82.5 50.1 49.1 84.1 83.9 81.8 81.8 83.2 83.6 85.4
    IAug2 91.2 93.0 93.0 93.4 81.9 59.1 92.9 92.6 92.1 91.9 91.5 93.8 92.9
    IAug3 92.3 92.7 93.2 93.2 79.2 62.9 93.0 91.8 91.6 91.9 92.5 92.7 92.9
    IAug4 95.6 95.9 96.2 96.6 81.6 64.8 96.3 95.4 95.3 96.4 95.5 96.1 96.4
    IAug5 95.7 96.2 96.0 96.4 81.0 64.8 96.1 95.3 95.6 96.2 96.0 96.0 97.0
    IAug6 94.2 94.4 93.9 93.5 84.8 72.3 94.3 93.8 93.6 94.0 94.7 95.3 94.8
    IAug7 94.2 94.7 94.8 94.1 81.8 62.3 94.4 93.9 93.2 95.8 95.4 94.5 95.9
    IAug8 94.4 94.8 94.4 94.1 77.1 61.1 95.2 94.1 94.8 93.3 93.3 94.7 94.3
    IAug9 94.6 95.2 93.9 94.8 83.7 64.9 94.9 95.5 95.1 94.2 94.1 94.5 94.7
    IAug10 94.6 95.6 95.2 95.5 83.5 63.4 94.9 94.5 96.4 95.3 95.2 95.2 95.4
    IAug11 95.6 95.1 95.6 94.1 82.1 72.0 95.2 94.8 95.1 95.6 95.1 95.2 96.3
    IAug12 95.1 95.4 95.4 95.8 81.5 71.5 95.2 95.2 95.6 94.3 96.3 95.1 95.9
    """
)
TABLE_5 = _rows(
    """
    IAug0 84.8 85.9 84.6 84.8 73.4 76.4 85.5 84.1 85.4 85.2 84.1 85.4 85.5
    IAug1 66.3 72.0 69.9 68.9 49.1 48.0 66.1 65.8 66.4 64.7 66.0 66.2 66.3
    IAug2 83.8 84.3 85.4 84.5 73.5 74.6 84.7 83.9 84.0 82.7 83.3 84.2 83.9
    IAug3 81.8 82.8 82.6 84.0 71.5 74.2 82.7 82.2 81.8 82.5 81.9 82.1 83.2
    IAug4 84.8 85.0 84.3 85.2 72.6 72.7 84.9 84.2 83.6 83.7 84.3 83.3 84.6
    IAug5 84.3 84.3 83.9 84.2 71.6 74.4 85.0 84.0 83.4 84.4 83.9 84.5 84.9
    IAug6 84.6 83.3 84.6 84.9 71.6 76.9 84.2 84.0 83.8 84.3 83.7 84.5 84.0
    IAug7 83.9 84.4 83.3 85.1 70.3 72.6 84.7 84.8 84.1 84.4 84.6 84.7 86.8
    IAug8 82.6 84.1 83.1 83.8 69.5 75.4 85.3 85.2 84.8 82.7 82.8 84.2 83.1
    IAug9 84.7 84.0 84.2 85.2 74.8 76.0 85.0 84.7 83.7 84.8 83.9 84.2 84.8
    IAug10 84.6 84.2 83.2 83.8 72.3 74.8 84.3 83.7 84.0 84.3 83.5 83.7 83.9
    IAug11 85.7 84.2 84.4 84.6 72.8 74.6 85.6 85.5 84.7 84.6 84.6 84.7 84.8
    IAug12 84.3 84.4 84.3 85.0 73.8 75.8 84.9 84.4 83.9 84.3 84.1 84.7 84.5
    """
)
TABLE_6 = _rows(
    """
    Aug0 95.9 96.7 95.8 96.4 83.2 65.7 95.8 95.3 96.1 96.4 96.1 96.0 96.6 96.7
    Aug1 85.7 86.7 87.5 88.4 78.2 54.2 86.5 84.1 84.3 87.1 87.7 83.4 87.1 91.4
    Aug2 66.9 71.9 72.0 70.6 39.9 48.1 71.7 70.4 71.5 65.0 67.5 66.4 67.3 77.5
    Aug3 73.7 73.9 73.9 72.1 46.3 41.4 72.7 69.4 70.1 75.3 68.1 71.8 73.2 77.4
    Aug4 69.5 73.9 69.2 68.6 44.2 44.3 67.7 66.8 66.1 67.1 66.6 69.8 66.8 73.0
    Aug5 51.0 57.6 54.4 55.8 38.6 37.8 54.8 54.3 53.9 54.8 55.2 62.2 56.2 69.4
    """
)
TABLE_7 = _rows(
    """
    Aug0 84.8 85.9 84.6 84.8 73.4 76.4 85.5 84.1 85.4 85.2 84.1 85.4 85.5 86.3
    Aug1 77.3 78.5 78.0 79.8 65.6 68.5 78.5 77.4 77.7 78.7 79.6 77.9 79.4 82.6
    Aug2 60.1 61.8 60.1 63.8 41.1 47.2 63.0 60.9 61.9 59.5 58.3 60.7 59.6 66.7
    Aug3 58.0 59.8 58.2 57.8 43.5 41.2 58.0 59.8 58.8 60.0 57.7 59.7 57.1 61.4
    Aug4 59.4 60.3 60.5 59.1 40.8 39.2 59.8 60.1 58.7 60.1 58.1 59.8 60.1 63.9
    Aug5 50.8 54.6 53.1 52.5 36.6 34.6 53.8 54.1 53.3 53.5 52.6 57.8 52.3 60.4
    """
)
TABLE_9 = _top(
    """
    Aug0 011001000101 0.02
    Aug0 011000000001 0.06
    Aug0 010001000001 0.06
    Aug0 011001001100 0.02
    Aug0 001000000000 0.24
    Aug1 001000001001 0.09
    Aug1 011000001100 0.04
    Aug1 011000000100 0.04
    Aug1 001000001000 0.09
    Aug1 011000000100 0.04
    Aug2 011000110000 0.04
    Aug2 011001100000 0.04
    Aug2 011000010000 0.04
    Aug2 011001010000 0.04
    Aug2 000000110000 0.18
    Aug3 100001011010 0.018
    Aug3 100001111000 0.018
    Aug3 100001011000 0.018
    Aug3 100001011001 0.018
    Aug3 100001010001 0.018
    Aug4 100001000010 0.02
    Aug4 100000000011 0.02
    Aug4 100000000010 0.03
    Aug4 011000000011 0.02
    Aug4 101001010001 0.01
    Aug5 100001101101 0.018
    Aug5 100001101100 0.018
    Aug5 100000010101 0.018
    Aug5 100000101110 0.018
    Aug5 100001101000 0.018
    """
)
TABLE_10 = _top(
    """
    Aug0 011000000000 0.12
    Aug0 100000000000 0.12
    Aug0 001000000010 0.12
    Aug0 110000000000 0.06
    Aug0 111000000000 0.06
    Aug1 001000000001 0.12
    Aug1 000001001101 0.09
    Aug1 000001000101 0.09
    Aug1 000001000100 0.09
    Aug1 000001001100 0.09
    Aug2 010001000000 0.12
    Aug2 010000010000 0.09
    Aug2 010001010000 0.09
    Aug2 010000100000 0.09
    Aug2 111000000000 0.06
    Aug3 000000011000 0.15
    Aug3 000000110101 0.06
    Aug3 000000101001 0.06
    Aug3 000001011000 0.06
    Aug3 000000011100 0.06
    Aug4 101000000000 0.06
    Aug4 100000000000 0.12
    Aug4 100000000010 0.03
    Aug4 100001000000 0.03
    Aug4 100000000001 0.03
    Aug5 110000000011 0.015
    Aug5 101001000011 0.015
    Aug5 101001000010 0.015
    Aug5 011001111011 0.018
    Aug5 011001110011 0.018
    """
)
