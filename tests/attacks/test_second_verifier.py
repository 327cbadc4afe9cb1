"""The second verifier agrees with the library on everything that a certificate can say.

Certificates are made without training: symbols are drawn, so a network's outputs are as good as
any. Outputs are compared, not only the number of errors.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from attacks import second_equivariant, second_generators, second_groups, second_verifier
from attacks.second_bits import Bits
from attacks.second_draws import (
    Drawn,
    drawn_certificate,
    library_outputs,
    matrices,
    numbers,
    permutations,
)
from attacks.second_networks import Parameter
from attacks.second_verifier import Module, Outside, Wrong, check, outputs_of
from certificate_parts import (
    BitWriter,
    Examples,
    certificate_of,
    pack_start,
    unpack_start,
    writable_group,
    write_group,
)
from isotropy.bases import equivariant_basis
from isotropy.certificates import (
    PROJECTORS,
    Certificate,
    Goal,
    Hypothesis,
    architecture,
    smallest_bound,
    verify,
)
from isotropy.groups import FAMILIES, Group, Inversion, parse_group
from isotropy.reps import Rep, T, V

HONEST = Path(__file__).parents[1] / "honest" / "certificates"
TERNARY = np.array([-0.5, 0, 0.5], np.float16)


def rows(shape: tuple[int, ...], classes: int = 3, n: int = 40, seed: int = 0) -> Examples:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, *shape)).astype(np.float32)
    return Examples(torch.from_numpy(x), torch.from_numpy(rng.integers(0, classes, n)))


def hypothesis(text: str, goal: Goal | None = None, d: int = 12, **others: Any) -> Hypothesis:
    symbols = np.random.default_rng(1).integers(0, 3, d)
    goal = Goal("classification", 3) if goal is None else goal
    return Hypothesis(architecture(text), goal, symbols, TERNARY, **others)


def made(said: Hypothesis, sample: Examples, module: nn.Module | None = None) -> Drawn:
    """The certificate of a hypothesis, its start from the module where it has none of its own."""
    named = said.architecture
    if named is not None:
        module = named.build(tuple(sample.x.shape[1:]), said.goal.outputs)
    assert module is not None
    start, packed = None, b""
    if said.start in ("given", "rows"):
        own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        packed = pack_start(module, own)
        start = unpack_start(module, packed, buffers=named is None)
    name = type(module).__name__ if named is None else str(named)
    certificate = certificate_of(
        said, module, sample, delta=0.05, model=name, start=start, packed=packed
    )
    return Drawn(certificate, sample, library_outputs(said, module, sample, start))


def assert_agreed(
    drawn: Drawn,
    *,
    arch: nn.Module | None = None,
    module: Module | None = None,
    tolerance: float = 1e-9,
) -> None:
    """The same outputs, errors and bound, from the bytes alone."""
    content, sample = drawn.certificate.to_bytes(), drawn.sample
    x, y = sample.x.numpy(), sample.y.numpy()
    checked = check(content, x, y, module=module)
    found = outputs_of(content, x, y, module=module)
    said = second_verifier.decode(drawn.certificate.message)
    expected = drawn.outputs[second_verifier._rows(said, len(x))]
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1e-300)
    np.testing.assert_allclose(found / scale, expected / scale, rtol=0, atol=tolerance)
    verdict = verify(content, sample, arch=arch)
    assert verdict.verdict != "rejected", verdict.reason
    assert verdict.details["errors"] == checked.errors
    assert verdict.details["n"] == checked.n
    assert verdict.bound == pytest.approx(checked.bound, abs=1e-10)


def reread(group: Group) -> second_groups.Group:
    """The group that the second verifier reads from the library's code."""
    writer = BitWriter()
    write_group(writer, group)
    return second_groups.read_group(Bits(writer.to_bytes()))


# --- what it is made of -----------------------------------------------------------------------


