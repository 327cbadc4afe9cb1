"""Which likelihood a loss is of, and every sentence about losses without one."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from evidence_parts import Bernoulli, Categorical, Gaussian, Likelihood, likelihood_of


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        pytest.param("classification", Categorical(), id="classification"),
        pytest.param("binary", Bernoulli(), id="binary"),
        pytest.param("regression", Gaussian(), id="regression"),
        pytest.param(nn.CrossEntropyLoss(), Categorical(), id="CrossEntropyLoss"),
        pytest.param(nn.CrossEntropyLoss(reduction="sum"), Categorical(), id="summed"),
        pytest.param(nn.BCEWithLogitsLoss(), Bernoulli(), id="BCEWithLogitsLoss"),
        pytest.param(nn.MSELoss(reduction="none"), Gaussian(), id="MSELoss"),
        pytest.param(functional.cross_entropy, Categorical(), id="cross_entropy"),
        pytest.param(functional.mse_loss, Gaussian(), id="mse_loss"),
        pytest.param(functional.binary_cross_entropy_with_logits, Bernoulli(), id="logits"),
        pytest.param(Bernoulli(), Bernoulli(), id="likelihood"),
    ],
)
def test_the_likelihood_of_a_loss(loss: object, expected: Likelihood) -> None:
    found = likelihood_of(loss)
    assert found == expected
    assert hash(found) == hash(expected)
    assert likelihood_of(found.name) == expected
    assert found.has_noise == (expected == Gaussian())


class Focal(nn.CrossEntropyLoss):
    """A loss that is not what its parent is."""


@pytest.mark.parametrize(
    ("loss", "error", "sentence"),
    [
        pytest.param(
            nn.CrossEntropyLoss(weight=torch.ones(3)),
            ValueError,
            r"expected a CrossEntropyLoss whose weight is None, got weights",
            id="weight",
        ),
        pytest.param(
            nn.CrossEntropyLoss(label_smoothing=0.1),
            ValueError,
            r"whose label_smoothing is 0\.0, got 0\.1",
            id="smoothing",
        ),
        pytest.param(
            nn.CrossEntropyLoss(ignore_index=0),
            ValueError,
            r"whose ignore_index is -100, got 0",
            id="ignored",
        ),
        pytest.param(
            nn.BCEWithLogitsLoss(pos_weight=torch.ones(1)),
            ValueError,
            r"expected a BCEWithLogitsLoss whose pos_weight is None, got weights",
            id="pos_weight",
        ),
        pytest.param(
            nn.BCEWithLogitsLoss(weight=torch.ones(1)),
            ValueError,
            r"expected a BCEWithLogitsLoss whose weight is None",
            id="binary-weight",
        ),
        pytest.param(
            nn.NLLLoss(),
            ValueError,
            r"got NLLLoss; give the network logits and use cross entropy",
            id="NLLLoss",
        ),
        pytest.param(functional.nll_loss, ValueError, r"give the network logits", id="nll_loss"),
        pytest.param(
            nn.BCELoss(),
            ValueError,
            r"give the network logits and use BCEWithLogitsLoss",
            id="BCELoss",
        ),
        pytest.param(
            functional.binary_cross_entropy, ValueError, r"use BCEWithLogitsLoss", id="bce"
        ),
        pytest.param("hinge", ValueError, r"expected as the loss .* got 'hinge'", id="name"),
        pytest.param(
            nn.GaussianNLLLoss(),
            TypeError,
            r"expected as the loss 'classification', .* got GaussianNLLLoss",
            id="GaussianNLLLoss",
        ),
        pytest.param(nn.MSELoss, TypeError, r"got the class MSELoss", id="class"),
        pytest.param(Focal(), TypeError, r"got Focal", id="subclass"),
        pytest.param(functional.l1_loss, TypeError, r"got l1_loss", id="function"),
        pytest.param(
            partial(functional.cross_entropy, label_smoothing=0.1),
            TypeError,
            r"got partial",
            id="partial",
        ),
    ],
)
def test_losses_without_a_likelihood(loss: object, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        likelihood_of(loss)
