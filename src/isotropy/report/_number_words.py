"""Numbers as people write them."""

from __future__ import annotations

import math

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