def test_it_needs_neither_torch_nor_the_library() -> None:
    program = (
        "import sys, attacks.second_verifier; print(*({'torch', 'isotropy'} & {*sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []


@pytest.mark.parametrize("seed", [0, 3, 2**64 - 1])
def test_counted_numbers(seed: int) -> None:
    from isotropy.certificates._counter_random import random_normals, random_words

    for stream in (0, 5, 1 << 32, (1 << 32) + 48):
        theirs = random_words(seed, stream, 50).numpy().view(np.uint64)
        ours = second_verifier.words(seed, stream, 50)
        np.testing.assert_array_equal(ours, theirs)
        normal = second_verifier.normals(seed, stream, 50)
        np.testing.assert_allclose(normal, random_normals(seed, stream, 50).numpy(), rtol=1e-15)


def test_bounds() -> None:
    chance = random.Random(0)
    for _ in range(200):
        n = chance.choice([1, 2, 6, 40, 1000, 60_000])
        errors, bits = chance.randint(0, n), chance.choice([8, 64, 104, 3000, 40_000])
        delta = chance.choice([0.05, 1e-9, 0.999, 5e-324])
        ours = second_verifier.bound_of(errors, n, bits, delta)
        assert ours == pytest.approx(
            smallest_bound(errors, n, bits, delta, kinds="binomial_tail").value, abs=1e-9
        )


@pytest.mark.parametrize("name", [family.name for family in FAMILIES])
def test_every_family_of_groups(name: str) -> None:
    family = next(family for family in FAMILIES if family.name == name)
    for number in (1, 2, 3, 4, 5, 8):
        integers = (number, 2)[: family.integers]
        try:
            group = family.kind(*integers)
        except ValueError:
            continue
        read = reread(group)
        assert (str(read), read.d, read.is_complex) == (str(group), group.d, group.is_complex)
        if not group.is_complex:
            assert_same_generators(read, group)


def assert_same_generators(read: second_groups.Group, group: Group) -> None:
    """The same matrices for the components, and algebras with the same span."""
    discrete, algebra = second_generators.generators(read)
    for a, b in zip(discrete, group.discrete, strict=True):
        np.testing.assert_allclose(second_generators.dense(a), b.dense().numpy(), atol=1e-12)
        assert isinstance(a, second_generators.Signed) == b.is_monomial
    assert len(algebra) == len(group.algebra)
    if algebra:
        ours = np.array([a.ravel() for a in algebra])
        theirs = np.array([a.dense().numpy().ravel() for a in group.algebra])
        rank = np.linalg.matrix_rank(ours)
        assert rank == np.linalg.matrix_rank(theirs)
        assert rank == np.linalg.matrix_rank(np.concatenate([ours, theirs]))


@pytest.mark.parametrize("seed", range(40))
def test_codes_of_groups(seed: int) -> None:
    chance = random.Random(seed)
    drawn = chance.choice([permutations, matrices])(chance, chance.randint(0, 2))
    if chance.random() < 0.3:
        drawn = writable_group(numbers(chance))
    if drawn.d > 60:
        return
    read = reread(drawn)
    assert (str(read), read.d) == (str(drawn), drawn.d)
    assert_same_generators(read, drawn)


SPACES: dict[tuple[second_equivariant.Tensor, second_equivariant.Tensor], Rep] = {
    ((1,), (1,)): V >> V,
    ((1,), (-1,)): V >> V.T,
    ((), (1, -1)): T(0) >> T(1, 1),
    ((1, 1), (1,)): T(2) >> V,
    ((1, -1), (1, -1)): T(1, 1) >> T(1, 1),
}


@pytest.mark.parametrize(
    "text",
    [
        *("SO(3)", "O(2)", "D2d(5)", "SO13p", "Sp(1)", "SE(2)", "S(3)", "Inversion(2)", "SL(2)"),
        *("SO(2)*Z(2)", "SO(2)+Trivial(1)", "wreath(SO11p,Z(2))", "embed(GL(2),3,1)"),
        *("conjugate(SO(2),[[1,0.5],[0,2]])", "Group(discrete=[[[1,1],[0,1]]])"),
        *("Group(discrete=[[[0.5,0],[0,3]]],algebra=[[[1,2],[0,1]]])", "C2d(4001)"),
    ],
)
def test_equivariant_spaces(text: str) -> None:
    group = parse_group(text)
    read = reread(group)
    assert second_equivariant.is_orthogonal(read) == group.is_orthogonal
    for (into, out), rep in SPACES.items():
        ours = second_equivariant.maps_between(read, into, out)
        theirs = equivariant_basis(rep(group), cache=False)
        assert ours.shape[1] == theirs.rank
        projected = theirs.project(torch.eye(theirs.size, dtype=torch.float64)).numpy()
        np.testing.assert_allclose(ours @ ours.T, projected, atol=1e-10)


# --- every family of networks -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("mlp-5-4", (3,)),
        ("mlp", (2,)),
        ("mlp-9", (2, 4, 3)),
        ("mlp-20-10 shared S(5)", (10,)),
        ("mlp-18 shared wreath(Z(3),S(2))", (6,)),
        ("mlp-32 shared p4(4)", (2, 4, 4)),
        ("mlp-24 shared conjugate(Z(2)*Z(3)+Trivial(2),[7,1,2,6,4,5,3,0])", (8,)),
        ("mlp-48 shared RubiksCube", (48,)),
        ("mlp-40-30 equivariant SO(3) 2*V+Scalar", (7,)),
        ("mlp-50 equivariant SO13p 3*V", (12,)),
        ("mlp-30 equivariant D2d(5) V+T(2)+V", (8,)),
        ("mlp-20 equivariant S(3) T(1,1)+Scalar", (10,)),
        ("mlp-30 equivariant Inversion(2) T(2)+V", (6,)),
        ("mlp-30 equivariant Sp(1) V+T(0,1)+2*Scalar+T(0,2)", (10,)),
        ("mlp-16 equivariant Scaling(1) V+2*Scalar+T(0,1)", (4,)),
        ("mlp-30 equivariant SO(2)*Z(2) 2*V", (8,)),
        ("mlp-20 equivariant conjugate(SO(2),[[1,0.5],[0,2]]) 2*V+T(1,1)", (8,)),
        ("mlp-20 equivariant Group(discrete=[[[0.5,0],[0,3]]]) V+T(0,1)+Scalar", (5,)),
        ("lenet5", (1, 13, 15)),
        ("lenet5 equivariant p4", (1, 13, 13)),
        ("lenet5 shared p4m", (1, 14, 14)),
        ("lenet5 shared GridFlips", (2, 13, 16)),
        ("convnet-3", (2, 9, 8)),
        ("convnet-5 equivariant p4m", (1, 9, 9)),
        ("convnet-8 shared p4", (1, 8, 8)),
        ("resnet20-3", (1, 9, 11)),
        ("resnet20-5 equivariant p4", (1, 9, 9)),
        ("resnet20-4 shared GridFlips", (1, 8, 11)),
    ],
)
def test_every_family_of_networks(text: str, shape: tuple[int, ...]) -> None:
    assert_agreed(made(hypothesis(text, seed=3), rows(shape, n=6 if len(shape) == 3 else 40)))


