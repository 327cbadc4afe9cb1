"""Every map against its matrix."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from isotropy.groups import Dense, Group, LinearMap, Monomial, Operator
from isotropy.groups._compound import BlockDiagonal, Chain, Kron, KronSum
from isotropy.groups._maps import Zero


def monomial(rng: np.random.Generator, n: int, batch: tuple[int, ...] = ()) -> Monomial:
    index = np.argsort(rng.random((*batch, n)), axis=-1)
    sign = rng.choice([-1, 1], (*batch, n))
    return Monomial(torch.from_numpy(index), torch.from_numpy(sign))


def dense(rng: np.random.Generator, n: int, batch: tuple[int, ...] = ()) -> Dense:
    return Dense(torch.from_numpy(rng.normal(size=(*batch, n, n)) + 3 * np.eye(n)))


def random_map(rng: np.random.Generator, kind: str, batch: tuple[int, ...]) -> LinearMap:
    a, b = monomial(rng, 3, batch), dense(rng, 2, batch)
    return {
        "monomial": a,
        "dense": b,
        "kron": Kron((a, b, monomial(rng, 2))),
        "kron_sum": KronSum((b, dense(rng, 3, batch))),
        "blocks": BlockDiagonal((a, b), (2, 1)),
        "chain": Chain((dense(rng, 3, batch), a, monomial(rng, 3))),
        "complex": Dense(b.matrix * (1 + 2j)),
        "nested": BlockDiagonal((Kron((a, b)), monomial(rng, 1)), (1, 2)),
    }[kind]


def matrix(m: LinearMap) -> torch.Tensor:
    """The matrix of a single map, put together from its definition with numpy alone."""
    if isinstance(m, Monomial):
        out = torch.zeros(m.size, m.size, dtype=torch.float64)
        for i in range(m.size):
            out[m.index[i], i] = 1.0 if m.sign is None else float(m.sign[i])
        return out
    if isinstance(m, Dense):
        return m.matrix
    parts = [matrix(p) for p in m.parts]  # type: ignore[attr-defined]
    eyes = [torch.eye(len(p), dtype=torch.float64) for p in parts]
    if isinstance(m, Kron):
        out = parts[0]
        for p in parts[1:]:
            out = torch.kron(out, p)
        return out
    if isinstance(m, KronSum):
        return torch.kron(parts[0], eyes[1]) + torch.kron(eyes[0], parts[1])
    if isinstance(m, BlockDiagonal):
        return torch.block_diag(
            *[p for p, n in zip(parts, m.counts, strict=True) for _ in range(n)]
        )
    return torch.linalg.multi_dot(parts)


KINDS = ["monomial", "dense", "kron", "kron_sum", "blocks", "chain", "complex", "nested"]


@pytest.mark.parametrize("kind", KINDS)
def test_single_maps_agree_with_their_matrix(kind: str) -> None:
    m = random_map(np.random.default_rng(1), kind, ())
    expected = matrix(m)
    x = torch.randn(4, m.size, dtype=torch.float64)
    torch.testing.assert_close(m.dense(), expected)
    torch.testing.assert_close(m.apply(x), x.to(expected.dtype) @ expected.T)
    torch.testing.assert_close(m.transpose().dense(), expected.T)
    torch.testing.assert_close(m.inverse().dense(), torch.linalg.inv(expected))
    torch.testing.assert_close(m.scaled(-2.5).dense(), -2.5 * expected)
    torch.testing.assert_close(m.det(), torch.linalg.det(expected))
    torch.testing.assert_close(m.trace(), expected.trace())
    assert m.is_complex == expected.is_complex()


@pytest.mark.parametrize("kind", KINDS)
def test_batches_agree_with_their_members(kind: str) -> None:
    m = random_map(np.random.default_rng(2), kind, (5,))
    x = torch.randn(5, m.size, dtype=torch.float64)
    singles = [m[i] for i in range(5)]
    assert len(m) == 5
    torch.testing.assert_close(m.dense(), torch.stack([s.dense() for s in singles]))
    torch.testing.assert_close(
        m.apply(x), torch.stack([s.apply(y) for s, y in zip(singles, x, strict=True)])
    )
    torch.testing.assert_close(m.det(), torch.stack([s.det() for s in singles]))
    torch.testing.assert_close(m.inverse().dense(), torch.linalg.inv(m.dense()))


@pytest.mark.parametrize("first", ["monomial", "chain"])
@pytest.mark.parametrize("second", ["monomial", "chain"])
def test_composition(first: str, second: str) -> None:
    rng = np.random.default_rng(3)
    a, b = random_map(rng, first, ()), random_map(rng, second, (4,))
    torch.testing.assert_close((a @ b).dense(), a.dense() @ b.dense())
    torch.testing.assert_close((b @ a).dense(), b.dense() @ a.dense())
    d = Dense(torch.randn(3, 3, dtype=torch.float64))
    torch.testing.assert_close((b @ d).dense(), b.dense() @ d.dense())
    torch.testing.assert_close((d @ b).dense(), d.dense() @ b.dense())


def test_compositions_of_one_shape_stay_factored() -> None:
    rng = np.random.default_rng(4)
    kron = random_map(rng, "kron", ())
    blocks = random_map(rng, "blocks", ())
    assert isinstance(kron @ kron, Kron)
    assert isinstance(blocks @ blocks, BlockDiagonal)
    torch.testing.assert_close((kron @ kron).dense(), kron.dense() @ kron.dense())


@given(st.permutations(range(6)), st.lists(st.sampled_from([-1, 1]), min_size=6, max_size=6))
def test_compound_monomials_multiply_out_to_signed_permutations(
    index: list[int], sign: list[int]
) -> None:
    m = Monomial(torch.tensor(index), torch.tensor(sign))
    for compound in (Kron((m, m)), BlockDiagonal((m, m.inverse()), (1, 3)), Chain((m, m))):
        merged = compound.monomial()
        assert merged is not None
        torch.testing.assert_close(merged.dense(), compound.dense())
        assert merged.value() == compound.value()


def test_float32_stays_float32() -> None:
    m = random_map(np.random.default_rng(5), "nested", ())
    assert m.apply(torch.ones(m.size)).dtype == torch.float32


def test_operator_derives_transpose_and_inverse() -> None:
    shear = Operator(3, lambda x: x + 2 * x.roll(1, -1) * torch.tensor([0.0, 1.0, 0.0]))
    x = torch.randn(3, dtype=torch.float64)
    torch.testing.assert_close(shear.transpose().apply(x), shear.dense().T @ x)
    with pytest.raises(ValueError, match="expected an inverse for an operator"):
        shear.inverse()
    roll = Operator(4, lambda x: x.roll(1, -1))
    torch.testing.assert_close((roll.inverse() @ roll).dense(), torch.eye(4, dtype=torch.float64))


def test_operator_that_changes_the_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="keeps the shape"):
        Operator(3, lambda x: x[..., :2]).apply(torch.ones(3))


def test_zero_map() -> None:
    zero = Zero(3)
    assert float(zero.apply(torch.ones(3)).abs().sum()) == 0.0
    assert zero.value() == Zero(3).value() != Zero(4).value()
    with pytest.raises(ValueError, match="no inverse"):
        zero.inverse()


def test_equal_maps_have_equal_values() -> None:
    assert (
        Dense(torch.tensor([[0.0, -0.0], [1.0, 2.0]])).value()
        == Dense(torch.tensor([[-0.0, 0.0], [1.0, 2.0]])).value()
    )
    swap, same, other = Group(
        [[1, 0], [[0.0, 1.0], [1.0, 0.0]], [[0.0, -1.0], [1.0, 0.0]]]
    ).discrete
    assert swap.value() == same.value() != other.value()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([[1.0, 2.0]], r"square matrix, got shape \(1, 2\)"),
        ([0, 0, 1], "each of 0..2 once"),
        ([0, 1, 3], "each of 0..2 once"),
        ([0.5, 1.5], "a list of the integers"),
        ([[1.0, float("nan")], [0.0, 1.0]], "finite entries"),
        ([[1.0, float("inf")], [0.0, 1.0]], "finite entries"),
        ([], "permutation"),
        ("SO(3)", "permutation, a square matrix or a linear map"),
        ([[1.0], [2.0, 3.0]], "permutation, a square matrix or a linear map"),
    ],
)
def test_bad_maps_are_refused(given: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Group([given])  # type: ignore[list-item]


def test_a_dense_form_that_does_not_fit_says_what_to_call_instead() -> None:
    huge = Monomial.identity(10**7)
    with pytest.raises(ValueError, match=r"needs 800000\.0 GB .* use its \.apply\(x\)"):
        huge.dense()
    kron = Kron((Monomial.identity(10**4), Dense(torch.eye(2))))
    big = Kron((kron, Monomial.identity(10**3)))
    with pytest.raises(ValueError, match=r"GB .* use its \.apply\(x\)"):
        big.dense()


def test_batches_only_are_indexed() -> None:
    with pytest.raises(TypeError, match="no length"):
        len(Monomial.identity(3))
    with pytest.raises(TypeError, match="cannot be indexed"):
        Monomial.identity(3)[0]
    with pytest.raises(IndexError, match="out of range"):
        Monomial(torch.arange(3).repeat(2, 1))[2]
