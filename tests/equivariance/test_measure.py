import itertools
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from isotropy.data import Dataset
from isotropy.equivariance import Measurement, MeasureOptions, image_action, measure
from isotropy.groups import SO, S
from isotropy.reps import Scalar, Symmetry, V

SIDE = 8


def images(count: int = 6, channels: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(count, channels, SIDE, SIDE, generator=generator)


def classifier() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 3),
    ).eval()


class Applied(nn.Module):
    """A model from a function, with a classifier inside."""

    def __init__(self, function: Callable[[nn.Module, Tensor], Any]) -> None:
        super().__init__()
        self.net = classifier()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(self.net, x)


# --- the numbers ------------------------------------------------------------------------------


def test_a_linear_map_in_closed_form() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, 3)).double()
    x = images().double()
    found = measure(
        net, x, ["translation", "brightness"], options=MeasureOptions(batch_size=4), samples=0
    )
    assert (found.inputs, found.sampled) == (6, {})
    weight = net[1].weight.detach()
    tangents = [image_action(f"translation_{axis}").tangent(x).flatten(1) for axis in "xy"]
    squares = sum((t @ weight.T).square().mean(1) for t in tangents) / 2
    assert found.errors["translation"].lee == pytest.approx(float(squares.mean()))
    assert found.errors["translation"].stderr == pytest.approx(float(squares.std()) / 6**0.5)
    moved = x.flatten(1) @ weight.T
    assert found.errors["brightness"].lee_abs == pytest.approx(float(moved.abs().mean()))


def test_the_sampled_error_of_a_linear_map() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, 3)).double()
    x = images(150).double()
    found = measure(net, x, "brightness", samples=400)
    drawn = found.sampled["brightness"]
    weight = net[1].weight.detach()
    # f(eᵗx) − f(x) = (eᵗ − 1) W x, with t uniform in ±0.1
    t = torch.linspace(-0.1, 0.1, 2001, dtype=torch.float64)
    size = (x[:15].flatten(1) @ weight.T).norm(dim=1).mean()
    expected = float(t.expm1().abs().mean() * size)
    assert (drawn.inputs, drawn.elements) == (15, 400)
    assert drawn.value == pytest.approx(expected, rel=0.1)
    data = found.data()["actions"]["brightness"]["sampled"]
    assert (data["scale"], data["range"]) == (0.1, "t up to 0.1")


@pytest.mark.parametrize(
    ("action", "side", "scale", "words"),
    [
        ("translation", 8, 1 / 8, "up to 1 pixel"),
        ("translation_x", 64, 5 / 64, "up to 5 pixels"),
        ("rotation", 8, torch.pi / 18, "up to 10°"),
        ("scale", 8, 0.1, "t up to 0.1"),
    ],
)
def test_how_far_samples_go(action: str, side: int, scale: float, words: str) -> None:
    found = measure(lambda x: x.mean((2, 3)), torch.rand(2, 1, side, side), action, samples=2)
    assert found.ranges[action] == (pytest.approx(scale), words)


def test_a_discrete_group_against_brute_force() -> None:
    x = torch.randn(5, 3, dtype=torch.float64)
    first = Symmetry(S(3), V, Scalar)
    found = measure(lambda x: x[:, :1], x, first, samples=6)
    others = [x[:, list(order)][:, 0] - x[:, 0] for order in itertools.permutations(range(3))]
    assert found.sampled["S(3)"].value == pytest.approx(float(torch.stack(others).abs().mean()))
    data = found.data()["actions"]["S(3)"]
    assert (data["lee"], data["stderr"], data["layers"]) == (None, None, [])
    assert data["sampled"]["range"] == "the whole group"
    assert "S(3)" in str(found)


def test_a_discrete_group_of_images_against_brute_force() -> None:
    x = images().double()
    found = measure(lambda x: x[:, :, 0, 0], x, ["quarter_turns", "rotation"])
    corners = torch.stack([x[..., i, j] for i in (0, -1) for j in (0, -1)])
    assert found.sampled["quarter_turns"].value == pytest.approx(
        float((corners - corners[0]).abs().mean())
    )
    assert list(found.errors) == ["rotation"]


