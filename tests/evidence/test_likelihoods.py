"""Likelihoods against torch.distributions, and every sentence about inputs that do not fit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, distributions

from evidence_parts import Bernoulli, Categorical, Gaussian, Likelihood, classes_without_samples


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=dtype, generator=rng)


def labels(classes: int, *shape: int) -> Tensor:
    return torch.randint(classes, shape, generator=torch.Generator().manual_seed(1))


# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6, 3), (2, 4, 5), (2, 3, 2, 2)], ids=str)
def test_categorical_equals_the_distribution_of_torch(shape: tuple[int, ...]) -> None:
    outputs, targets = normal(*shape), labels(shape[1], shape[0], *shape[2:])
    expected = distributions.Categorical(logits=outputs.movedim(1, -1)).log_prob(targets)
    found = Categorical().statistics(outputs, targets)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found[0], expected.sum())
    assert found[1] == targets.numel()
    torch.testing.assert_close(Categorical().log_likelihood(found), expected.sum())


@pytest.mark.parametrize("kind", [torch.bool, torch.int64, torch.float32], ids=str)
@pytest.mark.parametrize("shape", [(6,), (6, 1), (2, 3, 2)], ids=str)
def test_bernoulli_equals_the_distribution_of_torch(
    shape: tuple[int, ...], kind: torch.dtype
) -> None:
    outputs, targets = normal(*shape), labels(2, *shape)
    expected = distributions.Bernoulli(logits=outputs).log_prob(targets.double()).sum()
    found = Bernoulli().statistics(outputs, targets.to(kind))
    torch.testing.assert_close(Bernoulli().log_likelihood(found, noise=1.0), expected)
    assert found[1] == targets.numel()


def test_a_binary_target_between_is_a_share_of_a_yes() -> None:
    outputs, share = normal(5), torch.tensor([0.0, 0.25, 0.5, 0.9, 1.0], dtype=torch.float64)
    yes, no = outputs.sigmoid().log(), (1 - outputs.sigmoid()).log()
    expected = (share * yes + (1 - share) * no).sum()
    torch.testing.assert_close(Bernoulli().statistics(outputs, share)[0], expected)


@pytest.mark.parametrize(
    "noise", [None, 0.3, torch.tensor([2.5])], ids=["none", "number", "tensor"]
)
@pytest.mark.parametrize("shape", [(6,), (6, 2), (2, 3, 2)], ids=str)
def test_gaussian_equals_the_distribution_of_torch(
    shape: tuple[int, ...], noise: float | Tensor | None
) -> None:
    outputs, targets = normal(*shape), normal(*shape, seed=1)
    sigma = 1.0 if noise is None else float(noise)
    expected = distributions.Normal(outputs, sigma).log_prob(targets).sum()
    sums = Gaussian().statistics(outputs, targets)
    found = Gaussian().log_likelihood(sums, noise)
    assert found.shape == ()
    torch.testing.assert_close(found, expected)


def test_statistics_add_up_over_batches() -> None:
    outputs, targets = normal(7, 3), labels(3, 7)
    whole = Categorical().statistics(outputs, targets)
    parts = [Categorical().statistics(outputs[s], targets[s]) for s in (slice(4), slice(4, 7))]
    torch.testing.assert_close(parts[0] + parts[1], whole)
    assert Categorical().statistics(outputs[:0], targets[:0]).tolist() == [0, 0]


def test_sums_of_single_precision_outputs_are_in_double() -> None:
    outputs, targets = normal(50, 3, dtype=torch.float32), labels(3, 50)
    expected = distributions.Categorical(logits=outputs.double()).log_prob(targets).sum()
    found = Categorical().statistics(outputs, targets)[0]
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_saturated_outputs_have_finite_likelihoods_and_slopes(dtype: torch.dtype) -> None:
    outputs = torch.tensor([[200.0, -200.0], [-200.0, 200.0]], dtype=dtype, requires_grad=True)
    found = Categorical().statistics(outputs, torch.tensor([1, 1]))
    assert found[0] == -400
    (slope,) = torch.autograd.grad(found[0], outputs)
    torch.testing.assert_close(slope, torch.tensor([[-1.0, 1.0], [0.0, 0.0]], dtype=dtype))


def test_gradients_in_outputs_and_noise() -> None:
    outputs = normal(4, 2).requires_grad_()
    noise = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    targets = normal(4, 2, seed=1)

    def gaussian(outputs: Tensor, noise: Tensor) -> Tensor:
        return Gaussian().log_likelihood(Gaussian().statistics(outputs, targets), noise)

    assert torch.autograd.gradcheck(gaussian, (outputs, noise))
    assert torch.autograd.gradcheck(
        lambda o: Categorical().statistics(o, torch.tensor([0, 1, 1, 0]))[0], (outputs,)
    )
    assert torch.autograd.gradcheck(
        lambda o: Bernoulli().statistics(o, targets.sigmoid())[0], (outputs,)
    )


def test_a_column_of_targets_is_the_same_as_a_row() -> None:
    outputs, targets = normal(5, 1), normal(5, seed=1)
    expected = (outputs[:, 0] - targets).square().sum()
    for o, t in [(outputs, targets), (outputs[:, 0], targets[:, None])]:
        torch.testing.assert_close(Gaussian().statistics(o, t)[0], expected)
    logits, classes = normal(5, 3), labels(3, 5)
    expected = Categorical().statistics(logits, classes)
    torch.testing.assert_close(Categorical().statistics(logits, classes[:, None]), expected)
    maps, wanted = normal(2, 3, 4), labels(3, 2, 4)
    torch.testing.assert_close(
        Categorical().statistics(maps, wanted[:, None]), Categorical().statistics(maps, wanted)
    )


def test_whole_numbers_are_targets_of_a_regression() -> None:
    found = Gaussian().statistics(torch.zeros(3), torch.tensor([1, 2, 3]))
    assert found.tolist() == [14, 3]


# --- classes ----------------------------------------------------------------------------------


def test_class_counts_add_up_and_name_the_missing() -> None:
    one = Categorical().class_counts(torch.zeros(3, 5), torch.tensor([0, 3, 3]))
    two = Categorical().class_counts(torch.zeros(2, 5), torch.tensor([[0], [1]]))
    assert (one + two).tolist() == [2, 1, 0, 2, 0]
    assert classes_without_samples(one + two) == [2, 4]
    maps = Categorical().class_counts(torch.zeros(1, 2, 3), torch.tensor([[1, 1, 0]]))
    assert maps.tolist() == [1, 2]


def test_class_counts_of_binary_targets_and_of_none() -> None:
    found = Bernoulli().class_counts(torch.zeros(4), torch.tensor([0.0, 0.0, 0.5, 0.0]))
    assert found.tolist() == [4, 1]
    never = Bernoulli().class_counts(torch.zeros(2, 2), torch.zeros(2, 2, dtype=torch.bool))
    assert classes_without_samples(never) == [1]
    none = Gaussian().class_counts(torch.zeros(4), torch.zeros(4))
    assert classes_without_samples(none + none) == []


# --- inputs that do not fit -------------------------------------------------------------------

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("likelihood", "outputs", "targets", "error", "sentence"),
    [
        pytest.param(
            Categorical(),
            torch.zeros(5),
            torch.zeros(5, dtype=torch.int64),
            ValueError,
            r"expected logits of shape \(samples, classes, …\) for cross entropy, got \(5,\)",
            id="no-classes",
        ),
        pytest.param(
            Categorical(),
            torch.zeros(5, 1),
            torch.zeros(5, dtype=torch.int64),
            ValueError,
            r"expected logits of at least two classes .* got 1; for one logit use 'binary'",
            id="one-class",
        ),
        pytest.param(
            Categorical(),
            torch.zeros(5, 2),
            torch.zeros(5),
            TypeError,
            r"expected class labels of an integer type, got float32",
            id="float-labels",
        ),
        pytest.param(
            Categorical(),
            torch.zeros(5, 2),
            torch.zeros(5, dtype=torch.bool),
            TypeError,
            r"expected class labels of an integer type, got bool",
            id="bool-labels",
        ),
        pytest.param(
            Categorical(),
            torch.zeros(5, 3),
            torch.zeros(5, 3, dtype=torch.int64),
            ValueError,
            r"expected targets of shape \(5,\) for outputs \(5, 3\), got \(5, 3\)",
            id="one-hot",
        ),
        pytest.param(
            Categorical(),
            torch.zeros(5, 3),
            torch.tensor([0, 1, 3, 0, 0]),
            ValueError,
            r"expected class labels from 0 to 2, got 3$",
            id="too-large",
        ),
        pytest.param(
            Categorical(),
            torch.zeros(2, 3),
            torch.tensor([0, -1]),
            ValueError,
            r"expected class labels from 0 to 2, got -1$",
            id="negative",
        ),
        pytest.param(
            Categorical(),
            torch.zeros(2, 3),
            torch.tensor([0, -100]),
            ValueError,
            r"got -100, which cross entropy ignores and the evidence cannot",
            id="ignored",
        ),
        pytest.param(
            Categorical(),
            torch.tensor([[0.0, 1.0], [INF, 0.0]]),
            torch.tensor([0, 1]),
            ValueError,
            r"expected finite outputs, got a non-finite value in sample 1",
            id="infinite-logit",
        ),
        pytest.param(
            Bernoulli(),
            torch.zeros(3),
            torch.tensor([0, 2, 1]),
            ValueError,
            r"expected binary targets from 0 to 1, got 2",
            id="binary-range",
        ),
        pytest.param(
            Bernoulli(),
            torch.zeros(3, 2),
            torch.zeros(3),
            ValueError,
            r"expected targets of shape \(3, 2\) for outputs \(3, 2\), got \(3,\)",
            id="binary-shape",
        ),
        pytest.param(
            Gaussian(),
            torch.zeros(3, 1),
            torch.zeros(3, 3),
            ValueError,
            r"expected targets of shape \(3, 1\) for outputs \(3, 1\), got \(3, 3\)",
            id="broadcast",
        ),
        pytest.param(
            Gaussian(),
            torch.zeros(3),
            torch.zeros(1),
            ValueError,
            r"expected targets of shape \(3,\) for outputs \(3,\), got \(1,\)",
            id="one-target",
        ),
        pytest.param(
            Gaussian(),
            torch.zeros(2, 3),
            torch.zeros(3, 2),
            ValueError,
            r"got \(3, 2\)",
            id="transposed",
        ),
        pytest.param(
            Gaussian(),
            torch.zeros(3),
            torch.tensor([0.0, NAN, 1.0]),
            ValueError,
            r"expected finite targets, got a non-finite value in sample 1",
            id="nan-target",
        ),
        pytest.param(
            Gaussian(),
            torch.tensor([[0.0], [NAN]]),
            torch.zeros(2),
            ValueError,
            r"expected finite outputs, got a non-finite value in sample 1",
            id="nan-output",
        ),
        pytest.param(
            Gaussian(),
            torch.zeros(2),
            torch.zeros(2, dtype=torch.complex64),
            TypeError,
            r"expected real targets for regression, got complex64",
            id="complex-target",
        ),
        pytest.param(
            Gaussian(),
            torch.zeros(2, dtype=torch.complex64),
            torch.zeros(2),
            TypeError,
            r"expected real outputs of a floating type, got complex64",
            id="complex-output",
        ),
        pytest.param(
            Gaussian(),
            torch.zeros(()),
            torch.zeros(()),
            ValueError,
            r"expected outputs of shape \(samples, …\), got a single number",
            id="scalar-output",
        ),
        pytest.param(
            Gaussian(),
            (torch.zeros(2),),
            torch.zeros(2),
            TypeError,
            r"expected a tensor of outputs, got tuple",
            id="tuple-output",
        ),
        pytest.param(
            Categorical(),
            torch.zeros(2, 2),
            [0, 1],
            TypeError,
            r"expected a tensor of targets, got list",
            id="list-target",
        ),
    ],
)
def test_outputs_and_targets_that_do_not_fit(
    likelihood: Likelihood,
    outputs: Tensor,
    targets: Tensor,
    error: type[Exception],
    sentence: str,
) -> None:
    with pytest.raises(error, match=sentence):
        likelihood.statistics(outputs, targets)


@pytest.mark.parametrize(
    ("likelihood", "noise", "sentence"),
    [
        pytest.param(Categorical(), 0.5, r"expected no noise for classification, got 0\.5", id="c"),
        pytest.param(
            Bernoulli(), torch.tensor(2.0), r"expected no noise for binary, got 2", id="b"
        ),
        pytest.param(Gaussian(), 0.0, r"expected a positive number as the noise, got 0", id="zero"),
        pytest.param(Gaussian(), -1, r"as the noise, got -1", id="negative"),
        pytest.param(Gaussian(), NAN, r"as the noise, got nan", id="nan"),
        pytest.param(Gaussian(), INF, r"as the noise, got inf", id="infinite"),
        pytest.param(Gaussian(), torch.ones(2), r"as the noise, got shape \(2,\)", id="two"),
    ],
)
def test_noise_that_does_not_fit(
    likelihood: Likelihood, noise: float | Tensor, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        likelihood.log_likelihood(torch.zeros(2, dtype=torch.float64), noise)


@pytest.mark.parametrize(
    "noise",
    [None, 1, 1.0, torch.tensor(1.0, requires_grad=True)],
    ids=["none", "int", "float", "t"],
)
def test_a_noise_of_one_is_none(noise: float | Tensor | None) -> None:
    sums = torch.tensor([-3.0, 2.0], dtype=torch.float64)
    check: Callable[..., Tensor] = Categorical().log_likelihood
    assert check(sums, noise) == -3


def test_statistics_counts_and_likelihoods_of_a_few_numbers() -> None:
    Categorical().check_outputs(torch.zeros(5, 3))
    found = Categorical().statistics(torch.zeros(3, 4), torch.tensor([0, 3, 1]))
    torch.testing.assert_close(found, torch.tensor([-4.1589, 3.0]).double(), atol=1e-4, rtol=0)
    counts = Categorical().class_counts(torch.zeros(3, 4), torch.tensor([0, 3, 0]))
    assert counts.tolist() == [2, 0, 0, 1]
    assert classes_without_samples(counts) == [1, 2]
    sums = Gaussian().statistics(torch.ones(2, 1), torch.zeros(2))
    assert float(Gaussian().log_likelihood(sums, noise=2.0)) == pytest.approx(-3.4742, abs=1e-4)
