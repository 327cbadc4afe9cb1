from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from isotropy.rl import (
    axial,
    body_turn,
    direction,
    hinge,
    mirror,
    quaternion,
    scalar,
    vector,
    world_rotation,
)
from isotropy.rl._entry_layout import EntryLayout, Part, Transformation

RNG = np.random.default_rng(0)
TURNS = [mirror("x", []), mirror("y", []), mirror("z", []), body_turn(90, "z"), body_turn(50, "x"),
         world_rotation("y", 90), world_rotation("z", -20)]  # fmt: skip


def matrix(part: Part, transformation: Transformation) -> np.ndarray:
    return EntryLayout([part]).matrix(transformation).numpy()


def orientation(q: np.ndarray) -> np.ndarray:
    return Rotation.from_quat([*q[1:], q[0]]).as_matrix()


@pytest.mark.parametrize("turn", TURNS, ids=lambda turn: turn.name)
def test_quaternions_turn_as_matrices_do(turn: Transformation) -> None:
    world, body = (m.numpy() for m in turn.matrices)
    for q in RNG.standard_normal((5, 4)):
        q /= np.linalg.norm(q)
        image = matrix(quaternion("torso"), turn) @ q
        assert np.allclose(orientation(image), world @ orientation(q) @ body.T)


@pytest.mark.parametrize("turn", TURNS, ids=lambda turn: turn.name)
@pytest.mark.parametrize("frame", ["world", "body"])
def test_axial_vectors_are_cross_products(turn: Transformation, frame: str) -> None:
    polar = matrix(vector("v", frame=frame), turn)  # type: ignore[arg-type]
    spin = matrix(axial("w", frame=frame), turn)  # type: ignore[arg-type]
    r, p = RNG.standard_normal((2, 3))
    assert np.allclose(spin @ np.cross(r, p), np.cross(polar @ r, polar @ p))


def test_angular_velocity_of_a_turning_body() -> None:
    """The rate of the image of an orientation is the image of its rate, for MuJoCo's ω (body)."""
    step = 1e-6
    for turn in TURNS:
        q, w = RNG.standard_normal(4), RNG.standard_normal(3)
        q /= np.linalg.norm(q)
        after = Rotation.from_quat([*q[1:], q[0]]) * Rotation.from_rotvec(step * w)
        x, y, z, s = after.as_quat()
        after_q = np.array([s, x, y, z])
        after_q *= np.sign(after_q @ q)
        on_q, on_w = matrix(quaternion("t"), turn), matrix(axial("w"), turn)
        image, later = orientation(on_q @ q), orientation(on_q @ after_q)
        found = Rotation.from_matrix(image.T @ later).as_rotvec() / step
        assert np.allclose(found, on_w @ w, atol=1e-5)


def test_hinges_are_axial() -> None:
    mirrored = EntryLayout([hinge("a", "x"), hinge("b", "y"), hinge("c", "-z")]).matrix(mirror("y"))
    assert torch.equal(mirrored.diag(), torch.tensor([-1.0, 1, -1], dtype=torch.float64))


def test_exchanged_hinges_with_opposite_axes() -> None:
    layout = EntryLayout([hinge("left hip", "x"), hinge("right hip", "-x")])
    # an angle about x becomes one about -x on the other side, whose own axis is -x
    assert layout.matrix(mirror("y")).tolist() == [[0, 1], [1, 0]]


def test_directions_keep_their_cosine() -> None:
    assert matrix(direction("pole", "y"), mirror("x")).tolist() == [[1, 0], [0, -1]]
    assert matrix(direction("pole", "y"), mirror("y")).tolist() == [[1, 0], [0, 1]]
    assert not matrix(direction("pole", "y"), world_rotation("z")).any()


def test_continuous_generators_are_derivatives() -> None:
    layout = EntryLayout([scalar("z"), quaternion("t"), vector("v"), axial("w"), hinge("h", "x")])
    step = np.deg2rad(1)
    turned = layout.matrix(world_rotation("z", 1))
    generator = layout.matrix(world_rotation("z"))
    assert torch.allclose(turned, torch.linalg.matrix_exp(step * generator), atol=1e-12)


def test_places() -> None:
    layout = EntryLayout([direction("a", "z").placed(0, 2), direction("b", "z").placed(1, 3),
                          scalar("c")])  # fmt: skip
    assert layout.entry_names == ("cos a", "cos b", "sin a", "sin b", "c")
    assert layout.places() == {"a": (0, 2), "b": (1, 3), "c": (4,)}
    assert layout.matrix(mirror("y")).diag().tolist() == [1, 1, -1, -1, 1]


def test_two_of_one_name() -> None:
    with pytest.raises(ValueError, match="expected a name of its own for every part, got 'a'"):
        EntryLayout([scalar("a"), scalar("a")])


@pytest.mark.parametrize("at", [0, 7])
def test_bad_places(at: int) -> None:
    with pytest.raises(ValueError, match="expected every place below 2 once, got parts at"):
        EntryLayout([scalar("a").placed(0), scalar("b").placed(at)])


def test_no_parts() -> None:
    with pytest.raises(ValueError, match="expected a list of parts"):
        EntryLayout([])


def test_missing_partner() -> None:
    with pytest.raises(ValueError, match=r"called 'right knee', .* of 'left knee', got no such"):
        EntryLayout([hinge("left knee", "y")]).matrix(mirror("y"))
    with pytest.raises(ValueError, match="got a scalar of 1"):
        EntryLayout([hinge("left knee", "y"), scalar("right knee")]).matrix(mirror("y"))


def test_axes_that_do_not_fit() -> None:
    ankles = [hinge("left ankle", "x"), hinge("right ankle", "y")]
    with pytest.raises(ValueError, match="expected 'right ankle' to turn about"):
        EntryLayout(ankles).matrix(mirror("y"))


def test_missing_axes() -> None:
    for part in (vector("v", "xz"), vector("x", "x")):
        with pytest.raises(ValueError, match=r"with all axes that .* mixes, got only"):
            EntryLayout([part]).matrix(world_rotation("z", 90))
    with pytest.raises(ValueError, match=r"with all axes that .* mixes, got only 1"):
        EntryLayout([vector("x", "x")]).matrix(world_rotation("z"))


@pytest.mark.parametrize(
    ("parts", "got"), [([], "none"), (["height"], "'height'"), ([scalar("a"), 3], "3")]
)
def test_what_is_no_part_is_shown(parts: list[Any], got: str) -> None:
    with pytest.raises(ValueError, match=rf"such as scalar\(...\) or vector\(...\), got {got}$"):
        EntryLayout(parts)


def test_names_that_differ_in_case_alone() -> None:
    parts = [scalar("F"), vector("f", "xy"), hinge("left hip", "y"), hinge("Right hip", "y")]
    moved = EntryLayout(parts).matrix(mirror("x"))
    swap = torch.tensor([[0.0, -1.0], [-1.0, 0.0]], dtype=torch.float64)
    wanted = torch.block_diag(torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64).diag(), swap)
    assert torch.equal(moved, wanted)
    with pytest.raises(ValueError, match="got 'right hip' of both 'left hip' and 'Left hip'"):
        EntryLayout([scalar(f"{side} hip") for side in ("left", "Left", "right")]).matrix(
            mirror("x")
        )
