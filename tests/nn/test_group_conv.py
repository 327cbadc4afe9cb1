"""Group convolutions against sums over the group, representations, and brute-force curvature."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from itertools import pairwise, product
from math import sqrt
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from isotropy.evidence import CurvatureOptions, laplace
from isotropy.groups import D, Group, S, p4, p4m
from isotropy.nn import GroupConv2d, GroupPool, Lift, Linear, PolyphasePool2d, record
from isotropy.nn._group_conv import OnSlices, RotatedKernelConv2d
from isotropy.reps import Regular, V

FORMS: Any = ("full", "separable", "depthwise", "pointwise")
GROUPS: Any = ("p4", "p4m")


def maps(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=rng)


def drawn(model: nn.Module) -> nn.Module:
    """Random parameters everywhere, in float64: constants would hide mistakes."""
    rng = torch.Generator().manual_seed(5)
    for parameter in model.double().parameters():
        parameter.data = 0.5 * torch.randn(parameter.shape, dtype=torch.float64, generator=rng)
    return model


# --- the group, by its matrices ---------------------------------------------------------------

TURN, FLIP = torch.tensor([[0, -1], [1, 0]]), torch.tensor([[1, 0], [0, -1]])


def matrices(name: str) -> list[Tensor]:
    """How elements move (row, column) about the middle, in the order of slices."""
    turns = [torch.linalg.matrix_power(TURN, k) for k in range(4)]
    return turns if name == "p4" else turns + [turn @ FLIP for turn in turns]


def place(elements: list[Tensor], element: Tensor) -> int:
    (found,) = (k for k, other in enumerate(elements) if torch.equal(other, element))
    return found


@pytest.mark.parametrize("name", GROUPS)
def test_quotients_and_places_are_those_of_matrices(name: Any) -> None:
    group, elements = Lift(name).group, matrices(name)
    assert group.order == len(elements)
    for j, k in product(range(group.order), repeat=2):
        assert group.quotients()[j, k] == place(elements, elements[j].T @ elements[k])
    image = maps(5, 5)
    for k, element in enumerate(elements):
        turned = torch.empty_like(image)
        for row, column in product(range(-2, 3), repeat=2):
            to = element @ torch.tensor([row, column])
            turned[to[0] + 2, to[1] + 2] = image[row + 2, column + 2]
        assert torch.equal(group.turn(image, k), turned)
        assert torch.equal(image.flatten()[group.places(5)[k]], turned.flatten())


def summed(name: str, x: Tensor, theta: Tensor) -> Tensor:
    """Σ_c Σ_k Σ_q x(c, k, p + q) θ(c', c, k⁻¹k', k'⁻¹q), term by term."""
    elements, half = matrices(name), theta.shape[-1] // 2
    y = x.new_zeros(x.shape[0], theta.shape[0], *x.shape[2:])
    for (to, after), (at, before) in product(enumerate(elements), repeat=2):
        between = place(elements, before.T @ after)
        for q in product(range(-half, half + 1), repeat=2):
            row, column = (after.T @ torch.tensor(q) + half).tolist()
            moved = x[:, :, at].roll((-q[0], -q[1]), (-2, -1))
            y[:, :, to] += torch.einsum("nchw,dc->ndhw", moved, theta[:, :, between, row, column])
    return y


def turned_by_quotient(name: str, kernel: Tensor) -> Tensor:
    """θ(…, j, s) = kernel(…, js) for all elements j, shape (…, K, size, size)."""
    half, elements = kernel.shape[-1] // 2, matrices(name)
    found = kernel.new_empty(*kernel.shape[:-2], len(elements), *kernel.shape[-2:])
    for j, element in enumerate(elements):
        for s in product(range(-half, half + 1), repeat=2):
            row, column = (element @ torch.tensor(s) + half).tolist()
            found[..., j, s[0] + half, s[1] + half] = kernel[..., row, column]
    return found


def whole_filter(layer: Any) -> tuple[Tensor, Tensor]:
    """θ(c', c, j, s) and b(c') of a layer of any form, from its definition."""
    name, slices = layer.group.name, layer.group.order
    if layer.form == "full":
        return layer.filter.weight, layer.filter.bias
    if layer.form == "pointwise":
        zero = torch.zeros_like(layer.filter.weight)
        return torch.stack([layer.filter.weight] + [zero] * (slices - 1), 2), layer.filter.bias
    spatial = turned_by_quotient(name, layer.spatial.weight[:, 0])
    mixing = layer.mixing.weight[..., 0, 0]
    if layer.form == "separable":
        bias = layer.mixing.bias + torch.einsum("c,dcj->d", layer.spatial.bias, mixing)
        return torch.einsum("cjyx,dcj->dcjyx", spatial, mixing), bias
    mixing, channels = mixing[:, 0], layer.channels.weight[..., 0, 0]
    inner = layer.mixing.bias + layer.spatial.bias * mixing.sum(1)
    theta = torch.einsum("cjyx,cj,dc->dcjyx", spatial, mixing, channels)
    return theta, layer.channels.bias + channels @ inner


@pytest.mark.parametrize("size", [1, 3, 5])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GROUPS)
def test_outputs_are_sums_over_the_group(name: Any, form: Any, size: int) -> None:
    layer = drawn(GroupConv2d(2, 3, size, group=name, form=form))
    theta, bias = (found.detach() for found in whole_filter(layer))
    for sides in ((4, 5), (2, 2)):
        x = maps(2, 2, layer.group.order, *sides)
        expected = summed(name, x, theta) + bias[:, None, None, None]
        torch.testing.assert_close(layer(x).detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GROUPS)
