"""Roots of the output curvature against Hessians by torch.func, and sums over all draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import pytest
import torch
from torch import Tensor, distributions

from evidence_parts import Bernoulli, Categorical, Gaussian, Likelihood
from isotropy.evidence._output_curvature import (
    _binary_gradient,
    _categorical_gradient,
    _signed,
    root_columns,
    root_count,
    sampled_columns,
    sign_columns,
)

Random = Callable[..., Iterator[Tensor]]


def root_matrix(likelihood: Likelihood, outputs: Tensor) -> Tensor:
    """All columns at once, shape (columns, *outputs.shape)."""
    return torch.stack(list(root_columns(likelihood, outputs)))


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=dtype, generator=rng)


def negative_log_likelihood(likelihood: Likelihood, sample: Tensor) -> Tensor:
    """Of one sample, at targets of zero, which curvature does not depend on."""
    p: distributions.Distribution
    if isinstance(likelihood, Categorical):
        p = distributions.Categorical(logits=sample.movedim(0, -1), validate_args=False)
        return -p.log_prob(sample.new_zeros(sample.shape[1:])).sum()
    if isinstance(likelihood, Bernoulli):
        p = distributions.Bernoulli(logits=sample, validate_args=False)
    else:
        p = distributions.Normal(sample, 1.0, validate_args=False)
    return -p.log_prob(torch.zeros_like(sample)).sum()


def hessians(likelihood: Likelihood, outputs: Tensor) -> Tensor:
    """Λ of every sample in all its outputs, shape (samples, entries, entries)."""
    size = outputs[0].numel()
    each = [
        torch.func.hessian(lambda f: negative_log_likelihood(likelihood, f))(sample)
        for sample in outputs
    ]
    return torch.stack([h.reshape(size, size) for h in each])


def outer(columns: Tensor) -> Tensor:
    """Σ vvᵀ of every sample over the leading axis."""
    flat = columns.flatten(2) if columns.ndim > 2 else columns[..., None]
    return torch.einsum("cni,cnj->nij", flat, flat)


def explicit_root(likelihood: Likelihood, outputs: Tensor) -> Tensor:
    """A square root of every Λ by dense matrices, shape (columns, *outputs.shape).

    Of classes: diag(√p) H without the column of the likeliest class m, where H is the Householder
    matrix that takes √p to −e_m; columns start after m, and positions vary fastest. Otherwise Λ is
    diagonal, and so is its root.
    """
    if not isinstance(likelihood, Categorical):
        root = hessians(likelihood, outputs).diagonal(dim1=1, dim2=2).sqrt().diag_embed()
        return root.movedim(2, 0).reshape(-1, *outputs.shape)
    logits = outputs.reshape(*outputs.shape[:2], -1).numpy()
    samples, classes, positions = logits.shape
    columns = np.zeros((classes - 1, positions, samples, classes, positions))
    for n, place in np.ndindex(samples, positions):
        weights = np.exp(logits[n, :, place])
        q, m = np.sqrt(weights / weights.sum()), int(weights.argmax())
        u = q + np.eye(classes)[m]
        householder = np.eye(classes) - 2 * np.outer(u, u) / (u @ u)
        np.testing.assert_allclose(householder @ q, -np.eye(classes)[m], atol=1e-14)
        after = [(m + 1 + k) % classes for k in range(classes - 1)]
        columns[:, place, n, :, place] = (np.diag(q) @ householder)[:, after].T
    return torch.as_tensor(columns).reshape(-1, *outputs.shape)


CASES = [
    pytest.param(Categorical(), (4, 2), 1, id="two-classes"),
    pytest.param(Categorical(), (4, 5), 4, id="classes"),
    pytest.param(Categorical(), (3, 3, 2), 4, id="classes-positions"),
    pytest.param(Categorical(), (2, 4, 2, 2), 12, id="classes-maps"),
    pytest.param(Bernoulli(), (4,), 1, id="binary"),
    pytest.param(Bernoulli(), (3, 2, 2), 4, id="binary-maps"),
    pytest.param(Gaussian(), (4,), 1, id="regression"),
    pytest.param(Gaussian(), (3, 2, 3), 6, id="regression-maps"),
]
SMALL = [
    pytest.param(Categorical(), (2, 3), id="classes"),
    pytest.param(Categorical(), (2, 2, 2), id="classes-positions"),
    pytest.param(Bernoulli(), (2,), id="binary"),
    pytest.param(Bernoulli(), (2, 2), id="binary-entries"),
    pytest.param(Gaussian(), (1, 3), id="regression"),
]


# --- exact ------------------------------------------------------------------------------------


@pytest.mark.parametrize("spread", [0.0, 1.0, 6.0], ids=["tied", "mild", "strong"])
@pytest.mark.parametrize(("likelihood", "shape", "count"), CASES)
def test_columns_are_a_root_of_the_hessian(
    likelihood: Likelihood, shape: tuple[int, ...], count: int, spread: float
) -> None:
    outputs = spread * normal(*shape)
    columns = list(root_columns(likelihood, outputs))
    assert len(columns) == root_count(likelihood, outputs) == count
    assert all(v.shape == outputs.shape and v.dtype == outputs.dtype for v in columns)
    expected = hessians(likelihood, outputs)
    torch.testing.assert_close(outer(torch.stack(columns)), expected, atol=1e-13, rtol=1e-10)
    torch.testing.assert_close(torch.stack(columns), explicit_root(likelihood, outputs))


@pytest.mark.parametrize("shape", [(3, 3, 2), (2, 4, 2, 2)], ids=str)
def test_no_column_touches_two_positions(shape: tuple[int, ...]) -> None:
    for v in root_columns(Categorical(), normal(*shape)):
        touched = v.flatten(2).abs().sum((0, 1)) > 0
        assert int(touched.sum()) == 1


@pytest.mark.parametrize(
    "logits",
    [[20.0, 0.0, -3.0], [-3.0, 20.0, 0.0], [0.0, -3.0, 20.0], [-60.0, 0.0, -60.0], [9.0, 9.0, 0.0]],
    ids=str,
)
def test_single_precision_loses_no_relative_accuracy_where_a_class_is_certain(
    logits: list[float],
) -> None:
    wide = torch.tensor([logits], dtype=torch.float64)
    p = wide.softmax(1)
    # 1 − p, without cancellation
    others = torch.stack([p[:, [j for j in range(3) if j != i]].sum(1) for i in range(3)], 1)
    expected = torch.where(torch.eye(3, dtype=torch.bool), p * others, -p[:, :, None] * p[:, None])
    columns = root_matrix(Categorical(), wide.float())
    torch.testing.assert_close(outer(columns.double()), expected, rtol=1e-5, atol=0)
    for v, precise in zip(
        every_sign(Categorical(), wide.float()), every_sign(Categorical(), wide), strict=True
    ):
        torch.testing.assert_close(v.double(), precise, rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("likelihood", "logits"),
    [
        pytest.param(Categorical(), [[1e4, -1e4, 0.0], [0.0, 0.0, 0.0], [-1e4, 1e4, 1e4]], id="c"),
        pytest.param(Bernoulli(), [[1e4, -1e4, 0.0], [-300.0, 90.0, 1.0]], id="b"),
    ],
)
def test_saturated_outputs_have_finite_columns_and_slopes(
    likelihood: Likelihood, logits: list[list[float]], dtype: torch.dtype
) -> None:
    outputs = torch.tensor(logits, dtype=dtype, requires_grad=True)
    makers = [
        lambda: root_matrix(likelihood, outputs),
        lambda: torch.stack(list(sign_columns(likelihood, outputs, 3, 0))),
        lambda: torch.stack(list(sampled_columns(likelihood, outputs, 3, 0))),
    ]
    for make in makers:
        columns = make()
        assert columns.isfinite().all()
        (slope,) = torch.autograd.grad((columns * normal(*columns.shape).to(dtype)).sum(), outputs)
        assert slope.isfinite().all()
    expected = hessians(likelihood, outputs.detach().double())
    found = outer(root_matrix(likelihood, outputs)).double()
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli(), Gaussian()], ids=str)
def test_columns_have_the_type_of_the_outputs(likelihood: Likelihood, dtype: torch.dtype) -> None:
    outputs = normal(3, 4).to(dtype)
    expected = outer(root_matrix(likelihood, outputs.double()))
    found = root_matrix(likelihood, outputs)
    assert found.dtype == dtype
    torch.testing.assert_close(outer(found.double()), expected, rtol=0.02, atol=0.01)
    for maker in (sampled_columns, sign_columns):
        assert next(maker(likelihood, outputs, 1, 0)).dtype == dtype


# --- gradients --------------------------------------------------------------------------------


@pytest.mark.parametrize(("likelihood", "shape"), SMALL[:-1])
def test_gradients_of_columns_equal_finite_differences(
    likelihood: Likelihood, shape: tuple[int, ...]
) -> None:
    outputs = normal(*shape).requires_grad_()
    assert torch.autograd.gradcheck(lambda o: root_matrix(likelihood, o), (outputs,))
    assert torch.autograd.gradcheck(lambda o: next(sign_columns(likelihood, o, 1, 0)), (outputs,))


@pytest.mark.parametrize("spread", [0.0, 1.0], ids=["tied", "mild"])
@pytest.mark.parametrize(("likelihood", "shape"), SMALL[:-1])
def test_gradients_through_columns_are_those_of_the_hessian(
    likelihood: Likelihood, shape: tuple[int, ...], spread: float
) -> None:
    outputs = (spread * normal(*shape)).requires_grad_()
    exact = hessians(likelihood, outputs)
    weights = normal(*exact.shape, seed=1)
    (expected,) = torch.autograd.grad((weights * exact).sum(), outputs)
    assert spread == 0 or expected.abs().max() > 0.01
    found = outer(torch.stack(list(root_columns(likelihood, outputs))))
    (slope,) = torch.autograd.grad((weights * found).sum(), outputs)
    torch.testing.assert_close(slope, expected, rtol=1e-9, atol=1e-12)


def test_regression_has_constant_columns() -> None:
    outputs = normal(3, 2).requires_grad_()
    assert not root_matrix(Gaussian(), outputs).requires_grad
    assert not next(sign_columns(Gaussian(), outputs, 1, 0)).requires_grad
    assert not next(sampled_columns(Gaussian(), outputs, 1, 0)).requires_grad


# --- random signs -----------------------------------------------------------------------------


def every_sign(likelihood: Likelihood, outputs: Tensor) -> Iterator[Tensor]:
    """The cotangents of all patterns of signs, the same in every sample."""
    for pattern in product([-1.0, 1.0], repeat=outputs[0].numel()):
        signs = torch.tensor(pattern, dtype=outputs.dtype).reshape(outputs.shape[1:])
        yield _signed(likelihood, outputs, signs.expand_as(outputs))


@pytest.mark.parametrize(("likelihood", "shape"), SMALL)
def test_signs_are_exact_on_average_with_their_gradients(
    likelihood: Likelihood, shape: tuple[int, ...]
) -> None:
    outputs = normal(*shape).requires_grad_()
    exact = hessians(likelihood, outputs)
    columns = torch.stack(list(every_sign(likelihood, outputs)))
    found = outer(columns) / len(columns)
    torch.testing.assert_close(found, exact)
    if found.requires_grad:
        weights = normal(*exact.shape, seed=1)
        (slope,) = torch.autograd.grad((weights * found).sum(), outputs)
        (expected,) = torch.autograd.grad((weights * exact).sum(), outputs)
        torch.testing.assert_close(slope, expected)


@pytest.mark.parametrize(("likelihood", "shape", "count"), CASES)
def test_signed_sums_are_sums_of_signed_columns(
    likelihood: Likelihood, shape: tuple[int, ...], count: int
) -> None:
    outputs = normal(*shape)
    found = next(sign_columns(likelihood, outputs, 1, 0)).reshape(shape[0], -1)
    root = root_matrix(likelihood, outputs).reshape(count, shape[0], -1)
    for k in range(shape[0]):
        signs = torch.linalg.lstsq(root[:, k].T, found[k, :, None]).solution[:, 0]
        torch.testing.assert_close(signs.abs(), torch.ones_like(signs))
        torch.testing.assert_close(root[:, k].T @ signs, found[k])


# --- labels drawn from the model --------------------------------------------------------------


def every_label(likelihood: Likelihood, outputs: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The probability, in every sample, of all labels together, and the cotangent at them."""
    if isinstance(likelihood, Categorical):
        places = outputs[0, 0].numel()
        p = outputs.detach().softmax(1).flatten(2) if outputs.ndim > 2 else None
        p = outputs.detach().softmax(1)[..., None] if p is None else p
        for pattern in product(range(outputs.shape[1]), repeat=places):
            chance = torch.stack([p[:, c, s] for s, c in enumerate(pattern)]).prod(0)
            labels = torch.tensor(pattern).reshape(outputs.shape[2:])
            labels = labels.expand(len(outputs), *outputs.shape[2:])
            yield chance, _categorical_gradient(outputs, labels)
    else:
        p = outputs.detach().sigmoid().reshape(len(outputs), -1)
        for answers in product([False, True], repeat=p.shape[1]):
            yes = torch.tensor(answers)
            chance = torch.where(yes, p, 1 - p).prod(1)
            labels = yes.reshape(outputs.shape[1:]).expand_as(outputs)
            yield chance, _binary_gradient(outputs, labels)


