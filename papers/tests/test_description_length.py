"""Description lengths against codes that are written out, and (A.15) over all label strings."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from itertools import combinations
from math import comb, inf, log2, nan

import numpy as np
import pytest
import torch
from torch import Tensor

from isotropy_papers.description_length import (
    DescriptionLength,
    description_length,
    incompressible_below,
)


def test_the_parts_of_a_length() -> None:
    probabilities = torch.tensor([[0.5, 0.25, 0.25], [0.125, 0.5, 0.375]], dtype=torch.float64)
    length = description_length(17, probabilities.log(), torch.tensor([1, 0]), classes=3)
    assert length.model_bits == 17
    assert length.nll_bits == pytest.approx(2 + 3)
    assert length.label_bits == pytest.approx(6)
    assert length.total_bits == pytest.approx(23)
    assert length.raw_bits == pytest.approx(2 * log2(3))
    assert length.ratio == pytest.approx(23 / (2 * log2(3)))
    with pytest.raises(FrozenInstanceError):
        length.model_bits = 0.0  # type: ignore[misc]


def test_logits_and_their_probabilities_say_the_same() -> None:
    logits = 5 * torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.randint(4, (50,), generator=torch.Generator().manual_seed(1))
    raw = description_length(0, logits, labels)
    shifted = description_length(0, torch.log_softmax(logits.double(), 1), labels)
    assert raw.nll_bits == pytest.approx(shifted.nll_bits, rel=1e-12)
    wrong = -sum(
        log2(row.double().softmax(0)[label]) for row, label in zip(logits, labels, strict=True)
    )
    assert raw.nll_bits == pytest.approx(wrong, rel=1e-12)


def test_the_raw_labels_of_cifar10_are_20_kilobytes() -> None:
    length = description_length(0, torch.zeros(50_000, 10), torch.zeros(50_000, dtype=torch.int32))
    assert length.raw_bits / 8192 == pytest.approx(20.3, abs=0.05)
    assert length.nll_bits == pytest.approx(length.raw_bits)
    assert length.ratio > 1


def test_a_model_that_rules_out_a_label_cannot_send_it() -> None:
    certain = torch.tensor([[0.0, -inf]])
    assert description_length(1, certain, torch.tensor([0])).total_bits == 2
    assert description_length(1, certain, torch.tensor([1])).total_bits == inf
    assert incompressible_below(10, inf, 0.5) == 0


def test_label_bits_suffice_for_a_prefix_free_code() -> None:
    """Shannon's lengths ⌈NLL⌉ satisfy Kraft's inequality over all label strings."""
    logits = torch.randn(6, 2, generator=torch.Generator().manual_seed(2))
    strings = [torch.tensor(bits) for bits in np.ndindex(*(2,) * 6)]
    lengths = [description_length(0, logits, labels) for labels in strings]
    assert sum(2.0**-length.nll_bits for length in lengths) == pytest.approx(1)
    whole = [int(np.ceil(length.nll_bits)) for length in lengths]
    assert sum(2.0**-bits for bits in whole) <= 1
    assert all(bits < length.label_bits for bits, length in zip(whole, lengths, strict=True))


# --- (A.15)


def strings_of(n: int) -> np.ndarray:
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1


def nll_of(strings: np.ndarray, ones: np.ndarray) -> np.ndarray:
    """NLL in bits, (strings, models), of models that give the probability of a 1 everywhere."""
    with np.errstate(divide="ignore"):
        logs = np.log2(np.stack([1 - ones, ones]))
    sums = np.zeros((len(strings), len(ones)))
    for i in range(strings.shape[1]):
        sums -= logs[strings[:, i], :, i]
    return sums


def failures(model_bits: np.ndarray, nll: np.ndarray, raw_bits: float, delta: float) -> float:
    """The fraction of label strings for which some model is shorter than it may be."""
    least = np.vectorize(lambda bits: incompressible_below(raw_bits, bits, delta))(nll)
    return float((model_bits[None] < least - 1e-9).any(1).mean())


def memorising_models(n: int, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """Models that know the first m labels: m in unary, then the labels."""
    bits, ones = [], []
    for known in range(n + 1):
        for answers in np.ndindex(*(2,) * known):
            sure = [confidence if a else 1 - confidence for a in answers]
            ones.append(sure + [0.5] * (n - known))
            bits.append(2 * known + 1)
    return np.array(bits, dtype=float), np.array(ones)


@pytest.mark.parametrize("confidence", [1.0, 0.9])
@pytest.mark.parametrize("delta", [0.4, 0.05, 0.01])
def test_memorising_models_over_all_labels(confidence: float, delta: float) -> None:
    n = 7
    bits, ones = memorising_models(n, confidence)
    assert (2.0**-bits).sum() <= 1
    assert failures(bits, nll_of(strings_of(n), ones), n, delta) <= delta


@pytest.mark.parametrize("seed", range(5))
def test_random_models_over_all_labels(seed: int) -> None:
    """A full code of models, each sure of a random string."""
    n, random = 10, np.random.default_rng(seed)
    bits = np.repeat([3.0, 5.0, 7.0, 9.0], [4, 8, 16, 64])
    assert (2.0**-bits).sum() == 1
    nll = nll_of(strings_of(n), random.integers(0, 2, (len(bits), n)).astype(float))
    for delta in (0.005, 0.02, 0.1, 0.3):
        assert failures(bits, nll, n, delta) <= delta


def test_no_larger_constant_would_do() -> None:
    """One model of no bits that is sure of one string."""
    n = 8
    nll = nll_of(strings_of(n), np.ones((1, n)))
    allowed = 2.0 ** -(n + 0.5)
    assert failures(np.zeros(1), nll, n, allowed) == 0
    # one bit more is claimed by raw labels one bit longer
    assert failures(np.zeros(1), nll, n + 1, allowed) == 2.0**-n > allowed


def test_labels_that_are_not_charged_break_it() -> None:
    n = 7
    bits, ones = memorising_models(n, 1.0)
    nll = nll_of(strings_of(n), ones)
    charged = bits - 2 * (bits // 2)  # the unary count and the labels for nothing
    assert failures(charged, nll, n, 0.05) == 1


def test_shuffled_labels_have_fewer_strings() -> None:
    """For labels that are shuffled the raw length is that of the rearrangements."""
    n, ones_in = 10, 2
    strings = np.zeros((comb(n, ones_in), n), dtype=int)
    for row, places in enumerate(combinations(range(n), ones_in)):
        strings[row, list(places)] = 1
    # the model that knows how many ones there are, in no bits
    nll = nll_of(strings, np.full((1, n), ones_in / n))
    assert failures(np.zeros(1), nll, log2(len(strings)), 0.05) == 0
    # n bits would be too much to ask
    assert failures(np.zeros(1), nll, n, 0.5) == 1


def test_the_thesis_has_two_bits_less() -> None:
    raw, nll, delta = 300.0, 40.0, 0.05
    printed = raw - nll - log2(1 / delta) - 2
    assert incompressible_below(raw, nll, delta) == pytest.approx(printed + 2)


def test_a_lookup_table_of_random_labels_pays_for_them() -> None:
    random = torch.Generator().manual_seed(3)
    for _ in range(50):
        labels = torch.randint(10, (200,), generator=random)
        sure = 30 * torch.nn.functional.one_hot(labels, 10).double()
        table_bits = int(np.ceil(200 * log2(10)))
        length = description_length(table_bits, sure, labels)
        assert table_bits >= incompressible_below(length.raw_bits, length.nll_bits, 0.05)
        assert length.ratio >= 1


# --- bad input

GOOD = torch.zeros(2, 3)
LABELS = torch.tensor([0, 2])


@pytest.mark.parametrize(
    ("bits", "logits", "labels", "classes", "error", "sentence"),
    [
        pytest.param(
            -1, GOOD, LABELS, None, ValueError, r"message_bits .* at least 0, got -1\.0", id="bits"
        ),
        pytest.param(
            nan, GOOD, LABELS, None, ValueError, r"message_bits to be finite .* got nan", id="nan"
        ),
        pytest.param(
            "9", GOOD, LABELS, None, TypeError, r"a number as message_bits, got '9'", id="text"
        ),
        pytest.param(
            9, GOOD[0], LABELS, None, ValueError, r"logits of shape \(n, .* got \(3,\)", id="flat"
        ),
        pytest.param(
            9, GOOD[:, :1], LABELS, None, ValueError, r"2 classes or more, got \(2, 1\)", id="one"
        ),
        pytest.param(
            9, GOOD[:0], LABELS[:0], None, ValueError, r"logits of .* got \(0, 3\)", id="empty"
        ),
        pytest.param(9, GOOD, LABELS, 10, ValueError, r"logits of 10 classes, got 3", id="classes"),
        pytest.param(
            9, GOOD, LABELS[:1], None, ValueError, r"labels of shape \(2,\), got \(1,\)", id="short"
        ),
        pytest.param(
            9, GOOD, LABELS + 1, None, ValueError, r"labels from 0 to 2, got 3", id="large"
        ),
        pytest.param(
            9, GOOD, LABELS - 1, None, ValueError, r"labels from 0 to 2, got -1", id="negative"
        ),
        pytest.param(
            9, GOOD, LABELS.float(), None, TypeError, r"integers as labels, got .*32", id="floats"
        ),
        pytest.param(
            9, GOOD / 0, LABELS, None, ValueError, r"logits with a finite largest one", id="nans"
        ),
        pytest.param(
            9, GOOD + inf, LABELS, None, ValueError, r"logits with a finite largest", id="infinite"
        ),
    ],
)
def test_bad_input(
    bits: float,
    logits: Tensor,
    labels: Tensor,
    classes: int | None,
    error: type[Exception],
    sentence: str,
) -> None:
    with pytest.raises(error, match=sentence):
        description_length(bits, logits, labels, classes=classes)


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        pytest.param((-1, 0, 0.1), ValueError, r"raw_bits to be at least 0, got -1\.0", id="raw"),
        pytest.param((inf, 0, 0.1), ValueError, r"raw_bits to be finite, got inf", id="inf"),
        pytest.param((1, nan, 0.1), ValueError, r"nll_bits to be at least 0, got nan", id="nll"),
        pytest.param((1, 0, 1), ValueError, r"delta between 0 and 1, .* got 1", id="delta"),
        pytest.param((None, 0, 1), TypeError, r"a number as raw_bits, got None", id="none"),
    ],
)
def test_bad_limits(
    arguments: tuple[float, float, float], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        incompressible_below(*arguments)


def test_lengths_compare_by_value() -> None:
    assert DescriptionLength(1, 2, 3) == DescriptionLength(1.0, 2.0, 3.0)