def test_lifting_reads_the_image_as_every_slice(name: Any, form: Any) -> None:
    lifting = drawn(GroupConv2d(2, 3, group=name, form=form, lifts=True))
    plain = GroupConv2d(2, 3, group=name, form="pointwise" if form == "full" else form).double()
    plain.load_state_dict(lifting.state_dict())
    x = maps(2, 2, 6, 5)
    torch.testing.assert_close(lifting(x), plain(Lift(name)(x)), rtol=0, atol=1e-12)


# --- equivariance -----------------------------------------------------------------------------


def moved(x: Tensor, by: Tensor) -> Tensor:
    return (x.flatten(2) @ by.T.to(x)).reshape(x.shape)


@pytest.mark.parametrize("side", [3, 4])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GROUPS)
def test_layers_commute_with_the_regular_representation(name: Any, form: Any, side: int) -> None:
    group: Group = {"p4": p4, "p4m": p4m}[name](side)
    regular, pixels = Regular(group), V(group)
    layer = drawn(GroupConv2d(2, 3, group=name, form=form))
    lifting = drawn(GroupConv2d(2, 3, group=name, form=form, lifts=True))
    x, image = maps(2, 2, layer.group.order, side, side), maps(2, 2, side, side)
    for g in group.discrete:
        on_slices, on_pixels = regular.rho(g).dense(), pixels.rho(g).dense()
        for net, before, by in ((layer, x, on_slices), (lifting, image, on_pixels)):
            error = net(moved(before, by)) - moved(net(before), on_slices)
            assert error.abs().max() <= 1e-12
    assert (layer(x) - layer(moved(x, on_slices))).abs().max() > 0.1


def network(name: Any, form: Any, *, lifts: bool = False, per_slice: bool = False) -> nn.Module:
    first = [GroupConv2d(2, 4, group=name, form=form, lifts=True)]
    if not lifts:
        first = [Lift(name), GroupConv2d(2, 4, group=name, form=form)]
    second = GroupConv2d(4, 5, group=name, form=form)
    third = GroupConv2d(5, 3, group=name, form=form)
    pooled = [nn.ReLU(), PolyphasePool2d(per_slice=per_slice)]
    model = nn.Sequential(*first, *pooled, second, *pooled, third, *pooled)
    return drawn(nn.Sequential(model, GroupPool(), nn.Flatten()))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GROUPS)
def test_networks_do_not_change_under_shifts_and_turns(name: Any, form: Any) -> None:
    group, image = Lift(name).group, maps(2, 8, 8)
    orbit = [
        group.turn(image, k).roll((down, right), (1, 2))
        for k, down, right in product(range(group.order), range(8), range(8))
    ]
    with torch.no_grad():
        model = network(name, form)
        alone, y = model(image[None]), model(torch.stack(orbit))
        other = model(maps(1, 2, 8, 8, seed=1))
    assert (y - alone).abs().max() <= 1e-12 * alone.abs().max()
    assert (other - alone).abs().max() > 0.01 * alone.abs().max()


