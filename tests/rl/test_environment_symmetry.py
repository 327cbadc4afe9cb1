import pytest
import torch

from isotropy.data import Transitions
from isotropy.discovery import DiscoverOptions, Finding, discover
from isotropy.groups import Z, abstract_name
from isotropy.nn import symmetric_network
from isotropy.reps import Pseudoscalar, Scalar, Symmetry, V
from isotropy.rl import (
    EnvironmentSymmetry,
    body_turn,
    choice,
    hinge,
    mirror,
    quaternion,
    scalar,
    vector,
    world_rotation,
)


def random_signed(size: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(size, generator=generator)
    signs = torch.randint(0, 2, (size,), generator=generator) * 2.0 - 1
    return (torch.eye(size)[order] * signs[:, None]).double()


@pytest.mark.parametrize("seed", range(6))
def test_generators_act_as_given(seed: int) -> None:
    h, a = random_signed(7, seed), random_signed(4, seed + 50)
    symmetry = EnvironmentSymmetry.of([h], [a])
    (generator,) = symmetry.group.discrete
    assert torch.allclose(symmetry.observation.rho(generator).dense(), h)
    assert torch.allclose(symmetry.action.rho(generator).dense(), a)


def test_elements_are_all_words() -> None:
    """Brute force: products of the generators, until no new ones come."""
    h, k = random_signed(5, 1), random_signed(5, 2)
    symmetry = EnvironmentSymmetry.of([h, k], [torch.eye(2), -torch.eye(2)])
    words = {tuple(torch.eye(7).flatten().tolist())}
    generators = [torch.block_diag(h, torch.eye(2)), torch.block_diag(k, -torch.eye(2))]
    while True:
        more = {
            tuple((g.float() @ torch.tensor(w).reshape(7, 7)).flatten().tolist())
            for w in words
            for g in generators
        }
        if more <= words:
            break
        words |= more
    observation, action = symmetry.matrices(symmetry.elements())
    found = {
        tuple((torch.block_diag(o, a).float() + 0.0).flatten().tolist())
        for o, a in zip(observation, action, strict=True)
    }
    assert found == {tuple(v + 0.0 for v in w) for w in words}


def test_matrices_where_actions_do_not_change() -> None:
    symmetry = EnvironmentSymmetry.described(
        [vector("v", "xy"), hinge("h", "z")], [hinge("h", "z")], world_rotation("z")
    )
    observation, action = symmetry.matrices(symmetry.elements(6, generator=0))
    assert observation.shape == (6, 3, 3)
    assert torch.equal(action, torch.ones(6, 1, 1, dtype=torch.float64))
    assert torch.allclose(observation.mT @ observation, torch.eye(3, dtype=torch.float64))
    assert not torch.allclose(observation[0], observation[1])


def test_names_of_groups() -> None:
    pole = [vector("v", "xy"), hinge("h", "z")]
    assert EnvironmentSymmetry.described(pole, [hinge("h", "z")], mirror("y")).name == "Z(2)"
    both = [mirror("y"), world_rotation("z")]
    assert EnvironmentSymmetry.described(pole, [hinge("h", "z")], both).name == "O(2)"
    mirrors = [mirror("x", []), mirror("y", [])]
    assert EnvironmentSymmetry.described(pole, [hinge("h", "z")], mirrors).name == "Z(2) x Z(2)"
    assert abstract_name(EnvironmentSymmetry.of([[1, 2, 3, 0]], [[0]]).group) == "Z(4)"


def test_the_name_counts_q_and_its_negative_once() -> None:
    parts = [quaternion("torso"), vector("v")]
    turned = EnvironmentSymmetry.described(parts, [scalar("a")], body_turn(90, "z"))
    assert turned.name == "Z(4)"
    assert len(turned.elements().dense()) == 8
    mirrored = EnvironmentSymmetry.described(
        parts, [scalar("a")], [mirror("x", []), mirror("y", [])]
    )
    assert mirrored.name == "Z(2) x Z(2)"
    assert len(mirrored.elements().dense()) == 4


def test_entry_names_and_generators() -> None:
    symmetry = EnvironmentSymmetry.described(
        [vector("v", "xz")], choice("left", "right"), mirror("x"), name="flip"
    )
    assert symmetry.observation_names == ("v x", "v z")
    assert symmetry.action_names == ("left", "right")
    assert symmetry.generators == ("mirror across x, left <-> right",)
    assert symmetry.name == "flip"
    assert str(symmetry) == "flip: Pseudoscalar+Scalar (observation), V (action)"


@pytest.mark.parametrize("which", ["policy", "critic", "transition"])
def test_networks_commute(which: str) -> None:
    parts = [scalar("z"), vector("v"), hinge("left knee", "y"), hinge("right knee", "y")]
    symmetry = EnvironmentSymmetry.described(parts, parts[2:], mirror("y"))
    torch.manual_seed(0)
    kind = getattr(symmetry, which)
    network = symmetric_network(kind, "equivariant", widths=(16,), dtype=torch.float64)
    (observation,), (action,) = (m[1:] for m in symmetry.matrices(symmetry.elements()))
    x = torch.randn(5, kind.rep_in.size(), dtype=torch.float64)
    into = observation if which == "policy" else torch.block_diag(observation, action)
    out = {"policy": action, "critic": torch.eye(1).double(), "transition": observation}[which]
    assert torch.allclose(network(x @ into.mT), network(x) @ out.mT)
    assert float(network(x).detach().std(correction=0)) > 1e-3


def test_errors() -> None:
    with pytest.raises(ValueError, match="expected for each generator one matrix"):
        EnvironmentSymmetry.of([[1, 0]], [])
    with pytest.raises(ValueError, match="expected at least one generator, got none"):
        EnvironmentSymmetry.of([], [])
    with pytest.raises(ValueError, match="expected generators of one size on each space, got"):
        EnvironmentSymmetry.of([[1, 0], [1, 0, 2]], [[0], [0]])
    with pytest.raises(ValueError, match="expected at least one transformation"):
        EnvironmentSymmetry.described([scalar("a")], [scalar("b")], [])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("left hip", "right hip"),
        ("Left hip", "Right hip"),
        ("LEFT_hip", "right_hip"),
        ("L_hip", "R_hip"),
        ("hip l", "hip r"),
    ],
)
def test_sides_are_exchanged_in_any_case(left: str, right: str) -> None:
    joints = [hinge(left, "x"), hinge(right, "-x")]
    symmetry = EnvironmentSymmetry.described([scalar("r0"), *joints], joints, mirror("y"))
    observation, action = symmetry.matrices(symmetry.elements())
    swap = torch.tensor([[0.0, 1], [1, 0]], dtype=torch.float64)
    assert torch.equal(observation[1], torch.block_diag(torch.ones(1, 1).double(), swap))
    assert torch.equal(action[1], swap)
    assert " <-> " in symmetry.generators[0]


