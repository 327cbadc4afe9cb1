from math import sqrt

import pytest

from isotropy.rl import axial, choice, direction, hinge, quaternion, scalar, vector
from isotropy.rl._parts import Part, slide


@pytest.mark.parametrize(
    ("part", "names"),
    [
        (scalar("height"), ["height"]),
        (hinge("knee", "y"), ["knee"]),
        (slide("cart", "x"), ["cart"]),
        (direction("pole", "y"), ["cos pole", "sin pole"]),
        (vector("velocity", "xz"), ["velocity x", "velocity z"]),
        (axial("spin"), ["spin x", "spin y", "spin z"]),
        (vector("pull", ["-x"]), ["pull"]),
        (quaternion("torso"), ["torso w", "torso x", "torso y", "torso z"]),
    ],
)
def test_entries(part: Part, names: list[str]) -> None:
    assert list(part.entry_names) == names
    assert part.size == len(names)


def test_frames() -> None:
    assert vector("v").frame == slide("x", "x").frame == "world"
    assert hinge("h", "z").frame == axial("w").frame == direction("d", "x").frame == "body"
    assert vector("v", frame="body").frame == "body"


def test_axes_have_unit_length() -> None:
    assert hinge("ankle", (-1, 1, 0)).axes[0] == pytest.approx((-sqrt(0.5), sqrt(0.5), 0))
    assert hinge("a", "-y").axes == ((0, -1, 0),)


def test_choices_have_names() -> None:
    left, right = choice("push left", "push right")
    assert (left.kind, left.size, right.name) == ("choice", 1, "push right")


@pytest.mark.parametrize("name", ["", "  ", 3])
def test_a_part_has_a_name(name: str) -> None:
    with pytest.raises(ValueError, match="expected a name for a part, got"):
        scalar(name)


@pytest.mark.parametrize("axis", ["q", "xy", (0, 0), (1, 2, "a"), 3])
def test_bad_axes(axis: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="expected an axis x, y, z"):
        hinge("knee", axis)


@pytest.mark.parametrize("axis", [(0, 0, 0), (float("inf"), 0, 0), (float("nan"), 0, 0)])
def test_axes_without_direction(axis: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="expected an axis with a length, got"):
        hinge("knee", axis)


def test_bad_frame() -> None:
    with pytest.raises(ValueError, match="expected a frame 'world' or 'body', got 'moon'"):
        vector("v", frame="moon")  # type: ignore[arg-type]


@pytest.mark.parametrize("at", [(1,), (1, 1), (-1, 2), (0, 1, 2)])
def test_bad_places(at: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected 2 different places for 'pole', got"):
        direction("pole", "y").placed(*at)
