"""An exact Lie algebra in the user's coordinates, in words."""

from __future__ import annotations

import re

import numpy as np

from isotropy.discovery.proposing.generators._closure import (
    ROUNDED,
    Array,
    invariant_forms,
    largest_sine,
    rows_of,
)
from isotropy.discovery.proposing.generators._simple_numbers import simplest_basis
from isotropy.groups import Identity, orthonormal_span, parse_group

_HIDDEN = "in a hidden basis"
_TITLES = {"SO13p": "SO⁺(1,3)", "SO11p": "SO⁺(1,1)"}


def superscript(number: int) -> str:
    """The number in raised digits.

    Example:
        >>> superscript(13)
        '¹³'
    """
    return str(number).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))


def group_title(expression: str) -> str:
    """A catalogue expression in prose, the spaces acted on left out.

    Example:
        >>> group_title("SO(3)*Scaling(1)"), group_title("Sp(2)"), group_title("SO13p+Trivial(1)")
        ('SO(3) × scalings', 'Sp(4,R)', 'SO⁺(1,3)')
        >>> group_title("SE(3)")
        'SO(3) ⋉ R³'
    """
    parts = [_factor(name) for name in re.findall(r"[A-Za-z]\w*(?:\([\d,]*\))?", expression)]
    return " × ".join(part for part in parts if part) or "the trivial group"


def _factor(name: str) -> str:
    if name in _TITLES:
        return _TITLES[name]
    family, sizes = name.rstrip(")").split("(")
    match family:
        case "Trivial":
            return ""
        case "Scaling":
            return "scalings"
        case "SOpq":
            return f"SO⁺({sizes})"
        case "Sp":
            return f"Sp({2 * int(sizes)},R)"
        case "SL" | "GL":
            return f"{family}({sizes},R)"
        case "SE":
            return f"SO({sizes}) ⋉ R{superscript(int(sizes))}" if int(sizes) > 1 else "shears"
    return name


def title_and_detail(generators: Array, identity: Identity, is_simple: bool) -> tuple[str, str]:
    """The group in prose, and how it acts."""
    if identity.group is None:
        return _unnamed(generators, identity.name, is_simple)
    expression = str(identity.group)
    title = group_title(expression)
    compound = bool(re.search(r"[+*]", expression))
    if re.match(r"SOpq|SO1", expression) and not compound:
        return title, _metric(invariant_forms(generators, 1)[0])
    action = identity.name if compound else ""
    if in_standard_position(generators, expression):
        return title, action
    if re.match(r"SO\(", expression) and not compound:
        return title, _metric(invariant_forms(generators, 1)[0])
    if expression.startswith("Sp(") and not action:
        action = _pairs(invariant_forms(generators, -1)[0])
    words = [action] if is_simple else [action, _HIDDEN]
    return title, ", ".join(word for word in words if word)


def in_standard_position(generators: Array, expression: str) -> bool:
    """Whether the generators span the catalogue's algebra itself."""
    standard = catalogue_algebra(expression)
    if np.iscomplexobj(standard) or standard.shape != generators.shape:
        return False
    spans = [orthonormal_span(a, 0.0) for a in (standard, generators)]
    return largest_sine(spans[0], spans[1]) < ROUNDED


def catalogue_algebra(expression: str) -> Array:
    """The catalogue's basis of the Lie algebra of a group, of shape (D, d, d)."""
    group = parse_group(expression)
    matrices = [a.dense().numpy() for a in group.algebra]
    return np.array(matrices) if matrices else np.zeros((0, group.d, group.d))


def _unnamed(generators: Array, name: str, is_simple: bool) -> tuple[str, str]:
    hidden = "" if is_simple else _HIDDEN
    complex_name = re.fullmatch(r"(su|u)\((\d+)\), (acting on .*)", name)
    if complex_name:
        title = f"{complex_name[1].upper()}({complex_name[2]})"
        return title, ", ".join(word for word in (complex_name[3], hidden) if word)
    diagonal = np.diagonal(generators, axis1=1, axis2=2)
    off = generators - diagonal[:, :, None] * np.eye(generators.shape[1])
    if np.abs(off).max() < 1e-12:
        several = [", ".join(map(_number, _whole_numbers(weights))) for weights in diagonal]
        return "scalings", f"with weights {' and '.join(f'({weights})' for weights in several)}"
    described = name.partition(": ")[2] or name
    return f"a Lie group of dimension {len(generators)}", ", ".join(
        word for word in (described, hidden) if word
    )


def _metric(form: Array) -> str:
    scaled = form / np.abs(form).max()
    sizes = np.diag(scaled)
    if np.abs(scaled - np.diag(sizes)).max() > 1e-9:
        return _HIDDEN
    positive = int((sizes > 0).sum())
    negative = len(sizes) - positive
    # all signs +, else no more + than -, as the catalogue writes so(p,q)
    if not positive or 0 < negative < positive or (negative == positive and sizes[0] < 0):
        sizes = -sizes
    if np.allclose(np.abs(sizes), 1.0, atol=1e-9):
        return f"metric ({','.join('+' if size > 0 else '−' for size in sizes)})"
    return f"metric diag({', '.join(map(_number, _whole_numbers(sizes)))})"


def _pairs(form: Array) -> str:
    """Which coordinates a symplectic form of one entry in each row pairs."""
    scaled = np.abs(form / np.abs(form).max())
    ones = np.isclose(scaled, 1.0, atol=1e-9)
    if not np.allclose(scaled, ones, atol=1e-9) or (ones.sum(1) != 1).any():
        return ""
    pairs = [(i, int(row.argmax())) for i, row in enumerate(ones) if row.argmax() > i]
    return f"symplectic form pairs coordinates {', '.join(f'{i} and {j}' for i, j in pairs)}"


def _whole_numbers(values: Array) -> Array:
    """The values times the factor that makes the smallest nonzero one ±1."""
    sizes = np.abs(values[np.abs(values) > 1e-9])
    return np.asarray(values / sizes.min())


def _number(value: float) -> str:
    return f"{value:.4g}".replace("-", "−") if abs(value) > 1e-12 else "0"


def simple_forms(generators: Array, sign: int) -> Array:
    """A basis of the invariant symmetric or antisymmetric forms, of simple numbers if it can be."""
    forms = invariant_forms(generators, sign)
    basis: Array = simplest_basis(rows_of(forms)).reshape(forms.shape)
    return basis