def test_words_claim_only_what_is_exchanged() -> None:
    radius = [scalar("r"), vector("v", "xy")]
    symmetry = EnvironmentSymmetry.described(radius, [vector("push", "xy")], mirror("y"))
    assert symmetry.generators == ("mirror across y",)
    with pytest.raises(ValueError, match="got 'rotor 9' in none of 'r', 'v', 'push'"):
        EnvironmentSymmetry.described(
            radius, [vector("push", "xy")], mirror("y", [("rotor 9", "r")])
        )
    with pytest.raises(ValueError, match=r"called 'L_knee', .* got no such part"):
        EnvironmentSymmetry.described(
            [hinge("L_hip", "y"), hinge("R_hip", "y"), hinge("R_knee", "y")],
            [scalar("a")],
            mirror("y"),
        )


def test_the_table_shows_rows_of_the_matrices() -> None:
    parts = [quaternion("torso"), hinge("left knee", "y"), hinge("right knee", "y")]
    turns = [body_turn(90, "z"), mirror("y"), world_rotation("z")]
    symmetry = EnvironmentSymmetry.described(parts, parts[1:], turns[1:])
    lines = symmetry.table().splitlines()
    assert lines[:2] == [
        "g1: mirror across y, left <-> right", "g2: world turned about z, as a rate of change",
    ]  # fmt: skip
    cells = {line.split("  ")[0]: line.split("  ")[1:] for line in lines[3:9]}
    shown = {name: [cell.strip() for cell in row if cell.strip()] for name, row in cells.items()}
    assert shown["torso x"] == ["−torso x", "−0.5 torso y"]
    assert shown["torso w"] == ["same", "−0.5 torso z"]
    assert shown["left knee"] == ["right knee", "same"]
    turned = EnvironmentSymmetry.described(parts[:1], [scalar("a")], turns[0]).table()
    assert "torso z      −0.71 torso w + 0.71 torso z" in turned
    plain = EnvironmentSymmetry.of([[1, 0]], [[[-1.0]]]).table()
    assert "observation 0  observation 1" in plain


