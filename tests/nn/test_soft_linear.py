"""Sums of equivariant layers: their spans, and which of the groups the evidence keeps."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from isotropy.equivariance import assert_equivariant
from isotropy.evidence import CurvatureOptions, LearningOptions, PriorOptions, laplace, learn_priors
from isotropy.groups import SO, Group, O, S, U, Z
from isotropy.nn import Linear, PathSum, soft_linear
from isotropy.reps import Scalar, V


def rows(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=rng)


def circulant(seed: int = 0) -> Tensor:
    kernel = rows(6, seed=seed)
    return torch.stack([kernel.roll(i) for i in range(6)])


def reached(layer: nn.Module, weight: Tensor) -> float:
    """How far x ↦ Wx is from the span of a layer, by least squares over all its parameters."""
    x = torch.eye(6, dtype=torch.float64)
    derivatives = jacrev(lambda p: functional_call(layer, p, (x,)))(dict(layer.named_parameters()))
    columns = torch.cat([d.flatten(2).flatten(0, 1) for d in derivatives.values()], 1)
    wanted = (x @ weight.mT).flatten()[:, None]
    best = torch.linalg.lstsq(columns, wanted, driver="gelsd").solution
    return float((columns @ best - wanted).norm())


def test_a_layer_has_a_path_for_each_group_and_a_free_one() -> None:
    layer = soft_linear(2 * V + Scalar, V, [SO(3), "O(3)"])
    assert isinstance(layer, PathSum)
    assert list(layer.paths) == ["SO(3)", "O(3)", "free"]
    assert (layer.in_features, layer.out_features) == (7, 3)
    for group, path in zip((SO(3), O(3)), layer.paths.values(), strict=False):
        assert isinstance(path, Linear)
        assert path.rep_in == (2 * V + Scalar)(group)
        assert path.rep_out == V(group)
    assert type(layer.paths["free"]) is nn.Linear
    assert layer(torch.randn(4, 5, 7)).shape == (4, 5, 3)


def test_names_and_representations_may_be_given() -> None:
    layer = soft_linear("V", "V+Scalar", {"all": S(6), "shifts": "Z(6)"}, free=False, bias=False)
    assert list(layer.paths) == ["all", "shifts"]
    assert layer.out_features == 7
    assert [name for name, _ in layer.named_parameters()] == [
        "paths.all.coefficients",
        "paths.shifts.coefficients",
    ]
    turn = Group(discrete=[torch.tensor([[0.6, -0.8], [0.8, 0.6]], dtype=torch.float64)])
    assert list(soft_linear(V, V, {"turns": turn}).paths) == ["turns", "free"]


def test_variances_are_those_given() -> None:
    layer = soft_linear(V, V, [S(6), Z(6)], prior_variances={"Z(6)": 4.0, "free": 0.01})
    assert layer.prior_variances == pytest.approx({"S(6)": 1.0, "Z(6)": 4.0, "free": 0.01})


def test_the_matrix_is_the_sum_of_those_of_all_paths() -> None:
    layer = soft_linear(V, V, [S(6), Z(6)], dtype=torch.float64)
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    x = rows(5, 6)
    weight = sum(path.weight for path in layer.paths.values())
    bias = sum(path.bias for path in layer.paths.values())
    torch.testing.assert_close(layer(x), x @ weight.mT + bias)  # type: ignore[attr-defined]


def test_bases_span_what_their_groups_allow() -> None:
    """All matrices, the circulant ones among them, and the symmetric ones among these."""
    double: Any = {"bias": False, "dtype": torch.float64}
    symmetric = 2 * torch.eye(6, dtype=torch.float64) + 0.5
    cyclic, any_one = circulant(), rows(6, 6)
    only_all = soft_linear(V, V, [S(6)], free=False, **double)
    with_shifts = soft_linear(V, V, [S(6), Z(6)], free=False, **double)
    with_free = soft_linear(V, V, [S(6), Z(6)], **double)
    for layer, weight in (
        (only_all, symmetric),
        (with_shifts, symmetric),
        (with_shifts, cyclic),
        (with_free, any_one),
    ):
        assert reached(layer, weight) < 1e-12
    # what is left of a matrix without its part in the commutant, in closed form
    off = ~torch.eye(6, dtype=torch.bool)
    left = cyclic - torch.where(off, cyclic[off].mean(), cyclic.diagonal().mean())
    assert reached(only_all, cyclic) == pytest.approx(float(left.norm()), rel=1e-9)
    assert reached(with_shifts, any_one) > 1


def test_without_the_free_path_a_layer_keeps_the_symmetry_that_groups_share() -> None:
    strict = soft_linear(V, V, [S(6), Z(6)], free=False, dtype=torch.float64)
    for parameter in strict.parameters():
        nn.init.normal_(parameter)
    x = rows(5, 6)
    torch.testing.assert_close(strict(x.roll(1, -1)), strict(x).roll(1, -1))
    swapped = [1, 0, 2, 3, 4, 5]
    assert not torch.allclose(strict(x[:, swapped]), strict(x)[:, swapped])
    assert_equivariant(soft_linear(V, V, [O(3), SO(3)], free=False, dtype=torch.float64))


def test_evidence_is_that_of_a_sum_of_gaussians() -> None:
    """Outputs of Σ_i B_i u_i + v are jointly Gaussian, so the evidence has a closed form."""
    layer = soft_linear(V, V, [S(6), Z(6)], dtype=torch.float64)
    parameters = dict(layer.named_parameters())
    variances = {"S(6)": 2.0, "Z(6)": 0.5, "free": 0.1}
    of = {name: variances[name.split(".")[1]] for name in parameters}
    x, noise = rows(20, 6), 0.5
    target = (x @ circulant() + noise * rows(20, 6, seed=1)).flatten()
    derivatives = jacrev(lambda p: functional_call(layer, p, (x,)))(parameters)
    columns = {name: d.reshape(target.numel(), -1) for name, d in derivatives.items()}
    covariance = noise**2 * torch.eye(target.numel(), dtype=torch.float64)
    covariance = covariance + sum(of[name] * c @ c.mT for name, c in columns.items())
    with torch.no_grad():
        for name, parameter in parameters.items():  # to the mode
            mean = of[name] * columns[name].mT @ torch.linalg.solve(covariance, target)
            parameter.copy_(mean.view_as(parameter))
    data = (x, target.view(20, 6))
    found = laplace(
        layer, "regression", data, groups=lambda name: name, curvature=CurvatureOptions("full")
    )
    precisions = {name: 1 / variance for name, variance in of.items()}
    exact = torch.distributions.MultivariateNormal(torch.zeros_like(target), covariance)
    torch.testing.assert_close(
        found.log_marginal_likelihood(precisions, noise=noise),
        exact.log_prob(target),
        rtol=1e-9,
        atol=0,
    )


@pytest.mark.parametrize("structure", ["kronecker", "block", "diagonal"])
def test_evidence_accounts_for_every_parameter(structure: Any) -> None:
    layer = soft_linear(V, V, [S(6), Z(6)], dtype=torch.float64)
    found = laplace(
        layer, "regression", (rows(9, 6), rows(9, 6, seed=1)), curvature=CurvatureOptions(structure)
    )
    assert set(found.blocks) == {name for name, _ in layer.named_parameters()}


@pytest.mark.parametrize("cyclic", [True, False], ids=["shifts hold", "nothing holds"])
def test_the_evidence_keeps_the_group_that_the_data_have(cyclic: bool) -> None:
    torch.manual_seed(0)
    layer = soft_linear(V, V, [S(6), Z(6)], dtype=torch.float64)
    x = rows(300, 6)
    weight = circulant(seed=2) if cyclic else rows(6, 6, seed=2)
    learned = learn_priors(
        layer,
        "regression",
        (x, x @ weight.mT + 0.5 * rows(300, 6, seed=1)),
        epochs=100,
        learning_rate=0.01,
        learning=LearningOptions(optimiser=partial(torch.optim.SGD, momentum=0.9)),
        priors=PriorOptions(noise=0.5),
    )
    used, variances = learned.effective.normalised, layer.prior_variances
    assert used["paths.Z(6)"] > 0.9
    if cyclic:
        assert used["paths.free"] < 0.5
        assert variances["free"] < 0.01 * variances["Z(6)"]
        assert layer.paths["free"].weight.norm() < 0.1 * weight.norm()
    else:
        assert used["paths.free"] > 0.9
        assert variances["free"] > variances["Z(6)"]


def test_copies_states_and_compilation() -> None:
    layer, x = soft_linear(V, V, [S(6), Z(6)], prior_variances={"free": 0.1}), torch.randn(5, 6)
    y = layer(x)
    other = soft_linear(V, V, [S(6), Z(6)])
    other.load_state_dict(layer.state_dict())
    for twin in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x), y)
        assert twin.prior_variances == layer.prior_variances
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), y)


def test_devices_and_precisions() -> None:
    layer = soft_linear(V, V, [S(6), Z(6)], device="meta", dtype=torch.float64)
    assert {tensor.device.type for tensor in layer.state_dict().values()} == {"meta"}
    assert {parameter.dtype for parameter in layer.parameters()} == {torch.float64}
    layer = soft_linear(V, V, [SO(2), U(2)], dtype=torch.complex128)
    assert {parameter.dtype for parameter in layer.parameters()} == {torch.complex128}
    assert layer(rows(3, 2).to(torch.complex128)).shape == (3, 2)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: soft_linear(V, V, []), r"expected at least one group, got none"),
        (lambda: soft_linear(V, V, [S(4), "S(4)"]), r"expected each group once, got S\(4\) again"),
        (
            lambda: soft_linear(V, V, {"a": S(4), "b": S(4)}),
            r"expected each group once, got S\(4\) again",
        ),
        (
            lambda: soft_linear(V, V, {"free": S(4)}),
            r"expected names of paths without a dot, and not 'free', got 'free'",
        ),
        (
            lambda: soft_linear(V, V, [Group(discrete=[torch.tensor([[0.0, 1.5], [1.0, 0.0]])])]),
            r"expected names of paths without a dot, .*: give groups as \{name: group\}",
        ),
        (
            lambda: soft_linear(V, V, [S(4), Z(5)]),
            r"expected paths with the same in_features, got .*'S\(4\)': 4, 'Z\(5\)': 5",
        ),
        (
            lambda: soft_linear(V, Scalar, [S(3), SO(3)]),
            r"expected two spaces with an equivariant linear map between them",
        ),
        (
            lambda: soft_linear(V(S(4)), V, [Z(4)]),
            r"expected a representation of Z\(4\), got V\(S\(4\)\) of S\(4\)",
        ),
        (
            lambda: soft_linear(V, V, [SO(2), U(2)]),
            r"expected groups that are all real or all complex, got .*: give a complex dtype=",
        ),
        (
            lambda: soft_linear(V, V, [S(4)], prior_variances={"Z(4)": 1.0}),
            r"expected prior variances for S\(4\), free, got one for 'Z\(4\)'",
        ),
    ],
    ids=[
        "no group",
        "twice",
        "two names",
        "called free",
        "a name with a dot",
        "widths",
        "no map",
        "bound to another",
        "real and complex",
        "variance of no path",
    ],
)
def test_bad_inputs(build: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build()


@pytest.mark.parametrize("group", [S(4), "S(4)"], ids=["a group", "its name"])
def test_a_single_group_is_not_several(group: Group | str) -> None:
    with pytest.raises(TypeError, match=r"expected several groups, got S\(4\): write \[S\(4\)\]"):
        soft_linear(V, V, group)  # type: ignore[arg-type]


def test_the_name_free_is_free_without_a_free_path() -> None:
    assert list(soft_linear(V, V, {"free": S(4)}, free=False).paths) == ["free"]
