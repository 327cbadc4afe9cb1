"""Recorded operations give back the outputs and the gradients of the network they are from."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from isotropy.groups import SO, C2d, D, O, S, SO13p, U, Z
from isotropy.nn import (
    EMLP,
    BiLinear,
    EMLPBlock,
    Linear,
    NormNonlinearity,
    SharedLinear,
    _block_weights,
    _row_products,
    fixed_weights,
    record,
)
from isotropy.reps import Rep, Scalar, T, V

PLANE, FACES = V(C2d(4)), V(S(3))  # quarter turns permute with signs, and faces without
LABELS = torch.tensor([[0, 1, -1], [1, 0, 2]])
MODELS: dict[str, Callable[[], nn.Module]] = {
    "orthogonal": lambda: Linear(V + 2 * Scalar + T(2), Scalar + V, O(3)),
    "orthogonal tensors": lambda: Linear(2 * V + T(2) + V, T(2) + V + T(2) + Scalar, O(3)),
    "bias alone": lambda: Linear(V, V + Scalar, O(3)),
    "rotations of the plane": lambda: Linear(2 * V + Scalar, V + Scalar + V, SO(2)),
    "Lorentz": lambda: Linear(V + Scalar, V.T + Scalar, SO13p()),
    "Lorentz tensors": lambda: Linear(T(2) + V + T(2), V + 3 * T(2) + Scalar, SO13p()),
    "unitary": lambda: Linear(V + Scalar + V, 2 * Scalar + 3 * V, U(2)),
    "permutations": lambda: Linear(2 * V, V + Scalar, S(3)),
    "permuted tensors": lambda: Linear(V + 2 * Scalar + T(2) + V, V + Scalar + 2 * V, S(4)),
    "cyclic": lambda: Linear(2 * V + Scalar, V + Scalar + V, Z(4)),
    "dihedral": lambda: Linear(V + 2 * Scalar, 2 * V, D(4), bias=False),
    "signed permutations": lambda: Linear(2 * PLANE + FACES, FACES + 2 * PLANE + PLANE * FACES),
    "shared": lambda: SharedLinear(LABELS),
    "shared with signs": lambda: SharedLinear(
        LABELS, torch.tensor([[1, -1, 1], [1, -1, -1]]), bias=torch.tensor([0, 0])
    ),
    "shared without bias": lambda: SharedLinear(LABELS, bias=False),
    "bilinear": lambda: BiLinear(2 * V + T(2), Scalar + V, O(3)),
    "bilinear out of order": lambda: BiLinear(V + T(2) + V, V + T(2) + V, S(3)),
    "norm": lambda: NormNonlinearity(V + 2 * Scalar + T(2) + V, SO(3)),
    "complex norm": lambda: NormNonlinearity(2 * V + Scalar, U(2)),
    "block": lambda: EMLPBlock(2 * V, 3 * Scalar + 2 * V, SO(3)),
    "orthogonal network": lambda: EMLP(2 * V, V + Scalar, O(3), channels=18, layers=2),
    "network of the plane": lambda: EMLP(2 * V, V, SO(2), channels=[3 * Scalar + 2 * V]),
    "Lorentz network": lambda: EMLP(2 * V, V + Scalar, SO13p(), channels=16, layers=2),
    "permutation network": lambda: EMLP(2 * V, V, S(3), channels=18, layers=2),
    "norm network": lambda: EMLP(2 * V, V, O(3), channels=18, layers=1, nonlinearity="norm"),
}


def built(model: nn.Module) -> nn.Module:
    rng = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            dtype = torch.complex128 if parameter.is_complex() else torch.float64
            parameter.data = parameter.data.to(dtype)
            parameter.add_(0.3 * torch.randn(parameter.shape, dtype=dtype, generator=rng))
    if not any(parameter.is_complex() for parameter in model.parameters()):
        return model.double()
    model._apply(lambda t: t.to(torch.complex128) if t.is_complex() else t)
    return model


def rows(model: nn.Module, *lead: int) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    spaces = (getattr(model, "rep_in", Scalar), getattr(model, "rep_out", Scalar))
    is_complex = any(rep.is_complex for rep in spaces if isinstance(rep, Rep))
    dtype = torch.complex128 if is_complex else torch.float64
    return torch.randn(*lead, model.in_features, dtype=dtype, generator=rng)


def loss_of(y: Tensor) -> Tensor:
    """Not the same for any two outputs."""
    weights = torch.linspace(0.5, 1.5, y.shape[-1], dtype=torch.float64)
    return (weights * (y.abs().square() + y.real)).sum()


def matrix_of(operation: Any, parameters: dict[str, Tensor]) -> Tensor:
    flat = parameters[operation.parameter].flatten()
    assert operation.entries is not None
    return flat[operation.entries]


def gradients_by_sample(
    operations: list[Any], loss: Tensor, parameters: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Σ g ⊗ a over all axes but that of the samples, put at the entries of each operation."""
    outputs = [operation.output for operation in operations]
    at_outputs = torch.autograd.grad(loss, outputs, allow_unused=True, materialize_grads=True)
    found: dict[str, Tensor] = {}
    for operation, g in zip(operations, at_outputs, strict=True):
        a, b = operation.input_rows(), operation.gradient_rows(g)
        outer = b.unsqueeze(-1) * a.conj().unsqueeze(-2)
        each = outer.reshape(len(outer), -1, *outer.shape[-2:]).sum(1)
        parameter = parameters[operation.parameter]
        here = found.setdefault(
            operation.parameter, each.new_zeros(len(each), parameter.numel()).to(parameter.dtype)
        )
        here.index_add_(1, operation.entries.flatten(), each.flatten(1).to(here.dtype))
    return found


