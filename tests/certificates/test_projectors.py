from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from math import ceil, isqrt, prod, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import hadamard
from torch import Tensor

from certificate_parts import random_normals, random_words
from isotropy.certificates import PROJECTORS, _normal_matrix, _sparse_projector, projector
from isotropy.certificates._fastfood import hadamard_transform
from isotropy.certificates._kronecker_projectors import kronecker_shapes

Matrix = NDArray[np.float64]
Shapes = dict[str, torch.Size]

_FIRST = 2**32
_SEED = 5


def _network(body: int) -> Shapes:
    """A convolution, a normalisation layer and a head, of body + 88 parameters."""
    return {
        "conv.weight": torch.Size((body, 1, 1, 1)),
        "conv.bias": torch.Size((3,)),
        "norm.weight": torch.Size((4,)),
        "norm.bias": torch.Size((4,)),
        "head.weight": torch.Size((7, 10)),
        "head.bias": torch.Size((7,)),
    }


# D is 6 · 21, then prime so that parameters are left over; the last permutes blocks of 16
_CASES = {"even": (38, 9), "prime": (39, 10), "large": (4915, 37)}


def _sized(shapes: Shapes) -> int:
    return sum(shape.numel() for shape in shapes.values())


def _normals(stream: int, rows: int, columns: int) -> Matrix:
    numbers = random_normals(_SEED, _FIRST + stream, rows * columns)
    return np.asarray(numbers.reshape(rows, columns).numpy())


def _words(stream: int, count: int) -> list[int]:
    """Unsigned."""
    return [word % 2**64 for word in random_words(_SEED, _FIRST + stream, count).tolist()]


def _signed_order(words: list[int]) -> list[int]:
    signed = [word - 2**64 if word >= 2**63 else word for word in words]
    return sorted(range(len(words)), key=signed.__getitem__)


# --- slow twins: explicit matrices, from the definitions --------------------------------------


def _dense(shapes: Shapes, d: int) -> Matrix:
    return _normals(0, _sized(shapes), d) / sqrt(_sized(shapes))


