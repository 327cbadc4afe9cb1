"""Sampled equivariance errors against sums over whole groups, integrals and closed forms."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from isotropy.equivariance import (
    group_action,
    image_action,
    point_cloud_action,
    sampled_equivariance,
    sequence_action,
)
from isotropy.groups import SO, O, S, SO13p, U, Z
from isotropy.reps import Rep, Scalar, Symmetry, T, V


def normal(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=rng)


def first_pixel(x: Tensor) -> Tensor:
    return x[:, :, 0, 0]


class Network(nn.Module):
    """A small network with batch norm, dropout and an activation that works in place."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(16, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


# --- finite groups ----------------------------------------------------------------------------


@pytest.mark.parametrize("squared", [False, True])
def test_all_elements_of_a_finite_group(squared: bool) -> None:
    x, weight = normal(5, 3), normal(3, 3, seed=1)
    total = torch.zeros(5, dtype=torch.float64)
    for order in itertools.permutations(range(3)):
        p = torch.eye(3, dtype=torch.float64)[list(order)]
        residual = ((x @ p.T) @ weight.T) @ p - x @ weight.T
        total += residual.norm(dim=1) ** (2 if squared else 1)
    found = sampled_equivariance(
        lambda x: x @ weight.T, x, Symmetry(S(3), V, V), samples=6, squared=squared
    )
    assert found.value == pytest.approx(float(total.mean()) / 6)
    assert found.standard_error == pytest.approx(float((total / 6).std()) / 5**0.5)
    assert (found.inputs, found.elements) == (5, 6)
    assert found.kind == ("squared norm" if squared else "norm")


def test_random_elements_of_a_finite_group_agree_with_all_of_them() -> None:
    x, weight = normal(3, 4), normal(4, 4, seed=1)
    symmetry = Symmetry(S(4), V, V)
    whole = sampled_equivariance(lambda x: x @ weight.T, x, symmetry, samples=24)
    drawn = sampled_equivariance(lambda x: x @ weight.T, x[:1], symmetry, samples=23)
    assert (whole.elements, drawn.elements) == (24, 23)
    alone = sampled_equivariance(lambda x: x @ weight.T, x[:1], symmetry, samples=24)
    assert abs(drawn.value - alone.value) < 4 * drawn.standard_error
    assert 0 < drawn.standard_error < alone.value


TURNS = {
    "horizontal_flip": [lambda x: x, lambda x: x.flip(-1)],
    "flips": [lambda x: x, lambda x: x.flip(-1), lambda x: x.flip(-2), lambda x: x.flip(-1, -2)],
    "quarter_turns": [lambda x, k=k: torch.rot90(x, k, (-2, -1)) for k in range(4)],
    "dihedral": [
        *(lambda x, k=k: torch.rot90(x, k, (-2, -1)) for k in range(4)),
        lambda x: x.flip(-1),
        lambda x: x.flip(-2),
        lambda x: x.mT,
        lambda x: x.mT.flip(-1, -2),
    ],
}


