"""What is heard of the layers of torch gives back their outputs and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn.utils import parametrizations

from isotropy.nn import RecordedModule, record

# torch says so of even kernels
pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")

Case = tuple[Callable[[], nn.Module], tuple[int, ...]]


def conv(axes: int, *args: Any, **kwargs: Any) -> Callable[[], nn.Module]:
    return lambda: (nn.Conv1d, nn.Conv2d, nn.Conv3d)[axes - 1](*args, **kwargs)


def transposed(axes: int, *args: Any, **kwargs: Any) -> Callable[[], nn.Module]:
    kinds = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    return lambda: kinds[axes - 1](*args, **kwargs)


LINEAR: dict[str, Case] = {
    "Linear": (lambda: nn.Linear(3, 2), (4, 3)),
    "Linear, no bias": (lambda: nn.Linear(3, 2, bias=False), (4, 3)),
    "Linear, positions": (lambda: nn.Linear(3, 2), (4, 5, 3)),
    "Linear, more positions": (lambda: nn.Linear(3, 2), (4, 5, 2, 3)),
}
CONVOLUTIONS: dict[str, Case] = {
    "Conv1d": (conv(1, 2, 3, 3), (4, 2, 7)),
    "Conv2d": (conv(2, 2, 3, (3, 2)), (4, 2, 5, 6)),
    "Conv3d": (conv(3, 2, 3, 2), (2, 2, 3, 4, 3)),
    "Conv2d, no bias": (conv(2, 2, 3, 3, bias=False), (4, 2, 5, 6)),
    "Conv2d, 1×1": (conv(2, 2, 3, 1), (4, 2, 5, 6)),
    "Conv2d, 1×1, stride": (conv(2, 2, 3, 1, stride=2), (4, 2, 5, 6)),
    "Conv2d, valid": (conv(2, 2, 3, 3, padding="valid", stride=2), (4, 2, 5, 6)),
    "Conv2d, groups": (conv(2, 4, 6, 3, groups=2, padding=1), (3, 4, 5, 4)),
    "Conv2d, depthwise": (conv(2, 3, 6, 3, groups=3, stride=2), (3, 3, 5, 7)),
    "Conv1d, groups, 1×1": (conv(1, 4, 2, 1, groups=2), (3, 4, 5)),
    "Conv2d, circular, many": (conv(2, 2, 3, 3, padding=1, padding_mode="circular"), (13, 2, 4, 3)),
    "Conv2d, circular, groups": (
        conv(2, 4, 2, 3, padding="same", padding_mode="circular", groups=2),
        (13, 4, 3, 4),
    ),
    **{
        f"Conv{axes}d, {mode}": (
            conv(axes, 2, 3, 3, padding=(1, 2, 1)[:axes], padding_mode=mode, stride=2),
            (2, 2, *(4, 5, 3)[:axes]),
        )
        for axes in (1, 2, 3)
        for mode in ("zeros", "reflect", "replicate", "circular")
    },
    **{
        f"Conv2d, same, {mode}": (
            conv(2, 2, 3, (4, 3), padding="same", dilation=(1, 2), padding_mode=mode),
            (2, 2, 6, 7),
        )
        for mode in ("zeros", "reflect", "replicate", "circular")
    },
}
TRANSPOSED: dict[str, Case] = {
    "ConvTranspose1d": (transposed(1, 2, 3, 3), (4, 2, 5)),
    "ConvTranspose2d": (transposed(2, 2, 3, (3, 2)), (4, 2, 3, 4)),
    "ConvTranspose3d": (transposed(3, 2, 3, 2, stride=2), (2, 2, 2, 3, 2)),
    "ConvTranspose2d, stride": (
        transposed(2, 2, 3, 3, stride=(2, 3), padding=1, output_padding=(1, 2)),
        (3, 2, 3, 4),
    ),
    "ConvTranspose2d, dilation": (
        transposed(2, 2, 3, 3, stride=2, dilation=(2, 3), padding=(1, 4), output_padding=1),
        (3, 2, 3, 4),
    ),
    "ConvTranspose2d, cut beyond the kernel": (transposed(2, 2, 3, 2, padding=2), (3, 2, 6, 7)),
    "ConvTranspose2d, groups": (transposed(2, 4, 6, 3, groups=2, stride=2), (3, 4, 3, 2)),
    "ConvTranspose1d, depthwise": (transposed(1, 3, 6, 2, groups=3, bias=False), (3, 3, 4)),
}
NORMS: dict[str, Case] = {
    "LayerNorm": (lambda: nn.LayerNorm(5), (4, 5)),
    "LayerNorm, positions": (lambda: nn.LayerNorm(5), (4, 3, 2, 5)),
    "LayerNorm, several axes": (lambda: nn.LayerNorm((2, 3, 4)), (5, 2, 3, 4)),
    "LayerNorm, no bias": (lambda: nn.LayerNorm(5, bias=False), (4, 5)),
    "RMSNorm": (lambda: nn.RMSNorm(5), (4, 3, 5)),
    "RMSNorm, several axes": (lambda: nn.RMSNorm((3, 5), eps=0.1), (4, 3, 5)),
    "GroupNorm": (lambda: nn.GroupNorm(2, 4), (3, 4, 2, 3)),
    "GroupNorm, no space": (lambda: nn.GroupNorm(2, 4, eps=0.1), (3, 4)),
    "BatchNorm1d, no space": (lambda: nn.BatchNorm1d(3), (4, 3)),
    "BatchNorm1d": (lambda: nn.BatchNorm1d(3), (4, 3, 5)),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(3, eps=0.1), (4, 3, 2, 5)),
    "BatchNorm3d": (lambda: nn.BatchNorm3d(3), (4, 3, 2, 3, 2)),
    "BatchNorm2d, evaluated": (lambda: nn.BatchNorm2d(3).eval(), (4, 3, 2, 5)),
    "BatchNorm2d, untracked": (
        lambda: nn.BatchNorm2d(3, track_running_stats=False).eval(),
        (4, 3, 2, 5),
    ),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(3, affine=True), (4, 3, 5)),
    "InstanceNorm2d": (lambda: nn.InstanceNorm2d(3, affine=True, eps=0.1), (4, 3, 2, 5)),
    "InstanceNorm3d": (lambda: nn.InstanceNorm3d(3, affine=True), (4, 3, 2, 3, 2)),
    "InstanceNorm2d, tracked": (
        lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True).eval(),
        (4, 3, 2, 5),
    ),
}
CASES = LINEAR | CONVOLUTIONS | TRANSPOSED | NORMS


def normal(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=rng, dtype=torch.float64)


def randomised(model: nn.Module) -> nn.Module:
    """In double precision, with all numbers random: initial scales and shifts hide errors."""
    model = model.double()
    with torch.no_grad():
        for place, tensor in enumerate([*model.parameters(), *model.buffers()]):
            if tensor.is_floating_point():
                tensor.copy_(0.5 + normal(*tensor.shape, seed=place + 1).abs())
    return model


def built(name: str) -> tuple[nn.Module, Tensor]:
    make, shape = CASES[name]
    return randomised(make()), normal(*shape)


def places(operation: Any, parameter: Tensor, outputs: Tensor) -> Tensor:
    """Where the weights are in the parameter, whether the operation says so or not."""
    if operation.entries is not None:
        return operation.entries
    blocks = outputs.shape[-2:-1] if operation.blocks else ()
    shape = (*blocks, outputs.shape[-1], operation.input_rows().shape[-1])
    return torch.arange(parameter.numel()).reshape(shape)


def per_sample(operation: Any, parameter: Tensor, gradient: Tensor) -> Tensor:
    """The gradient of each sample with respect to the parameter."""
    a, g = operation.input_rows(), operation.gradient_rows(gradient)
    if not operation.blocks:
        a, g = a.unsqueeze(-2), g.unsqueeze(-2)
    samples = a.shape[0]
    a, g = (rows.reshape(samples, -1, *rows.shape[-2:]) for rows in (a, g))
    values = torch.einsum("npbo,npbi->nboi", g, a).reshape(samples, -1)
    entries = places(operation, parameter, operation.gradient_rows(operation.output))
    total = parameter.new_zeros(samples, parameter.numel())
    total.index_add_(1, entries.flatten(), values)
    return total.reshape(samples, *parameter.shape)


@pytest.mark.parametrize("name", CASES)
def test_rows_times_weights_add_up_to_the_output(name: str) -> None:
    layer, x = built(name)
    with record(layer) as operations:
        y = layer(x)
    assert [operation.parameter for operation in operations] == list(dict(layer.named_parameters()))
    total: Tensor | float = 0.0
    for operation in operations:
        assert torch.equal(operation.output, y)
        outputs = operation.gradient_rows(operation.output)
        rows = operation.input_rows()
        assert rows.shape[0] == outputs.shape[0] == x.shape[0]
        assert rows.ndim == outputs.ndim == len(operation.axes) + 2 + operation.blocks
        assert rows.shape[:-1] == outputs.shape[:-1]
        parameter = layer.get_parameter(operation.parameter)
        weight = parameter.flatten()[places(operation, parameter, outputs)]
        made = (rows.unsqueeze(-2) @ weight.mT).squeeze(-2) if operation.blocks else rows @ weight.T
        total = total + (made.flatten(-2) if operation.blocks else made)
        expected = outputs.flatten(-2) if operation.blocks else outputs
    torch.testing.assert_close(total, expected)


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_products_of_rows(name: str) -> None:
    layer, x = built(name)
    with record(layer) as operations:
        y = layer(x)
    loss = (y * normal(*y.shape, seed=1)).sum() + y.pow(2).sum()
    expected = torch.autograd.grad(loss, list(layer.parameters()), retain_graph=True)
    outputs = torch.autograd.grad(loss, [operation.output for operation in operations])
    for operation, gradient, value in zip(operations, outputs, expected, strict=True):
        parameter = layer.get_parameter(operation.parameter)
        torch.testing.assert_close(per_sample(operation, parameter, gradient).sum(0), value)


SEPARATE = [name for name in CASES if "BatchNorm" not in name or "evaluated" in name]


@pytest.mark.parametrize("name", SEPARATE)
def test_gradients_of_each_sample_are_those_of_torch_func(name: str) -> None:
    layer, x = built(name)
    weights = normal(*layer(x).shape, seed=1)

    def loss(parameters: dict[str, Tensor], x: Tensor, weights: Tensor) -> Tensor:
        (y,) = functional_call(layer, parameters, (x[None],))
        return (weights * y.sin()).sum()

    parameters = {name: parameter.detach() for name, parameter in layer.named_parameters()}
    expected = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, x, weights)
    with record(layer) as operations:
        y = layer(x)
    outputs = [operation.output for operation in operations]
    gradients = torch.autograd.grad((weights * y.sin()).sum(), outputs)
    for operation, gradient in zip(operations, gradients, strict=True):
        parameter = parameters[operation.parameter]
        found = per_sample(operation, parameter, gradient)
        torch.testing.assert_close(found, expected[operation.parameter])


def test_axes_are_named() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(2), nn.Linear(9, 1))
    with record(model) as operations:
        model(torch.randn(3, 1, 5, 5))
    assert [(operation.parameter, operation.axes) for operation in operations] == [
        ("0.weight", ("space",)),
        ("0.bias", ("space",)),
        ("1.weight", ("space",)),
        ("1.bias", ("space",)),
        ("3.weight", ("position",)),
        ("3.bias", ("position",)),
    ]


def test_only_scales_have_no_structure() -> None:
    exact = {}
    for name in CASES:
        layer, x = built(name)
        with record(layer) as operations:
            layer(x)
        exact |= {(name, operation.parameter): operation.exact for operation in operations}
    scales = {(name, "weight") for name in NORMS}
    assert {key for key, value in exact.items() if value} == scales


FAST_GRAMS = {
    "enough samples": (conv(2, 2, 3, 3, padding=1, padding_mode="circular"), (13, 2, 4, 5)),
    "same": (conv(2, 2, 3, (3, 4), padding="same", padding_mode="circular"), (13, 2, 4, 5)),
    "line": (conv(1, 2, 3, 5, padding="same", padding_mode="circular", dilation=2), (41, 2, 9)),
    "groups": (conv(2, 4, 2, 3, padding=1, padding_mode="circular", groups=2), (13, 4, 4, 5)),
    "solid": (conv(3, 2, 3, 3, padding=1, padding_mode="circular"), (2, 2, 3, 4, 2)),
    "zeros": (conv(2, 2, 3, 3, padding=1), (13, 2, 13, 14)),
    "zeros, same": (conv(2, 2, 3, (3, 4), padding="same"), (8, 2, 15, 19)),
    "zeros, groups": (conv(2, 4, 2, 3, padding=(1, 2), groups=2), (13, 4, 13, 14)),
    "zeros, further than the kernel": (conv(1, 2, 3, 3, padding=3, dilation=1), (114, 2, 4)),
    "valid": (conv(1, 2, 3, 3), (114, 2, 14)),
}
NO_FAST_GRAMS = {
    "few samples": (conv(2, 2, 3, 3, padding=1, padding_mode="circular"), (12, 2, 4, 4)),
    "many channels": (conv(2, 400, 1, 3, padding=1, padding_mode="circular"), (13, 400, 2, 2)),
    "one place": (conv(2, 2, 3, 1, padding_mode="circular"), (64, 2, 4, 4)),
    "zeros, small maps": (conv(2, 2, 3, 3, padding=1), (13, 2, 12, 12)),
    "zeros, stride": (conv(2, 2, 3, 3, padding=1, stride=(1, 2)), (13, 2, 14, 14)),
    "reflect": (conv(2, 2, 3, 3, padding=1, padding_mode="reflect"), (13, 2, 14, 14)),
    "replicate": (conv(2, 2, 3, 3, padding=1, padding_mode="replicate"), (13, 2, 14, 14)),
    "stride": (conv(2, 2, 3, 3, padding=1, padding_mode="circular", stride=2), (13, 2, 4, 4)),
    "smaller": (conv(2, 2, 3, 3, padding=(1, 0), padding_mode="circular"), (13, 2, 4, 4)),
    "larger": (conv(2, 2, 3, 3, padding=2, padding_mode="circular"), (13, 2, 4, 4)),
}


@pytest.mark.parametrize("name", FAST_GRAMS)
def test_a_fast_gram_is_that_of_the_rows(name: str) -> None:
    make, shape = FAST_GRAMS[name]
    layer = make().double()
    with record(layer) as operations:
        layer(normal(*shape))
    weight, bias = operations
    assert weight.gram is not None
    assert bias.gram is None
    rows = weight.input_rows().flatten(0, 1)
    if not weight.blocks:
        rows = rows.unsqueeze(1)
    expected = torch.einsum("rbi,rbj->bij", rows, rows)
    found = weight.gram(weight.input)
    torch.testing.assert_close(found, expected if weight.blocks else expected[0])


@pytest.mark.parametrize("name", NO_FAST_GRAMS)
def test_there_is_no_fast_gram_where_it_would_be_wrong_or_slow(name: str) -> None:
    make, shape = NO_FAST_GRAMS[name]
    layer = make().double()
    with record(layer) as operations:
        layer(normal(*shape))
    assert all(operation.gram is None for operation in operations)


def test_what_works_in_place_changes_no_gradient() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True)).double()
    x = normal(5, 3)
    with record(model) as operations:
        loss = model(x).sin().sum()
    expected = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    gradients = torch.autograd.grad(loss, [operation.output for operation in operations])
    for operation, gradient, value in zip(operations, gradients, expected, strict=True):
        parameter = model.get_parameter(operation.parameter)
        torch.testing.assert_close(per_sample(operation, parameter, gradient).sum(0), value)


def test_statistics_are_those_of_the_call() -> None:
    layer, x = built("BatchNorm2d, evaluated")
    with record(layer) as operations:
        layer(x)
    before = operations[0].input_rows()
    layer.train()
    layer(x)
    assert torch.equal(operations[0].input_rows(), before)


def test_listening_leaves_statistics_and_outputs_as_they_are() -> None:
    (heard, x), (plain, _) = built("BatchNorm2d"), built("BatchNorm2d")
    with record(heard) as operations:
        y = heard(x)
        operations[0].input_rows()
    assert torch.equal(y, plain(x))
    for name, buffer in plain.named_buffers():
        assert torch.equal(heard.get_buffer(name), buffer)


def test_a_size_asked_for_in_the_call_is_heeded() -> None:
    layer = nn.ConvTranspose1d(2, 3, 3, stride=3, bias=False).double()
    x = normal(2, 2, 4)
    with record(layer) as operations:
        y = layer(x, output_size=[14])
    (operation,) = operations
    assert operation.entries is not None
    weight = layer.weight.flatten()[operation.entries]
    torch.testing.assert_close(operation.input_rows() @ weight.T, y.flatten(2).mT)


def test_layers_called_by_keyword_are_heard() -> None:
    class Called(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.up = nn.RMSNorm(4), nn.ConvTranspose1d(2, 2, 2, stride=2)
            self.last = nn.Linear(8, 1)

        def forward(self, x: Tensor) -> Tensor:
            x = self.up(output_size=[9], input=self.norm(x=x))
            return self.last(input=x[..., :8])

    model = Called()
    with record(model) as operations:
        model(torch.randn(3, 2, 4))
    names = ["norm.weight", "up.weight", "up.bias", "last.weight", "last.bias"]
    assert [operation.parameter for operation in operations] == names


def test_nothing_is_heard_after_the_context_or_an_error() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3))
    x = torch.randn(2, 3)
    with record(model) as operations:
        model(x)
    model(x)
    assert len(operations) == 4
    with pytest.raises(RuntimeError, match=r"shapes cannot be multiplied"):
        _heard_until_an_error(model, operations, x)
    model(x)
    assert len(operations) == 8


def _heard_until_an_error(model: nn.Module, operations: list[Any], x: Tensor) -> None:
    with record(model) as heard:
        model(x)
        operations.extend(heard)
        model(x.T)


def test_hooks_registered_before_an_error_of_torch_are_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))

    def refuse(*_: Any, **__: Any) -> None:
        raise RuntimeError("no hooks here")

    monkeypatch.setattr(model[1], "register_forward_hook", refuse)
    with pytest.raises(RuntimeError, match=r"no hooks here"), record(model):
        pass
    model(torch.randn(2, 3))
    assert not model[0]._forward_hooks


def test_records_may_be_nested() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    x = torch.randn(2, 3)
    with record(model) as outer:
        with record(model[2]) as inner:
            model(x)
        model(x)
    assert [operation.parameter for operation in inner] == ["weight", "bias"]
    names = ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert [operation.parameter for operation in outer] == names * 2


def test_a_functional_call_is_heard_with_its_own_parameters() -> None:
    layer = nn.Linear(3, 2).double()
    given = {"weight": normal(2, 3), "bias": normal(2)}
    x = normal(4, 3, seed=1)
    with record(layer) as operations:
        functional_call(layer, given, (x,))
    weight, bias = operations
    expected = weight.input_rows() @ given["weight"].T + bias.input_rows() @ given["bias"][None]
    torch.testing.assert_close(weight.output, expected)


def test_a_layer_used_twice_is_heard_twice() -> None:
    layer = nn.Linear(3, 3).double()
    model = nn.Sequential(layer, nn.Tanh(), layer)
    with record(model) as operations:
        loss = model(normal(4, 3)).pow(2).sum()
    assert [operation.parameter for operation in operations] == ["0.weight", "0.bias"] * 2
    expected = torch.autograd.grad(loss, layer.weight, retain_graph=True)
    uses = operations[::2]
    gradients = torch.autograd.grad(loss, [operation.output for operation in uses])
    total = sum(
        per_sample(operation, layer.weight, gradient).sum(0)
        for operation, gradient in zip(uses, gradients, strict=True)
    )
    torch.testing.assert_close(total, expected[0])


def test_tied_parameters_have_their_first_name() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    with record(model) as operations:
        model(torch.randn(2, 3))
    names = ["0.weight", "0.bias", "0.weight", "1.bias"]
    assert [operation.parameter for operation in operations] == names


def test_the_output_is_that_of_the_layer_and_not_of_other_hooks() -> None:
    layer = nn.Linear(3, 2, bias=False).double()
    layer.register_forward_hook(lambda layer, args, output: 2 * output)
    x = normal(4, 3)
    with record(layer) as operations:
        y = layer(x)
    torch.testing.assert_close(operations[0].output, x @ layer.weight.T)
    torch.testing.assert_close(y, 2 * x @ layer.weight.T)


UNBATCHED: dict[str, Case] = {
    "Linear": (lambda: nn.Linear(3, 2), (3,)),
    "Conv2d": (conv(2, 2, 3, 3), (2, 5, 5)),
    "ConvTranspose1d": (transposed(1, 2, 3, 3), (2, 5)),
    "LayerNorm": (lambda: nn.LayerNorm((2, 3)), (2, 3)),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(2, affine=True), (2, 5)),
}


@pytest.mark.parametrize("name", UNBATCHED)
def test_calls_without_samples_are_left_out(name: str) -> None:
    make, shape = UNBATCHED[name]
    with record(layer := make()) as operations:
        layer(torch.randn(shape))
    assert operations == []


class Masked(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.linear(x, self.weight.tril(), self.bias)


class Named(nn.Linear):
    """A linear layer like any other."""


class Telling(nn.Linear, RecordedModule):
    pass


def replaced() -> nn.Module:
    layer = nn.Linear(3, 3)
    layer.forward = lambda x: 2 * x  # type: ignore[method-assign]
    return layer


HEARD: dict[str, tuple[Callable[[], nn.Module], list[str]]] = {
    "inherits": (lambda: Named(3, 3), ["weight", "bias"]),
    "another forward": (lambda: Masked(3, 3), []),
    "forward replaced": (replaced, []),
    "tells itself": (lambda: Telling(3, 3), []),
    "no parameters": (lambda: nn.LayerNorm(3, elementwise_affine=False), []),
    "parametrised": (lambda: parametrizations.weight_norm(nn.Linear(3, 3)), ["bias"]),
    "frozen": (lambda: nn.Linear(3, 3).requires_grad_(False), ["weight", "bias"]),
    "lazy": (lambda: nn.LazyLinear(3), ["weight", "bias"]),
}


@pytest.mark.parametrize("name", HEARD)
def test_only_parameters_whose_use_is_known_are_heard(name: str) -> None:
    make, names = HEARD[name]
    with record(layer := make()) as operations:
        layer(torch.randn(2, 3))
    assert [operation.parameter for operation in operations] == names