@pytest.mark.parametrize("projector", PROJECTORS)
@pytest.mark.parametrize(("text", "shape"), [("mlp-7-3", (3,)), ("convnet-4", (1, 8, 8))])
def test_every_projector(text: str, shape: tuple[int, ...], projector: str) -> None:
    for d in (1, 11):
        said = hypothesis(text, d=d, projector=projector, seed=2**40 + d)
        assert_agreed(made(said, rows(shape, n=6)))


@pytest.mark.parametrize("start", ["drawn", "zero", "given", "rows"])
@pytest.mark.parametrize(
    ("text", "features"),
    [("mlp-5", 4), ("mlp-8 shared Z(4)", 4), ("mlp-20 equivariant SO(3) V+Scalar", 4)],
)
def test_every_start(text: str, features: int, start: str) -> None:
    percent = 35 if start == "rows" else None
    said = hypothesis(text, start=start, percent=percent, input_scale=0.25)
    assert_agreed(made(said, rows((features,))))


def test_the_constants_of_a_stored_start_are_left_alone() -> None:
    """Where a file holds bases, they are not believed; and they must be numbers."""
    drawn = made(hypothesis("mlp-40 equivariant SO(3) T(2)", start="given"), rows((9,)))
    x, y = drawn.sample.x.numpy(), drawn.sample.y.numpy()
    start = np.frombuffer(drawn.certificate.start, "<f4").copy()
    start[-1] = 7.0
    forged = replace(drawn.certificate, start=start.tobytes())
    assert check(forged.to_bytes(), x, y) == check(drawn.certificate.to_bytes(), x, y)
    start[-1] = np.inf
    with pytest.raises(Wrong, match="finite"):
        check(replace(forged, start=start.tobytes()).to_bytes(), x, y)