@pytest.mark.parametrize(("likelihood", "shape"), SMALL[:-1])
def test_labels_are_exact_on_average_with_their_gradients(
    likelihood: Likelihood, shape: tuple[int, ...]
) -> None:
    outputs = normal(*shape).requires_grad_()
    exact = hessians(likelihood, outputs)
    found = sum(
        chance[:, None, None] * outer(v[None]) for chance, v in every_label(likelihood, outputs)
    )
    assert isinstance(found, Tensor)
    torch.testing.assert_close(found, exact)
    weights = normal(*exact.shape, seed=1)
    (slope,) = torch.autograd.grad((weights * found).sum(), outputs)
    (expected,) = torch.autograd.grad((weights * exact).sum(), outputs)
    torch.testing.assert_close(slope, expected)


def test_a_cotangent_is_the_gradient_at_its_label() -> None:
    outputs = normal(4, 3).requires_grad_()
    labels = torch.tensor([0, 2, 1, 1])
    loss = torch.nn.functional.cross_entropy(outputs, labels, reduction="sum")
    (expected,) = torch.autograd.grad(loss, outputs)
    torch.testing.assert_close(_categorical_gradient(outputs, labels), expected)
    yes = torch.tensor([[True, False, True]]).expand(4, 3)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(
        outputs, yes.double(), reduction="sum"
    )
    (expected,) = torch.autograd.grad(loss, outputs)
    torch.testing.assert_close(_binary_gradient(outputs, yes), expected)