@pytest.mark.parametrize(("form", "holds"), [("full", False), ("pointwise", True)])
def test_slices_that_choose_one_by_one_suit_pointwise_networks_alone(
    form: Any, holds: bool
) -> None:
    x, model = maps(8, 2, 8, 8), network("p4", form, per_slice=True)
    with torch.no_grad():
        y, shifted = model(x), model(x.roll(1, 3))
    assert ((shifted - y).abs().max() <= 1e-12) == holds
    assert ((shifted - y).norm() > 0.01 * y.norm()) != holds


@pytest.mark.parametrize("form", FORMS)
def test_a_shift_by_one_pixel_before_pooling(form: Any) -> None:
    model = nn.Sequential(
        drawn(GroupConv2d(2, 3, form=form, lifts=True)),
        PolyphasePool2d(),
        drawn(GroupConv2d(3, 3, form=form)),
    )
    x = maps(6, 2, 8, 8)
    with torch.no_grad():
        y, shifted = model(x), model(x.roll(1, 3))
    both = set()
    for one, other in zip(y, shifted, strict=True):
        errors = [float((other - one.roll(step, -1)).abs().max()) for step in (0, 1)]
        assert min(errors) <= 1e-12
        both.add(errors[0] > errors[1])
    assert both == {False, True}  # half of all pixels move to another coarse one


@pytest.mark.parametrize("form", FORMS)
def test_a_sample_does_not_depend_on_the_batch(form: Any) -> None:
    model, x = network("p4", form, lifts=True), maps(7, 2, 8, 8)
    with torch.no_grad():
        alone = torch.cat([model(sample) for sample in x.split(1)])
        torch.testing.assert_close(model(x), alone, rtol=0, atol=1e-12)
        assert model[0][0](x[:0]).shape == (0, 4, 4, 8, 8)


@pytest.mark.parametrize("name", GROUPS)
def test_pointwise_networks_pool_one_network_over_turned_images(name: Any) -> None:
    """Appendix F.3: max over slices = max over what an ordinary network makes of turned inputs."""
    torch.manual_seed(0)
    group, ours, plain = Lift(name).group, [Lift(name)], []
    for into, out in ((2, 4), (4, 5), (5, 3)):
        layer = GroupConv2d(into, out, group=name, form="pointwise").double()
        twin = nn.Conv2d(into, out, 3, padding=1, padding_mode="circular").double()
        layer.filter.load_state_dict(twin.state_dict())
        ours += [layer, PolyphasePool2d(per_slice=True), nn.ReLU()]
        plain += [twin, PolyphasePool2d(), nn.ReLU()]
    x, network = maps(5, 2, 8, 8), nn.Sequential(*plain)
    each = torch.stack([network(group.turn(x, k)) for k in range(group.order)])
    pooled = nn.Sequential(*ours, GroupPool())(x)
    torch.testing.assert_close(pooled, each.amax(0), rtol=0, atol=1e-12)
    assert each.std(0).max() > 0.01


@pytest.mark.parametrize("group", [S(3), D(3), D(4)], ids=str)
def test_linear_layers_are_group_convolutions_of_any_finite_group(group: Group) -> None:
    """Appendix A: y(c', g') = Σ_c Σ_g x(c, g) θ(c', c, g⁻¹g')."""
    elements = list(group.elements().dense())
    layer = drawn(Linear(2 * Regular, 3 * Regular, group))
    order = len(elements)
    assert layer.coefficients.numel() == 3 * 2 * order
    assert layer.bias_coefficients.numel() == 3
    weight = layer.weight.detach().reshape(3, order, 2, order)
    theta = weight[..., place(elements, torch.eye(group.d).to(elements[0]))].transpose(1, 2)
    x = maps(4, 2, order)
    y = layer.bias.detach().reshape(3, order).expand(4, 3, order).clone()
    assert (y == y[:, :, :1]).all()
    for (to, after), (at, before) in product(enumerate(elements), repeat=2):
        between = place(elements, before.T @ after)
        y[..., to] += x[..., at] @ theta[..., between].T
    torch.testing.assert_close(layer(x.flatten(1)), y.flatten(1))


