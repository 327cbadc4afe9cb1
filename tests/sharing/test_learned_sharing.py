"""The estimator of learned sharing: what it finds, scikit-learn's manners, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

from isotropy.equivariance import partition_distance
from isotropy.nn import SharedLinear
from isotropy.sharing import BilevelOptions, LearnedSharing, ModuleSharingOptions
from isotropy_papers.sharing_tasks import cross_correlation, shared_means
from partitions import canonical_labels

Array = NDArray[np.float64]

CIRCULANT = np.array([[0, 1, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1], [1, 2, 3, 0]])
QUICK: dict[str, dict[str, Any]] = {
    "evidence": {},
    "relaxation": {"steps": 300, "rank": 0.05, "optimiser": "rmsprop"},
    "brute force": {},
}


def circulant_data(rows: int = 80, offsets: Array | float = 0.0) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 4))
    g = np.array([1.0, -2.0, 0.0, 4.0])[CIRCULANT]
    return x, x @ g.T + offsets + 0.1 * rng.normal(size=(rows, 4))


def least_squares(x: Array, y: Array, labels: Any, offsets: Any) -> tuple[Array, Array]:
    """The joint fit of a map and its offsets that share, by a solver on an explicit design."""
    (rows, m), n, k = y.shape, x.shape[1], labels.max() + 1
    design = np.zeros((rows, m, k + offsets.max() + 1))
    for i in range(m):
        for j in range(n):
            design[:, i, labels[i, j]] += x[:, j]
        design[:, i, k + offsets[i]] += 1
    found = np.linalg.lstsq(design.reshape(rows * m, -1), y.ravel(), rcond=None)[0]
    return found[:k][labels], found[k:][offsets]


@pytest.mark.parametrize("method", ["evidence", "relaxation", "brute force"])
def test_every_method_finds_two_means(method: Any) -> None:
    y = shared_means(4, rank=2, seed=1)
    found = LearnedSharing(method=method, **QUICK[method]).fit(None, y.y)
    assert found.labels_.tolist() == canonical_labels(y.labels).tolist()
    for block in range(2):
        expected = y.y.numpy()[:, found.labels_ == block].mean()
        np.testing.assert_allclose(found.intercept_[found.labels_ == block], expected)
    assert found.interrupted_ is False
    assert hasattr(found, "assignment_") == (method == "relaxation")
    assert hasattr(found, "log_evidence_") == (method == "evidence")


@pytest.mark.parametrize("method", ["evidence", "relaxation", "brute force"])
def test_every_method_finds_a_map(method: Any) -> None:
    task = cross_correlation(3, (1, 4), seed=0)
    found = LearnedSharing(method=method, **QUICK[method]).fit(task.x, task.y)
    assert found.labels_.tolist() == canonical_labels(task.labels).tolist()
    assert np.abs(found.coef_ - task.map.numpy()).max() < 0.05
    assert len(np.unique(found.coef_)) == 3


def test_a_circulant_map_and_its_name() -> None:
    x, y = circulant_data(offsets=1.5)
    found = LearnedSharing().fit(x, y)
    assert found.labels_.tolist() == CIRCULANT.tolist()
    assert found.intercept_labels_.tolist() == [0, 0, 0, 0]
    assert found.name_.name.startswith("Z(4)")


def test_offsets_that_differ_break_the_symmetry_of_the_map() -> None:
    x, y = circulant_data(offsets=np.array([0.0, 0.0, 3.0, 3.0]))
    found = LearnedSharing().fit(x, y)
    assert found.labels_.tolist() == CIRCULANT.tolist()
    assert found.intercept_labels_.tolist() == [0, 0, 1, 1]
    assert not found.name_.name.startswith("Z(4)")


@pytest.mark.parametrize("middle", [0.0, 30.0])
def test_map_and_offsets_are_the_joint_fit_of_all_rows(middle: float) -> None:
    x, y = circulant_data()
    y = y + np.array([0.0, 0.3, 0.0, 0.3])
    found = LearnedSharing().fit(x + middle, y)
    # far from the origin an offset alone is hardly known, but the difference of two still is
    assert found.intercept_labels_.tolist() == [0, 1, 0, 1]
    g, c = least_squares(x + middle, y, found.labels_, found.intercept_labels_)
    np.testing.assert_allclose(found.coef_, g, atol=1e-8)
    np.testing.assert_allclose(found.intercept_, c, atol=1e-6)


def test_without_offsets_the_map_is_the_fit_of_all_rows() -> None:
    x, y = circulant_data()
    found = LearnedSharing(fit_intercept=False).fit(x, y)
    design = np.zeros((len(x), 4, 4))
    for i in range(4):
        for j in range(4):
            design[:, i, CIRCULANT[i, j]] += x[:, j]
    psi = np.linalg.lstsq(design.reshape(-1, 4), y.ravel(), rcond=None)[0]
    np.testing.assert_allclose(found.coef_, psi[CIRCULANT], atol=1e-10)
    assert found.intercept_.tolist() == [0.0] * 4
    assert not hasattr(found, "intercept_labels_")


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_model_is_what_predicts(fit_intercept: bool) -> None:
    x, y = circulant_data(offsets=np.array([0.0, 2.0, 2.0, 5.0]))
    found = LearnedSharing(fit_intercept=fit_intercept).fit(x, y)
    assert isinstance(found.model_, SharedLinear)
    fresh = np.random.default_rng(1).normal(size=(7, 4))
    by_model = found.model_(torch.as_tensor(fresh)).detach().numpy()
    np.testing.assert_allclose(found.predict(fresh), by_model, atol=1e-12)
    free = len(np.unique(found.labels_)) + len(set(getattr(found, "intercept_labels_", ())))
    assert sum(parameter.numel() for parameter in found.model_.parameters()) == free


def test_the_model_of_a_mean() -> None:
    task = shared_means(3, rank=2, seed=2)
    found = LearnedSharing().fit(None, task.y)
    predicted = found.predict(np.zeros((5, 1)))
    assert predicted.shape == (5, 3)
    by_model = found.model_(torch.ones(5, 1, dtype=torch.float64)).detach().numpy()
    np.testing.assert_allclose(predicted, by_model)
    np.testing.assert_allclose(predicted[0], found.intercept_)


@pytest.mark.parametrize("flat", [True, False])
def test_predictions_have_the_shape_of_the_targets(flat: bool) -> None:
    x, y = circulant_data()
    y = y[:, 0] if flat else y[:, :1]
    found = LearnedSharing().fit(x, y)
    assert found.predict(x).shape == y.shape
    assert found.labels_.shape == (1, 4)
    assert LearnedSharing().fit(None, y).predict(x).shape == y.shape


def test_tensors_are_as_good_as_arrays() -> None:
    x, y = circulant_data()
    plain = LearnedSharing().fit(x, y)
    tensors = LearnedSharing().fit(torch.tensor(x, requires_grad=True), torch.tensor(y))
    np.testing.assert_array_equal(plain.coef_, tensors.coef_)
    np.testing.assert_array_equal(plain.predict(x), tensors.predict(torch.tensor(x)))


def test_parameters_and_clones() -> None:
    given = LearnedSharing(method="relaxation", rank=0.5, seed=3)
    assert given.get_params()["rank"] == 0.5
    copy = clone(given)
    assert copy is not given
    assert copy.get_params() == given.get_params()
    assert given.set_params(rank=0.25) is given
    assert given.rank == 0.25
    assert copy.rank == 0.5
    assert repr(given) == "LearnedSharing(method='relaxation', rank=0.25, seed=3)"


def test_nothing_happens_before_the_fit_and_fit_returns_self() -> None:
    sharing = LearnedSharing(method="luck", validation=7)  # type: ignore[arg-type]
    assert not [name for name in vars(sharing) if name.endswith("_")]
    x, y = circulant_data()
    sharing = LearnedSharing()
    before = sharing.get_params()
    assert sharing.fit(x, y) is sharing
    assert sharing.get_params() == before


def test_the_score_is_that_of_regression() -> None:
    x, y = circulant_data()
    sharing = LearnedSharing().fit(x, y)
    left = ((y - sharing.predict(x)) ** 2).sum(0) / ((y - y.mean(0)) ** 2).sum(0)
    assert sharing.score(x, y) == pytest.approx(1 - left.mean())
    assert cross_val_score(LearnedSharing(), x, y, cv=3).min() > 0.99


def test_a_second_fit_forgets_the_first() -> None:
    x, y = circulant_data(rows=30)
    sharing = LearnedSharing(method="relaxation", steps=1).fit(x, y)
    sharing.set_params(method="evidence", fit_intercept=False).fit(x, y)
    assert not hasattr(sharing, "assignment_")
    assert not hasattr(sharing, "intercept_labels_")
    sharing.set_params(method="relaxation").fit(x, y)
    assert not hasattr(sharing, "log_evidence_")


def test_seeds_repeat_and_mini_batches_are_used() -> None:
    x, y = circulant_data(rows=30)
    found = [
        LearnedSharing(method="relaxation", steps=5, seed=seed, batch_size=size).fit(x, y)
        for seed, size in ((0, None), (0, None), (1, None), (0, 4))
    ]
    first, again, other, batched = (one.assignment_ for one in found)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, batched)
    assert first.shape == (16, 16)


def test_sharing_beats_the_free_fit() -> None:
    """Where rows are few; the free fit has 64 weights, the shared one 4."""
    task = cross_correlation(8, (1, 3), samples=24, noise=1.0, circular=True, seed=0)
    assert task.x is not None
    x, y = task.x.numpy(), task.y.numpy()
    free = np.linalg.lstsq(x, y, rcond=None)[0].T
    found = LearnedSharing(fit_intercept=False).fit(x, y)
    error = ((found.coef_ - task.map.numpy()) ** 2).sum()
    assert error < 0.5 * ((free - task.map.numpy()) ** 2).sum()
    assert partition_distance(found.labels_, task.labels) <= 6


@pytest.mark.parametrize("method", ["evidence", "relaxation"])
def test_an_interrupted_fit_keeps_the_best_and_says_so(method: Any) -> None:
    x, y = circulant_data()

    def interrupt(step: object) -> None:
        raise KeyboardInterrupt

    found = LearnedSharing(method=method, progress=interrupt).fit(x, y)
    assert found.interrupted_
    assert found.labels_.shape == (4, 4)
    assert found.score(x, y) > 0
    assert found.predict(x).shape == y.shape


def test_a_constant_mean_is_read_off() -> None:
    rows = np.tile([1.0, 1.0, 5.0], (6, 1))
    assert LearnedSharing().fit(None, rows).labels_.tolist() == [0, 0, 1]
    assert LearnedSharing().fit(None, np.zeros((6, 3))).labels_.tolist() == [0, 0, 0]


def test_an_input_that_never_varies_does_no_harm() -> None:
    x, y = circulant_data()
    wider = np.column_stack([x, np.full(len(x), 3.0)])
    found = LearnedSharing().fit(wider, y)
    assert partition_distance(found.labels_[:, :4], CIRCULANT) == 0
    assert found.score(wider, y) > 0.99


def spoiled(table: Array, value: float) -> Array:
    table = table.copy()
    table[5, 1] = value
    return table


X, Y = circulant_data(rows=20)


@pytest.mark.parametrize(
    ("options", "x", "y", "sentence"),
    [
        ({}, X, spoiled(Y, np.nan), r"expected finite targets, got nan in row 5"),
        ({}, spoiled(X, np.inf), Y, r"expected finite inputs, got inf in row 5"),
        ({}, None, spoiled(Y, np.nan), r"expected finite targets, got nan in row 5"),
        ({}, X, np.ones((20, 2)), r"expected targets that vary, got the same values in every row"),
        ({}, np.ones((20, 2)), Y, r"expected inputs that vary, got the same values in every row"),
        ({}, X[:3], Y[:3], r"expected at least 4 rows to split, got 3"),
        ({}, X[:9], Y, r"expected as many rows of inputs as of targets, got 9 and 20"),
        ({"method": "luck"}, X, Y, r"expected the method 'evidence', .* got 'luck'"),
        ({"validation": 0.0}, X, Y, r"expected a validation share between 0 and 1, got 0.0"),
        ({"validation": 1.5}, X, Y, r"expected a validation share between 0 and 1, got 1.5"),
        (
            {"validation": 0.99, "method": "relaxation"},
            X,
            Y,
            r"expected rows for training and for validation, got 20 rows to split at .* 0.99",
        ),
        ({}, X[:5], Y[:5], r"expected more rows than the 4 inputs and the offset, .* got 5"),
        (
            {"fit_intercept": False},
            X[:4],
            Y[:4],
            r"expected more rows than the 4 inputs, to know .* got 4",
        ),
        ({"method": "brute force"}, X, Y, r"expected between 1 and 10 elements .* got 16"),
        ({}, X[:, :, None], Y, r"expected inputs of shape \(rows, columns\), got \(20, 4, 1\)"),
        ({}, X, Y[:0], r"expected targets of shape \(rows, columns\), got \(0, 4\)"),
        (
            {"method": "relaxation", "restarts": 0},
            X,
            Y,
            r"expected at least one restart, got 0",
        ),
        (
            {"method": "relaxation", "optimiser": "sgd"},
            X,
            Y,
            r"expected the optimiser 'adam' or 'rmsprop', got 'sgd'",
        ),
    ],
)
def test_bad_input_is_one_sentence(options: Any, x: Any, y: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        LearnedSharing(**options).fit(x, y)


def test_bad_input_of_predict() -> None:
    with pytest.raises(NotFittedError):
        LearnedSharing().predict(X)
    found = LearnedSharing().fit(X, Y)
    with pytest.raises(ValueError, match=r"expected inputs of width 4, got 3"):
        found.predict(X[:, :3])
    with pytest.raises(ValueError, match=r"expected finite inputs, got nan in row 5"):
        found.predict(spoiled(X, np.nan))


class TestModels:
    """Parameters of torch modules."""

    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    y = x @ torch.tensor([[1.0], [1.0], [-2.0], [1.0]])

    def test_a_linear_module_is_solved_in_closed_form(self):
        found = LearnedSharing(torch.nn.Linear(4, 1, bias=False)).fit(self.x, self.y)
        assert found.labels_.tolist() == [[0, 0, 1, 0]]
        assert not hasattr(found, "assignment_")
        np.testing.assert_allclose(found.predict(self.x), self.y, atol=1e-5)
        assert found.model_(self.x.double()).shape == (200, 1)

    def test_slices_along_an_axis_by_implicit_differentiation(self):
        search = BilevelOptions(inner_steps=5, outer_steps=30, outer_rate=0.2, terms=5)
        options = ModuleSharingOptions(search=search)
        net = torch.nn.Linear(4, 1)
        before = net.weight.detach().clone()
        found = LearnedSharing(net, tensor="weight", axis=1, options=options).fit(self.x, self.y)
        assert found.labels_.tolist() == [0, 0, 1, 0]
        assert found.assignment_.shape == (3, 4, 4)
        weight = found.model_.weight.detach()[0]
        assert weight[0] == weight[1] == weight[3]
        assert found.score(self.x, self.y) > 0.99
        assert found.name_.name == "S(3), positions 0, 1, 3"
        torch.testing.assert_close(net.weight.detach(), before)  # the given one stays as it was

    def test_options_as_a_mapping_work_and_warn(self):
        sharing = LearnedSharing(torch.nn.Linear(4, 1), options={"folds": 1})  # type: ignore[arg-type]
        with (
            pytest.warns(DeprecationWarning, match=r"are now ModuleSharingOptions"),
            pytest.raises(ValueError, match=r"folds of at least 2"),
        ):
            sharing.fit(self.x, self.y)

    def test_which_tensor_is_meant_must_be_said_where_there_are_several(self):
        net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 1))
        with pytest.raises(ValueError, match=r"expected tensor= to say which of 0.weight"):
            LearnedSharing(net).fit(self.x, self.y)
        with pytest.raises(ValueError, match=r"nothing"):
            LearnedSharing(net, tensor="nothing", axis=0).fit(self.x, self.y)
