"""Tangents through operations, row by row against PyTorch's forward mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from isotropy.equivariance import lie_derivative
from isotropy.equivariance._carry import Carrier

ROWS = 2


def randn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def randc(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.complex128)


def carried(function: Callable[[Tensor], Any], x: Tensor, rows: Tensor) -> Tensor:
    point = x.clone()
    carrier = Carrier(function, point, rows)
    with torch.no_grad(), carrier:
        y = function(point)
    found: Tensor = carrier.values[y].rows
    return found


def by_forward_mode(function: Callable[[Tensor], Any], x: Tensor, rows: Tensor) -> Tensor:
    return torch.stack([torch.func.jvp(lambda z: function(z.clone()), (x,), (r,))[1] for r in rows])


def assert_carries(function: Callable[[Tensor], Any], x: Tensor) -> None:
    rows = torch.randn(ROWS, *x.shape, dtype=x.dtype)
    expected = by_forward_mode(function, x, rows)
    assert expected.abs().max() > 1e-3  # else nothing is tested
    torch.testing.assert_close(carried(function, x, rows), expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(carried(function, x, rows[:1]), expected[:1], rtol=1e-10, atol=1e-10)


W34, W4, M, MASK = randn(3, 4), randn(4), randn(6, 6), torch.ones(6, 6, dtype=torch.bool).tril()
KERNEL, KERNEL_T, BIAS = randn(5, 4, 3, 3), randn(4, 5, 2, 2), randn(5)
IMAGE = (2, 4, 6, 6)

ON_IMAGES: dict[str, Callable[[Tensor], Tensor]] = {
    "conv": lambda x: F.conv2d(x, KERNEL, BIAS, stride=2, padding=1),
    "conv named": lambda x: F.conv2d(x, weight=KERNEL, bias=BIAS, dilation=2),
    "conv of one image": lambda x: F.conv2d(x[0], KERNEL, BIAS),
    "conv same": lambda x: F.conv2d(x, KERNEL, BIAS, padding="same"),
    "conv grouped": lambda x: F.conv2d(x, KERNEL[:4, :1], groups=4),
    "conv of a moving kernel": lambda x: F.conv2d(x, x[:1, :, :3, :3].tanh()),
    "conv1d": lambda x: F.conv1d(x.flatten(2), KERNEL[..., 0], BIAS, padding=1),
    "conv3d": lambda x: F.conv3d(x.unsqueeze(1), KERNEL[:, :1].unsqueeze(2)),
    "transposed": lambda x: F.conv_transpose2d(x, KERNEL_T, BIAS, stride=2),
    "avg_pool": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "avg_pool of one image": lambda x: F.avg_pool2d(x[0], 2),
    "max_pool": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max_pool with indices": lambda x: F.max_pool2d(x, 2, return_indices=True)[0],
    "max_pool of one image": lambda x: F.max_pool2d(x[0], 2),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, 3),
    "adaptive max": lambda x: F.adaptive_max_pool2d(x, 2),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "unfold": lambda x: F.unfold(x, 3, stride=2),
    "fold": lambda x: F.fold(x.flatten(2)[..., :16], (5, 5), 2),
    "pad with a value": lambda x: F.pad(x, (1, 2), "constant", 7.0),
    "pad with a named value": lambda x: F.pad(x, (1, 2, 0, 1), value=7.0),
    "pad mirrored": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "batch_norm": lambda x: F.batch_norm(x, W4, W4.square(), W4, W4, eps=0.1),
    "batch_norm of the batch": lambda x: F.batch_norm(x, None, None, W4, training=True),
    "layer_norm": lambda x: F.layer_norm(x, (6, 6), M, M),
    "layer_norm plain": lambda x: F.layer_norm(x, (6,)),
    "group_norm": lambda x: F.group_norm(x, 2, W4),
    "instance_norm": lambda x: F.instance_norm(x),
    "local_response_norm": lambda x: F.local_response_norm(x, 3),
    "rms_norm": lambda x: F.rms_norm(x, (6,)),
    "normalize": lambda x: F.normalize(x, dim=1),
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last).sin(),
    "to channels_last": lambda x: x.to(memory_format=torch.channels_last).flatten(1),
    "view after broadcast": lambda x: (x.mean((2, 3), True) + W4.view(4, 1, 1)).view(2, 4),
    "view after expanding": lambda x: (M + x.mean((1, 2, 3)).view(2, 1, 1)).view(-1),
    "unbatched softmax": lambda x: x.softmax(-3),
    "fft": lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * M[:, :4]),
    "abs of complex": lambda x: torch.fft.fft2(x).abs(),
    "parts of complex": lambda x: torch.fft.fft2(x).conj().imag + torch.fft.fft2(x).real,
    "lp_pool": lambda x: F.lp_pool2d(x, 2, 2),
    "stack named": lambda x: torch.stack([x, x.sin()], axis=2),  # type: ignore[call-arg]
    "cat named": lambda x: torch.cat([x, torch.ones_like(x), x * x], axis=1),  # type: ignore[call-arg]
    "cat of named": lambda x: torch.cat(tensors=[x, x.exp()], dim=-1),
    "mean named": lambda x: x.mean(axis=(1, 3)),
    "roll": lambda x: torch.roll(x, (1, -2), (2, 3)) + x.roll(3) + x.flip(1),
    "where": lambda x: torch.where(x > 0, x, x.exp()),
    "masked": lambda x: x[x > 0].cumsum(0),
    "max": lambda x: x.max(1).values + x.amin(2).mean() + torch.maximum(x, -2 * x).sum(1),
    "sort": lambda x: x.flatten(1).sort(-1)[0] + x.flatten(1).topk(1)[0],
    "clamp": lambda x: x.clamp(W4.view(4, 1, 1), x.mean()) + x.clamp(max=W4.view(4, 1, 1)),
    "clamp to more axes": lambda x: x[0, 0].clamp(min=randn(2, 4, 6, 6)),
    "std": lambda x: x.std((2, 3)) + x.var() + x.norm() + x.logsumexp((2, 3)),
    "einsum": lambda x: torch.einsum("bchw,bdhw,cd->bd", x, x.tanh(), W4.outer(W4)),
    "unbind": lambda x: sum(part * i for i, part in enumerate(x.unbind(1), 1)),  # type: ignore[return-value]
    "split": lambda x: x.split([1, 3], 1)[1] * x.chunk(4, 1)[0],
    "gather": lambda x: x.gather(3, torch.zeros(2, 4, 6, 2, dtype=torch.int64)),
    "several indices": lambda x: x[torch.tensor([0, 1]), :, torch.tensor([[2], [3]])],
    "repeat": lambda x: x.repeat(1, 2, 1, 1) + torch.tile(x, (1, 2, 1, 1)),
    "glu": lambda x: F.glu(x, 1),
    "type": lambda x: x.to(torch.float32).type_as(x).double() * 1.0,
    "mixed types": lambda x: (x.float().double() + torch.ones(1)).square(),
    "detached": lambda x: x * x.detach().sin() + x.data,
    "counted": lambda x: x * (x > 0).sum() * x.argmax(),
    "bessel, for which there is no batching": lambda x: torch.special.i0(x),
}


@pytest.mark.parametrize("name", ON_IMAGES)
def test_operations_on_images(name: str) -> None:
    torch.manual_seed(1)
    function = ON_IMAGES[name]
    x = randn(*IMAGE)
    if name in ("detached", "type", "mixed types"):  # where forward mode stops or rounds
        rows = randn(ROWS, *IMAGE)
        h = 1e-5 if name == "detached" else 1e-1
        slopes = [(function(x + h * row) - function(x - h * row)) / (2 * h) for row in rows]
        tolerance = 1e-8 if name == "detached" else 1e-4
        torch.testing.assert_close(
            carried(function, x, rows), torch.stack(slopes), rtol=tolerance, atol=tolerance
        )
        return
    if name == "clamp to more axes":
        bound = randn(2, 4, 6, 6)
        assert_carries(lambda x: x[0, 0].clamp(min=bound), x)
        return
    assert_carries(function, x)


TOKENS = (2, 6, 4)
ON_TOKENS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda x: F.linear(x, W34, W34[:, 0]),
    "linear named": lambda x: F.linear(x, weight=W34),
    "linear with moving weights": lambda x: F.linear(x, x[0]),
    "matmul": lambda x: x @ x.mT,
    "matmul of fewer axes": lambda x: M @ x + x.flatten(0, 1)[:6] @ x[0].T @ x,
    "matmul by a vector": lambda x: x @ W4,
    "reversed": lambda x: M.__rmatmul__(x[0].T),
    "bmm": lambda x: torch.bmm(x, x.mT.sin()),
    "baddbmm": lambda x: torch.baddbmm(M[:1, :1, None], x, x.mT),
    "addmm": lambda x: torch.addmm(W4[:3], x[0], W34.T, beta=2),
    "bilinear": lambda x: F.bilinear(x.sin(), x, M[:4, :4].expand(3, 4, 4)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x.sin(), x.cos()),
    "attention scaled": lambda x: F.scaled_dot_product_attention(x, x, x, scale=0.3),
    "attention masked": lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=MASK),
    "attention biased": lambda x: F.scaled_dot_product_attention(x, x, x, attn_mask=M),
    "attention with a moving bias": lambda x: F.scaled_dot_product_attention(
        x, x, x, attn_mask=x @ x.mT
    ),
    "attention causal": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "attention to constants": lambda x: F.scaled_dot_product_attention(x, W34[None], W34[None]),
    "softmax": lambda x: torch.softmax(x, dim=1) * x.softmax(-1) * F.softmax(x, 0),
    "log_softmax": lambda x: F.log_softmax(x, -1) + F.softmin(x, 1),
    "sums": lambda x: x + W4 - 2 * x.sin() + torch.add(x, x, alpha=3) + (1 - x),
    "sum with fewer axes": lambda x: W4.view(4, 1, 1, 1) + x[0],
    "products": lambda x: x * W4 * x / (2 + x.sin()) * 3,
    "product with fewer axes": lambda x: x[0] * W4.view(4, 1, 1, 1) * x[:, :1, :1],
    "powers": lambda x: x**2 + (x.abs() + 1) ** x + 2**x + x.square().add(1).rsqrt(),
    "lstm cell": lambda x: torch.lstm_cell(
        x[0], (x[0, :, :2], x[0, :, 2:]), *CELL  # type: ignore[has-type]
    )[0],
    "cumulative": lambda x: x.cumsum(1) + x.cumprod(2),
    "index_add": lambda x: M[:, :4].index_add(0, torch.tensor([1, 0]), x[:, 0]),
    "embedding and sum": lambda x: x + F.embedding(torch.arange(6), M[:, :4]),
    "movedim": lambda x: x.movedim(0, -1).unflatten(0, (2, 3)).squeeze().swapaxes(0, 1).ravel(),
    "inverse": lambda x: torch.linalg.inv(x.mT @ x + torch.eye(4, dtype=x.dtype)),
}  # fmt: skip
CELL = (randn(8, 4), randn(8, 2), randn(8), randn(8))


@pytest.mark.parametrize("name", ON_TOKENS)
def test_operations_on_tokens(name: str) -> None:
    torch.manual_seed(1)
    assert_carries(ON_TOKENS[name], randn(*TOKENS))


@pytest.mark.parametrize(
    "name",
    [
        *("relu", "relu6", "hardtanh", "gelu", "silu", "hardswish", "hardsigmoid", "sigmoid"),
        *("tanh", "softplus", "elu", "selu", "celu", "leaky_relu", "mish", "logsigmoid"),
        *("softsign", "tanhshrink", "hardshrink", "softshrink"),
    ],
)
def test_activations(name: str) -> None:
    function = getattr(F, name)
    assert_carries(function, 3 * randn(5, 7))
    assert_carries(lambda x: function(x.view(7, 5)), 3 * randn(5, 7))


@pytest.mark.parametrize(
    "name",
    ["exp", "log1p", "sqrt", "abs", "square", "neg", "sin", "erf", "reciprocal", "expm1"],
)
def test_elementwise_functions(name: str) -> None:
    assert_carries(lambda x: getattr(torch, name)(x), randn(4, 3).abs() + 0.1)
    assert_carries(lambda x: getattr(x, name + "_")(), randn(4, 3).abs() + 0.1)


def test_gelu_by_tanh_and_options() -> None:
    assert_carries(lambda x: F.gelu(x, approximate="tanh"), randn(9))
    assert_carries(lambda x: F.leaky_relu(x, 0.3) + F.elu(x, alpha=2.0), randn(9))
    assert_carries(lambda x: F.hardtanh(x, -0.2, 0.4) + F.threshold(x, 0.1, 5.0), randn(9))


@pytest.mark.parametrize("name", ["exp", "sin", "square", "neg", "reciprocal", "abs"])
def test_complex_values(name: str) -> None:
    assert_carries(getattr(torch, name), randc(4, 3))


def test_attention_to_nothing_moves_nothing() -> None:
    mask = torch.zeros(6, 6, dtype=torch.bool)
    mask[1:, 0] = True
    x, rows = randn(*TOKENS), randn(ROWS, *TOKENS)

    def attend(x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)

    found = carried(attend, x, rows)
    assert torch.isfinite(found).all()
    assert not found[:, :, 0].any()
    torch.testing.assert_close(found[:, :, 1:], rows[:, :, :1].expand(-1, -1, 5, -1))


@pytest.mark.skipif(
    torch.__version__ < "2.12", reason="torch 2.11 cannot differentiate sampling twice"
)
def test_operations_without_forward_rules() -> None:
    """Sampling has none: it is differentiated twice in reverse."""

    def sample(x: Tensor) -> Tensor:
        return F.grid_sample(x, x[:, :2].tanh().permute(0, 2, 3, 1), align_corners=False)

    x, rows, h = randn(*IMAGE), randn(ROWS, *IMAGE), 1e-6
    slopes = [(sample(x + h * row) - sample(x - h * row)) / (2 * h) for row in rows]
    torch.testing.assert_close(carried(sample, x, rows), torch.stack(slopes), rtol=1e-5, atol=1e-5)


def test_recurrent_layers() -> None:
    for layer in (
        nn.LSTM(4, 3, 2, batch_first=True),
        nn.GRU(4, 3, bidirectional=True),
        nn.RNN(4, 3),
    ):
        layer.double().requires_grad_(False)
        assert_carries(lambda x, layer=layer: layer(x)[0], randn(*TOKENS))


# --- changes in place -------------------------------------------------------------------------

IN_PLACE: dict[str, Callable[[Tensor], Tensor]] = {
    "operators": lambda x: _in_place_operators(x),
    "relu": lambda x: F.relu(x.mul_(2), True).add_(x),
    "named": lambda x: F.silu(x, inplace=True) + x,
    "an entry": lambda x: _set(x, (slice(None), 0), x[:, 1] * 2),
    "a number": lambda x: _set(x, (slice(None), 0), 3.0),
    "a mask": lambda x: _set(x, x > 0, 0.0),
    "fewer axes": lambda x: _set(x, (slice(None), 0), x[0, 1].sin()),
    "several indices": lambda x: _set(
        x, (torch.tensor([0, 1, 1]), slice(None), torch.tensor([0, 1, 2])), x.sum(0)[:3, :1]
    ),
    "part of itself": lambda x: _add_to_part(x),
    "halves": lambda x: _halves(x),
    "a buffer's views": lambda x: _fill_views(x),
    "a view of a buffer from before": lambda x: _view_from_before(x),
    "transposed": lambda x: x.transpose_(1, 2).unsqueeze_(0).squeeze_(0).relu_(),
    "scatter": lambda x: x.scatter_(1, torch.zeros(2, 1, 4, dtype=torch.int64), x[:, 1:2] * 3),
    "copied": lambda x: torch.empty_like(x).copy_(x[:, :1]).mul_(x),
    "masked fill": lambda x: x.masked_fill_(x > 0, -1.0),
    "itself": lambda x: x.mul_(x).add_(x.view_as(x), alpha=2),
    "clamped": lambda x: x.clamp_(min=-0.2).clamp_(max=0.4),
    "swapped": lambda x: _swap(x),
}  # fmt: skip


def _in_place_operators(x: Tensor) -> Tensor:
    x += x.sin()
    x -= 1
    x *= x
    x /= 2 + x
    return x


def _set(x: Tensor, index: Any, value: Any) -> Tensor:
    y = x * 1
    y[index] = value
    return y


def _add_to_part(x: Tensor) -> Tensor:
    y = x.sin()
    whole = y.view(-1)
    y[:, :2] += 1 + y[:, 2:4]
    y[:, ::2].mul_(2)
    return whole * y.flatten()


def _halves(x: Tensor) -> Tensor:
    y = x.sin()
    a, b = y.chunk(2, 1)
    a.exp_()
    return a * b + y[:, :3] + y[:, 3:]


def _fill_views(x: Tensor) -> Tensor:
    out = torch.zeros(2, 6, dtype=x.dtype)
    for i in range(6):
        out[:, i].copy_(x[:, i].square().mean(1))
    return out


def _view_from_before(x: Tensor) -> Tensor:
    out = torch.zeros(2, 6, dtype=x.dtype)
    flat = out.view(-1)
    out.copy_(x.square().mean(2))
    return flat


def _swap(x: Tensor) -> Tensor:
    y = x.exp()
    y[:, 0], y[:, 1] = y[:, 1].clone(), y[:, 0].clone()
    return y


@pytest.mark.parametrize("name", IN_PLACE)
def test_changes_in_place(name: str) -> None:
    torch.manual_seed(1)
    x = randn(*TOKENS)
    kept = x.clone()
    h = 1e-6
    rows = randn(ROWS, *TOKENS)
    function = IN_PLACE[name]
    slopes = [
        (function((x + h * row).clone()) - function((x - h * row).clone())) / (2 * h)
        for row in rows
    ]
    torch.testing.assert_close(
        carried(function, x, rows), torch.stack(slopes), rtol=1e-6, atol=1e-7
    )
    assert torch.equal(x, kept)


_VIEWS: list[Callable[[Tensor], Tensor]] = [
    lambda t: t[::2],
    lambda t: t[:, 1:3],
    lambda t: t.T,
    lambda t: t.reshape(-1)[:5],
    lambda t: t[0],
    lambda t: t.diagonal(),
]
_CHANGES: list[Callable[[Tensor, Tensor], Any]] = [
    lambda t, other: t.mul_(other.sum()),
    lambda t, other: t.sin_(),
    lambda t, other: t.copy_(other.sum() * t),
    lambda t, other: t.fill_(0.5),
    lambda t, other: t.__setitem__(0, other.mean()),
    lambda t, other: t.add_(other.flatten()[0] * 2),
]


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 99), st.integers(0, 99)),
        min_size=2,
        max_size=8,
    )
)
def test_programs_of_views_and_changes(steps: list[tuple[bool, int, int, int]]) -> None:
    """Whatever is a view of what, each value moves as forward mode says."""

    def program(x: Tensor) -> Tensor:
        pool = [x * 2, torch.zeros(4, 4, dtype=x.dtype)]
        for is_view, number, a, b in steps:
            one, other = pool[a % len(pool)], pool[b % len(pool)]
            if not is_view:
                _CHANGES[number](one, other)
            elif one.ndim == 2 and min(one.shape) > 2:
                pool.append(_VIEWS[number](one))
        return torch.cat([value.reshape(-1) for value in pool])

    x, rows = randn(4, 4), randn(ROWS, 4, 4)
    point, h = x.clone(), 1e-6
    carrier = Carrier(program, point, rows)
    with torch.no_grad(), carrier:
        y = program(point)
    slopes = torch.stack([(program(x + h * r) - program(x - h * r)) / (2 * h) for r in rows])
    scale = 1 + float(slopes.abs().max())
    torch.testing.assert_close(carrier.values[y].rows / scale, slopes / scale, rtol=1e-5, atol=1e-6)


def test_views_of_another_type_are_not_guessed() -> None:
    def turned(x: Tensor) -> Tensor:
        y = torch.complex(x, x.sin())
        parts = torch.view_as_real(y)
        y.mul_(2)
        return parts.sum(-1)

    point = randn(4)
    with (
        torch.no_grad(),
        Carrier(turned, point, randn(1, 4)),
        pytest.raises(ValueError, match=r"view of another type was taken, got one used by sum"),
    ):
        turned(point)


# --- what cannot be carried -------------------------------------------------------------------


def test_operations_into_given_memory_are_refused() -> None:
    def into(x: Tensor) -> Tensor:
        return torch.mul(x, 2, out=torch.empty_like(x))

    point = randn(3)
    with (
        Carrier(into, point, randn(1, 3)),
        pytest.raises(ValueError, match=r"expected operations without out=, got mul"),
    ):
        into(point)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.dropout(x, 0.5),
        lambda x: F.dropout2d(x, training=True),
        lambda x: torch.dropout(x, 0.1, True),
        lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.1),
    ],
)
def test_randomness_is_refused(function: Callable[[Tensor], Tensor]) -> None:
    point = randn(1, 2, 3, 3)
    with (
        torch.no_grad(),
        Carrier(function, point, point[None]),
        pytest.raises(ValueError, match=r"draws no random numbers in evaluation mode, got"),
    ):
        function(point)


def test_dropout_at_rest_is_the_identity() -> None:
    assert_carries(lambda x: F.dropout(x, 0.5, training=False) + F.dropout(x, 0.0), randn(3))


def test_operations_without_derivatives_are_named() -> None:
    def distances(x: Tensor) -> Tensor:
        return torch.cdist(x, x.sin(), p=1.0)

    with pytest.raises(RuntimeError, match=r"forwards or twice in reverse, got cdist"):
        carried(distances, randn(*TOKENS), randn(1, *TOKENS))


def test_tangents_of_a_wrong_shape_are_never_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotropy.equivariance._carry.push", lambda *_: [torch.zeros(1, 5)])
    with pytest.raises(RuntimeError, match=r"tangents of shape \(3,\) from sin, got \(5,\)"):
        carried(torch.sin, randn(3), randn(1, 3))


def test_push_gives_one_stack_for_each_result() -> None:
    x, rows = randn(3, 4), randn(ROWS, 3, 4)
    point = x.clone()
    carrier = Carrier(lambda x: torch.max(x, 1).values, point, rows)
    with torch.no_grad(), carrier:
        largest, places = torch.max(point, 1)
    assert places not in carrier.values  # whole numbers have no tangents
    torch.testing.assert_close(
        carrier.values[largest].rows, rows.gather(2, places.expand(ROWS, 3)[..., None])[..., 0]
    )


def test_values_that_leave_are_noticed() -> None:
    x = randn(3)
    for leaves in (
        lambda x: x * x.sum().item(),
        lambda x: x * float(x.sum()),
        lambda x: x + torch.from_numpy(x.numpy()),
        lambda x: x + torch.tensor([x.sum()], dtype=x.dtype),
        lambda x: x + torch.tensor(x.tolist(), dtype=x.dtype),
    ):
        carrier = Carrier(leaves, point := x.clone(), x[None])
        with torch.no_grad(), carrier:
            leaves(point)
        assert carrier.escaped
    carrier = Carrier(torch.sin, point := x.clone(), x[None])
    with carrier:
        torch.where(point > 0, point, point.argmax() * point)
    assert not carrier.escaped


def test_constants_of_a_function_are_not_taken_for_values() -> None:
    weights = randn(3, 16)
    x = torch.rand(2, 1, 4, 4, dtype=torch.float64)
    with torch.no_grad():
        found = lie_derivative(lambda x: x.flatten(1) @ weights.T, x, "rotation")
    expected = lie_derivative(lambda x: x.flatten(1) @ weights.T, x, "rotation")
    torch.testing.assert_close(found, expected)