# --- counts and starts ------------------------------------------------------------------------


def table_7(form: Any, width: int) -> nn.Module:
    widths = [3, *(width * factor for factor in (1, 2, 2, 4, 4, 8, 8, 16))]
    layers = [GroupConv2d(into, out, form=form, device="meta") for into, out in pairwise(widths)]
    head = [nn.Linear(16 * width, 64 * width, device="meta")]
    return nn.Sequential(Lift(), *layers, *head, nn.Linear(64 * width, 10, device="meta"))


@pytest.mark.parametrize(
    ("form", "width", "count"),
    [
        ("full", 10, 1_025_380),
        ("separable", 10, 214_550),
        ("depthwise", 10, 139_725),
        ("full", 6, 371_200),
        ("separable", 13, 358_463),
        ("depthwise", 16, 346_215),
        ("pointwise", 10, 338_770),
    ],
    ids=lambda value: str(value),
)
def test_parameters_of_table_7(form: Any, width: int, count: int) -> None:
    assert sum(p.numel() for p in table_7(form, width).parameters()) == count


@pytest.mark.parametrize(("name", "slices"), [("p4", 4), ("p4m", 8)])
def test_how_parameters_start(name: Any, slices: int) -> None:
    def spread(weight: Tensor, seen: int) -> None:
        bound = sqrt(6 / seen)  # Kaiming's for relu
        assert 0.98 * bound < float(weight.detach().abs().max()) <= bound

    torch.manual_seed(0)
    layers = {form: GroupConv2d(16, 24, group=name, form=form) for form in FORMS}
    spread(layers["full"].filter.weight, 16 * slices * 9)
    spread(layers["pointwise"].filter.weight, 16 * 9)
    spread(layers["separable"].spatial.weight, 9)
    spread(layers["depthwise"].channels.weight, 16)
    assert (layers["separable"].mixing.weight == 1 / (slices * 4)).all()
    assert (layers["depthwise"].mixing.weight == 1 / slices).all()
    for layer in layers.values():
        biases = [value for key, value in layer.named_parameters() if key.endswith("bias")]
        assert biases
        assert not any(bias.any() for bias in biases)
        before = copy.deepcopy(layer.state_dict())
        layer.reset_parameters()
        assert any(not torch.equal(before[key], now) for key, now in layer.state_dict().items())


# --- what layers tell -------------------------------------------------------------------------

STAGES: dict[str, Callable[[], RotatedKernelConv2d]] = {
    f"{name} {reads} {size}{' depthwise' if depthwise else ''}": (
        lambda name=name, reads=reads, size=size, depthwise=depthwise: drawn(
            RotatedKernelConv2d(
                2,
                2 if depthwise else 3,
                size,
                group=Lift(name).group,
                reads=reads,
                depthwise=depthwise,
            )
        )
    )
    for name, reads, size, depthwise in product(
        GROUPS, ("image", "own slice", "all slices"), (1, 3), (False, True)
    )
}


def seen_by(stage: RotatedKernelConv2d, n: int = 2, side: int = 3) -> Tensor:
    slices = () if stage.reads == "image" else (stage.group.order,)
    return maps(n, 2, *slices, side, side)


def rows_by_jacobian(stage: RotatedKernelConv2d, x: Tensor) -> Tensor:
    """∂y(c', k, p)/∂θ(c', …): shape (n, K, positions, c', columns); other channels have none."""
    jacobian = jacrev(lambda weight: functional_call(stage, {"weight": weight}, (x,)))(stage.weight)
    out = stage.out_channels
    jacobian = jacobian.detach().reshape(*jacobian.shape[:3], -1, out, stage.weight[0].numel())
    own = jacobian.diagonal(dim1=1, dim2=4)  # (n, K, positions, columns, c')
    assert own.count_nonzero() == jacobian.count_nonzero()
    return own.transpose(-1, -2)


