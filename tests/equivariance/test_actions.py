"""Actions against analytic pictures, rolls, rotations by hand and differences of themselves."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from isotropy.equivariance import (
    Action,
    group_action,
    image_action,
    lee_penalty,
    lie_derivative,
    point_cloud_action,
    sequence_action,
)
from isotropy.groups import SO, SU, O, S, SO13p
from isotropy.reps import Scalar, Symmetry, T, V

GRID = [
    "translation_x",
    "translation_y",
    "rotation",
    "shear_x",
    "shear_y",
    "stretch_x",
    "stretch_y",
    "scale",
    "hyperbolic_rotation",
]
COLOUR = ["brightness", "saturation"]
BOUNDARIES = ["periodic", "reflect"]


def normal(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=rng)


def central(action: Action, x: Tensor, eps: float = 1e-5) -> Tensor:
    return (action.transform(x, eps) - action.transform(x, -eps)) / (2 * eps)


# --- the tangent is the derivative ------------------------------------------------------------


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("name", GRID)
def test_fourier_tangent(name: str, boundary: str, channels_last: bool) -> None:
    action = image_action(name, boundary=boundary, channels_last=channels_last)  # type: ignore[arg-type]
    x = normal(2, 6, 9, 3) if channels_last else normal(2, 3, 6, 9)
    tangent = action.tangent(x)
    assert float(tangent.norm()) > 1
    torch.testing.assert_close(central(action, x), tangent, rtol=1e-6, atol=1e-6)
    zero, one = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
    _, forward = torch.func.jvp(lambda t: action.transform(x, t), (zero,), (one,))
    torch.testing.assert_close(forward, tangent, rtol=1e-9, atol=1e-9)
    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    probe = normal(*x.shape, seed=1)
    (reverse,) = torch.autograd.grad((action.transform(x, t) * probe).sum(), t)
    torch.testing.assert_close(reverse, (tangent * probe).sum())


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("name", GRID)
def test_bilinear_tangents_are_one_sided(name: str, boundary: str) -> None:
    x = normal(1, 2, 6, 9)
    eps = 1e-6
    rules: dict[str, Any] = {"boundary": boundary, "interpolation": "bilinear"}
    sides = {side: image_action(name, side=side, **rules) for side in ("plus", "minus", "central")}  # type: ignore[arg-type]
    action = sides["plus"]
    torch.testing.assert_close(action.transform(x, 0.0), x)
    plus = (action.transform(x, eps) - x) / eps
    minus = (x - action.transform(x, -eps)) / eps
    torch.testing.assert_close(action.tangent(x), plus, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(sides["minus"].tangent(x), minus, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(
        sides["central"].tangent(x), (plus + minus) / 2, rtol=1e-4, atol=1e-3
    )
    assert float((plus - minus).norm()) > 1  # there is a kink


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("name", ["translation", "scale"])
def test_sequence_tangent(name: str, boundary: str, channels_last: bool) -> None:
    action = sequence_action(name, boundary=boundary, channels_last=channels_last)  # type: ignore[arg-type]
    x = normal(2, 9, 3) if channels_last else normal(2, 3, 9)
    torch.testing.assert_close(central(action, x), action.tangent(x), rtol=1e-6, atol=1e-6)
    assert float(action.tangent(x).norm()) > 1


OTHERS = [
    *((image_action(n, mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.1)), (2, 3, 4, 5)) for n in COLOUR),
    (image_action("saturation", mean=(0.4,), channels_last=True), (2, 4, 5, 3)),
    *((point_cloud_action(f"rotation_{a}"), (2, 5, 4)) for a in "xyz"),
    *((point_cloud_action(f"translation_{a}"), (2, 5, 3)) for a in "xyz"),
    (point_cloud_action("scale"), (2, 5, 3)),
    (point_cloud_action("rotation", dimension=2), (2, 5, 2)),
    (group_action(Symmetry(SO(3), V + T(2), V), 1), (4, 12)),
    (group_action(Symmetry(SO13p(), V, V), normal(4, 4)), (4, 4)),
]


@pytest.mark.parametrize(("action", "shape"), OTHERS, ids=lambda v: getattr(v, "name", ""))
def test_other_tangents(action: Action, shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    torch.testing.assert_close(central(action, x), action.tangent(x), rtol=1e-7, atol=1e-7)
    twice = action.transform(action.transform(x, 0.3), 0.4)
    torch.testing.assert_close(action.transform(x, 0.7), twice)
    single = action.transform(x.float(), 0.3)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), action.transform(x, 0.3), rtol=1e-4, atol=1e-4)


# --- finite transformations of pictures -------------------------------------------------------

MATRICES = {
    "translation_x": [[0, 0, 1], [0, 0, 0], [0, 0, 0]],
    "translation_y": [[0, 0, 0], [0, 0, 1], [0, 0, 0]],
    "rotation": [[0, -1, 0], [1, 0, 0], [0, 0, 0]],
    "shear_x": [[0, 1, 0], [0, 0, 0], [0, 0, 0]],
    "shear_y": [[0, 0, 0], [1, 0, 0], [0, 0, 0]],
    "stretch_x": [[1, 0, 0], [0, 0, 0], [0, 0, 0]],
    "stretch_y": [[0, 0, 0], [0, 1, 0], [0, 0, 0]],
    "scale": [[1, 0, 0], [0, 1, 0], [0, 0, 0]],
    "hyperbolic_rotation": [[0, 1, 0], [1, 0, 0], [0, 0, 0]],
}
FINITE = [
    *((name, 0.15) for name in GRID),
    *((name, -0.1) for name in GRID),
    ("rotation", 0.9),
    ("rotation", 2.5),  # beyond a sixth of a turn: in steps
    ("rotation", math.pi),
    ("scale", -0.5),
    ("stretch_x", -0.8),  # below a half: in steps
]


def blob(height: int, width: int, inverse: Tensor, pitch: float = 1.0) -> Tensor:
    """Two Gaussians away from the edge, at the places that an affine map takes pixels from.

    Coordinates are in pixels of the input about its middle; samples are a pitch apart.
    """
    y = (torch.arange(height, dtype=torch.float64) - (height - 1) / 2) * pitch
    x = (torch.arange(width, dtype=torch.float64) - (width - 1) / 2) * pitch
    ones = torch.ones(height, width, dtype=torch.float64)
    taken = inverse @ torch.stack([x * ones, y[:, None] * ones, ones]).reshape(3, -1)
    found = torch.zeros(height * width, dtype=torch.float64)
    for centre, weight in (((2.0, -1.5), 1.0), ((-2.5, 1.0), -0.7)):
        away = (taken[0] - centre[0]) ** 2 + (taken[1] - centre[1]) ** 2
        found += weight * torch.exp(-away / 5)
    # nothing is known of what comes from outside
    outside = (taken[0].abs() > width / 2) | (taken[1].abs() > height / 2)
    return torch.where(outside, torch.nan, found).reshape(1, 1, height, width)


def largest_gap(found: Tensor, expected: Tensor) -> float:
    return float((found - expected)[~expected.isnan()].abs().max())


def inverse_map(name: str, t: float, height: int, width: int) -> Tensor:
    algebra = torch.tensor(MATRICES[name], dtype=torch.float64)
    algebra[0, 2] *= width
    algebra[1, 2] *= height
    return torch.linalg.matrix_exp(-t * algebra)


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize(("name", "t"), FINITE)
def test_pictures_are_taken_from_where_the_inverse_points(
    name: str, t: float, boundary: str
) -> None:
    height, width = 31, 36
    x = blob(height, width, torch.eye(3, dtype=torch.float64))
    expected = blob(height, width, inverse_map(name, t, height, width))
    fine = image_action(name, boundary=boundary)  # type: ignore[arg-type]
    coarse = image_action(name, boundary=boundary, interpolation="bilinear")  # type: ignore[arg-type]
    moved = fine.transform(x, t)
    assert largest_gap(x, expected) > 0.05
    assert largest_gap(moved, expected) < 2e-3
    assert largest_gap(coarse.transform(x, t), expected) < 0.15
    last = image_action(name, boundary=boundary, channels_last=True)  # type: ignore[arg-type]
    torch.testing.assert_close(last.transform(x.movedim(1, -1), t), moved.movedim(1, -1))
    assert float((fine.transform(x.float(), t).double() - moved).abs().max()) < 1e-5


@pytest.mark.parametrize(("name", "t"), FINITE)
def test_feature_maps_are_moved_by_their_own_pixels(name: str, t: float) -> None:
    """Where a map of half as many samples lies over the input, it shows the same picture."""
    height, width = 30, 36
    action = image_action(name)
    at_input = action.input_place(torch.zeros(1, 1, 2 * height, 2 * width))
    place = action.named_place("NCHW", (1, 1, height, width), at_input)
    # wider blobs: the others would be undersampled
    scale = torch.diag(torch.tensor([0.5, 0.5, 1.0], dtype=torch.float64))
    x = blob(height, width, scale, pitch=2.0)
    inverse = inverse_map(name, t, 2 * height, 2 * width)
    expected = blob(height, width, scale @ inverse, pitch=2.0)
    assert largest_gap(action.move(x, t, place), expected) < 2e-3
    tokens = action.named_place("NLC+1", (1, 1 + height * width, 1), at_input)
    flat = torch.cat([torch.full((1, 1, 1), 7.0, dtype=torch.float64), x.flatten(2).mT], 1)
    moved = action.move(flat, t, tokens)
    assert float(moved[0, 0, 0]) == 7
    torch.testing.assert_close(moved[:, 1:].mT.reshape(x.shape), action.move(x, t, place))
    slope = action.act(flat, tokens)
    assert float(slope[0, 0, 0]) == 0
    torch.testing.assert_close(slope[:, 1:].mT.reshape(x.shape), action.act(x, place))


@pytest.mark.parametrize("interpolation", ["fourier", "bilinear"])
def test_whole_pixels_are_rolled(interpolation: str) -> None:
    x = normal(2, 3, 5, 8)
    for name, axis, n in (("translation_x", -1, 8), ("translation_y", -2, 5)):
        for k in (-3, 1, 7):
            rules: dict[str, Any] = {"interpolation": interpolation}
            found = image_action(name, boundary="periodic", **rules).transform(x, k / n)
            torch.testing.assert_close(found, x.roll(k, axis))
            found = image_action(name, boundary="reflect", **rules).transform(x, k / n)
            mirrored = torch.cat([x, x.flip(axis)], axis).roll(k, axis)
            torch.testing.assert_close(found, mirrored.narrow(axis, 0, n))
    row = normal(2, 3, 9)
    along = sequence_action("translation", boundary="periodic")
    torch.testing.assert_close(along.transform(row, 2 / 9), row.roll(2, -1))


def test_quarter_turns_are_clockwise() -> None:
    x = blob(33, 33, torch.eye(3, dtype=torch.float64))
    turn = image_action("rotation")
    for quarters in (1, 2, 3, -1):
        found = turn.transform(x, quarters * math.pi / 2)
        expected = torch.rot90(x, -quarters, (2, 3))
        assert float((found - expected).abs().max()) < 1e-3
    assert float((turn.transform(x, 2 * math.pi) - x).abs().max()) < 1e-3


def test_translations_are_a_group_on_the_torus() -> None:
    x = normal(2, 3, 7, 9)
    for name in ("translation_x", "translation_y"):
        action = image_action(name, boundary="periodic")
        twice = action.transform(action.transform(x, 0.13), 0.29)
        torch.testing.assert_close(action.transform(x, 0.42), twice)
        torch.testing.assert_close(action.transform(x, 1.0), x)


# --- colour, points, vectors ------------------------------------------------------------------


def test_colour_in_closed_form() -> None:
    rng = torch.Generator().manual_seed(0)
    pixels = torch.rand(2, 3, 4, 5, dtype=torch.float64, generator=rng)
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.3, 0.1)
    m, s = (torch.tensor(v, dtype=torch.float64)[:, None, None] for v in (mean, std))
    x = (pixels - m) / s
    t = math.log(1.7)
    brighter = image_action("brightness", mean=mean, std=std).transform(x, t)
    torch.testing.assert_close(brighter * s + m, 1.7 * pixels)
    stronger = image_action("saturation", mean=mean, std=std).transform(x, t) * s + m
    grey = 0.299 * pixels[:, 0] + 0.587 * pixels[:, 1] + 0.114 * pixels[:, 2]
    torch.testing.assert_close(stronger, grey[:, None] + 1.7 * (pixels - grey[:, None]))
    plain = image_action("brightness").transform(pixels, t)
    torch.testing.assert_close(plain, 1.7 * pixels)


def test_points_in_closed_form() -> None:
    x = normal(2, 5, 4)  # the last column is a feature
    cos, sin = math.cos(0.6), math.sin(0.6)
    turns = {
        "rotation_x": [[1, 0, 0], [0, cos, -sin], [0, sin, cos]],
        "rotation_y": [[cos, 0, sin], [0, 1, 0], [-sin, 0, cos]],
        "rotation_z": [[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]],
        "scale": (math.exp(0.6) * torch.eye(3)).tolist(),
    }
    for name, matrix in turns.items():
        found = point_cloud_action(name).transform(x, 0.6)
        turn = torch.tensor(matrix, dtype=torch.float64)
        torch.testing.assert_close(found[..., :3], x[..., :3] @ turn.T, rtol=1e-6, atol=1e-6)
        assert torch.equal(found[..., 3], x[..., 3])
    shift = point_cloud_action("translation_y")
    moved = shift.transform(x, 0.6)
    torch.testing.assert_close(moved - x, torch.tensor([0, 0.6, 0, 0]).double().expand_as(x))
    assert torch.equal(shift.move(x, 0.6, "vectors"), x)
    assert torch.equal(shift.act(x, "vectors"), torch.zeros_like(x))
    assert torch.equal(shift.move(x, 0.6, "invariant"), x)


def test_vectors_in_closed_form() -> None:
    turn = group_action(Symmetry(SO(2), V, T(2)), 0)
    x = normal(4, 2)
    angle = torch.tensor(0.7, dtype=torch.float64)
    one = turn.transform(torch.eye(2, dtype=torch.float64)[:1], 0.7)[0]
    sign = float(torch.sign(one[1]))  # which way the generator turns is its own choice
    matrix = torch.stack([angle.cos(), -sign * angle.sin(), sign * angle.sin(), angle.cos()])
    matrix = matrix.reshape(2, 2)
    torch.testing.assert_close(turn.transform(x, 0.7), x @ matrix.T)
    y = normal(4, 4)
    place = turn.guessed_place((4, 4), turn.input_place(x))
    assert place is not None
    torch.testing.assert_close(turn.move(y, 0.7, place), y @ torch.kron(matrix, matrix).T)
    assert turn.guessed_place((4, 3), turn.input_place(x)) is None
    assert group_action(Symmetry(SO(2), V, V)).directions[0].name == "SO(2)[0]"
    assert len(group_action(Symmetry(SO(3), V, V)).directions) == 3


# --- where space is, in words and by guess ----------------------------------------------------


def test_guessed_places() -> None:
    action = image_action("rotation")
    at = action.input_place(torch.zeros(2, 3, 8, 12))

    def sides(shape: tuple[int, ...]) -> Any:
        found = action.guessed_place(shape, at)
        return (
            found if found is None or isinstance(found, str) else tuple(s.size for s in found.sides)
        )

    assert sides((2, 10)) == "invariant"
    assert sides((2, 10, 1, 1)) == "invariant"
    assert sides((2, 16, 4, 6)) == (4, 6)
    assert sides((2, 4, 6, 16)) == (4, 6)
    assert sides((2, 6, 5)) == (2, 3)
    assert sides((2, 7, 5)) == (2, 3)
    assert sides((2, 5, 16, 2, 3)) is None
    assert sides((2, 3, 5)) is None
    last = action.guessed_place((2, 4, 6, 16), at)
    assert last is not None
    assert not isinstance(last, str)
    assert [axis.is_plain for axis in last.axes] == [True, False, False, True]
    assert action.named_place("invariant", (2, 4, 6, 16), at) == "invariant"
    along = sequence_action("translation")
    at = along.input_place(torch.zeros(2, 3, 8))
    found = along.guessed_place((2, 5, 4), at)
    assert found is not None
    assert not isinstance(found, str)
    assert found.sides[0].size == 4
    found = along.named_place("NLC", (2, 5, 4), at)
    assert found is not None
    assert not isinstance(found, str)
    assert found.sides[0].size == 5


@pytest.mark.parametrize(
    "action",
    [
        *(image_action(name) for name in (*GRID, *COLOUR, "translation", "shear", "stretch")),
        image_action("rotation", interpolation="bilinear", side="plus"),
        sequence_action("scale"),
        point_cloud_action("scale"),
        group_action(Symmetry(SO(3), V, V)),
    ],
    ids=lambda a: a.name,
)
def test_descriptions_are_json(action: Action) -> None:
    described = json.loads(json.dumps(action.describe()))
    assert described["name"] == action.name
    assert described["unit"]
    assert described["boundary"] in ("reflect", "none")


def bent(x: Tensor) -> Tensor:
    """One number for each input, that nothing leaves as it is."""
    return (x.flatten(1).square() * torch.arange(x[0].numel())).sum(1, keepdim=True)


def test_names_become_actions() -> None:
    images, sequences = normal(2, 1, 4, 6), normal(2, 3, 8)
    for name, action, x in (
        ("rotation", image_action("rotation"), images),
        ("scale", image_action("scale"), images),
        ("scale", sequence_action("scale"), sequences),
    ):
        moved = lie_derivative(bent, x, action)
        assert moved.abs().max() > 0.1
        assert torch.equal(lie_derivative(bent, x, name), moved)
    # an action that is given is taken as it is, whatever the shape
    with pytest.raises(
        ValueError, match=r"inputs of shape \(N, C, H, W\) for scale, got \(2, 3, 8\)"
    ):
        lie_derivative(bent, sequences, image_action("scale"))
    pair = image_action("translation").directions
    assert [part.name for part in pair] == ["translation_x", "translation_y"]
    apart = torch.stack([lee_penalty(bent, images, part) for part in pair])
    assert torch.equal(lee_penalty(bent, images, "translation"), apart.mean())


def test_names_are_refused_where_the_shape_speaks_of_something_else() -> None:
    with pytest.raises(ValueError, match=r"look like \(N, H, W, C\); give the action itself"):
        lie_derivative(bent, torch.zeros(2, 32, 32, 3), "rotation")
    with pytest.raises(ValueError, match=r"for points, or channels last, give the action itself"):
        lie_derivative(bent, torch.zeros(2, 100, 3), "translation")


# --- bad input --------------------------------------------------------------------------------


def test_bad_names() -> None:
    with pytest.raises(ValueError, match=r"an action on images among translation, .*, got 'spin'"):
        image_action("spin")
    with pytest.raises(ValueError, match=r"an action on sequences among translation, scale, got"):
        sequence_action("rotation")
    with pytest.raises(ValueError, match=r"an action on points among .*, got 'rotation'"):
        point_cloud_action("rotation")
    with pytest.raises(ValueError, match=r"expected points of 2 or 3 dimensions, got 4"):
        point_cloud_action("scale", dimension=4)
    with pytest.raises(ValueError, match=r"a boundary among periodic, reflect, got 'zeros'"):
        image_action("rotation", boundary="zeros")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected an action or its name, got int"):
        lie_derivative(bent, torch.zeros(1, 1, 4, 4), 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"images or sequences for the action 'scale', got inputs"):
        lie_derivative(bent, torch.zeros(4, 4), "scale")


def test_bad_inputs() -> None:
    with pytest.raises(ValueError, match=r"inputs of shape \(N, C, H, W\) for scale, got \(4, 4\)"):
        image_action("scale").tangent(torch.zeros(4, 4))
    with pytest.raises(ValueError, match=r"inputs of shape \(N, H, W, C\) for scale, got \(0, 1,"):
        image_action("scale", channels_last=True).transform(torch.zeros(0, 1, 4, 4), 1.0)
    with pytest.raises(ValueError, match=r"inputs of shape \(N, C, L\) for scale, got \(4, 4\)"):
        sequence_action("scale").tangent(torch.zeros(4, 4))
    with pytest.raises(ValueError, match=r"inputs of shape \(N, L, C\) for scale, got \(4, 4\)"):
        sequence_action("scale", channels_last=True).tangent(torch.zeros(4, 4))
    with pytest.raises(ValueError, match=r"images of four axes for brightness, got \(4, 4\)"):
        image_action("brightness").tangent(torch.zeros(4, 4))
    with pytest.raises(ValueError, match=r"expected three channels for saturation, got 1"):
        image_action("saturation").tangent(torch.zeros(1, 1, 4, 4))
    for what in ("mean", "std"):
        action = image_action("brightness", **{what: (1.0, 2.0)})  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=rf"expected a {what} for each of 3 channels, got"):
            action.tangent(torch.zeros(1, 3, 4, 4))
    with pytest.raises(ValueError, match=r"clouds of shape \(N, points, at least 3\) for scale"):
        point_cloud_action("scale").tangent(torch.zeros(2, 5, 2))
    turn = group_action(Symmetry(SO(3), V, Scalar), 0)
    with pytest.raises(ValueError, match=r"expected inputs of shape \(N, 3\) for V.*, got \(3,\)"):
        turn.tangent(torch.zeros(3))


def test_bad_layouts() -> None:
    action = image_action("scale")
    at = action.input_place(torch.zeros(2, 3, 8, 8))
    for text in ("NDHW", "NLC+x"):
        with pytest.raises(
            ValueError, match=r"a layout among invariant, NCHW, NHWC, NLC, NCL .*, got"
        ):
            action.named_place(text, (2, 3, 8, 8), at)
    with pytest.raises(ValueError, match=r"a value of layout NLC\+1, got one of shape \(2, 4, 3\)"):
        action.named_place("NLC+1", (2, 4, 3), at)
    with pytest.raises(ValueError, match=r"a value of layout NCHW, got one of shape \(2, 4\)"):
        action.named_place("NCHW", (2, 4), at)
    colour = image_action("brightness")
    with pytest.raises(ValueError, match=r"the layout invariant under brightness, got 'NCHW'"):
        colour.named_place("NCHW", (2, 3, 8, 8), at)
    points = point_cloud_action("scale")
    with pytest.raises(ValueError, match=r"a layout among invariant, points, vectors, got 'NCHW'"):
        points.named_place("NCHW", (2, 5, 3), "points")
    with pytest.raises(ValueError, match=r"vectors with at least 3 columns, got shape \(2, 2\)"):
        points.named_place("vectors", (2, 2), "points")
    turn = group_action(Symmetry(SO(3), V, Scalar), 0)
    with pytest.raises(ValueError, match=r"expected 6 columns for 2\*V, got shape \(2, 3\)"):
        turn.named_place("2*V", (2, 3), turn.input_place(torch.zeros(2, 3)))


def test_one_direction_at_a_time() -> None:
    x = normal(1, 1, 4, 4)
    both = image_action("translation")
    message = r"expected one direction, translation_x or translation_y, got translation"
    with pytest.raises(ValueError, match=message):
        both.tangent(x)
    with pytest.raises(ValueError, match=message):
        both.transform(x, 0.1)
    turns = group_action(Symmetry(SO(3), V, V))
    with pytest.raises(ValueError, match=r"one element of the Lie algebra, got all 3 of SO\(3\)"):
        turns.tangent(normal(2, 3))


def test_bad_group_actions() -> None:
    with pytest.raises(TypeError, match=r"expected a symmetry, got SO"):
        group_action(SO(3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"a group with a Lie algebra, got S\(3\), which is discr"):
        group_action(Symmetry(S(3), V, V))
    for element in (3, -1, True):
        with pytest.raises(ValueError, match=r"an element from 0 to 2 of the Lie algebra, got"):
            group_action(Symmetry(O(3), V, V), element)
    with pytest.raises(ValueError, match=r"expected complex vectors for V.*, got torch.float64"):
        group_action(Symmetry(SU(2), V, V), 0).tangent(normal(2, 2))