def test_a_lie_group_on_vectors() -> None:
    x = torch.randn(7, 3, dtype=torch.float64)
    length = measure(lambda x: x.norm(dim=1, keepdim=True), x, Symmetry(SO(3), V, Scalar))
    assert length.errors["SO(3)"].lee < 1e-25
    assert length.sampled["SO(3)"].value < 1e-12
    first = measure(lambda x: x[:, :1], x, Symmetry(SO(3), V, Scalar))
    # the generators move the first coordinate by ±another one, or not at all
    expected = float((x[:, 1] ** 2 + x[:, 2] ** 2).mean() / 3)
    assert first.errors["SO(3)"].lee == pytest.approx(expected)
    stated = measure(lambda x: x[:, :1], x, Symmetry(SO(3), V, Scalar), output="invariant")
    assert stated.errors == first.errors
    assert stated.ranges["SO(3)"] == (0.1, "t up to 0.1")


def test_layers_add_up_and_softmax_is_measured_inside_out() -> None:
    net, x = classifier(), images()
    found = measure(
        net, x, "rotation", layers=True, options=MeasureOptions(layer_inputs=5), softmax=True
    )
    parts = found.layers["rotation"]
    names = [layer.name for layer in parts.layers]
    assert parts.inputs == 5
    assert set(names) <= {"0", "1", "2", "3", "4", "5", "softmax"}
    assert sum(layer.share for layer in parts.layers) == pytest.approx(1, abs=1e-4)
    with_softmax = nn.Sequential(net, nn.Softmax(-1))
    other = measure(
        with_softmax, x, "rotation", layers=True, options=MeasureOptions(layer_inputs=5)
    )
    assert found.errors["rotation"].lee == pytest.approx(other.errors["rotation"].lee)
    assert [f"0.{name}" for name in names if name != "softmax"] == [
        layer.name for layer in other.layers["rotation"].layers if layer.name != "1"
    ]


def test_layouts_reach_layers_below_a_softmax() -> None:
    net, x = classifier(), images()
    plain = measure(net, x, "rotation", layers=True, softmax=True)
    changed = measure(
        net,
        x,
        "rotation",
        layers=True,
        softmax=True,
        options=MeasureOptions(layouts={"0": "invariant", "[12]": "NCHW"}),
    )
    first = plain.layers["rotation"].layers[0], changed.layers["rotation"].layers[0]
    assert first[0].name == first[1].name == "0"
    assert first[0].contribution != pytest.approx(first[1].contribution, rel=1e-3)


@pytest.mark.parametrize("method", ["reverse", "probes"])
def test_other_methods(method: Any) -> None:
    net, x = classifier(), images()
    exact = measure(net, x, "rotation", layers=True).layers["rotation"]
    found = measure(
        net, x, "rotation", layers=True, options=MeasureOptions(method=method, probes=300)
    ).layers["rotation"]
    assert found.method == method
    for one, other in zip(exact.layers, found.layers, strict=True):
        tolerance = 1e-3 if method == "reverse" else 0.25
        assert other.squared == pytest.approx(one.squared, rel=tolerance)


def test_the_kind_of_data_and_the_batch_size_do_not_matter() -> None:
    net, x = classifier(), images()
    given = [x, Dataset(x), [x[:4], x[4:]], [(x[:1], 0), (x[1:], 1)], iter([x[:3], x[3:]])]
    found = [
        measure(net, data, "rotation", options=MeasureOptions(batch_size=1 + i))
        for i, data in enumerate(given)
    ]
    for other in found[1:]:
        assert other.errors["rotation"].lee == pytest.approx(found[0].errors["rotation"].lee)
        assert other.sampled["rotation"].value == pytest.approx(found[0].sampled["rotation"].value)


