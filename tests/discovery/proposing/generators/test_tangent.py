import numpy as np
import pytest

from discovery.pieces import tangent


def test_tangent_is_what_least_squares_leaves() -> None:
    rng = np.random.default_rng(13)
    jacobian, normals = rng.normal(size=(6, 2, 5)), rng.normal(size=(6, 3, 5))
    normals[0, 2] = 3.0 * normals[0, 0]  # dependent
    normals[1] = 0.0
    normals[:, 1] *= 1e4
    left = tangent(jacobian, normals)
    for rows, across, got in zip(jacobian, normals, left, strict=True):
        unit = across / np.maximum(np.linalg.norm(across, axis=1, keepdims=True), 1e-300)
        fitted, *_ = np.linalg.lstsq(unit.T, rows.T, rcond=1e-9)
        np.testing.assert_allclose(got, rows - (unit.T @ fitted).T, atol=1e-9)
    np.testing.assert_array_equal(tangent(jacobian, normals[:, :0]), jacobian)


def test_shapes_must_match() -> None:
    with pytest.raises(ValueError, match=r"\(N, c, n\), got \(2, 1, 3\) and \(2, 1, 4\)"):
        tangent(np.zeros((2, 1, 3)), np.zeros((2, 1, 4)))
