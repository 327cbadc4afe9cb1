"""Kernel regression, against closed forms and brute force."""

import pytest
import torch

from isotropy.discovery.predictors._kernel_predictor import (
    KernelChoice,
    _left_out,
    choose_kernel,
    fit_kernel,
)


def data(rows, n, seed=0):
    return torch.randn(rows, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    "choice",
    [
        KernelChoice("sums", 2, 1.5, 1e-2, 1.0),
        KernelChoice("distances", 1, 2.0, 1e-2, 1.0),
        KernelChoice("polynomials", 3, 1.0, 1e-2, 1.0),
    ],
)
def test_kernels_against_loops(choice):
    a, b = data(4, 6), data(3, 6, seed=1)
    channels, n = 2, 3
    for i, row in enumerate(a):
        for j, other in enumerate(b):
            apart = (row - other).reshape(channels, n).square().sum(0)
            expected = {
                "sums": (-apart / (2 * channels * choice.length**2)).exp().mean() ** choice.order,
                "distances": (-2 * apart.sum() / (6 * choice.length**2)).exp(),
                "polynomials": (1 + row @ other / 6) ** choice.order,
            }[choice.family]
            got = choice.gram(a, b, channels)[i, j]
            assert float(got) == pytest.approx(float(expected), rel=1e-10)


def test_rows_left_out_are_predicted_by_the_others():
    x, y = data(25, 3), data(25, 2, seed=1)
    gram = KernelChoice("distances", 1, 1.0, 0.1, 1.0).gram(x, x, 1)
    size = float(torch.linalg.eigvalsh(gram).clamp_min(0).mean())
    for ridge, left in _left_out(gram, y)[1:4]:
        errors = 0.0
        for i in range(len(x)):
            others = [k for k in range(len(x)) if k != i]
            inner = gram[others][:, others] + ridge * size * torch.eye(len(others))
            told = gram[i, others] @ torch.linalg.solve(inner, y[others])
            errors += float((told - y[i]).square().sum())
        assert left == pytest.approx(errors / float(y.square().sum()), rel=1e-6)


def test_sums_over_positions_need_few_rows():
    x = data(900, 24)  # eight positions of three channels
    blocks = x.unflatten(1, (3, 8))
    y = torch.tanh(blocks[:, 0] * blocks[:, 1] + blocks[:, 2]).sum(1, keepdim=True)
    choice = choose_kernel(x[:400], y[:400] - y[:400].mean(), 3)
    assert (choice.family, choice.order) == ("sums", 1)
    left = fit_kernel(x[:400], y[:400], choice, channels=3)(x[400:]) - y[400:]
    assert float(left.square().mean() / y.var()) < 0.15


def test_classes_have_logits_and_gradients():
    x = data(500, 4)
    y = (x.square().sum(1) > 3.4).long()
    values = torch.nn.functional.one_hot(y, 3).double()
    choice = choose_kernel(x[:300], values[:300] - values[:300].mean(0))
    predict = fit_kernel(x[:300], y[:300], choice, classes=3)
    assert float((predict(x[300:]).argmax(1) == y[300:]).double().mean()) > 0.9
    at = x[:5].clone().requires_grad_()  # rows that it was fitted to are at distance zero
    predict(at).sum().backward()
    assert bool(at.grad.isfinite().all())
