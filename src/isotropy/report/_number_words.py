"""Numbers as people write them."""

from __future__ import annotations

import math

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(share: float) -> str:
    """A share in percent, with two digits."""
    return f"{float(f'{share * 100:.2g}'):g} %".replace("-", "\N{MINUS SIGN}")


def short_number(number: float) -> str:
    """Two digits or a whole number, and a power of ten where it is far from one."""
    if number == math.inf:
        return "∞"
    if 99.5 <= number < 1e7 and not isinstance(number, int):
        number = int(float(f"{number:.2g}"))
    if not 0 < number < math.inf or 1e-3 <= number < 1e7:
        return f"{number:,}" if isinstance(number, int) else f"{number:.2g}"
    size = math.log10(number)  # of whole numbers beyond any float as well
    power = math.floor(size + 1 - math.log10(9.95))  # 9.96 is 1.0 × 10¹
    return f"{10 ** (size - power):.1f} × 10{str(power).translate(_RAISED)}"


def three_digits(value: float) -> str:
    """Three digits, with a true minus sign."""
    return f"{value:.3g}".replace("-", "−")
