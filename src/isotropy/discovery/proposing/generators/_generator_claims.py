"""From the algebras that a search found to claims: names, actions on rows, and ``Symmetry``."""

from __future__ import annotations

import re
from functools import reduce
from operator import add

import numpy as np
import torch
from scipy.sparse.csgraph import connected_components

from isotropy.discovery.claims._generator_claim import GeneratorClaim
from isotropy.discovery.proposing.generators._algebras import ClassResult
from isotropy.discovery.proposing.generators._charts import Array, combination_text
from isotropy.discovery.proposing.generators._generator_search import GeneratorSearch, column_names
from isotropy.discovery.proposing.generators._group_parts import (
    Translations,
    recognised,
    scaling_in,
    translations_in,
)
from isotropy.discovery.proposing.generators._snap import SnappedAlgebra
from isotropy.discovery.reading._task_data import TaskData
from isotropy.groups import Group, embed, orthonormal_span, parse_group
from isotropy.reps import Rep, Scalar, Symmetry, V

_COUNTS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def claims_of(search: GeneratorSearch, data: TaskData) -> list[GeneratorClaim]:
    """What a search claims, the largest algebras first: exact ones, an approximate one, shifts."""
    claims = [_algebra_claim(result, search, data) for result in search.candidates]
    several = len(search.combinations) > 1 and not search.fit.is_linear
    if several and not any(_moves_along(c, search.along) for c in claims):
        claims.append(_translation_claim(search, data))
    return claims


def _moves_along(claim: GeneratorClaim, along: Array) -> bool:
    """Whether the translations in a claim are already all of these."""
    still = np.abs(claim.rows[:, :, :-1]).max(axis=(1, 2), initial=0.0) < 1e-9
    shifts = claim.rows[still][:, :, -1]
    missed = along - np.linalg.lstsq(shifts.T, along.T)[0].T @ shifts if len(shifts) else along
    return bool(np.abs(missed).max(initial=0.0) < 1e-6 * np.abs(along).max())


