"""The sample and what counts as an error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from certificate_parts import BitReader, BitWriter, Examples, dealt_rows, examples
from isotropy.certificates import Goal, Rejected
from isotropy.certificates._goal import half_above
from isotropy.data import load


def test_the_digest_sees_every_value_shape_and_type() -> None:
    x, y = torch.arange(12.0).view(4, 3), torch.tensor([0, 1, 0, 1])
    base = Examples(x, y).digest()
    assert Examples(x.clone(), y.clone()).digest() == base
    changed = x.clone()
    changed[3, 2] += 1e-6 * 20
    others = [
        Examples(changed, y),
        Examples(x.double(), y),
        Examples(x.view(4, 3, 1), y),
        Examples(x, 1 - y),
        Examples(x[:3], y[:3]),
    ]
    assert len({base, *(other.digest() for other in others)}) == 6


def test_a_view_has_the_digest_of_its_values() -> None:
    x, y = torch.randn(6, 4), torch.tensor([0, 1, 0, 1, 1, 1])
    assert Examples(x.T.contiguous().T, y).digest() == Examples(x, y).digest()


@given(st.integers(2, 300), st.integers(1, 99))
def test_rows_are_dealt_once_each(n: int, percent: int) -> None:
    if not 0 < n * percent // 100 < n:
        with pytest.raises(ValueError, match=r"expected rows on both sides"):
            dealt_rows(n, percent)
        return
    first, rest = dealt_rows(n, percent)
    assert len(first) == n * percent // 100
    assert sorted([*first.tolist(), *rest.tolist()]) == list(range(n))


def test_the_deal_is_fixed_for_all_time() -> None:
    assert dealt_rows(10, 50)[0].tolist() == [0, 1, 3, 7, 8]
    assert not torch.equal(dealt_rows(1000, 50)[0], torch.arange(500))


def test_examples_need_targets() -> None:
    with pytest.raises(ValueError, match=r"expected inputs with targets, got inputs alone"):
        examples(np.zeros((4, 2)))


def test_labels_of_a_pair_stay_as_they_are() -> None:
    assert examples((np.zeros((3, 2)), np.array([9, 5, 9]))).y.tolist() == [9, 5, 9]
    assert examples((np.zeros((2, 2)), np.array([True, False]))).y.tolist() == [1, 0]
    assert examples((torch.zeros(2, 2), torch.tensor([3, -7]))).y.tolist() == [3, -7]
    numbers = examples((np.zeros((2, 2)), np.array([1.5, 2.0])))
    assert numbers.y.tolist() == [[1.5], [2.0]]


def test_named_classes_keep_their_numbers_in_a_test_sample(tmp_path: Path) -> None:
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    train.write_text("a,b,kind\n1,2,cat\n3,4,dog\n5,6,owl\n")
    test.write_text("a,b,kind\n1,2,owl\n3,4,dog\n")
    known = examples(load(train, target="kind"))
    assert known.y.tolist() == [0, 1, 2]
    seen = examples(load(test, target="kind"), known.classes)
    assert seen.y.tolist() == [2, 1]
    test.write_text("a,b,kind\n1,2,ant\n3,4,dog\n")
    with pytest.raises(ValueError, match=r"expected classes among cat, dog, owl, got 'ant'"):
        examples(load(test, target="kind"), known.classes)


@pytest.mark.parametrize(
    ("targets", "sentence"),
    [
        (np.zeros(3), r"expected as many targets as inputs, 2 of them, got \(3,\)"),
        (np.array([np.nan, 0.0]), r"expected targets that are finite numbers"),
    ],
    ids=["lengths", "nan"],
)
def test_bad_pairs(targets: np.ndarray, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        examples((np.zeros((2, 2)), targets))


def test_wrong_classes_are_counted_with_ties_and_not_a_number_as_errors() -> None:
    outputs = torch.tensor([[1.0, 2.0], [2.0, 2.0], [float("nan"), 0.0], [3.0, 1.0]])
    goal = Goal("classification", 2)
    assert goal.wrong(outputs, torch.tensor([1, 0, 1, 0])).tolist() == [False, True, True, False]


def test_regression_misses_beyond_the_tolerance() -> None:
    goal = Goal("regression", 2, tolerance=0.5, scale=2.0)
    outputs = torch.tensor([[1.0, 1.0], [1.0, 1.0], [float("nan"), 1.0]])
    targets = torch.tensor([[2.0, 2.5], [2.0, 2.75], [2.0, 2.0]])
    assert goal.wrong(outputs, targets).tolist() == [False, True, True]
    assert float(goal.loss(outputs[:1], targets[:1])) == pytest.approx(0.25**2 / 2)


@given(
    st.sampled_from(["classification", "regression"]), st.integers(1, 1 << 16), st.floats(1e-4, 6e4)
)
def test_goals_come_back_from_their_bits(kind: str, outputs: int, number: float) -> None:
    half = half_above(number)
    assert half >= number
    assert half < 1.002 * number + 1e-7
    extra = {} if kind == "classification" else {"tolerance": half, "scale": half}
    goal = Goal(kind, outputs, **extra)  # type: ignore[arg-type]
    writer = BitWriter()
    goal.write(writer)
    assert Goal.read(BitReader(writer.to_bytes())) == goal


def test_a_message_without_outputs_or_with_an_odd_number_is_rejected() -> None:
    writer = BitWriter()
    writer.below(0, 2)
    writer.natural(0)
    with pytest.raises(Rejected, match=r"without outputs"):
        Goal.read(BitReader(writer.to_bytes()))
    for bits in (0x7C00, 0x7E00, 0x0000, 0x8001):
        writer = BitWriter()
        writer.below(1, 2)
        writer.natural(1)
        writer.below(bits, 1 << 16)
        writer.below(0x3C00, 1 << 16)
        with pytest.raises(Rejected, match=r"where a positive number belongs"):
            Goal.read(BitReader(writer.to_bytes()))


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (torch.tensor([0, 3]), r"expected labels from 0 to 2, got labels from 0 to 3"),
        (torch.tensor([-1, 2]), r"expected labels from 0 to 2, got labels from -1 to 2"),
        (torch.tensor([0.0, 1.0]), r"expected integer labels of shape \(n,\)"),
    ],
    ids=["high", "low", "floats"],
)
def test_labels_must_be_in_range(labels: torch.Tensor, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Goal("classification", 3).check(labels)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("sorting", 2), r"expected classification or regression, got 'sorting'"),
        (("classification", 0), r"expected 1 to 65536 outputs, got 0"),
        (("classification", 2, 0.5), r"expected a tolerance for a regression"),
        (("regression", 2), r"expected a tolerance for a regression"),
        (("regression", 2, 0.1), r"expected a positive 16-bit tolerance, got 0.1"),
        (("regression", 2, 0.5, -1.0), r"expected a positive 16-bit scale, got -1.0"),
    ],
    ids=["kind", "outputs", "needless", "missing", "not 16 bits", "scale"],
)
def test_bad_goals(arguments: tuple[object, ...], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Goal(*arguments)  # type: ignore[arg-type]
