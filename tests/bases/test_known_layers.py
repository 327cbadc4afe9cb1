"""Thesis section 2.4.3: layers that others derived by hand are what the solver finds."""

from __future__ import annotations

import torch
from torch.nn import functional

from isotropy import Regular, Scalar, T, V, equivariant_basis
from isotropy.bases import Basis
from isotropy.groups import S, Z, p4, p4m


def assert_spans(basis: Basis, layers: torch.Tensor) -> None:
    """The layers (count, size) lie in the basis, and there are no others."""
    torch.testing.assert_close(basis.project(layers), layers)
    assert int(torch.linalg.matrix_rank(layers)) == basis.rank


def matrices(layer: object, inputs: int) -> torch.Tensor:
    """The matrix of a linear function of a flat vector."""
    return torch.stack([layer(e) for e in torch.eye(inputs).double()], -1)  # type: ignore[operator]


def test_convolution_in_one_dimension() -> None:
    n = 7
    filters = torch.eye(n).double()

    def convolution(w: torch.Tensor) -> torch.Tensor:
        def layer(x: torch.Tensor) -> torch.Tensor:
            padded = functional.pad(x[None, None], (0, n - 1), mode="circular")
            return functional.conv1d(padded, w[None, None]).flatten()

        return matrices(layer, n).flatten()

    layers = torch.stack([convolution(w) for w in filters])
    basis = equivariant_basis((V >> V)(Z(n)))
    assert basis.rank == n
    assert_spans(basis, layers)


def test_convolution_in_two_dimensions_with_channels() -> None:
    n, c_in, c_out = 3, 2, 3
    basis = equivariant_basis((c_in * V >> c_out * V)(Z(n) * Z(n)))
    assert basis.rank == c_in * c_out * n**2

    def convolution(w: torch.Tensor) -> torch.Tensor:
        def layer(x: torch.Tensor) -> torch.Tensor:
            image = x.reshape(1, c_in, n, n)
            padded = functional.pad(image, (0, n - 1, 0, n - 1), mode="circular")
            return functional.conv2d(padded, w).flatten()

        return matrices(layer, c_in * n * n).flatten()

    filters = torch.eye(c_in * c_out * n * n).double().reshape(-1, c_out, c_in, n, n)
    assert_spans(basis, torch.stack([convolution(w) for w in filters]))


def test_pooling_is_the_only_invariant_functional() -> None:
    basis = equivariant_basis((V >> Scalar)(Z(5) * Z(5)))
    assert_spans(basis, torch.ones(1, 25).double())


def test_deep_sets() -> None:
    n = 6
    basis = equivariant_basis((V >> V)(S(n)))
    layers = torch.stack([torch.eye(n).flatten(), torch.ones(n * n)]).double()
    assert basis.rank == 2
    assert_spans(basis, layers)


def test_equivariant_graph_layers() -> None:
    """The 15 operations of Maron et al. on adjacency matrices, for n large enough."""
    n = 5
    eye, ones = torch.eye(n).double(), torch.ones(n, n).double()

    def diagonal(a: torch.Tensor) -> torch.Tensor:
        return torch.diag(a.diagonal())

    operations = [
        lambda a: a,
        lambda a: a.T,
        lambda a: diagonal(a),
        lambda a: torch.diag(a.sum(0)),
        lambda a: torch.diag(a.sum(1)),
        lambda a: a.sum() * eye,
        lambda a: a.trace() * eye,
        lambda a: a.sum(0)[:, None] * ones,
        lambda a: a.sum(0)[None, :] * ones,
        lambda a: a.sum(1)[:, None] * ones,
        lambda a: a.sum(1)[None, :] * ones,
        lambda a: a.diagonal()[:, None] * ones,
        lambda a: a.diagonal()[None, :] * ones,
        lambda a: a.sum() * ones,
        lambda a: a.trace() * ones,
    ]
    layers = [matrices(lambda x, op=op: op(x.reshape(n, n)).flatten(), n * n) for op in operations]
    basis = equivariant_basis((T(2) >> T(2))(S(n)))
    assert basis.rank == 15
    assert_spans(basis, torch.stack([layer.flatten() for layer in layers]))


def correlate(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Circular cross-correlation with a filter as large as the image, origin at its centre."""
    n = x.shape[-1]
    c = n // 2
    out = torch.zeros_like(x)
    for i in range(n):
        for j in range(n):
            out = out + w[i, j] * x.roll((c - i, c - j), (0, 1))
    return out


def test_lifting_group_convolution() -> None:
    """Cohen and Welling 2016: correlate with the filter in each of its four orientations."""
    n = 3
    filters = torch.eye(n * n).double().reshape(-1, n, n)

    def lifting(w: torch.Tensor) -> torch.Tensor:
        def layer(x: torch.Tensor) -> torch.Tensor:
            image = x.reshape(n, n)
            return torch.stack([correlate(image, w.rot90(k)) for k in range(4)]).flatten()

        return matrices(layer, n * n).flatten()

    basis = equivariant_basis((V >> Regular)(p4(n)))
    assert basis.rank == n * n
    assert_spans(basis, torch.stack([lifting(w) for w in filters]))


def test_group_convolution() -> None:
    """Turned filters, and a cyclic shift of the orientations that they read."""
    n = 3
    filters = torch.eye(4 * n * n).double().reshape(-1, 4, n, n)

    def convolution(w: torch.Tensor) -> torch.Tensor:
        def layer(x: torch.Tensor) -> torch.Tensor:
            maps = x.reshape(4, n, n)
            return torch.stack(
                [
                    sum(correlate(maps[(s + k) % 4], w[s].rot90(k)) for s in range(4))
                    for k in range(4)
                ]
            ).flatten()

        return matrices(layer, 4 * n * n).flatten()

    basis = equivariant_basis((Regular >> Regular)(p4(n)))
    assert basis.rank == 4 * n * n
    assert_spans(basis, torch.stack([convolution(w) for w in filters]))


def test_group_convolution_with_flips_has_a_filter_on_the_whole_group() -> None:
    basis = equivariant_basis((Regular >> Regular)(p4m(3)))
    assert basis.rank == 8 * 9
    assert equivariant_basis((V >> Regular)(p4m(3))).rank == 9