@pytest.mark.parametrize("name", STAGES)
def test_rows_are_derivatives_by_the_weights(name: str) -> None:
    stage = STAGES[name]()
    x = seen_by(stage)
    with record(stage) as operations:
        y = stage(x)
    weight, bias = operations
    rows = rows_by_jacobian(stage, x)
    if not stage.depthwise:
        assert (rows == rows[..., :1, :]).all()
        rows = rows[..., 0, :]
    torch.testing.assert_close(weight.input_rows(), rows)
    assert weight.blocks == stage.depthwise
    assert weight.axes == bias.axes == ("group", "space")
    assert weight.output is bias.output
    assert weight.entries is None
    several = torch.cat([y, 2 * y, 3 * y]).detach()
    assert weight.gradient_rows(several).shape[:3] == (6, *rows.shape[1:3])
    torch.testing.assert_close(bias.gradient_rows(several)[..., 0], several[:, 0].flatten(2))
    assert (bias.input_rows() == 1).all()
    assert bias.input_rows().shape == (*rows.shape[:3], 1)


@pytest.mark.parametrize("name", STAGES)
def test_gram_matrices_are_those_of_rows(name: str) -> None:
    stage = STAGES[name]()
    for n, side in ((2, 3), (4, 8), (1, 2)):
        x = seen_by(stage, n, side)
        rows = stage._rows(x)
        columns = rows.flatten(0, 2).movedim(0, -1)
        torch.testing.assert_close(stage._gram(x), columns @ columns.mT, rtol=0, atol=1e-10)


def test_a_gram_matrix_is_noted_where_it_pays() -> None:
    def has_gram(stage: RotatedKernelConv2d, x: Tensor) -> bool:
        with record(stage) as operations:
            stage(x)
        return operations[0].gram is not None

    full, plain = STAGES["p4 all slices 3"](), STAGES["p4 own slice 1"]()
    assert has_gram(full, seen_by(full, 4, 8))
    assert not has_gram(full, seen_by(full, 3, 8))
    assert not has_gram(plain, seen_by(plain, 4, 8))
    mixing = STAGES["p4 all slices 1"]()
    assert has_gram(mixing, seen_by(mixing))
    wide = RotatedKernelConv2d(
        40, 1, 3, group=Lift("p4").group, reads="own slice", dtype=torch.float64
    )
    assert not has_gram(wide, maps(4, 40, 4, 8, 8))
    assert has_gram(wide, maps(5, 40, 4, 8, 8))


def head_of(stage: nn.Module, x: Tensor) -> nn.Module:
    width = stage(x).flatten(1).shape[1]
    return drawn(nn.Sequential(nn.Tanh(), nn.Flatten(), nn.Linear(width, 2)))


@pytest.mark.parametrize("side", [2, 8], ids=["rows", "gram"])
@pytest.mark.parametrize("name", [name for name in STAGES if name.startswith("p4 ")])
def test_kronecker_factors(name: str, side: int) -> None:
    """Regression has curvature one at the outputs, so B = Σ gᵀg with g from the head alone."""
    stage = STAGES[name]()
    x = seen_by(stage, 4, side)
    head = head_of(stage, x)
    model = nn.Sequential(stage, head)
    found = laplace(
        model, "regression", (x, maps(4, 2, seed=2)), curvature=CurvatureOptions(batch_size=4)
    )
    (block,), (bias,) = found.blocks["0.weight"], found.blocks["0.bias"]
    rows = rows_by_jacobian(stage, x) if side == 2 else stage._rows(x).detach()
    if side == 2 and not stage.depthwise:
        rows = rows[..., 0, :]
    a = rows.flatten(0, 2).movedim(0, -1)
    a = a if stage.depthwise else a[None]
    torch.testing.assert_close(block.input, a @ a.mT / a.shape[-1])
    y = stage(x).detach()
    g = torch.cat([jacrev(head)(one[None])[0, :, 0].detach() for one in y])  # (outputs, c', …)
    g = g.transpose(0, 1).flatten(1)
    whole = (g @ g.T)[None]
    torch.testing.assert_close(bias.output, whole)
    if stage.depthwise:
        whole = whole[0].diagonal()[:, None, None]
    torch.testing.assert_close(block.output, whole)