@pytest.mark.parametrize("outputs", [1, 2])
def test_regression(outputs: int) -> None:
    sample = rows((3,))
    y = torch.from_numpy(np.random.default_rng(2).normal(size=(40, outputs)).astype(np.float32))
    goal = Goal("regression", outputs, tolerance=0.75, scale=1.5)
    assert_agreed(made(hypothesis("mlp-6", goal), Examples(sample.x, y)))


def test_ties_and_overflows_are_errors() -> None:
    tied = made(replace(hypothesis("mlp-6", d=2, projector="identity"), start="zero"), rows((3,)))
    assert_agreed(tied)
    assert tied.certificate.errors == 40
    book = np.array([-65504, 65504], np.float16)
    text = "mlp" + "-15" * 5 + " equivariant SO(2) 2*V"
    far = replace(hypothesis(text, d=60), codebook=book, symbols=np.arange(60) % 2)
    sample = rows((4,))
    drawn = made(far, Examples(1e30 * sample.x, sample.y))
    assert not np.isfinite(drawn.outputs).all()
    assert_agreed(drawn)


def test_modules_of_the_users_own() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    second = Module(
        [
            Parameter((4, 3), (1 / 3) ** 0.5),
            Parameter((4,)),
            Parameter((2, 4), (1 / 4) ** 0.5, film=True),
            Parameter((2,), film=True),
        ],
        lambda t, x: np.maximum(x @ t[0].T + t[1], 0) @ t[2].T + t[3],
        name="Sequential",
    )
    sample = rows((3,), 2)
    for start in ("drawn", "given"):
        for projector in ("film", "kronecker", "dense"):
            said = Hypothesis(
                None,
                Goal("classification", 2),
                np.array([0, 1, 2, 2]),
                TERNARY,
                projector,
                start=start,
                groups=(parse_group("S(500)"), parse_group("SU(3)*Z(2)")),
            )
            drawn = made(said, sample, module)
            assert_agreed(drawn, arch=module, module=second)
            with pytest.raises(Outside):
                check(drawn.certificate.to_bytes(), sample.x.numpy(), sample.y.numpy())


# --- draws --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(path.stem for path in HONEST.glob("*.iso")))
def test_certificates_of_the_last_release(name: str) -> None:
    then = json.loads((HONEST / "verdicts.json").read_text())[name]
    if name == "own-module":
        return
    with np.load(HONEST / "rows.npz") as held:
        x, y = (held[part] for part in then["data"])
    checked = check((HONEST / f"{name}.iso").read_bytes(), x, y)
    assert checked.errors == then["errors"]
    assert checked.bound == pytest.approx(then["bound"], abs=1e-10)


@pytest.mark.parametrize("kind", ["plain", "shared", "equivariant", "numbers", "images"])
def test_random_certificates(kind: str) -> None:
    chance = random.Random(kind)
    torch.manual_seed(0)
    for _ in range(4 if kind in ("equivariant", "numbers") else 8):
        drawn = drawn_certificate(chance, kind)
        try:
            assert_agreed(drawn)
        except BaseException as error:
            error.add_note(f"{drawn.certificate.model}: {drawn.certificate.to_bytes().hex()}")
            raise


def test_messages_that_both_refuse_or_neither() -> None:
    chance, seen = random.Random(0), {True: 0, False: 0}
    certificate = made(hypothesis("mlp-5"), rows((2,))).certificate
    sample = rows((2,))
    for _ in range(150):
        message = bytearray(certificate.message)
        for _ in range(chance.randint(1, 2)):
            message[chance.randrange(len(message))] ^= 1 << chance.randrange(8)
        claims = {**certificate.claims, "bound": 1.0, "errors": 40}
        other = replace(certificate, message=bytes(message), claims=claims)
        accepted = verify(other.to_bytes(), sample).verdict != "rejected"
        try:
            check(other.to_bytes(), sample.x.numpy(), sample.y.numpy())
        except Wrong:
            assert not accepted
        else:
            assert accepted
        seen[accepted] += 1
    assert min(seen.values()) > 10