def test_short_texts() -> None:
    parts = [quaternion("torso"), vector("v")]
    turned = EnvironmentSymmetry.described(
        parts, [scalar("a")], body_turn(90, "z"), holds="approximately"
    )
    assert str(turned) == (
        "Z(4): 7 entries (observation), Scalar (action); holds approximately; "
        "8 elements, as q and −q are one orientation"
    )
    assert repr(turned) == "EnvironmentSymmetry('Z(4)', observation_size=7, action_size=1)"
    mirrored = EnvironmentSymmetry.described(parts, [scalar("a")], mirror("y"))
    assert "elements" not in str(mirrored)
    assert "elements" not in str(
        EnvironmentSymmetry.described(parts[1:], [scalar("a")], world_rotation("z", 90))
    )


def swinging(rows: int = 500) -> Transitions:
    """A pendulum with friction and a motor, logged by angle and rate; its mirror holds."""
    rng = torch.Generator().manual_seed(0)
    s = torch.randn(rows, 2, generator=rng, dtype=torch.float64)
    a = torch.rand(rows, 1, generator=rng, dtype=torch.float64) * 2 - 1
    rate = s[:, 1:] + 0.1 * (a - 3 * torch.sin(s[:, :1]) - 0.2 * s[:, 1:])
    return Transitions(s, a, torch.cat([s[:, :1] + 0.1 * rate, rate], 1))


def test_a_symmetry_found_in_a_log() -> None:
    names = ["angle", "rate"], ["torque"]
    best = discover(swinging(), options=DiscoverOptions(entry_names=names), fit_models=False).best
    assert best is not None
    symmetry = EnvironmentSymmetry.found(best)
    assert str(symmetry) == "Z(2): 2*Pseudoscalar (observation), Pseudoscalar (action)"
    assert symmetry.observation_names == ("angle", "rate")
    assert symmetry.action_names == ("torque",)
    assert "angle        −angle" in symmetry.table()
    assert symmetry.holds is None
    assert EnvironmentSymmetry.found(best.with_values(approximate=True)).holds == "approximately"


def test_findings_that_are_no_symmetry_of_an_environment() -> None:
    def finding(symmetry: Symmetry | None, **more: object) -> Finding:
        return Finding.of("n", "Z(2)", "signs", "transitions", symmetry=symmetry, **more)  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="expected a finding of transitions"):
        EnvironmentSymmetry.found(finding(None))
    with pytest.raises(ValueError, match="expected a finding of transitions"):
        EnvironmentSymmetry.found(finding(Symmetry(Z(2), V, V)))
    with pytest.raises(ValueError, match="moves s and s′ − s equally and keeps actions apart"):
        EnvironmentSymmetry.found(finding(Symmetry(Z(2), V, Scalar)))
    with pytest.raises(ValueError, match="moves s and s′ − s equally and keeps actions apart"):
        EnvironmentSymmetry.found(finding(Symmetry(Z(2), 2 * Pseudoscalar, Scalar)))
    with pytest.raises(ValueError, match=r"about the origin .* got one about \[1.0, 0.0\]"):
        EnvironmentSymmetry.found(finding(Symmetry(Z(2), 2 * Pseudoscalar, Pseudoscalar),
                                          centre=(1.0, 0.0)))  # fmt: skip