@pytest.mark.parametrize("lifts", [False, True], ids=["features", "images"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GROUPS)
def test_evidence_of_all_forms(name: Any, form: Any, lifts: bool) -> None:
    """Blocks without further approximation are the Gauss–Newton matrix by brute force."""
    layer = drawn(GroupConv2d(1, 2, group=name, form=form, lifts=lifts))
    slices = () if lifts else (layer.group.order,)
    x = maps(3, 1, *slices, 4, 4)
    after = [PolyphasePool2d(), nn.Tanh(), GroupPool(), nn.Flatten(), nn.Linear(8, 2)]
    model = drawn(nn.Sequential(layer, *after))
    data = x, maps(3, 2, seed=2)
    found = laplace(model, "regression", data, curvature=CurvatureOptions("block"))
    assert set(found.blocks) == {key for key, _ in model.named_parameters()}
    for key, parameter in model.named_parameters():
        jacobian = jacrev(lambda value, key=key: functional_call(model, {key: value}, (x,)))
        j = jacobian(parameter).detach().flatten(0, 1).flatten(1)
        (block,) = found.blocks[key]
        torch.testing.assert_close(block.dense(), j.T @ j, rtol=0, atol=1e-10)
    for sharing in ("expand", "reduce", "exact"):
        evidence = laplace(
            model, "regression", data, curvature=CurvatureOptions(sharing=sharing)
        ).log_marginal_likelihood()
        assert torch.isfinite(evidence)


def test_recording_changes_no_output() -> None:
    for form in FORMS:
        layer, x = drawn(GroupConv2d(2, 3, form=form)), maps(2, 2, 4, 4, 4)
        with record(layer) as operations:
            y = layer(x)
        assert torch.equal(y, layer(x))
        assert {o.parameter for o in operations} == {key for key, _ in layer.named_parameters()}


# --- manners ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lifts", [False, True], ids=["features", "images"])
@pytest.mark.parametrize("form", FORMS)
def test_manners_of_a_module(form: Any, lifts: bool) -> None:
    torch.manual_seed(0)
    layer = GroupConv2d(2, 3, group="p4m", form=form, lifts=lifts)
    x = maps(3, 2, *(() if lifts else (8,)), 4, 4).float()
    y = layer(x)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x), y)
    assert set(layer.state_dict()) == {key for key, _ in layer.named_parameters()}
    planned = GroupConv2d(2, 3, group="p4m", form=form, lifts=lifts, device="meta")
    assert planned(x.to("meta")).shape == y.shape
    planned = planned.to_empty(device="cpu")
    planned.load_state_dict(layer.state_dict())
    assert torch.equal(planned(x), y)
    if not lifts:
        compiled = torch.compile(layer, fullgraph=True, backend="eager")
        assert torch.equal(compiled(x), y)
    with torch.autocast("cpu", torch.bfloat16):
        low = layer(x)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), y, rtol=0.1, atol=0.1)
    again = copy.deepcopy(layer).half().double()
    torch.testing.assert_close(again(x.double()).float(), y, rtol=1e-2, atol=1e-2)
    plain = GroupConv2d(2, 3, form=form, lifts=lifts, bias=False)
    assert not any("bias" in key for key in plain.state_dict())
    assert (plain(torch.zeros(1, 2, *x.shape[2:])[:, :, : None if lifts else 4]) == 0).all()


@pytest.mark.parametrize("form", FORMS)
def test_gradients_and_ensembles(form: Any) -> None:
    layers = [GroupConv2d(1, 2, form=form, dtype=torch.float64) for _ in range(2)]
    x = maps(2, 1, 4, 3, 3)
    stacked, _ = torch.func.stack_module_state(layers)
    stacked = {key: value for key, value in stacked.items() if "turned" not in key}
    together = torch.vmap(lambda p: functional_call(layers[0], p, (x,)))(stacked)
    torch.testing.assert_close(together, torch.stack([layer(x) for layer in layers]))
    layer = drawn(layers[0])
    names = [key for key, _ in layer.named_parameters()]

    def call(x: Tensor, *values: Tensor) -> Tensor:
        return functional_call(layer, dict(zip(names, values, strict=True)), (x,))

    inputs = (x[:1].requires_grad_(), *layer.parameters())
    assert torch.autograd.gradcheck(call, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True)