@pytest.mark.parametrize("place", [0, 9, 20, 40, -40, -1])
def test_damaged_files(place: int) -> None:
    sample = rows((2,))
    content = bytearray(made(hypothesis("mlp-5"), sample).certificate.to_bytes())
    content[place] ^= 1
    with pytest.raises(Wrong):
        check(bytes(content), sample.x.numpy(), sample.y.numpy())


# --- what rounding could decide ------------------------------------------------------------------


def refused_or_agreed(said: Hypothesis, sample: Examples) -> None:
    """The library refuses it, or both find the same."""
    try:
        drawn = made(said, sample)
    except ValueError:
        return
    if verify(drawn.certificate.to_bytes(), sample).verdict != "rejected":
        # a gap of 1e-8 between singular values leaves so much of the precision
        assert_agreed(drawn, tolerance=1e-6)


def refused_or_agreed_on(group: Group) -> None:
    """The same of a network with tensors of order two."""
    try:
        said = hypothesis(f"mlp-15 equivariant {group} V+T(0,1)")
    except ValueError:
        return
    refused_or_agreed(said, rows((4,)))


@pytest.mark.parametrize(
    ("text", "features"),
    [("mlp-6 shared Z(1)*S(3)", 3), ("mlp-30 equivariant Trivial(1)*D2d(4) V", 2)],
)
def test_products_that_equal_a_factor(text: str, features: int) -> None:
    refused_or_agreed(hypothesis(text, d=4), rows((features,)))


def test_algebras_of_bad_scale() -> None:
    text = "Group(discrete=[[1,0]],algebra=[[[0.00001,0],[1,0.0000001]]])"
    refused_or_agreed_on(writable_group(parse_group(text)))


NEAR = [1e-6, 1e-8, 1e-9, 1e-10, 1e-11, 1e-12, 1e-13]


@pytest.mark.parametrize("small", NEAR)
def test_components_that_nearly_commute(small: float) -> None:
    near = np.float32([[0, -1], [1, small]]).astype(float)
    refused_or_agreed_on(Group([[[0.0, -1], [1, 0]], near]))


@pytest.mark.parametrize("small", NEAR)
def test_algebras_that_nearly_commute(small: float) -> None:
    near = np.float32([[0, -1], [1, small]]).astype(float)
    refused_or_agreed_on(Group(algebra=[[[0.0, -1], [1, 0]], near]))


def test_permutations_in_another_basis() -> None:
    """Whether P h P⁻¹ is a signed permutation must not depend on how a product is rounded."""
    change = [[1, -0.067138671875], [0.01326751708984375, 0.4599609375]]
    refused_or_agreed_on(Inversion(2).conjugate(change))


def test_factors_with_dependent_columns() -> None:
    """Both columns of the first factor are multiples of (54, -75)."""
    goal = Goal("regression", 1, tolerance=0.5)
    said = hypothesis("mlp-1", goal, d=4, projector="kronecker-orthonormal", seed=47061)
    sample = rows((1,))
    y = torch.zeros(40, 1, dtype=torch.float32)
    refused_or_agreed(said, Examples(sample.x, y))


def test_rows_that_rounding_decides_are_named() -> None:
    """Two outputs that are equal but for rounding: which is larger differs between machines."""
    x = np.abs(np.random.default_rng(0).normal(size=(150, 3))).astype(np.float32)
    sample = Examples(torch.from_numpy(x), torch.zeros(150, dtype=torch.int64))
    hidden = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    head = np.array([[1, 1, 1, 0], [0, 0, 0, 1]])
    symbols = np.concatenate([hidden.ravel(), np.zeros(4, int), head.ravel(), np.zeros(2, int)])
    said = Hypothesis(
        architecture("mlp-4"),
        Goal("classification", 2),
        symbols,
        np.array([0, 0.7], np.float16),
        "identity",
        start="zero",
        input_scale=float(np.float16(0.3)),
    )
    certificate: Certificate = made(said, sample).certificate
    checked = check(certificate.to_bytes(), x, sample.y.numpy())
    assert checked.unsure == 150
    assert abs(checked.errors - certificate.errors) <= checked.unsure