def test_labels_are_as_frequent_as_the_model_says() -> None:
    n = 20_000
    logits = torch.tensor([1.0, -1.0, 0.0, 0.5], dtype=torch.float64)
    v = next(sampled_columns(Categorical(), logits.expand(n, 4), 1, 0))
    frequency = torch.nn.functional.one_hot(v.argmin(1), 4).double().mean(0)
    p = logits.softmax(0)
    assert ((frequency - p).abs() < 4 * (p * (1 - p) / n).sqrt()).all()
    w = next(sampled_columns(Bernoulli(), logits.expand(n, 4), 1, 0))
    frequency, p = (w < 0).double().mean(0), logits.sigmoid()
    assert ((frequency - p).abs() < 4 * (p * (1 - p) / n).sqrt()).all()


@pytest.mark.parametrize("maker", [sampled_columns, sign_columns], ids=["sampled", "signs"])
@pytest.mark.parametrize(
    ("likelihood", "shape"),
    [
        pytest.param(Categorical(), (3, 2), id="classes"),
        pytest.param(Bernoulli(), (2, 2), id="binary"),
        pytest.param(Gaussian(), (3,), id="regression"),
    ],
)
def test_many_probes_come_near_the_hessian(
    maker: Random, likelihood: Likelihood, shape: tuple[int, ...]
) -> None:
    outputs = normal(1, *shape)
    many = outputs.expand(20_000, *shape)
    found = outer(torch.stack(list(maker(likelihood, many, 3, 0)))).mean(0)
    expected = hessians(likelihood, outputs)[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=0.03)