@pytest.mark.parametrize("name", TURNS)
def test_images_turned_and_flipped(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Conv2d(2, 3, 3, padding=1).double().requires_grad_(False)
    x = normal(2, 2, 6, 6)
    # all are isometries: what is moved back is as long as it was
    expected = [
        (model(move(x)) - move(model(x))).flatten(1).norm(dim=1).mean()
        for move in TURNS[name]  # type: ignore[attr-defined]
    ]
    found = sampled_equivariance(model, x, name)
    assert found.value == pytest.approx(float(sum(expected)) / len(expected))
    assert found.elements == len(expected)
    assert sampled_equivariance(torch.relu, x, name).value < 1e-14


def test_outputs_of_turned_images() -> None:
    x = normal(2, 2, 6, 6)

    def tokens(x: Tensor) -> Tensor:  # a class token that turns do not change, then a 3×3 grid
        patches = x.unfold(2, 2, 2).unfold(3, 2, 2).sum((-1, -2)).flatten(2).mT
        return torch.cat([x.sum((2, 3)).unsqueeze(1), patches], 1)

    assert sampled_equivariance(tokens, x, "dihedral", output="NLC+1").value < 1e-13
    assert sampled_equivariance(tokens, x, "dihedral", output="invariant").value > 1
    wide = normal(2, 2, 4, 6)
    assert sampled_equivariance(torch.relu, wide, "flips").value < 1e-14
    with pytest.raises(ValueError, match=r"expected square images for dihedral, got \(4, 6\)"):
        sampled_equivariance(torch.relu, wide, "dihedral")


def test_pairs_of_maps() -> None:
    x = normal(3, 4)
    half = [(lambda x: 2 * x, lambda y: y / 2), (lambda x: 4 * x, lambda y: y / 4)]
    assert sampled_equivariance(torch.relu, x, half).value == 0
    found = sampled_equivariance(torch.square, x, half, squared=True)
    # 4x²/2 − x² = x² and 16x²/4 − x² = 3x²
    assert found.value == pytest.approx(float((x**4).sum(1).mean()) * (1 + 9) / 2)


# --- actions and Lie groups -------------------------------------------------------------------


def test_translation_of_a_wave_by_up_to_five_pixels() -> None:
    # the first pixel of cos(2πkx + φ), shifted by t, is cos(φ − 2πkt)
    n, k, phase = 32, 3, 0.4
    across = torch.arange(n, dtype=torch.float64) / n
    wave = torch.cos(2 * torch.pi * k * across + phase).expand(1, 1, 4, n)
    action = image_action("translation_x", boundary="periodic")
    t = torch.linspace(-5 / n, 5 / n, 100_001, dtype=torch.float64)
    gap = torch.cos(phase - 2 * torch.pi * k * t) - torch.cos(torch.tensor(phase).double())
    for squared, true in ((False, gap.abs().mean()), (True, gap.square().mean())):
        found = sampled_equivariance(
            first_pixel, wave, action, scale=5 / n, samples=250, squared=squared
        )
        assert abs(found.value - float(true)) < 4 * found.standard_error
        assert found.standard_error < 0.08 * float(true)


def test_rotations_of_vectors_against_the_integral() -> None:
    symmetry = Symmetry(SO(2), V, V)
    x, weight = normal(1, 2), normal(2, 2, seed=1)
    t = torch.linspace(-0.5, 0.5, 20_001, dtype=torch.float64)
    turn = torch.stack([t.cos(), -t.sin(), t.sin(), t.cos()], -1).unflatten(-1, (2, 2))
    residual = (turn.mT @ weight @ turn @ x[0]) - weight @ x[0]
    true = float(residual.norm(dim=1).mean())
    found = sampled_equivariance(
        lambda x: x @ weight.T, x, group_action(symmetry), scale=0.5, samples=200
    )
    assert abs(found.value - true) < 4 * found.standard_error
    whole = sampled_equivariance(lambda x: x @ weight.T, x, symmetry, samples=200)
    assert whole.value > found.value  # all angles, not only small ones


EQUIVARIANT = [
    (lambda x: x.norm(dim=-1, keepdim=True), Symmetry(O(3), V, Scalar)),
    (lambda x: (x[:, :, None] * x[:, None]).flatten(1), Symmetry(SO13p(), V, T(2))),
    (lambda x: x.unflatten(-1, (3, 4)).mean(-1), Symmetry(SO(3) * S(4), V, V(SO(3)))),
    (lambda x: x * x.abs().square().sum(-1, keepdim=True), Symmetry(U(2), V, V)),
]


@pytest.mark.parametrize(("f", "symmetry"), EQUIVARIANT)
def test_equivariant_functions_have_no_error(f: object, symmetry: Symmetry) -> None:
    x = normal(4, symmetry.rep_in.size())
    assert sampled_equivariance(f, x, symmetry).value < 1e-12  # type: ignore[arg-type]
    assert sampled_equivariance(torch.exp, x, Symmetry(O(x.shape[1]), V, V)).value > 0.1


def test_several_directions_are_undone_in_the_other_order() -> None:
    # boosts along different axes do not commute
    boosts = group_action(Symmetry(SO13p(), V, V))
    y = normal(3, 4)
    assert sampled_equivariance(lambda x: x, y, boosts, scale=2.0, samples=5).value < 1e-11
    place, in_same_order = boosts.directions[0].input_place(y), y
    for t in (0.8, -0.8):
        for part in boosts.directions:
            in_same_order = part.move(in_same_order, t, place)
    assert float((in_same_order - y).norm()) > 0.1


def test_point_clouds_and_sequences() -> None:
    cloud = normal(2, 7, 3)
    turn = point_cloud_action("rotation_z")
    assert sampled_equivariance(lambda x: x - x.mean(1, True), cloud, turn, scale=3).value < 1e-14
    assert sampled_equivariance(lambda x: x.abs(), cloud, turn, scale=3).value > 0.1
    along = sequence_action("translation", boundary="periodic")
    x = normal(2, 1, 9)
    assert sampled_equivariance(lambda x: x.roll(1, -1), x, along, scale=1).value < 1e-13
    assert sampled_equivariance(lambda x: x.flip(-1), x, along, scale=1, output="NCL").value > 0.1


def test_the_identity_has_no_error_whatever_the_interpolation_loses() -> None:
    x = normal(2, 1, 8, 8)  # even: the highest frequency does not come back from half a pixel
    for name in ("translation", "rotation", "scale"):
        for boundary in ("periodic", "reflect"):
            action = image_action(name, boundary=boundary)
            assert sampled_equivariance(lambda x: x, x, action, scale=0.2, samples=3).value == 0


def test_a_group_whose_actions_the_model_knows() -> None:
    class Sorted(nn.Module):
        rep_in: Rep = V(S(3))
        rep_out: Rep = V(S(3))

        def forward(self, x: Tensor) -> Tensor:
            return x.sort(-1).values

    found = sampled_equivariance(Sorted(), normal(4, 3), S(3))
    assert found == sampled_equivariance(Sorted(), normal(4, 3), Symmetry(S(3), V, V))
    assert found.value > 0
    # shifts by one are in S(3), and undone they leave sorted rows sorted otherwise
    assert sampled_equivariance(Sorted(), normal(4, 3), Z(3)).value > 0


# --- manners ----------------------------------------------------------------------------------


CASES = [
    ("translation", {"scale": 0.2}),
    ("rotation", {"scale": 0.5}),
    ("quarter_turns", {}),
]


@pytest.mark.parametrize(("what", "options"), CASES)
def test_batch_size_and_seed(what: str, options: dict[str, float]) -> None:
    torch.manual_seed(0)
    model = Network().double()
    x = normal(5, 2, 6, 6)
    found = [
        sampled_equivariance(model, x, what, samples=4, batch_size=size, **options)  # type: ignore[arg-type]
        for size in (1, 2, 16, None)
    ]
    for other in found[1:]:
        assert other.value == pytest.approx(found[0].value, rel=1e-12)
        assert other.standard_error == pytest.approx(found[0].standard_error, rel=1e-9)
    if options:
        seeded = sampled_equivariance(model, x, what, samples=4, generator=1, **options)  # type: ignore[arg-type]
        assert seeded.value != found[0].value
    single = sampled_equivariance(model.float(), x.float(), what, samples=4, **options)  # type: ignore[arg-type]
    assert single.value == pytest.approx(found[0].value, rel=1e-4)


def test_the_model_is_as_it_was() -> None:
    model = Network()
    model.body[3].eval()
    model.body[0].weight.requires_grad_(False)
    modes = [module.training for module in model.modules()]
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    x = normal(2, 2, 6, 6).float()
    before = x.clone()
    first = sampled_equivariance(model, x, "translation", scale=0.1, samples=2)
    assert sampled_equivariance(model, x, "translation", scale=0.1, samples=2) == first
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(x, before)
    assert not model.body[0].weight.requires_grad
    assert all(p.grad is None for p in model.parameters())
    model.body[6] = nn.Linear(7, 3)
    with pytest.raises(RuntimeError):
        sampled_equivariance(model, x, "translation", scale=0.1)
    assert [module.training for module in model.modules()][:4] == modes[:4]


def test_functions_may_change_their_input() -> None:
    x = normal(2, 3)
    before = x.clone()

    def unchanged(x: Tensor) -> Tensor:
        return x

    found = sampled_equivariance(lambda x: x.mul_(2), x, [(unchanged, unchanged)] * 3)
    assert found.value == 0
    assert torch.equal(x, before)


def test_bad_input() -> None:
    x = normal(2, 1, 4, 4)
    shift = image_action("translation_x")
    for scale in (None, 0, -1.0, float("inf"), float("nan")):
        with pytest.raises(
            ValueError, match=r"expected a positive scale, in units of image width, for translation"
        ):
            sampled_equivariance(torch.relu, x, shift, scale=scale)
    with pytest.raises(ValueError, match=r"expected a scale only for an action, got 1.0"):
        sampled_equivariance(torch.relu, x, "flips", scale=1.0)
    with pytest.raises(ValueError, match=r"expected output= only for an action or images"):
        sampled_equivariance(torch.relu, normal(2, 3), Symmetry(S(3), V, V), output="invariant")
    with pytest.raises(ValueError, match=r"expected an action on images among .*, got 'spin'"):
        sampled_equivariance(torch.relu, x, "spin", scale=1.0)
    with pytest.raises(TypeError, match=r"expected an action, a symmetry, a name or pairs of maps"):
        sampled_equivariance(torch.relu, x, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected an action, a symmetry, a name or pairs of maps"):
        sampled_equivariance(torch.relu, x, [torch.relu])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"expected at least one pair of maps, got none"):
        sampled_equivariance(torch.relu, x, [])
    with pytest.raises(ValueError, match=r"expected samples of at least one, got 0"):
        sampled_equivariance(torch.relu, x, shift, scale=1.0, samples=0)
    with pytest.raises(ValueError, match=r"expected an output for each of 2 inputs, got shape"):
        sampled_equivariance(lambda x: x.sum(), x, [(torch.relu, torch.relu)])
    with pytest.raises(ValueError, match=r"expected outputs of shape \(2, 1, 4, 4\) from moved"):
        sampled_equivariance(torch.relu, x, [(lambda x: x[..., :2], lambda y: y)])
    with pytest.raises(TypeError, match=r"expected a tensor from the model, got tuple"):
        sampled_equivariance(lambda x: (x, x), x, shift, scale=1.0)
    with pytest.raises(ValueError, match=r"expected outputs of width 3 for V"):
        sampled_equivariance(lambda x: x[:, :2], normal(2, 3), Symmetry(S(3), V, V))
