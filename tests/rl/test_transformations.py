import pytest
import torch

from isotropy.rl import body_turn, mirror, world_rotation


@pytest.mark.parametrize(
    ("name", "renamed"),
    [
        ("left knee", "right knee"),
        ("right-left", "left-right"),
        ("leftover", "leftover"),
        ("torso", "torso"),
        ("knee left", "knee right"),
    ],
)
def test_whole_words_are_renamed(name: str, renamed: str) -> None:
    assert mirror("y").renamed(name) == renamed


def test_longest_words_first() -> None:
    turn = body_turn(180, "z", [("leg 1", "leg 10"), ("leg", "arm")])
    assert turn.renamed("leg 1 hip") == "leg 10 hip"
    assert turn.renamed("leg 10 hip") == "leg 1 hip"
    assert turn.renamed("leg hip") == "arm hip"


def test_cycles_close() -> None:
    turn = body_turn(120, "z", [("a", "b", "c")])
    assert [turn.renamed(name) for name in "abc"] == ["b", "c", "a"]


@pytest.mark.parametrize(("axis", "place"), [("x", 0), ("y", 1), ("z", 2)])
def test_mirrors(axis: str, place: int) -> None:
    world, body = mirror(axis).matrices  # type: ignore[arg-type]
    wanted = torch.ones(3, dtype=torch.float64)
    wanted[place] = -1
    assert torch.equal(world, wanted.diag())
    assert torch.equal(body, world)


def test_quarter_turns_are_exact() -> None:
    world, body = world_rotation("z", 90).matrices
    assert world.tolist() == [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    assert torch.equal(body, torch.eye(3, dtype=torch.float64))
    world, body = body_turn(-90, "x").matrices
    assert body.tolist() == [[1, 0, 0], [0, 0, 1], [0, -1, 0]]
    assert torch.equal(world, torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("about", ["x", "y", "z"])
def test_rotations_are_exponentials(about: str) -> None:
    generator, still = world_rotation(about).matrices  # type: ignore[arg-type]
    turned, _ = world_rotation(about, 37).matrices  # type: ignore[arg-type]
    angle = torch.deg2rad(torch.tensor(37.0, dtype=torch.float64))
    assert torch.allclose(torch.linalg.matrix_exp(angle * generator), turned)
    assert not still.any()


def test_names() -> None:
    assert mirror("x", []).name == "mirror across x"
    assert world_rotation("z", 45).name == "world turned by 45 degrees about z"
    assert world_rotation().name == "world turned about z"


def test_bad_axis() -> None:
    with pytest.raises(ValueError, match="expected an axis 'x', 'y' or 'z', got 'w'"):
        mirror("w")  # type: ignore[arg-type]


@pytest.mark.parametrize("cycles", [[("left",)], [("a", "a")], [("a", "b"), ("b", "c")]])
def test_bad_cycles(cycles: list[tuple[str, ...]]) -> None:
    with pytest.raises(ValueError, match="expected cycles of two or more different words, got"):
        mirror("y", cycles)


@pytest.mark.parametrize("degrees", [1, 7.5, -90, 120, 360 / 7, 450])
def test_angles_that_close(degrees: float) -> None:
    assert not world_rotation("z", degrees).continuous
    assert not body_turn(degrees, "x").continuous


@pytest.mark.parametrize("degrees", [1.234, 360 / 361, 57.29577951308232, float("nan")])
def test_angles_that_do_not_close(degrees: float) -> None:
    for turn in (lambda: world_rotation("z", degrees), lambda: body_turn(degrees)):
        with pytest.raises(ValueError, match=r"expected an angle .* degrees: world_rotation\(\)"):
            turn()


@pytest.mark.parametrize(
    ("name", "renamed"),
    [
        ("Left Knee", "Right Knee"),
        ("RIGHT knee", "LEFT knee"),
        ("l_knee", "r_knee"),
        ("knee.R", "knee.L"),
        ("lr_knee", "lr_knee"),
    ],
)
def test_case_is_kept(name: str, renamed: str) -> None:
    assert mirror("y").renamed(name) == renamed


def test_words_that_names_have() -> None:
    assert mirror("y").among(["L hip", "R hip"]).name == "mirror across y, l <-> r"
    assert mirror("y").among(["r", "phi"]).cycles == ()
    assert mirror("y").among(["left hip"]).name == "mirror across y, left <-> right"
    with pytest.raises(ValueError, match="expected words that names of parts have, got 'port' in"):
        mirror("y", [("port", "starboard")]).among(["left hip", "right hip"])