# --- generators -------------------------------------------------------------------------------


@pytest.mark.parametrize("maker", [sampled_columns, sign_columns], ids=["sampled", "signs"])
@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli(), Gaussian()], ids=str)
def test_probes_are_repeatable_and_differ(maker: Random, likelihood: Likelihood) -> None:
    outputs, rng = normal(20, 3), torch.Generator().manual_seed(5)
    before = torch.get_rng_state()
    first = torch.stack(list(maker(likelihood, outputs, 2, rng)))
    again = torch.stack(list(maker(likelihood, outputs, 2, 5)))
    later = torch.stack(list(maker(likelihood, outputs, 2, rng)))
    assert first.shape == (2, 20, 3)
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert not torch.equal(first, later)
    assert not torch.equal(first[0], first[1])
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("maker", [sampled_columns, sign_columns], ids=["sampled", "signs"])
@pytest.mark.parametrize("likelihood", [Categorical(), Bernoulli(), Gaussian()], ids=str)
def test_a_generator_of_the_processor_serves_a_gpu(maker: Random, likelihood: Likelihood) -> None:
    outputs = normal(20, 3)
    expected = next(maker(likelihood, outputs, 1, torch.Generator().manual_seed(0)))
    found = next(maker(likelihood, outputs.cuda(), 1, torch.Generator().manual_seed(0)))
    assert found.is_cuda
    torch.testing.assert_close(found.cpu(), expected)
    assert next(maker(likelihood, outputs.cuda(), 1, 0)).is_cuda
    root = root_matrix(likelihood, outputs.cuda()).cpu()
    torch.testing.assert_close(outer(root), hessians(likelihood, outputs))


# --- what is refused --------------------------------------------------------------------------


class Poisson(Likelihood):
    """A likelihood whose curvature nobody has written down here."""

    name = "counts"

    def _fitting(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return targets

    def _terms(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs


@pytest.mark.parametrize(
    "maker", [root_count, root_columns, root_matrix, sampled_columns, sign_columns]
)
def test_unknown_likelihoods_and_outputs_are_refused_at_once(maker: Callable[..., object]) -> None:
    with pytest.raises(
        TypeError, match=r"expected a Categorical, Bernoulli or Gaussian likelihood, got Poisson"
    ):
        maker(Poisson(), torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"at least two classes"):
        maker(Categorical(), torch.zeros(2, 1))
    with pytest.raises(TypeError, match=r"expected a tensor of outputs, got list"):
        maker(Gaussian(), [0.0])


@pytest.mark.parametrize("maker", [sampled_columns, sign_columns], ids=["sampled", "signs"])
def test_no_probes_are_refused(maker: Random) -> None:
    with pytest.raises(ValueError, match=r"expected at least one probe, got 0"):
        maker(Gaussian(), torch.zeros(2, 3), 0)
