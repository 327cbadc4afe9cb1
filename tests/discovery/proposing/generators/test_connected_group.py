"""Membership in the connected group of a Lie algebra, against the textbook."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import expm

from isotropy.discovery.proposing.generators._group_parts import in_connected_group
from isotropy.groups import orthonormal_span, parse_group


def algebra_of(expression: str) -> np.ndarray:
    group = parse_group(expression)
    return np.array([a.dense().numpy() for a in group.algebra]).reshape(-1, group.d, group.d)


@pytest.mark.parametrize("seed", range(3))
def test_membership_in_the_lorentz_group(seed: int) -> None:
    rng = np.random.default_rng(seed)
    basis = orthonormal_span(algebra_of("SO13p"), 1e-9)
    g = np.eye(4)
    for _ in range(3):
        g = expm(np.tensordot(rng.standard_normal(6), basis, 1)) @ g
    assert in_connected_group(g, basis)
    for signs in ([-1, 1, 1, 1], [1, -1, 1, 1], [-1, -1, 1, 1], [-1, -1, -1, -1]):
        assert not in_connected_group(np.diag(np.array(signs, dtype=float)) @ g, basis)


@pytest.mark.parametrize(
    ("expression", "inside"),
    [("SO(4)", True), ("SOpq(2,2)", True), ("Sp(2)", True), ("SOpq(1,3)", False), ("SO(5)", False)],
)
def test_minus_one(expression: str, inside: bool) -> None:
    basis = orthonormal_span(algebra_of(expression), 1e-9)
    assert in_connected_group(-np.eye(basis.shape[1]), basis) is inside
