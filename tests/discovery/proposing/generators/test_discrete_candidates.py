"""Components beyond the connected one: which are proposed, and what they do to rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from discovery.pieces import DiscreteCandidate, candidates_for_rows, coset_candidates
from isotropy.groups import orthonormal_span, parse_group


def algebra_of(expression: str) -> np.ndarray:
    group = parse_group(expression)
    return np.array([a.dense().numpy() for a in group.algebra]).reshape(-1, group.d, group.d)


def hidden(d: int) -> np.ndarray:
    return np.eye(d) + 0.3 * np.random.default_rng(0).standard_normal((d, d))


# from the textbook: O(n) has two components, O(p,q) four, SL(n,R) is normalised by reflections;
# −1 is connected in SO(4), SL(2), Sp(4) and SU(2), and is not in SU(3)
@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("SO(2)", ["reflection"]),
        ("SO(3)", ["reflection"]),
        ("SO(4)", ["reflection"]),
        ("SO13p", ["parity", "time reversal", "both"]),
        ("SOpq(1,2)", ["parity", "time reversal", "both"]),
        ("SOpq(2,2)", ["reversal among the 2 − axes", "reversal among the 2 + axes", "both"]),
        ("Sp(2)", ["reversal of momenta"]),
        ("SL(2)", ["reflection"]),
        ("SL(3)", ["reflection"]),
        ("GL(2)", ["reflection"]),
        ("Scaling(3)", ["reversal"]),
        ("SU(2)", []),
        ("SU(3)", ["reversal"]),
        ("U(2)", []),
        ("SO(3)*Scaling(1)", ["reflection"]),
        ("SO(3)*Trivial(2)", ["reflection", "reversal of copy 1", "reversal of copy 2"]),
    ],
)
def test_candidates_in_hidden_coordinates(expression: str, names: list[str]) -> None:
    algebra = algebra_of(expression)
    frame = hidden(algebra.shape[1])
    moved = frame @ algebra @ np.linalg.inv(frame)
    found = coset_candidates(moved, expression, frame)
    assert [c.name for c in found] == names
    span = orthonormal_span(moved, 1e-9)
    for candidate in found:
        h = candidate.matrix.numpy()
        carried = orthonormal_span(h @ moved @ np.linalg.inv(h), 1e-9)
        assert len(orthonormal_span(np.concatenate([span, carried]), 1e-6)) == len(span)


def test_parity_and_time_reversal_are_what_they_say() -> None:
    frame = hidden(4)
    boosts = frame @ algebra_of("SO13p") @ np.linalg.inv(frame)
    found = {c.name: c.matrix.numpy() for c in coset_candidates(boosts, "SO13p", frame)}
    standard = {name: np.linalg.inv(frame) @ h @ frame for name, h in found.items()}
    np.testing.assert_allclose(standard["parity"], np.diag([1, -1, -1, -1]), atol=1e-9)
    np.testing.assert_allclose(standard["time reversal"], np.diag([-1, 1, 1, 1]), atol=1e-9)
    np.testing.assert_allclose(standard["both"], -np.eye(4), atol=1e-9)


def test_rotations_about_an_axis() -> None:
    found = coset_candidates(algebra_of("SO(2)+Trivial(1)"), "SO(2)+Trivial(1)", np.eye(3))
    plane, across, both = found
    assert plane.name == "reflection in a plane through the axis"
    assert across.name == "reflection in the plane across the axis"
    np.testing.assert_allclose(across.matrix, np.diag([1, 1, -1]))
    assert torch.linalg.det(plane.matrix) == pytest.approx(-1)
    assert plane.matrix[2, 2] == 1
    assert torch.equal(both.matrix, plane.matrix @ across.matrix)


def test_equal_pieces_can_be_swapped() -> None:
    found = coset_candidates(algebra_of("SO(2)+SO(2)"), "SO(2)+SO(2)", np.eye(4))
    swap = next(c for c in found if c.name == "swap of two SO(2)").matrix
    assert (swap @ torch.tensor([1.0, 2.0, 3.0, 4.0]).double()).tolist() == [3.0, 4.0, 1.0, 2.0]
    # without the commutator subgroup's squares: the dihedral group of order 8 has 7 others, of
    # which two are a product of three of the given
    assert len(found) == 6


@pytest.mark.parametrize(("n", "expression", "connected"), [(2, "U(2)", True), (3, "SU(3)", False)])
def test_complex_conjugation_on_real_rows(n: int, expression: str, connected: bool) -> None:
    algebra = algebra_of(expression)
    real = np.block([[algebra.real, -algebra.imag], [algebra.imag, algebra.real]])
    found = coset_candidates(real, None, np.eye(2 * n))
    names = [c.name for c in found]
    assert names[0] == "complex conjugation"
    assert ("reversal" in names) is not connected
    k = found[0].matrix.numpy()
    i = np.block([[np.zeros((n, n)), -np.eye(n)], [np.eye(n), np.zeros((n, n))]])
    np.testing.assert_allclose(k @ i, -i @ k, atol=1e-8)
    np.testing.assert_allclose(k @ k, np.eye(2 * n), atol=1e-8)


def test_unnamed_algebra_has_reversals_of_its_pieces() -> None:
    # x turns once while y turns twice
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    algebra = np.block([[turn, np.zeros((2, 2))], [np.zeros((2, 2)), 2 * turn]])[None]
    found = coset_candidates(algebra, None, np.eye(4))
    assert len(found) >= 2
    for candidate in found:
        h = candidate.matrix.numpy()
        carried = h @ algebra[0] @ np.linalg.inv(h)
        assert min(np.abs(carried - s * algebra[0]).max() for s in (1, -1)) < 1e-6


def test_homogeneous_candidates_are_affine() -> None:
    algebra = algebra_of("SE(2)")
    (flip,) = coset_candidates(algebra, "SE(2)", np.eye(3), homogeneous=True)
    assert flip.name == "reflection"
    turn = algebra_of("SO(2)+Trivial(1)")
    kept = coset_candidates(turn, "SO(2)+Trivial(1)", np.eye(3), homogeneous=True)
    assert [c.matrix[2].tolist() for c in kept] == [[0.0, 0.0, 1.0]]


def test_candidates_errors() -> None:
    with pytest.raises(ValueError, match=r"an algebra of shape \(D, d, d\), got \(2, 3\)"):
        coset_candidates(np.zeros((2, 3)), None, np.eye(3))
    with pytest.raises(ValueError, match=r"change of basis of shape \(2, 2\), got \(3, 3\)"):
        coset_candidates(algebra_of("SO(2)"), "SO(2)", np.eye(3))
    with pytest.raises(ValueError, match=r"expected a group on dimension 2, got SO\(3\)"):
        coset_candidates(algebra_of("SO(2)"), "SO(3)", np.eye(2))


# --- on rows ------------------------------------------------------------------------------------


def test_rows_move_block_by_block() -> None:
    h = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    moved, swap = candidates_for_rows([DiscreteCandidate("h", h)], [[0, 3], [4, 1]], 5)
    x = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0]).double()
    assert (moved.matrix @ x).tolist() == [8.0, 15.0, 3.0, 3.0, 4.0]
    assert swap.name == "swap of blocks 1 and 2"
    assert (swap.matrix @ x).tolist() == [5.0, 4.0, 3.0, 2.0, 1.0]


def test_affine_rows() -> None:
    h = -torch.tensor([[-1.0, 6.0], [0.0, 1.0]])  # x ↦ 6 − x, up to a factor
    (moved,) = candidates_for_rows([DiscreteCandidate("h", h)], [[1]], 2)
    assert moved.matrix.tolist() == [[1.0, 0.0, 0.0], [0.0, -1.0, 6.0]]


def test_rows_errors() -> None:
    h = DiscreteCandidate("h", torch.eye(2))
    with pytest.raises(ValueError, match=r"expected blocks of one width, got \[\[0\], \[1, 2\]\]"):
        candidates_for_rows([], [[0], [1, 2]], 3)
    with pytest.raises(ValueError, match=r"different columns from 0 to 2, got \[\[0, 1\], \[1, 2"):
        candidates_for_rows([], [[0, 1], [1, 2]], 3)
    with pytest.raises(ValueError, match=r"on blocks of width 3, got shape \(2, 2\)"):
        candidates_for_rows([h], [[0, 1, 2]], 3)
    with pytest.raises(ValueError, match=r"expected affine elements, .* got \[1.0, 1.0\]"):
        candidates_for_rows([DiscreteCandidate("h", torch.ones(2, 2))], [[0]], 2)