def test_the_model_is_left_as_it_was() -> None:
    net = classifier().train()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    measure(net, images(), "rotation", layers=True)
    assert all(module.training for module in net.modules())
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_the_generator_decides_the_samples() -> None:
    net, x = classifier(), images()
    values = [
        measure(net, x, "rotation", generator=seed).sampled["rotation"].value for seed in (1, 1, 2)
    ]
    assert values[0] == values[1] != values[2]


# --- how it is shown --------------------------------------------------------------------------


def test_data_is_json_of_one_shape() -> None:
    net, x = classifier(), images()
    whole = measure(net, x, ["rotation"], layers=True, options=MeasureOptions(name="net")).data()
    short = measure(net, x[:1], ["rotation"], samples=0, options=MeasureOptions(name="net")).data()
    assert json.loads(json.dumps(whole, allow_nan=False))["inputs"] == 6
    long, brief = whole["actions"]["rotation"], short["actions"]["rotation"]
    assert set(long) == set(brief)
    assert (brief["layers"], brief["closure"], brief["layer_inputs"]) == ([], None, 0)
    assert (brief["sampled"], brief["stderr"]) == (None, None)
    assert (long["boundary"], long["unit"]) == ("reflect", "radian")
    assert long["closure"] < 1e-5
    assert set(long["layers"][0]) >= {"name", "kind", "contribution"}


def test_the_table_shows_the_largest_layers() -> None:
    torch.manual_seed(0)
    middle = [nn.Tanh() if i % 2 else nn.Conv2d(2, 2, 3, padding=1) for i in range(25)]
    deep = nn.Sequential(nn.Conv2d(1, 2, 3), *middle, nn.Flatten(), nn.Linear(72, 2))
    found = measure(
        deep, images(3), "translation", layers=True, options=MeasureOptions(name="deep")
    )
    text = str(found)
    first, header, *rest = text.splitlines()
    assert first == "deep, 3 inputs"
    columns = ["action", "LEE", "standard error", "mean |L|", "sampled error", "over"]
    assert re.split(r"  +", header) == columns
    assert rest[0].startswith("translation")
    shown = text.partition("share of L\n")[2].partition("\n(")[0].splitlines()
    parts = found.layers["translation"].layers
    assert f"({len(parts) - 20} smaller ones not shown)" in text
    ranked = sorted(parts, key=lambda layer: -layer.contribution)[:20]
    assert {line.split()[0] for line in shown} == {layer.name for layer in ranked}
    assert len(shown) == 20
    assert "of all contributions:" in text
    assert "closure: they add up to L within" in text


def test_one_input_has_no_standard_error() -> None:
    assert "1 input\n" in str(measure(classifier(), images(1), "rotation"))


def test_progress_counts_up_to_the_total() -> None:
    steps: list[Any] = []
    measure(
        classifier(),
        images(),
        ["rotation", "scale"],
        layers=True,
        options=MeasureOptions(batch_size=2),
        progress=steps.append,
    )
    assert [step.done for step in steps] == list(range(10))
    assert {step.total for step in steps} == {10}
    assert steps[0].message == "rotation"
    assert steps[-1].message == "scale: layer by layer"


# --- never a silent zero ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "stops",
    [
        lambda net, x: net((x * 255).round() / 255),
        lambda net, x: net((x > 0.5).float()),
    ],
    ids=["round", "comparison"],
)
@pytest.mark.parametrize("action", ["rotation", "translation", "brightness"])
def test_a_derivative_that_is_stopped_is_refused(stops: Any, action: str) -> None:
    with pytest.raises(
        ValueError, match=rf"derivative under {action} is zero although its outputs change"
    ):
        measure(Applied(stops), images(), action)


def test_a_stopped_derivative_is_refused_where_outputs_are_maps() -> None:
    with pytest.raises(ValueError, match=r"is zero although its outputs change"):
        measure(Applied(lambda net, x: net[0](x.round())), images(), "rotation")


