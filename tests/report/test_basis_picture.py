"""Pictures of bases: the right colours in the right places."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from PIL import Image

from isotropy import Pseudoscalar, Rep, Scalar, T, V, equivariant_basis
from isotropy.groups import SO, S, Z
from isotropy.report import plot_basis
from isotropy.report._basis_picture import colour_classes, matrix_shape


@pytest.mark.parametrize(
    ("rep", "shape"),
    [
        (V(Z(5)), (1, 5)),
        ((V >> V)(Z(5)), (5, 5)),
        ((V >> T(2))(Z(5)), (25, 5)),
        ((T(2) >> V)(Z(5)), (5, 25)),
        (T(3)(Z(5)), (25, 5)),
        (T(4)(Z(3)), (9, 9)),
        ((V + Scalar)(Z(5)), (1, 6)),
        ((V >> (V + Scalar))(Z(5)), (6, 5)),
        (Scalar, (1, 1)),
    ],
    ids=str,
)
def test_shapes(rep: Rep, shape: tuple[int, int]) -> None:
    assert matrix_shape(rep) == shape


def test_colours_of_dense_and_orbit_bases_agree() -> None:
    for rep in (T(3)(S(3)), (T(2) * Pseudoscalar)(S(3)), (V >> (V + Scalar))(Z(4))):
        fast, fast_sign = colour_classes(equivariant_basis(rep))
        slow, slow_sign = colour_classes(equivariant_basis(rep, method="dense"))
        same_fast = (fast[:, None] == fast) & (fast >= 0)[:, None]
        same_slow = (slow[:, None] == slow) & (slow >= 0)[:, None]
        assert torch.equal(same_fast, same_slow)
        relative = fast_sign[:, None] * fast_sign == slow_sign[:, None] * slow_sign
        assert bool(relative[same_fast].all())


def test_colours_of_the_levi_civita_symbol() -> None:
    classes, signs = colour_classes(equivariant_basis(T(3)(SO(3))))
    assert sorted(set(classes.tolist())) == [-1, 0]
    assert int((classes == 0).sum()) == 6
    assert int(signs[classes == 0].sum()) == 0


def test_a_picture_is_written(tmp_path: Path) -> None:
    path = plot_basis(equivariant_basis((V >> V)(Z(4))), tmp_path / "basis.png")
    with Image.open(path) as image:
        assert image.format == "PNG"
        colours = image.convert("RGB").getcolors(10**6)
    assert colours is not None
    # four bands of a circulant matrix, each a quarter of the square
    large = [count for count, colour in colours if count > 20_000 and colour != (255, 255, 255)]
    assert len(large) == 4
    assert max(large) < 1.05 * min(large)
    assert [p.name for p in tmp_path.iterdir()] == ["basis.png"]


def test_a_basis_of_rank_zero_and_several_at_once(tmp_path: Path) -> None:
    empty = equivariant_basis(V(SO(3)))
    path = plot_basis(
        [("empty", empty), ("full", equivariant_basis(T(2)(SO(3))))], tmp_path / "two.png"
    )
    assert path.stat().st_size > 0


def test_bad_input(tmp_path: Path) -> None:
    basis = equivariant_basis(V(Z(3)))
    with pytest.raises(ValueError, match=r"ends in \.png, got"):
        plot_basis(basis, tmp_path / "basis.jpg")
    with pytest.raises(ValueError, match="folder"):
        plot_basis(basis, tmp_path / "missing" / "basis.png")
    with pytest.raises(ValueError, match="at most 25000000 entries to draw"):
        matrix_shape(T(8)(Z(9)))
    assert list(tmp_path.iterdir()) == []