def require_gradients_by_sample(model: nn.Module, x: Tensor) -> list[Any]:
    """Compare what operations give with what autograd gives for one sample at a time."""
    parameters = dict(model.named_parameters())
    with record(model) as operations:
        loss = loss_of(model(x))
    found = gradients_by_sample(operations, loss, parameters)
    assert set(found) == set(parameters)
    for n, sample in enumerate(x if x.ndim > 1 else [x]):
        expected = torch.autograd.grad(loss_of(model(sample)), tuple(parameters.values()))
        for (name, own), gradient in zip(parameters.items(), expected, strict=True):
            torch.testing.assert_close(found[name][n].reshape(own.shape), gradient)
    return operations


@pytest.mark.parametrize("lead", [(3,), (2, 3), (2, 2, 2), ()], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_operations_give_the_gradient_of_every_parameter_for_every_sample(
    name: str, lead: tuple[int, ...]
) -> None:
    """What curvature is made of: dL/dW = Σ g aᵀ, one for each sample."""
    model = built(MODELS[name]())
    operations = require_gradients_by_sample(model, rows(model, *lead))
    for operation in operations:
        a = operation.input_rows()
        b = operation.gradient_rows(torch.zeros_like(operation.output))
        assert a.shape[:-1] == b.shape[:-1]
        assert a.shape[: max(1, len(lead))] == (lead or (1,))
        assert operation.axes[: len(lead) - 1] == ("position",) * (len(lead) - 1)
        assert set(operation.axes[max(0, len(lead) - 1) :]) <= {"group", "component"}
        assert len(operation.axes) == a.ndim - 2
        assert operation.entries.shape == (b.shape[-1], a.shape[-1])


@pytest.mark.parametrize("lead", [(3,), (2, 3)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_every_output_is_made_of_rows_times_weights(name: str, lead: tuple[int, ...]) -> None:
    model = built(MODELS[name]())
    with record(model) as operations:
        model(rows(model, *lead))
    parameters = dict(model.named_parameters())
    shares: dict[int, tuple[Tensor, Tensor]] = {}
    for operation in operations:
        if operation.parameter.endswith("offsets"):
            continue  # what they are added to is no product: a test of its own
        share = operation.input_rows() @ matrix_of(operation, parameters).mT
        # a selection of columns goes back by its transpose
        _, back = torch.func.vjp(operation.gradient_rows, torch.zeros_like(operation.output))
        output, before = shares.get(id(operation.output), (operation.output, 0))
        shares[id(output)] = output, before + back(share)[0]
    assert shares or "norm" in name
    for output, made in shares.values():
        torch.testing.assert_close(made, output)


def added_to(model: nn.Module, x: Tensor) -> list[tuple[int, Tensor]]:
    """What offsets are added to, by the place of the term."""
    with record(model) as operations:
        model(x)
    return [
        (
            operation.part,
            operation.gradient_rows(operation.output)
            - operation.input_rows() @ model.offsets[operation.entries].mT,
        )
        for operation in operations
    ]


def test_offsets_are_added_to_lengths() -> None:
    model = built(MODELS["norm"]())
    x = rows(model, 4, 2)
    vectors, tensors = x[..., [0, 1, 2, 14, 15, 16]].unflatten(-1, (2, 3)), x[..., None, 5:14]
    (first, lengths), (last, sizes) = added_to(model, x)
    assert (first, last) == (0, 2)
    torch.testing.assert_close(lengths, vectors.norm(dim=-1))
    torch.testing.assert_close(sizes, tensors.norm(dim=-1))


def test_offsets_are_added_to_complex_lengths() -> None:
    model = built(MODELS["complex norm"]())
    x = rows(model, 4, 2)
    (first, lengths), (last, sizes) = added_to(model, x)
    assert (first, last) == (0, 1)
    torch.testing.assert_close(lengths, x[..., :4].unflatten(-1, (2, 2)).norm(dim=-1))
    torch.testing.assert_close(sizes, x[..., 4:].abs())


@pytest.mark.parametrize("name", MODELS)
def test_operations_share_out_every_parameter_and_go_by_its_name(name: str) -> None:
    inner = built(MODELS[name]())
    model = nn.ModuleDict({"inner": nn.Sequential(nn.Identity(), inner)})
    with record(model) as operations:
        model["inner"](rows(inner, 2))
    parameters = dict(model.named_parameters())
    assert {operation.parameter for operation in operations} == set(parameters)
    parts = [(operation.parameter, operation.part) for operation in operations]
    assert len(set(parts)) == len(parts)
    for key, parameter in parameters.items():
        entries = [o.entries.flatten() for o in operations if o.parameter == key]
        assert torch.equal(torch.cat(entries).sort().values, torch.arange(parameter.numel()))


@pytest.mark.parametrize("name", MODELS)
def test_recording_changes_no_output(name: str) -> None:
    model = built(MODELS[name]())
    x = rows(model, 3)
    with record(model):
        y = model(x)
    assert torch.equal(y, model(x))


def shapes(model: nn.Module, n: int) -> list[tuple[str, int, tuple[int, ...], tuple[int, ...]]]:
    with record(model) as operations:
        model(rows(model, n))
    return [
        (o.parameter, o.part, tuple(o.input_rows().shape), tuple(o.entries.shape))
        for o in operations
    ]


def test_orthogonal_layers_have_one_operation_for_each_kind() -> None:
    # V is one kind; matrices are a trace, a symmetric and an antisymmetric kind
    model = built(Linear(V + 2 * Scalar + T(2), Scalar + 2 * V + T(2), O(3)))
    found = shapes(model, 5)
    kinds = {part: sizes for name, part, *sizes in found if name == "coefficients"}
    assert kinds.pop(0) == [(5, 1, 3), (2, 3)]
    sizes = sorted(kinds.values())
    assert sizes == [[(5, 3, 1), (1, 1)], [(5, 3, 1), (2, 1)], [(5, 5, 1), (1, 1)]]
    assert found[-1] == ("bias_coefficients", 0, (5, 1, 1), (2, 1))


def test_a_complex_kind_has_two_columns_for_each_copy() -> None:
    model = built(MODELS["rotations of the plane"]())
    found = shapes(model, 5)
    assert ("coefficients", 1, (5, 2, 4), (2, 4)) in found


def test_permutation_layers_have_one_operation_for_each_output_term() -> None:
    model = built(Linear(2 * V + Scalar, 3 * V + Scalar, S(4)))
    assert shapes(model, 5) == [
        ("coefficients", 0, (5, 4, 2 * 2 + 1), (3, 5)),
        ("coefficients", 1, (5, 1, 2 * 1 + 1), (1, 3)),
        ("bias_coefficients", 0, (5, 4, 1), (3, 1)),
        ("bias_coefficients", 1, (5, 1, 1), (1, 1)),
    ]


def test_rows_of_a_permutation_layer_are_sums_over_orbits() -> None:
    layer = built(Linear(V, V, S(4), bias=False))
    x = rows(layer, 3)
    with record(layer) as operations:
        layer(x)
    (operation,) = operations
    own, others = x, x.sum(-1, keepdim=True) - x
    one = int((layer.weight_space.labels[0, 0] != 0).item())  # which orbit is the diagonal
    columns = (others, own) if one else (own, others)
    torch.testing.assert_close(operation.input_rows(), torch.stack(columns, -1))


def test_output_terms_without_maps_have_no_operation() -> None:
    layer = built(Linear(V, Scalar + 2 * V, SO13p()))
    assert shapes(layer, 5) == [
        ("coefficients", 1, (5, 4, 1), (2, 1)),
        ("bias_coefficients", 0, (5, 1, 1), (1, 1)),
    ]


def test_weights_shared_by_any_labels_are_to_be_taken_together() -> None:
    layer = built(SharedLinear(LABELS, bias=torch.tensor([1, 0])))
    x = rows(layer, 4)
    with record(layer) as operations:
        layer(x)
    weights, biases = operations
    a, b, c = x.T
    zero = torch.zeros_like(a)
    expected = torch.stack([torch.stack([a, b, zero], -1), torch.stack([b, a, c], -1)], 1)
    assert torch.equal(weights.input_rows(), expected)
    one_hot = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    assert torch.equal(biases.input_rows(), one_hot.expand(4, 2, 2))
    assert weights.exact
    assert biases.exact


def test_a_bias_for_every_output_is_a_plain_one() -> None:
    layer = built(SharedLinear(LABELS))
    with record(layer) as operations:
        layer(rows(layer, 4))
    weights, biases = operations
    assert weights.exact
    assert not biases.exact
    assert biases.axes == ()
    assert torch.equal(biases.input_rows(), torch.ones(4, 1, dtype=torch.float64))


@pytest.mark.parametrize("name", [n for n in MODELS if not n.startswith("shared")])
def test_layers_of_representations_have_structure(name: str) -> None:
    model = built(MODELS[name]())
    with record(model) as operations:
        model(rows(model, 2))
    assert operations
    assert not any(operation.exact for operation in operations)


@pytest.mark.parametrize("name", ["permuted tensors", "signed permutations", "shared with signs"])
def test_many_orbits_give_the_same_rows_as_few(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = built(MODELS[name]())
    x = rows(model, 2, 3)
    with record(model) as operations:
        model(x)
    few = [operation.input_rows() for operation in operations]
    monkeypatch.setattr(_row_products, "FEW_LABELS", 0)
    for operation, expected in zip(operations, few, strict=True):
        torch.testing.assert_close(operation.input_rows(), expected)


@pytest.mark.parametrize("name", ["Lorentz tensors", "unitary"])
def test_bases_too_large_to_be_dense_give_their_rows_too(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_block_weights, "LARGEST_DENSE_BLOCK", 1)
    model = built(MODELS[name]())
    assert all(block.is_plain or block.basis is not None for block in model.weight_space.blocks)
    require_gradients_by_sample(model, rows(model, 2, 3))


def test_a_frame_within_a_network_is_recorded_as_it_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Layers are not called one by one, and no whole matrix is built."""
    model = built(MODELS["orthogonal network"]())
    for layer in (Linear, EMLPBlock):
        monkeypatch.setattr(layer, "forward", lambda *_: pytest.fail("called by itself"))
    x = rows(model, 2, 3)
    with record(model) as operations:
        model(x)
    assert all(o.input_rows().shape[:2] == (2, 3) for o in operations)


def test_nothing_is_made_for_a_record_that_is_not_on(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [built(MODELS[name]()) for name in ("orthogonal", "Lorentz", "cyclic", "shared")]
    for model in models:
        space = type(model.weight_space)
        monkeypatch.setattr(space, "products", lambda _: pytest.fail("asked for products"))
        model(rows(model, 2))


def test_gradients_flow_through_rows() -> None:
    """Curvature may be differentiated again, as evidence needs for what comes before a layer."""
    for name in (
        "orthogonal",
        "rotations of the plane",
        "Lorentz",
        "signed permutations",
        "shared",
    ):
        model = built(MODELS[name]())
        x = rows(model, 2).requires_grad_()
        with record(model) as operations:
            model(x)
        for operation in operations:
            if operation.parameter == "coefficients":
                square = operation.input_rows().square().sum()
                (gradient,) = torch.autograd.grad(square, x)
                # rows are linear in x, and the square of degree two
                assert math.isclose((gradient * x).sum().item(), 2 * square.item(), rel_tol=1e-9)


def test_operations_come_in_the_order_in_which_they_happened() -> None:
    first, second = Linear(V, V, S(3), bias=False), Linear(V, V, S(3), bias=False)
    model = nn.ModuleDict({"b": second, "a": first})
    x = torch.randn(2, 3)
    with record(model) as operations:
        second(first(first(x)))
    names = [operation.parameter for operation in operations]
    assert names == ["a.coefficients", "a.coefficients", "b.coefficients"]
    assert torch.equal(operations[1].input, operations[0].output)


def test_nothing_is_recorded_outside_and_layers_of_torch_are_recorded_too() -> None:
    layer = Linear(V, V, S(3))
    model = nn.Sequential(layer, nn.SiLU(), nn.Linear(3, 3))
    model(torch.randn(2, 3))
    with record(model) as operations:
        assert operations == []
        model(torch.randn(2, 3))
    names = [operation.parameter for operation in operations]
    assert names[:2] == ["0.coefficients", "0.bias_coefficients"]
    assert sorted(names[2:]) == ["2.bias", "2.weight"]
    model(torch.randn(2, 3))
    layer(torch.randn(2, 3))
    assert len(operations) == 4


def test_tied_parameters_go_by_their_first_name() -> None:
    first, second = Linear(V, V, S(3)), Linear(V, V, S(3))
    second.coefficients = first.coefficients
    model = nn.Sequential(first, second)
    with record(model) as operations:
        model(torch.randn(2, 3))
    names = ["0.coefficients", "0.bias_coefficients", "0.coefficients", "1.bias_coefficients"]
    assert [operation.parameter for operation in operations] == names


def test_layers_are_recorded_within_fixed_weights() -> None:
    model = built(MODELS["permutation network"]())
    x = rows(model, 4)
    with record(model) as free:
        expected = model(x)
    with fixed_weights(model), record(model) as fixed:
        torch.testing.assert_close(model(x), expected)
    assert [o.parameter for o in fixed] == [o.parameter for o in free]


def test_a_record_within_another_gives_way_after_it() -> None:
    model = nn.Sequential(Linear(V, V, S(3), bias=False), Linear(V, V, S(3), bias=False))
    x = torch.randn(2, 3)
    with record(model) as outer:
        model(x)
        with record(model[1]) as inner:
            model(x)
        model(x)
    assert [o.parameter for o in inner] == ["coefficients"]
    assert [o.parameter for o in outer] == [
        "0.coefficients",
        "1.coefficients",
        "0.coefficients",  # the other layer was with the inner record
        "0.coefficients",
        "1.coefficients",
    ]
    model(x)
    assert len(outer) == 5


def in_vain(layer: nn.Module, x: Tensor, kept: list[Any]) -> None:
    """Record one call that works and one that fails."""
    with record(layer) as operations:
        layer(x)
        kept += operations
        layer(x[:, :1])


def test_records_are_put_back_after_an_error() -> None:
    model = nn.Sequential(Linear(V, V, S(3), bias=False))
    x = torch.randn(2, 3)
    inner: list[Any] = []
    with record(model) as outer:
        with pytest.raises(ValueError, match=r"expected inputs of width 3"):
            in_vain(model[0], x, inner)
        model(x)
    model(x)
    assert [o.parameter for o in inner] == ["coefficients"]
    assert [o.parameter for o in outer] == ["0.coefficients"]


@pytest.mark.parametrize("name", ["orthogonal network", "permutation network", "norm network"])
def test_a_copy_made_while_recording_records_nothing(name: str) -> None:
    model = built(MODELS[name]())
    x = rows(model, 3)
    with record(model) as operations:
        model(x)
        count = len(operations)
        other = copy.deepcopy(model)
        assert torch.equal(other(x), model(x))
    assert len(operations) == 2 * count


def test_a_record_without_gradients_keeps_no_graph() -> None:
    model = built(MODELS["orthogonal network"]())
    with torch.no_grad(), record(model) as operations:
        model(rows(model, 3))
    assert not any(operation.output.requires_grad for operation in operations)
    with record(model) as operations:
        model(rows(model, 3))
    assert all(operation.output.requires_grad for operation in operations)


def test_operations_cannot_be_changed() -> None:
    with record(layer := Linear(V, V, S(3))) as operations:
        layer(torch.randn(2, 3))
    with pytest.raises(AttributeError, match=r"cannot assign to field"):
        operations[0].parameter = "another"