def without_gradients(net: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        out: Tensor = net(x)
    return out


@pytest.mark.parametrize(
    "stops",
    [without_gradients, lambda net, x: net(x.detach())],
    ids=["no_grad", "detach"],
)
def test_what_stops_gradients_stops_no_derivative(stops: Any) -> None:
    found = measure(Applied(stops), images(), "rotation", layers=True)
    expected = measure(classifier(), images(), "rotation", layers=True)
    assert found.errors["rotation"].lee == pytest.approx(expected.errors["rotation"].lee)
    assert found.layers["rotation"].lee == pytest.approx(expected.layers["rotation"].lee)


@pytest.mark.parametrize("count", [1, 6])
@pytest.mark.parametrize(
    "constant",
    [
        lambda net, x: torch.ones(len(x), 3),
        lambda net, x: 0 * net(x) + 1,
        lambda net, x: torch.ones(len(x), 2, SIDE, SIDE) + 0 * x,
    ],
    ids=["made", "times zero", "map"],
)
def test_a_constant_model_is_refused(constant: Any, count: int) -> None:
    with pytest.raises(ValueError, match=r"expected outputs that depend on the inputs, got the"):
        measure(Applied(constant), images(count), "rotation")


def test_an_invariant_model_is_no_error() -> None:
    shift = image_action("translation", boundary="periodic")
    assert measure(lambda x: x.mean((2, 3)), images(), shift).errors["translation"].lee < 1e-9


def test_a_derivative_that_is_truly_zero_is_no_error() -> None:
    x = torch.randn(4, 3)
    found = measure(lambda x: x[:, 2:], x, Symmetry(SO(2), V + Scalar, Scalar))
    assert found.errors["SO(2)[0]"].lee == 0
    same = x[:1].expand(4, 3)  # equal outputs for equal inputs
    found = measure(lambda x: x[:, 2:], same, Symmetry(SO(2), V + Scalar, Scalar))
    assert found.errors["SO(2)[0]"].lee == 0


def test_inputs_that_the_action_leaves_alone_are_no_error() -> None:
    flat = torch.ones(3, 1, SIDE, SIDE) * torch.arange(1.0, 4.0)[:, None, None, None]
    net = Applied(lambda net, x: x.detach().mean((2, 3)))
    assert measure(net, flat, "rotation", samples=0).errors["rotation"].lee == 0


# --- bad input --------------------------------------------------------------------------------


def fails(*_: Any) -> Tensor:
    raise KeyError("no such thing")


def oblong(_: nn.Module, x: Tensor) -> Tensor:
    return (x.flatten(1) @ torch.ones(SIDE**2, 70)).reshape(-1, 7, 2, 5)


@pytest.mark.parametrize(
    ("function", "error", "says"),
    [
        (fails, ValueError, r"inputs of shape \(6, 1, 8, 8\), got KeyError: 'no such thing'"),
        (lambda net, x: net(x.repeat(1, 2, 1, 1)), ValueError, r"got RuntimeError: Given groups=1"),
        (lambda net, x: net(x).sum(0), ValueError, r"an output for each of 6 inputs, got shape"),
        (lambda net, x: net(x).sum(), ValueError, r"an output for each of 6 inputs, got shape"),
        (lambda net, x: net(x) / 0, ValueError, r"expected finite outputs, got one that is not"),
        (lambda net, x: (net(x), 1), TypeError, r"expected a tensor from the model, got tuple"),
        (lambda net, x: net(x).argmax(1), TypeError, r"expected real or complex outputs, got"),
        (oblong, ValueError, r"rotation is known to act, got shape \(6, 7, 2, 5\); say how"),
    ],
)
def test_a_model_that_cannot_be_measured(function: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        measure(Applied(function), images(), "rotation")


def test_derivatives_that_are_not_finite() -> None:
    with pytest.raises(ValueError, match=r"expected finite outputs and derivatives under"):
        measure(lambda x: (0 * x).sqrt().mean((2, 3)) + x.mean((2, 3)), images(), "rotation")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"actions": []}, r"expected at least one action, got none"),
        ({"actions": ["scale", "rotation", "scale"]}, r"each action once, got scale twice"),
        ({"actions": "wobble"}, r"expected an action on images among .*, got 'wobble'"),
        ({"actions": "flips", "samples": 0}, r"samples for the discrete group flips, which has"),
        ({"actions": Symmetry(SO(3), V, V)}, r"expected inputs of shape \(N, 3\)"),
        ({"samples": -1}, r"expected samples of at least 0, got -1"),
        (
            {"options": MeasureOptions(layer_inputs=0)},
            r"expected layer_inputs of at least 1, got 0",
        ),
        ({"options": MeasureOptions(probes=0)}, r"expected probes of at least 1, got 0"),
        (
            {"options": MeasureOptions(layouts={"0": "NCHW"})},
            r"expected layouts only for layers, got '0'",
        ),
        (
            {"options": MeasureOptions(layouts={"x.*": "NCHW"}), "layers": True},
            r"of the names of modules, got 'x\.\*'",
        ),
        ({"data": torch.zeros(0, 1, 8, 8)}, r"expected at least one input, got none"),
        ({"model": nn.Conv2d(1, 2, 3), "softmax": True}, r"\(N, classes\) for softmax, got"),
    ],
)
def test_bad_options(options: dict[str, Any], says: str) -> None:
    given: dict[str, Any] = {"model": classifier(), "data": images(), **options}
    with pytest.raises(ValueError, match=says):
        measure(**given)


