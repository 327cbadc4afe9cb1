"""An exact Lie algebra in the user's coordinates, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import combinations

import numpy as np

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._closure import (
    ROUNDED,
    Array,
    closure_error,
    invariant_forms,
    largest_sine,
    moved_span,
    rows_of,
)
from isotropy.discovery.proposing.generators._simple_numbers import (
    echelon,
    heights,
    rounded,
    simplest_basis,
)
from isotropy.discovery.proposing.generators._toral_algebras import has_simple_weights
from isotropy.groups import Group, Identity, identify, orthonormal_span, parse_group


def identity_of(algebra: Array) -> Identity:
    """What an exact, nonempty algebra is."""
    return identify(Group(algebra=list(algebra)))


def rounded_at_once(target: Array, frame: Array, error: float) -> Array | None:
    """The simplest algebra of small fractions within the error of an estimate.

    Brackets make closure hard to meet by accident, but commuting matrices close whatever they are:
    of those the weights must be simple as well.

    Args:
        target: An orthonormal basis of the estimate, of shape (D, d, d).
        frame: F, such that A in the user's coordinates is F A F⁻¹.
        error: The greatest sine of a principal angle.

    Returns:
        An orthonormal basis in the coordinates of the estimate, or None.
    """
    highest = ProposingThresholds.now().rounded_at_once
    for height in heights(error):
        if height > highest:
            return None
        found = _rounded(target, target, frame, height, error)
        if found is not None and has_simple_weights(_centre(found)):
            return found
    return None


def nicest(algebra: Array, target: Array, frame: Array, error: float) -> tuple[Array, bool]:
    """The simplest algebra of the same kind within the error, and whether its numbers are simple.

    Args:
        algebra: An orthonormal basis of an exact algebra near the estimate.
        target: An orthonormal basis of the estimate.
        frame: F, such that A in the user's coordinates is F A F⁻¹.
        error: The greatest sine of a principal angle from the estimate.
    """
    kind = identity_of(algebra).name
    for height in heights(error):
        found = _rounded(algebra, target, frame, height, error)
        if found is not None and identity_of(found).name == kind:
            return found, True
    found = _with_diagonal_metric(algebra, frame)
    if found is None or largest_sine(target, found) > error:
        return algebra, False
    return (found if identity_of(found).name == kind else algebra), False


def _rounded(
    algebra: Array, target: Array, frame: Array, height: int, error: float
) -> Array | None:
    back = np.linalg.inv(frame)
    rows = rows_of(frame @ algebra @ back)
    sizes = np.abs(np.diag(frame))
    simple = rounded(echelon(rows, (sizes[None] / sizes[:, None]).ravel()), height)
    found = orthonormal_span(back @ simple.reshape(algebra.shape) @ frame, 0.0)
    near = largest_sine(target, found) <= error
    return found if near and closure_error(found) < ROUNDED else None


def _centre(algebra: Array) -> Array:
    """A basis of what commutes with all of the algebra, possibly empty."""
    commutators = algebra[:, None] @ algebra[None] - algebra[None] @ algebra[:, None]
    values, vectors = np.linalg.eigh(rows_of(commutators) @ rows_of(commutators).T)
    centre: Array = np.tensordot(vectors.T[values < 1e-12], algebra, 1)
    return centre


def _with_diagonal_metric(algebra: Array, frame: Array) -> Array | None:
    """so(p,q) of the diagonal of the invariant metric in the user's coordinates."""
    count, d, _ = algebra.shape
    if d < 2 or count != d * (d - 1) // 2:
        return None
    forms = invariant_forms(moved_span(frame, algebra), 1)
    if len(forms) != 1 or (np.diag(forms[0]) == 0.0).any():
        return None
    generators = metric_rotations(np.diag(forms[0]))
    back = np.linalg.inv(frame)
    return orthonormal_span(back @ generators @ frame, 0.0)


def metric_rotations(metric: Iterable[float]) -> Array:
    """A basis of the A with Aᵀ M + M A = 0 for M = diag(metric)."""
    sizes = list(metric)
    matrices = []
    for i, j in combinations(range(len(sizes)), 2):
        matrix = np.zeros((len(sizes), len(sizes)))
        matrix[j, i], matrix[i, j] = sizes[i], -sizes[j]
        matrices.append(matrix / max(abs(sizes[i]), abs(sizes[j])))
    return np.array(matrices)


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