def _kronecker(shapes: Shapes, d: int, orthonormal: bool = False) -> Matrix:
    D = _sized(shapes)
    (a1, b1), (a2, b2) = kronecker_shapes(D, d)
    factors = [_normals(48, a1, b1) / sqrt(a1), _normals(49, a2, b2) / sqrt(a2)]
    if orthonormal:
        # Gram and Schmidt, one column after another
        for factor in factors:
            for j in range(factor.shape[1]):
                for _ in range(2):
                    factor[:, j] -= factor[:, :j] @ (factor[:, :j].T @ factor[:, j])
                factor[:, j] /= np.linalg.norm(factor[:, j])
    product = np.kron(*factors)[:, :d]
    over = D - len(product)
    tied = []
    for k in range(over):
        row = k * len(product) // over
        product[row] /= sqrt(2)
        tied.append(product[row].copy())
    block = 16 if D > 4096 else 1
    order = _signed_order(_words(50, len(product) // block))
    rows = [row for place in order for row in product[place * block : (place + 1) * block]]
    return np.array(rows + list(product[len(rows) :]) + tied)


def _kronecker_sum(shapes: Shapes, d: int) -> Matrix:
    D = _sized(shapes)
    height = ceil(sqrt(D))
    width = ceil(D / height)
    across, down = _normals(1, width, d), _normals(2, height, d)
    whole = np.kron(np.ones((height, 1)), across) + np.kron(down, np.ones((width, 1)))
    return np.asarray(whole[:D] / sqrt(2 * D))


def _sparse(shapes: Shapes, d: int) -> Matrix:
    D = _sized(shapes)
    strata = isqrt(D)
    P = np.zeros((D, d))
    for place, word in enumerate(_words(16, strata * d)):
        stratum, column = divmod(place, d)
        low, high = stratum * D // strata, (stratum + 1) * D // strata
        row = low + (word % 2**32) * (high - low) // 2**32
        assert P[row, column] == 0
        P[row, column] = (-1 if word >= 2**63 else 1) / sqrt(strata)
    return P


def _fastfood(shapes: Shapes, d: int) -> Matrix:
    D = _sized(shapes)
    n = next(2**k for k in range(64) if 2**k >= d)
    count = ceil(D / n)
    signs, order = _words(32, count * n), _words(33, count * n)
    lengths = _normals(34, count, n)
    H = hadamard(n)
    blocks = []
    for k in range(count):
        B = np.diag([-1.0 if word >= 2**63 else 1.0 for word in signs[k * n : (k + 1) * n]])
        Pi = np.eye(n)[_signed_order(order[k * n : (k + 1) * n])]
        G = np.diag(lengths[k] if lengths[k].any() else np.ones(n))
        blocks.append(H @ G @ Pi @ H @ B / (np.linalg.norm(G) * sqrt(D)))
    return np.asarray(np.concatenate(blocks)[:D, :d])


def _film(shapes: Shapes, d: int) -> Matrix:
    moves = [
        not name.startswith("conv") for name, shape in shapes.items() for _ in range(prod(shape))
    ]
    normals = iter(_normals(3, sum(moves), d) / sqrt(sum(moves)))
    return np.array([next(normals) if move else np.zeros(d) for move in moves])


_TWINS: dict[str, Callable[[Shapes, int], Matrix]] = {
    "kronecker": _kronecker,
    "kronecker-orthonormal": lambda shapes, d: _kronecker(shapes, d, orthonormal=True),
    "kronecker-sum": _kronecker_sum,
    "dense": _dense,
    "sparse": _sparse,
    "fastfood": _fastfood,
    "film": _film,
    "film+kronecker": lambda shapes, d: (_film(shapes, d) + _kronecker(shapes, d)) / sqrt(2),
    "identity": lambda shapes, d: np.eye(_sized(shapes))[:, :d],
}
_everything = pytest.mark.parametrize("kind", PROJECTORS)


def _double(kind: str, shapes: Shapes, d: int, **options: Any) -> Any:
    return projector(kind, shapes, d, _SEED, dtype=torch.float64, **options)


def _random(*shape: int) -> Tensor:
    rng = torch.Generator().manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64, generator=rng)


@pytest.mark.parametrize("case", list(_CASES))
@_everything
def test_the_matrix_is_its_definition(kind: str, case: str) -> None:
    body, d = _CASES[case]
    shapes = _network(body)
    expected = torch.from_numpy(_TWINS[kind](shapes, d))
    P = _double(kind, shapes, d)
    assert (P.D, P.d) == expected.shape
    torch.testing.assert_close(P.dense(), expected, rtol=1e-11, atol=1e-13)
    theta = _random(P.D)
    torch.testing.assert_close(P.transpose(theta), expected.T @ theta, rtol=1e-11, atol=1e-12)


@_everything
def test_the_transpose_is_the_adjoint(kind: str) -> None:
    P = _double(kind, _network(4915), 37)
    w, theta = _random(4, 37), _random(4, P.D)
    torch.testing.assert_close((P(w) * theta).sum(1), (w * P.transpose(theta)).sum(1))


@_everything
def test_gradients(kind: str) -> None:
    P = _double(kind, _network(39), 5)
    w, theta = _random(2, 5).requires_grad_(), _random(P.D).requires_grad_()
    assert torch.autograd.gradcheck(P, w, check_forward_ad=True)
    assert torch.autograd.gradcheck(P.transpose, theta, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(P, w)


@_everything
def test_any_leading_axes(kind: str) -> None:
    P = _double(kind, _network(39), 5)
    w = _random(2, 3, 5)
    rows = torch.stack([P(row) for row in w.reshape(6, 5)])
    torch.testing.assert_close(P(w), rows.view(2, 3, P.D))
    torch.testing.assert_close(torch.vmap(P, in_dims=1)(w), rows.view(2, 3, P.D).transpose(0, 1))
    assert P(w[:0]).shape == (0, 3, P.D)
    assert P.transpose(rows[:0]).shape == (0, 5)


@_everything
def test_derivatives_by_functions(kind: str) -> None:
    P = _double(kind, _network(39), 5)
    w = _random(5)
    torch.testing.assert_close(torch.func.jacrev(P)(w), P.dense())
    torch.testing.assert_close(torch.func.jacfwd(P)(w), P.dense())


@_everything
def test_no_dimension_gives_zeros(kind: str) -> None:
    P = projector(kind, _network(39), 0, 0)
    w = torch.zeros(0, requires_grad=True)
    assert torch.equal(P(w), torch.zeros(P.D))
    assert torch.equal(P.transpose(torch.ones(P.D)), torch.zeros(0))
    P(w).sum().backward()


# --- the shape of the subspace ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "lengths", "angles"),
    [
        # deviations of a squared length and of an inner product of two columns, about
        ("kronecker", 0.4, 0.2),
        ("kronecker-orthonormal", 1e-12, 1e-12),
        ("kronecker-sum", 0.3, 0.2),
        ("dense", 0.02, 0.015),
        ("sparse", 1e-12, 0.015),
        ("fastfood", 0.02, 0.06),
        ("film", 0.09, 0.06),
        ("film+kronecker", 0.2, 0.15),
    ],
)
def test_columns_are_about_orthonormal(kind: str, lengths: float, angles: float) -> None:
    shapes = _network(9917)
    film = ["head.weight"]
    shapes["head.weight"] = torch.Size((60, 10))
    P = _double(kind, shapes, 50, film=film)
    gram = P.transpose(P(torch.eye(50, dtype=torch.float64)))
    squares = gram.diagonal()
    assert float((squares - 1).square().mean().sqrt()) < lengths
    assert 0.8 < float(squares.mean()) < 1.2
    assert float((gram - squares.diag()).square().mean().sqrt()) < angles


def test_fastfood_of_one_dimension_has_no_zero_blocks() -> None:
    """A block is then one number, drawn from 2041, and may be zero."""
    column = _double("fastfood", _network(9917), 1)(torch.ones(1, 1, dtype=torch.float64))
    torch.testing.assert_close(column.abs() * column.numel() ** 0.5, torch.ones_like(column))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_orthonormal_columns_are_so_exactly(data: st.DataObject) -> None:
    D = data.draw(st.one_of(st.integers(1, 150), st.integers(4097, 6000)))
    d = data.draw(st.integers(1, min(D, 40)))
    P = projector("kronecker-orthonormal", {"a": torch.Size((D,))}, d, 0, dtype=torch.float64)
    one = torch.eye(d, dtype=torch.float64)
    torch.testing.assert_close(P.transpose(P(one)), one, rtol=0, atol=1e-12)


@settings(max_examples=200, deadline=None)
@given(D=st.integers(1, 2_000_000), part=st.floats(0, 1))
@example(D=431_080, part=0.0023)
@example(D=4093, part=1.0)
def test_factors_cover_what_they_should(D: int, part: float) -> None:
    d = int(part * D) if D <= 4096 else int(part * 0.9 * D)
    (a1, b1), (a2, b2) = kronecker_shapes(D, d)
    assert a1 * a2 <= D
    assert b1 * b2 >= d
    assert 1 <= b1 <= a1
    assert b2 <= a2
    if D > 4096:
        # near square, and hardly any parameter left over
        assert isqrt(D) / 2 <= a1 <= 2 * isqrt(D)
        assert D - a1 * a2 <= 0.01 * D
        assert a1 * b1 + a2 * b2 <= 8 * D


@pytest.mark.parametrize(
    ("D", "over"), [(431_080, 0), (11_173_962, 0), (272_474, 6), (44_426, 0), (431_083, 1)]
)
def test_few_parameters_of_common_networks_are_left_over(D: int, over: int) -> None:
    (a1, _), (a2, _) = kronecker_shapes(D, 1000)
    assert D - a1 * a2 <= over


@pytest.mark.parametrize(
    "kind", ["kronecker", "kronecker-orthonormal", "kronecker-sum", "dense", "fastfood"]
)
@pytest.mark.parametrize("d", [130, 128, 121])
def test_every_dimension_moves_every_parameter(kind: str, d: int) -> None:
    # 5003 is prime and 130 no square: the published product spends 9 dimensions on 103 parameters
    P = _double(kind, _network(4915), d).dense()
    reached = (P.abs() > 1e-6 * P.abs().max()).double().mean(0)
    # a number of the generator is 0 once in 500, and with it a row of a factor
    assert float(reached.min()) > 0.95
    # the number of parameters that a column is spread over, as a part of all
    spread = P.square().sum(0).square() / (P**4).sum(0) / len(P)
    assert float(spread.min()) > 0.02


@pytest.mark.parametrize("kind", ["kronecker", "kronecker-orthonormal", "dense", "fastfood"])
def test_a_small_layer_moves_in_many_directions(kind: str) -> None:
    # 100 parameters that lie side by side out of 5003: two rows of the fold have rank 34
    P = _double(kind, _network(4915), 130).dense()
    for first in (0, 1000, 3000):
        assert int(torch.linalg.matrix_rank(P[first : first + 100], rtol=1e-6)) > 70


@pytest.mark.parametrize("width", [2**k for k in range(13)])
def test_hadamard_transform(width: int) -> None:
    x = _random(3, width)
    expected = x @ torch.from_numpy(hadamard(width)).double()
    torch.testing.assert_close(hadamard_transform(x), expected)


# --- the same numbers everywhere --------------------------------------------------------------

_KNOWN = {
    "kronecker": (27.671062860612295, 196.72036775918673),
    "kronecker-orthonormal": (55.000000000000014, 358.85635875358173),
    "kronecker-sum": (32.9117722753184, 953.5256178568789),
    "dense": (44.03688297832076, 295.5318755185052),
    "sparse": (49.18181818181819, 883.1267282682696),
    "fastfood": (56.07177970124098, -1135.4537890219078),
    "film": (49.68908540115518, 369.0650032213879),
    "film+kronecker": (36.09203561632278, 400.07067251651085),
    "identity": (55.0, 40.0),
}


@_everything
def test_the_numbers_never_change(kind: str) -> None:
    P = projector(kind, _network(39), 5, 123, dtype=torch.float64)
    w = torch.arange(1, 6, dtype=torch.float64)
    theta = P(w)
    order = torch.arange(P.D, dtype=torch.float64)
    found = (float(theta @ theta), float(theta @ order))
    assert found == pytest.approx(_KNOWN[kind], rel=1e-9)


@_everything
def test_single_precision_rounds_double(kind: str) -> None:
    shapes = _network(4915)
    single, double = projector(kind, shapes, 37, _SEED), _double(kind, shapes, 37)
    w = _random(37)
    scale = float(double(w).abs().max())
    torch.testing.assert_close(single(w.float()).double(), double(w), rtol=0, atol=2e-6 * scale)
    assert single.to(torch.float64)(w).dtype == torch.float64


@pytest.mark.parametrize("kind", [kind for kind in PROJECTORS if kind != "identity"])
def test_seeds_differ(kind: str) -> None:
    one, other = (projector(kind, _network(39), 5, seed).dense() for seed in (0, 1))
    assert float((one - other).abs().max()) > 0.01


@_everything
def test_it_is_named_by_its_seed_alone(kind: str) -> None:
    P = projector(kind, _network(39), 5, 0)
    assert not P.state_dict()
    assert not list(P.parameters())
    w = torch.ones(5)
    assert torch.equal(deepcopy(P)(w), P(w))


@_everything
def test_half_precision_of_a_network_is_not_the_projectors(kind: str) -> None:
    P = projector(kind, _network(39), 5, 0)
    w = torch.ones(5, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        theta = P(w)
    assert theta.dtype == torch.float32
    assert torch.equal(theta, P(w))


@pytest.mark.parametrize("kind", ["kronecker-sum", "sparse", "film"])
def test_large_projectors_are_made_anew(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = _double(kind, _network(4915), 37)
    for module in (_normal_matrix, _sparse_projector):
        monkeypatch.setattr(module, "_MOST_KEPT", 0)
    monkeypatch.setattr(_normal_matrix, "_BLOCK", {"cpu": 50})
    monkeypatch.setattr(_sparse_projector, "_BLOCK", 50)
    anew = _double(kind, _network(4915), 37)
    assert sum(numbers.numel() for numbers in anew.buffers()) == 0
    torch.testing.assert_close(anew(_random(37)), kept(_random(37)))
    torch.testing.assert_close(anew.transpose(_random(5003)), kept.transpose(_random(5003)))


def test_a_dense_projector_is_never_kept() -> None:
    assert sum(numbers.numel() for numbers in projector("dense", _network(9), 9, 0).buffers()) == 0


@pytest.mark.parametrize("kind", ["kronecker", "kronecker-orthonormal", "fastfood"])
def test_what_is_kept_is_small(kind: str) -> None:
    P = projector(kind, {"a": torch.Size((200_000,))}, 5000, 0)
    assert sum(numbers.numel() for numbers in P.buffers()) < 4 * 200_000


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@_everything
def test_a_gpu_has_the_same_projector(kind: str) -> None:
    shapes = _network(4915)
    here = _double(kind, shapes, 37)
    there = _double(kind, shapes, 37, device="cuda")
    w, theta = _random(37), _random(here.D)
    torch.testing.assert_close(there(w.cuda()).cpu(), here(w), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(
        there.transpose(theta.cuda()).cpu(), here.transpose(theta), rtol=1e-12, atol=1e-12
    )
    torch.testing.assert_close(here.to("cuda")(w.cuda()), there(w.cuda()), rtol=1e-12, atol=1e-13)


# --- which parameters are film ----------------------------------------------------------------


def test_film_is_normalisation_and_head() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3),
        torch.nn.BatchNorm2d(3),
        torch.nn.Flatten(),
        torch.nn.Linear(12, 5),
        torch.nn.LayerNorm(5),
        torch.nn.Linear(5, 2),
    )
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    film = {"1.weight", "1.bias", "4.weight", "4.bias", "5.weight", "5.bias"}
    guessed = projector("film", shapes, 4, 0)
    given_ = projector("film", shapes, 4, 0, film=film)
    assert torch.equal(guessed.dense(), given_.dense())
    assert moved_by(guessed, shapes) == film


def moved_by(P: Any, shapes: Shapes) -> set[str]:
    """The parameters of which any entry moves."""
    rows = P.dense().ne(0).any(1).split([prod(shape) for shape in shapes.values()])
    return {name for name, moves in zip(shapes, rows, strict=True) if bool(moves.any())}


def test_film_moves_what_it_is_told() -> None:
    P = projector("film", _network(9), 2, 0, film={"conv.bias", "head.bias"}).dense()
    assert (P != 0).any(1).nonzero().flatten().tolist() == [9, 10, 11, *range(90, 97)]


def test_a_head_without_a_bias() -> None:
    shapes = {"a.weight": torch.Size((3, 3)), "b.weight": torch.Size((2, 3))}
    assert moved_by(projector("film", shapes, 2, 0), shapes) == {"b.weight"}


# --- bad input --------------------------------------------------------------------------------


def _asked(**other: Any) -> None:
    projector(**{"kind": "dense", "parameters": _network(39), "d": 5, "seed": 0, **other})


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"kind": "rdkron"}, r"expected one of kronecker, .*film\+kronecker, .*got 'rdkron'"),
        ({"parameters": {}}, r"expected at least one parameter to project into, got none"),
        ({"d": 128}, r"expected a dimension from 0 to the 127 parameters, got 128"),
        ({"d": -1}, r"expected a dimension from 0 to the 127 parameters, got -1"),
        ({"seed": -1}, r"expected a seed from 0 to 2⁶⁴ - 1, got -1"),
        ({"seed": 1 << 64}, r"expected a seed from 0 to 2⁶⁴ - 1, got 18446744073709551616"),
        ({"dtype": torch.float16}, r"expected the dtype float32 or float64, got torch\.float16"),
        (
            {"kind": "kronecker-sum", "d": 23},
            r"expected at most 22 dimensions for a Kronecker sum of 127 parameters, got 23",
        ),
        (
            {"kind": "kronecker", "parameters": _network(4915), "d": 5003},
            r"expected at most 5002 dimensions for a Kronecker product of 5003 parameters, got 500",
        ),
        (
            {"kind": "film", "d": 86},
            r"expected at most 85 dimensions, as film has parameters, got 86",
        ),
        ({"kind": "film", "film": ["x"]}, r"expected names of parameters for film, got 'x'"),
        (
            {"kind": "film+kronecker", "film": []},
            r"expected parameters of normalisation layers or of a last linear layer for film, got",
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(map(str, value)),
)
def test_bad_requests(asked: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        _asked(**asked)


def test_bad_vectors() -> None:
    P = projector("kronecker", _network(39), 5, 0)
    with pytest.raises(ValueError, match=r"expected a vector of width 5 for a .* got shape \(6,\)"):
        P(torch.zeros(6))
    with pytest.raises(ValueError, match=r"expected a vector of width 5 for .* got shape \(\)"):
        P(torch.tensor(1.0))
    with pytest.raises(ValueError, match=r"expected a vector of width 127 for .* got shape \(5,\)"):
        P.transpose(torch.zeros(5))
    sentence = r"expected a vector of torch\.float32 on cpu, as the projector, got torch\.float64"
    with pytest.raises(ValueError, match=sentence):
        P(torch.zeros(5, dtype=torch.float64))


def test_a_dense_form_that_is_too_large() -> None:
    P = projector("dense", {"a": torch.Size((10**9,))}, 10**6, 0)
    with pytest.raises(ValueError, match=r"the dense projector .* needs .* GB of memory but"):
        P.dense()


def test_the_names_are_a_published_order() -> None:
    assert PROJECTORS[:8] == (
        "kronecker", "kronecker-orthonormal", "kronecker-sum", "dense",
        "sparse", "fastfood", "film", "film+kronecker",
    )  # fmt: skip