def _algebra_claim(result: ClassResult, search: GeneratorSearch, data: TaskData) -> GeneratorClaim:
    found, chart = result.snapped, result.chart
    assert found is not None
    names, outputs = column_names(data), _outputs(data)
    n, d, k = len(names), len(chart.scale), len(chart.blocks)
    rows, generators = result.on_rows(), found.generators
    # about a point it is linear in what is left when that is subtracted; else it has translations
    centred = result.affine and found.centre is not None and not _count(found.translations)
    homogeneous = result.affine and not centred
    about = np.zeros(d) if found.centre is None or homogeneous else found.centre
    centre = np.zeros(n)
    base = _group(found.expression, found.change, generators)
    if centred:
        generators = generators[:, :d, :d]
        base = recognised(Group(algebra=list(torch.as_tensor(generators))))
    rep_in: Rep
    linear, linear_rep = generators[:, :d, :d], V
    if chart.columns is None and homogeneous:
        linear = rows[:, :, :-1]
        generators = np.pad(rows, ((0, 0), (0, 1), (0, 0)))
        base, rep_in = Group(algebra=list(torch.as_tensor(generators))), V
    elif chart.columns is None:
        lift = chart.lift * (1.0 / chart.scale)
        frame = np.hstack([lift, _others(search, n)])
        base = (
            embed(base, n).conjugate(torch.as_tensor(frame))
            if n > d
            else (base.conjugate(torch.as_tensor(frame)))
        )
        rep_in = V
        centre = lift @ about
    else:
        for block in chart.columns:
            centre[list(block)] = about
        rep_in = _placed(chart.columns, n, homogeneous=homogeneous)
        linear_rep = _placed(chart.columns, n, homogeneous=False)
    rep_out: Rep = outputs * Scalar
    if result.output == "vector":
        rep_out = (outputs // d) * V
        if not np.array_equal(search.output_order, np.arange(outputs)):
            rep_out = rep_out.on(search.output_order.tolist(), outputs)
    elif result.output == "matrix":
        rep_out = V * V
    parts = [
        found.title,
        _detail(found, chart.names),
        _acting_on(chart.names, k, d, chart.columns is None),
    ]
    if result.output != "invariant":
        parts.append(f"y moving as a {result.output}")
    return GeneratorClaim(
        name=", ".join(part for part in parts if part),
        action=result.action,
        rows=rows,
        outputs=_reordered(result.on_outputs(outputs), search.output_order),
        generators=generators,
        metric=_metric(found.symmetric_forms[:, :d, :d], d),
        coordinates=chart.names,
        symmetry=Symmetry(base, rep_in, rep_out),
        homogeneous=homogeneous,
        centre=centre,
        result=result,
        exact=result.exact,
        data=data,
        looked_at=search.results,
        fitted=search.fit.kind,
        scaling=scaling_in(result, linear, linear_rep, rep_out),
        translations=(
            translations_in(rows, linear, linear_rep, rep_out)
            if homogeneous and result.output == "invariant"
            else None
        ),
    )


def _outputs(data: TaskData) -> int:
    return data.arrangement.outputs * data.arrangement.output_channels


def _translation_claim(search: GeneratorSearch, data: TaskData) -> GeneratorClaim:
    names, outputs = column_names(data), _outputs(data)
    n, along = len(names), search.along
    rows = np.zeros((len(along), n, n + 1))
    rows[:, :, n] = along
    generators = np.zeros((len(along), n + 1, n + 1))
    generators[:, :n, n] = along
    wide = "R" if len(along) == 1 else f"R{len(along)}".translate(_RAISED)
    texts = ", ".join(combination_text(row, names) for row in search.combinations)
    return GeneratorClaim(
        name=f"translations {wide}, y depends on {texts} alone",
        action="; ".join(_direction(row, names) for row in along),
        rows=rows,
        outputs=None,
        generators=generators,
        metric=None,
        coordinates=names,
        symmetry=Symmetry(Group(algebra=list(torch.as_tensor(generators))), V, outputs * Scalar),
        homogeneous=True,
        centre=np.zeros(n),
        result=None,
        data=data,
        looked_at=search.results,
        fitted=search.fit.kind,
        translations=Translations(orthonormal_span(along, 0.0), None),
    )


def _count(rows: Array | None) -> int:
    return 0 if rows is None else len(rows)


def _reordered(outputs: Array | None, order: Array) -> Array | None:
    """Actions on outputs, from the order in which vectors are whole to that of the data."""
    if outputs is None:
        return None
    placed = np.zeros_like(outputs)
    placed[:, order[:, None], order] = outputs
    return placed


def _direction(row: Array, names: tuple[str, ...]) -> str:
    """A translation in words: "adding t·(1, −1) to (E1, E2)"."""
    at = np.flatnonzero(np.abs(row) > 1e-6 * np.abs(row).max())
    steps = ", ".join(f"{row[i]:.3g}".replace("-", "−") for i in at)
    return f"adding t·({steps}) to ({', '.join(names[i] for i in at)})"


def _group(expression: str | None, change: Array, generators: Array) -> Group:
    """The catalogue's group in the user's coordinates, else one of its own."""
    if expression is None or np.iscomplexobj(change):
        return Group(algebra=list(torch.as_tensor(generators)))
    group = parse_group(expression)
    if np.array_equal(change, np.eye(len(change))):
        return group
    return group.conjugate(torch.as_tensor(np.ascontiguousarray(change)))


def _others(search: GeneratorSearch, n: int) -> Array:
    """Directions of the input that do not matter, as columns."""
    axes = np.eye(n)[:, list(search.ignored)]
    return np.hstack([search.along.T, axes])


def _placed(columns: tuple[tuple[int, ...], ...], n: int, *, homogeneous: bool) -> Rep:
    """K vectors on their columns, scalars on the others.

    With translations each block has a column of ones behind it, and the other columns follow.
    """
    moved = [c for block in columns for c in block]
    others = [c for c in range(n) if c not in moved]
    vectors: list[Rep] = [len(columns) * V]
    scalars: list[Rep] = [len(others) * Scalar] if others else []
    if homogeneous or [*moved, *others] == list(range(n)):
        return reduce(add, [*vectors, *scalars])
    if [*others, *moved] == list(range(n)):
        return reduce(add, [*scalars, *vectors])
    return reduce(add, [*vectors, *scalars]).on([*moved, *others], n)


def _acting_on(names: tuple[str, ...], blocks: int, width: int, combined: bool) -> str:
    word = _COUNTS[width] if width < len(_COUNTS) else str(width)
    listed = ", ".join(names)
    if blocks == 1:
        return f"acting on ({listed})"
    plain = combined or all(name.startswith("x") and name[1:].isdigit() for name in names)
    return f"acting on {blocks} {word}-vectors" + ("" if plain else f" ({listed})")


def _detail(found: SnappedAlgebra, names: tuple[str, ...]) -> str:
    """How a group acts, in the user's coordinates where it moves some of them apart from others."""
    linear = found.generators[:, : len(names), : len(names)]
    touched: Array = np.abs(linear).max(0, initial=0.0) > 1e-9
    count, labels = connected_components(touched | touched.T, directed=False)
    spaces = [np.flatnonzero(labels == part) for part in range(count)]
    moved = [space for space in spaces if touched[space].any()]
    fixed = [names[space[0]] for space in spaces if not touched[space].any()]
    prose = re.match(r"\w+\([\d,R]+\)|scalings", found.detail) is not None
    if not prose and not (fixed and len(moved) == 1 and not found.detail):
        return found.detail
    words = []
    if len(names) == 3 and len(fixed) == 1 and found.title == "SO(2)":
        words.append(f"about the {fixed[0]} axis")
    elif fixed or len(moved) > 1:
        listed = ["(" + ", ".join(names[i] for i in space) + ")" for space in moved]
        words.append(f"moving {' and '.join(listed)}")
    for rest in ("in a hidden basis", "about ("):
        if (at := found.detail.find(rest)) >= 0:
            words.append(found.detail[at:])
            break
    return ", ".join(words)


def _metric(forms: Array, d: int) -> Array | None:
    """The invariant form, where there is one up to a factor and it is not degenerate."""
    if len(forms) != 1 or forms.shape[1:] != (d, d):
        return None
    form: Array = forms[0]
    values = np.abs(np.linalg.eigvalsh(form))
    if values.min() <= 1e-6 * values.max():
        return None
    return form if np.trace(form) >= 0 or np.linalg.eigvalsh(form).max() > 0 else -form
