import pytest
import torch

from isotropy.groups import abstract_name
from isotropy.rl import (
    EnvironmentSymmetry,
    body_turn,
    choice,
    described_symmetry,
    hinge,
    mirror,
    quaternion,
    scalar,
    symmetric_network,
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
    symmetry = described_symmetry(
        [vector("v", "xy"), hinge("h", "z")], [hinge("h", "z")], world_rotation("z")
    )
    observation, action = symmetry.matrices(symmetry.elements(6, generator=0))
    assert observation.shape == (6, 3, 3)
    assert torch.equal(action, torch.ones(6, 1, 1, dtype=torch.float64))
    assert torch.allclose(observation.mT @ observation, torch.eye(3, dtype=torch.float64))
    assert not torch.allclose(observation[0], observation[1])


def test_names_of_groups() -> None:
    pole = [vector("v", "xy"), hinge("h", "z")]
    assert described_symmetry(pole, [hinge("h", "z")], mirror("y")).name == "Z(2)"
    both = [mirror("y"), world_rotation("z")]
    assert described_symmetry(pole, [hinge("h", "z")], both).name == "O(2)"
    mirrors = [mirror("x", []), mirror("y", [])]
    assert described_symmetry(pole, [hinge("h", "z")], mirrors).name == "Z(2) x Z(2)"
    assert abstract_name(EnvironmentSymmetry.of([[1, 2, 3, 0]], [[0]]).group) == "Z(4)"


def test_the_name_counts_q_and_its_negative_once() -> None:
    parts = [quaternion("torso"), vector("v")]
    turned = described_symmetry(parts, [scalar("a")], body_turn(90, "z"))
    assert turned.name == "Z(4)"
    assert len(turned.elements().dense()) == 8
    mirrored = described_symmetry(parts, [scalar("a")], [mirror("x", []), mirror("y", [])])
    assert mirrored.name == "Z(2) x Z(2)"
    assert len(mirrored.elements().dense()) == 4


def test_entry_names_and_generators() -> None:
    symmetry = described_symmetry(
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
    symmetry = described_symmetry(parts, parts[2:], mirror("y"))
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
        described_symmetry([scalar("a")], [scalar("b")], [])