def test_keywords_that_became_options_still_work() -> None:
    net, x = classifier(), images()
    with pytest.warns(DeprecationWarning, match=r"options=MeasureOptions\(layer_inputs=…\)"):
        found = measure(net, x, "rotation", layers=True, layer_inputs=2)  # type: ignore[call-arg]
    assert found.layers["rotation"].inputs == 2


def test_exported_programs() -> None:
    net, x = classifier(), images()
    program = torch.export.export(net, (x[:3],)).module()  # takes three inputs, no other number
    found = measure(program, x, "rotation", options=MeasureOptions(batch_size=3))
    expected = measure(net, x, "rotation")
    assert found.errors["rotation"].lee == pytest.approx(expected.errors["rotation"].lee)
    assert found.sampled["rotation"].value == pytest.approx(expected.sampled["rotation"].value)
    with pytest.raises(ValueError, match=r"inputs of shape \(2, 1, 8, 8\), got AssertionError"):
        measure(program, x[:5], "rotation", options=MeasureOptions(batch_size=3))
    with pytest.raises(ValueError, match=r"contributions of layers, got an exported program"):
        measure(program, x, "rotation", options=MeasureOptions(batch_size=3), layers=True)
    convolution = torch.export.export(net[0], (x,)).module()
    with pytest.raises(ValueError, match=r"expected output= for outputs of shape \(6, 4, 4, 4\)"):
        measure(convolution, x, "rotation")
    stated = measure(convolution, x, "rotation", output="NCHW")
    inferred = measure(net[0], x, "rotation", output="NCHW")
    assert stated.errors["rotation"].lee == pytest.approx(inferred.errors["rotation"].lee)


@pytest.mark.parametrize("softmax", [False, True])
def test_exported_programs_with_kinks(softmax: bool) -> None:
    """Where differences of a piecewise linear network are no measure of its derivative."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5)
    )
    x = images()
    program = torch.export.export(net.eval(), (x,)).module()
    found, expected = (
        measure(model, x, "rotation", softmax=softmax).errors["rotation"].lee
        for model in (program, net)
    )
    assert found == pytest.approx(expected)


def test_programs_exported_in_training_mode_are_refused() -> None:
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5))
    x = images()
    training = torch.export.export(net.train(), (x,)).module()
    with pytest.raises(ValueError, match=r"in evaluation mode, got one in which aten.batch_norm"):
        measure(training, x, "rotation")
    evaluating = torch.export.export(net.eval(), (x,)).module()
    expected = measure(net, x, "rotation").errors["rotation"].lee
    assert measure(evaluating, x, "rotation").errors["rotation"].lee == pytest.approx(expected)


def test_the_public_verb_is_this_one() -> None:
    import isotropy

    assert isotropy.measure is measure
    assert isinstance(isotropy.measure(classifier(), images(), "scale"), Measurement)