def test_layers_print_their_arguments() -> None:
    layer = GroupConv2d(2, 3, group="p4m", form="separable", lifts=True)
    text = repr(layer)
    assert "2, 3, kernel_size=3, group='p4m', form='separable', lifts=True" in text
    assert "2, 2, kernel_size=3, reads='image', depthwise=True" in text
    assert repr(Lift("p4m")) == "Lift('p4m')"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("form", FORMS)
def test_networks_run_on_a_gpu(form: Any) -> None:
    model, x = network("p4m", form, lifts=True), maps(5, 2, 8, 8)
    y = model(x)
    there = copy.deepcopy(model).cuda()
    found = there(x.cuda())
    torch.testing.assert_close(found.cpu(), y)
    y.square().sum().backward()
    found.square().sum().backward()
    for ours, other in zip(model.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(other.grad.cpu(), ours.grad)
    data = x, maps(5, 3, seed=2)
    expected = laplace(model, "regression", data).log_marginal_likelihood()
    moved = tuple(part.cuda() for part in data)
    evidence = laplace(there, "regression", moved).log_marginal_likelihood()
    torch.testing.assert_close(evidence.cpu(), expected)
    assert GroupConv2d(2, 3, device="cuda").filter.turned.is_cuda


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: GroupConv2d(2, 3, group="p6"), r"expected group 'p4' or 'p4m', got 'p6'"),
        (lambda: Lift("c4"), r"expected group 'p4' or 'p4m', got 'c4'"),
        (
            lambda: GroupConv2d(2, 3, form="sparse"),
            r"expected form 'full', 'separable', 'depthwise', 'pointwise', got 'sparse'",
        ),
        (lambda: GroupConv2d(0, 3), r"expected in_channels of at least 1, got 0"),
        (lambda: GroupConv2d(2, 1.5), r"expected out_channels of at least 1, got 1\.5"),
        (lambda: GroupConv2d(2, 3, 4), r"expected an odd kernel size, got 4"),
        (lambda: GroupConv2d(2, 3, (3, 3)), r"expected an odd kernel size, got \(3, 3\)"),
        (
            lambda: GroupConv2d(2, 3)(torch.zeros(1, 2, 8, 5, 5)),
            r"expected maps of shape \(n, 2, 4, h, w\), got \(1, 2, 8, 5, 5\)",
        ),
        (
            lambda: GroupConv2d(2, 3, lifts=True)(torch.zeros(1, 2, 4, 5, 5)),
            r"expected maps of shape \(n, 2, h, w\), got \(1, 2, 4, 5, 5\)",
        ),
        (
            lambda: GroupConv2d(2, 3, 5)(torch.zeros(1, 2, 4, 3, 1)),
            r"expected maps of at least 2 by 2 for a kernel of 5, got 3 by 1",
        ),
        (
            lambda: GroupConv2d(2, 3)(torch.zeros(1, 2, 4, 5, 5, dtype=torch.float64)),
            r"expected maps of the layer's own torch\.float32, got torch\.float64",
        ),
        (
            lambda: Lift()(torch.zeros(2, 5, 5)),
            r"expected images of shape \(n, channels, h, w\), got \(2, 5, 5\)",
        ),
    ],
    ids=[
        "group",
        "lifted group",
        "form",
        "no channels",
        "half a channel",
        "even kernel",
        "two sides",
        "slices",
        "images",
        "small maps",
        "precision",
        "no batch",
    ],
)
def test_bad_inputs(build: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build()


def test_any_layer_of_maps_is_a_path_beside_slices() -> None:
    torch.manual_seed(0)
    inner = nn.Conv2d(8, 12, 3, padding=1)
    layer, x = OnSlices(inner, 4), torch.randn(5, 2, 4, 6, 6)
    expected = inner(x.reshape(5, 8, 6, 6)).reshape(5, 3, 4, 6, 6)
    assert torch.equal(layer(x), expected)
    with pytest.raises(ValueError, match=r"shape \(n, channels, 4, h, w\), got \(5, 2, 3, 6, 6\)"):
        layer(x[:, :, :3])
