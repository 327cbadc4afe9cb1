"""Random certificates of every kind that `verify` can accept, and what the library makes of them.

No training: the symbols are drawn. What is drawn and cannot be certified is drawn again.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import torch

from certificate_parts import (
    KINDS,
    Examples,
    TensorSum,
    certificate_of,
    pack_start,
    unpack_start,
    writable_group,
)
from isotropy.certificates import (
    PROJECTORS,
    Architecture,
    Certificate,
    Goal,
    Hypothesis,
    architecture,
)
from isotropy.groups import (
    GL,
    O11,
    O13,
    SE,
    SL,
    SO,
    A,
    C2d,
    D,
    D2d,
    DirectProduct,
    DkeR3,
    E,
    GridFlips,
    GridShifts,
    GridTurns,
    Group,
    Inversion,
    O,
    O2eR3,
    Parity,
    S,
    Scaling,
    SO2eR3,
    SO11p,
    SO13p,
    SOpq,
    Sp,
    TimeReversal,
    Trivial,
    Z,
    embed,
    p4,
    p4m,
    wreath,
)

_SMALL_SEEDS = (0, 1, 2, 7, 2**32, 2**64 - 1)


@dataclass(frozen=True, eq=False)
class Drawn:
    """A certificate, its data, and the outputs that the library computes."""

    certificate: Certificate
    sample: Examples
    outputs: np.ndarray


def drawn_certificate(chance: random.Random, kind: str | None = None) -> Drawn:
    """A random certificate.

    Args:
        chance: Where randomness comes from.
        kind: "plain", "shared", "equivariant", "numbers", "images"; any where None.
    """
    while True:
        chosen = kind or chance.choice(["plain", "shared", "equivariant", "numbers", "images"])
        try:
            return _drawn(chance, chosen)
        except ValueError:
            continue


def _drawn(chance: random.Random, kind: str) -> Drawn:
    named, shape = {
        "plain": _plain,
        "shared": _shared,
        "equivariant": _equivariant,
        "numbers": _in_numbers,
        "images": _images,
    }[kind](chance)
    rng = np.random.default_rng(chance.getrandbits(32))
    rows = 6 if kind == "images" else 40
    goal, y = _goal(chance, rng, rows)
    dtype = chance.choice([np.float32, np.float64])
    x = torch.from_numpy((rng.normal(size=(rows, *shape)) * chance.choice([1, 1, 5])).astype(dtype))
    sample = Examples(x, torch.from_numpy(y))
    with torch.random.fork_rng():  # weights of a stored start come from the number of the case too
        torch.manual_seed(chance.getrandbits(32))
        module = named.build(shape, goal.outputs)
    size = sum(parameter.numel() for parameter in module.parameters())
    hypothesis = _hypothesis(chance, rng, named, goal, size)
    start, packed = None, b""
    if hypothesis.start in ("given", "rows"):
        packed = pack_start(
            module, {**dict(module.named_parameters()), **dict(module.named_buffers())}
        )
        start = unpack_start(module, packed, buffers=False)
    certificate = certificate_of(
        hypothesis, module, sample, delta=chance.choice([0.05, 1e-6, 0.5]), model=str(named),
        start=start, packed=packed,
    )  # fmt: skip
    return Drawn(certificate, sample, library_outputs(hypothesis, module, sample, start))


def library_outputs(
    hypothesis: Hypothesis,
    module: torch.nn.Module,
    sample: Examples,
    start: dict[str, torch.Tensor] | None = None,
) -> np.ndarray:
    """What the library's network gives for all rows, before a goal's scale."""
    network = hypothesis.network(module, start)
    x = sample.x.double()
    x = x if hypothesis.input_scale is None else x / hypothesis.input_scale
    with torch.no_grad():
        return network(x).numpy()


def _goal(chance: random.Random, rng: np.random.Generator, rows: int) -> tuple[Goal, np.ndarray]:
    outputs = chance.choice([1, 2, 2, 3, 5])
    if chance.random() < 0.7:
        return Goal("classification", outputs), rng.integers(0, outputs, rows)
    tolerance, scale = (float(np.float16(chance.choice([0.25, 1, 3]))) for _ in range(2))
    y = rng.normal(size=(rows, outputs)).astype(chance.choice([np.float32, np.float64]))
    return Goal("regression", outputs, tolerance, scale), y


def _hypothesis(
    chance: random.Random, rng: np.random.Generator, named: Architecture, goal: Goal, size: int
) -> Hypothesis:
    projector = chance.choice(PROJECTORS)
    most = min(size, chance.choice([3, 20, 100, size]), 400)
    d = 0 if chance.random() < 0.05 else chance.randint(1, most)
    levels = chance.choice([1, 2, 3, 4, 7, 16])
    book = np.unique(rng.normal(size=levels).astype(np.float16))
    if chance.random() < 0.4:
        positive = book[book > 0]
        middle = [np.float16(0)] if chance.random() < 0.5 or not len(positive) else []
        book = np.array([*(-positive[::-1]), *middle, *positive], np.float16)
    start = chance.choice(["drawn"] * 5 + ["zero", "given", "rows"])
    return Hypothesis(
        named,
        goal,
        rng.integers(0, len(book), d) if d else np.zeros(0, np.int64),
        book if d else np.zeros(0, np.float16),
        projector if d else "kronecker",
        chance.choice([*_SMALL_SEEDS, chance.getrandbits(chance.randint(1, 64))]),
        start,
        chance.randint(20, 80) if start == "rows" else None,
        chance.choice([None, None, 2.0, float(np.float16(0.3))]),
    )


def _plain(chance: random.Random) -> tuple[Architecture, tuple[int, ...]]:
    widths = tuple(chance.randint(1, 12) for _ in range(chance.randint(1, 3)))
    if chance.random() < 0.03:
        widths = (150, 150, 150)
    shape = (chance.randint(1, 7),) if chance.random() < 0.8 else (chance.randint(1, 2), 3, 4)
    return Architecture("mlp", widths), shape


def _shared(chance: random.Random) -> tuple[Architecture, tuple[int, ...]]:
    group = permutations(chance, chance.randint(0, 2))
    while group.d > 40:
        group = permutations(chance, chance.randint(0, 2))
    widths = tuple(chance.randint(1, 3) * group.d for _ in range(chance.randint(1, 2)))
    return Architecture("mlp", widths, "shared", group), (group.d * chance.randint(1, 3),)


def _equivariant(chance: random.Random) -> tuple[Architecture, tuple[int, ...]]:
    group = matrices(chance, chance.choice([0, 0, 1, 1, 2]))
    while group.d > chance.choice([3, 4, 4, 4, 5]):
        group = matrices(chance, chance.choice([0, 0, 1, 1, 2]))
    return _with_tensors(chance, group)


def _in_numbers(chance: random.Random) -> tuple[Architecture, tuple[int, ...]]:
    return _with_tensors(chance, writable_group(numbers(chance)))


def _with_tensors(chance: random.Random, group: Group) -> tuple[Architecture, tuple[int, ...]]:
    terms = tuple((chance.randint(1, 2), chance.choice(KINDS)) for _ in range(chance.randint(1, 3)))
    space = TensorSum(terms)
    depth = chance.choice([1, 1, 2])
    widths = tuple(
        chance.choice([2, 3 * group.d, 9 + 3 * group.d, 4 * group.d**2]) for _ in range(depth)
    )
    return Architecture("mlp", widths, "equivariant", group, space), (space.rep()(group).size(),)


def _images(chance: random.Random) -> tuple[Architecture, tuple[int, ...]]:
    name = chance.choice(["lenet5", "convnet", "convnet", "resnet20"])
    variant = chance.choice(["", "equivariant p4", "equivariant p4m", "shared p4", "shared p4m"])
    variant = chance.choice([variant, variant, "shared GridFlips"])
    size = "" if name == "lenet5" else f"-{chance.randint(1, 12)}"
    named = architecture(f"{name}{size} {variant}".strip())
    smallest = 13 if name == "lenet5" else 8
    side = chance.randint(smallest, smallest + 4)
    other = side if "p4" in variant else chance.randint(smallest, smallest + 4)
    return named, (chance.randint(1, 2), side, other)


def permutations(chance: random.Random, depth: int) -> Group:
    """A random group of permutations."""
    if depth == 0:
        n = chance.randint(1, 6)
        order = list(range(n))
        given = [chance.sample(order, n) for _ in range(chance.randint(0, 2))]
        kinds = [Z(n), S(n), Trivial(n), D(n + 2), A(n + 2), GridShifts(min(n, 4))]
        kinds += [GridTurns(2), GridTurns(3), GridFlips(2), GridFlips(3), p4(3), p4m(4), SO(1)]
        return chance.choice([*kinds, Group(given, d=n)])
    first, second = permutations(chance, depth - 1), permutations(chance, depth - 1)
    return _combined(chance, first, second)


def matrices(chance: random.Random, depth: int) -> Group:
    """A random group of real matrices, of the catalogue."""
    if depth == 0:
        n = chance.randint(1, 4)
        kinds = [SO(n), O(n), SL(min(n, 3)), GL(min(n, 3)), Sp(min(n, 2)), SE(min(n, 3))]
        kinds += [E(min(n, 3)), C2d(n + 1), D2d(n), C2d(chance.randint(5, 4000)), SOpq(1, n)]
        kinds += [SO13p(), O13(), SO11p(), O11(), Scaling(n), Inversion(n), Parity()]
        kinds += [TimeReversal(), SO2eR3(), O2eR3(), DkeR3(n + 2), SOpq(2, 1)]
        return chance.choice([*kinds, permutations(chance, 0)])
    first, second = matrices(chance, depth - 1), matrices(chance, depth - 1)
    return _combined(chance, first, second)


def _combined(chance: random.Random, first: Group, second: Group) -> Group:
    kind = chance.randrange(5)
    if kind == 0:
        return DirectProduct(first, second)
    if kind == 1:
        return first + second
    if kind == 2:
        return embed(first, first.d + chance.randint(0, 2))
    if kind == 3 and second.d <= 4:
        outer = second if second.is_permutation and not second.algebra else Z(second.d)
        return wreath(first, outer)
    return first.conjugate(chance.sample(range(first.d), first.d))


def numbers(chance: random.Random) -> Group:
    """A random group that has to be written in numbers."""
    rng = np.random.default_rng(chance.getrandbits(32))
    if chance.random() < 0.4:
        inner = matrices(chance, chance.choice([0, 0, 1]))
        while inner.d > 4:
            inner = matrices(chance, 0)
        change = rng.normal(size=(inner.d, inner.d)) + chance.choice([0, 2]) * np.eye(inner.d)
        if chance.random() < 0.2:
            change = np.diag(rng.choice([-1.0, 1.0], inner.d))
        return inner.conjugate(np.float16(change).astype(np.float64))
    d = chance.choice([1, 2, 2, 3, 3, 4])
    made = [_matrix(chance, rng, d) for _ in range(chance.randint(1, 2))]
    if chance.random() < 0.15:  # two that are one but for little, which rounding could decide
        near = made[0][0] + 10.0 ** -chance.uniform(5, 14) * rng.normal(size=(d, d))
        made = [made[0], (np.float32(near).astype(float), made[0][1])]
    spans = [m for m, discrete in made if not discrete]
    return Group([m for m, discrete in made if discrete], algebra=spans, d=d)


def _matrix(chance: random.Random, rng: np.random.Generator, d: int) -> tuple[np.ndarray, bool]:
    """A generator with exact entries, and whether it is discrete."""
    whole = rng.integers(-2, 3, (d, d)).astype(float)
    kind = chance.randrange(7)
    if kind == 0:
        return whole - whole.T, False
    if kind == 1:
        return whole, False
    if kind == 2:
        return np.triu(whole, 1), False
    if kind == 3:
        return np.diag(rng.choice([-2.0, -1, 1, 0.5, 3], d)), True
    if kind == 4:
        order = rng.permutation(d)
        return (np.eye(d) * rng.choice([-1.0, 1.0], d))[order], True
    if kind == 5:
        return np.eye(d) + np.triu(whole, 1), True
    return np.float32(rng.normal(size=(d, d))).astype(float), chance.random() < 0.5
