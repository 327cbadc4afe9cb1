"""Assignment matrices against closed forms, scipy and dictionaries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.stats import entropy

from isotropy.sharing import rounded
from sharing.pieces import (
    canonical_labels,
    hard_assignment,
    rank_penalty,
    row_entropy,
    row_softmax,
)

LABELS = st.lists(st.integers(-5, 5), min_size=1, max_size=12)


def soft(*shape: int) -> torch.Tensor:
    return row_softmax(torch.randn(shape, generator=torch.Generator().manual_seed(0)).double())


def test_softmax_is_along_rows() -> None:
    logits = torch.tensor([[0.0, np.log(3.0)], [5.0, 5.0]]).double()
    expected = torch.tensor([[0.25, 0.75], [0.5, 0.5]]).double()
    torch.testing.assert_close(row_softmax(logits), expected)


def test_entropy_is_the_mean_over_rows() -> None:
    assignment = soft(2, 3, 5, 5)
    expected = entropy(assignment.numpy(), axis=-1).mean(-1)
    # the constant inside changes each entry by about 1e-6 (1 + log a)
    np.testing.assert_allclose(row_entropy(assignment).numpy(), expected, atol=1e-4)
    assert row_entropy(assignment).shape == (2, 3)


def test_entropy_has_the_published_constant() -> None:
    kept = np.array([1 + 1e-6, 1e-6])
    expected = -(kept * np.log(kept)).sum()
    assert float(row_entropy(torch.eye(2).double())) == pytest.approx(expected, rel=1e-9)


@given(LABELS)
@settings(max_examples=30, deadline=None)
def test_both_norms_of_a_partition_are_the_roots_of_its_sizes(labels: list[int]) -> None:
    assignment = hard_assignment(labels)
    sizes = np.unique(labels, return_counts=True)[1]
    for norm in ("columns", "nuclear"):
        assert float(rank_penalty(assignment, norm)) == pytest.approx(np.sqrt(sizes).sum())


def test_the_norms_are_two_square_roots_of_one_matrix() -> None:
    assignment = soft(6, 6)
    inner = (assignment.mT @ assignment).numpy()
    by_entry, by_matrix = np.trace(np.sqrt(inner)), np.trace(sqrtm(inner)).real
    assert float(rank_penalty(assignment)) == pytest.approx(by_entry)
    assert float(rank_penalty(assignment, "nuclear")) == pytest.approx(by_matrix)
    assert by_entry > by_matrix + 0.1
    uniform = torch.full((4, 4), 0.25)
    assert float(rank_penalty(uniform)) == pytest.approx(2.0)
    assert float(rank_penalty(uniform, "nuclear")) == pytest.approx(1.0)


def test_norms_keep_the_axes_of_a_batch() -> None:
    batch = soft(2, 3, 4, 4)
    for norm in ("columns", "nuclear"):
        each = [[float(rank_penalty(one, norm)) for one in row] for row in batch]
        np.testing.assert_allclose(rank_penalty(batch, norm).numpy(), each)


def test_an_unknown_norm_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected the rank norm 'columns' or 'nuclear', got 'l2"):
        rank_penalty(torch.eye(2), "l2")  # type: ignore[arg-type]


@given(LABELS)
@settings(max_examples=50, deadline=None)
def test_canonical_labels_number_blocks_as_they_come(labels: list[int]) -> None:
    names: dict[int, int] = {}
    expected = [names.setdefault(label, len(names)) for label in labels]
    assert canonical_labels(np.array(labels)).tolist() == expected


def test_canonical_labels_of_a_matrix_keep_its_shape() -> None:
    found = canonical_labels(np.array([[9, 4], [4, 1]]))
    assert found.tolist() == [[0, 1], [1, 2]]


@given(LABELS)
@settings(max_examples=30, deadline=None)
def test_rounding_undoes_hard_assignment(labels: list[int]) -> None:
    assignment = hard_assignment(labels)
    assert assignment.shape == (len(labels), len(labels))
    assert bool((assignment.sum(-1) == 1).all())
    assert rounded(assignment).tolist() == canonical_labels(np.array(labels)).tolist()


def test_rounding_takes_the_largest_entry_of_each_row_in_a_batch() -> None:
    assignment = soft(3, 5, 5).requires_grad_()
    found = rounded(assignment)
    assert found.shape == (3, 5)
    for one, labels in zip(assignment.detach().numpy(), found, strict=True):
        columns = one.argmax(1)
        assert (np.equal.outer(columns, columns) == np.equal.outer(labels, labels)).all()
