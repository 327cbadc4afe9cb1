import random
import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from certificate_parts import (
    MOST_CODE_BITS,
    BitReader,
    BitWriter,
    read_group,
    writable_group,
    write_group,
)
from isotropy.certificates import Rejected
from isotropy.groups import (
    FAMILIES,
    O13,
    SO,
    DirectProduct,
    GridShifts,
    GridTurns,
    Group,
    Inversion,
    S,
    Trivial,
    Z,
    embed,
    encode,
    p4,
    parse_group,
    semidirect,
    wreath,
)


def symbol(kind: type[Group]) -> str:
    """The first bits of a code, from a group whose code is known to continue with an integer."""
    order = ["DirectProduct", "SideBySide", "Wreath", "Semidirect", "Embedding", "Conjugate"]
    order += ["Group", *(f.name for f in FAMILIES)]
    number = order.index(kind.__name__) + 1
    return "0" * (number.bit_length() - 1) + f"{number:b}"


def integer(n: int) -> str:
    writer = BitWriter()
    writer.natural(n - 1)
    return BitReader(writer.to_bytes()).bits(len(writer))


def half(*numbers: float) -> str:
    return "".join(f"{int(np.float16(x).view(np.uint16)):016b}" for x in numbers)


def single(*numbers: float) -> str:
    return "".join(f"{int(np.float32(x).view(np.uint32)):032b}" for x in numbers)


def reader_of(bits: str) -> BitReader:
    writer = BitWriter()
    writer.bits(bits)
    return BitReader(writer.to_bytes())


@pytest.mark.parametrize(
    "text",
    [
        *("p4(28)", "p4m(32)", "S(784)", "SO(3)", "SO(3)*S(100)", "GridShifts(224)", "SOpq(2,3)"),
        *("Z(8)+S(5)+Trivial(3)", "wreath(S(3),Z(20))", "embed(SO(2),5,1)", "RubiksCube", "O13"),
        *("conjugate(S(4),[1,0,3,2])", "Group(discrete=[[1,2,0],[1,0,2]])", "D2d(7)", "GL(8)"),
    ],
)
def test_groups_cost_their_code_and_are_read_again(text: str) -> None:
    group = parse_group(text)
    writer = BitWriter()
    writer.below(2, 3)
    write_group(writer, group)
    assert len(writer) == 2 + len(encode(group))
    writer.natural(12345)
    reader = BitReader(writer.to_bytes())
    assert reader.below(3) == 2
    read = read_group(reader)
    assert read == group
    assert str(read) == text
    assert reader.natural() == 12345


@pytest.mark.parametrize(
    ("group", "bits"),
    [
        (SO(3).conjugate([[1.0, 0.5, 0.0], [0.0, 1.0, -0.25], [0.0, 0.0, 2.0]]), 17 + 11 + 9 * 16),
        (O13().conjugate(torch.diag(torch.tensor([1.0, 1.0, 1.0, -1.0]))), 17 + 9 + 16 * 16),
        (Group(algebra=[[[0.0, 2.0], [-0.5, 0.0]]]), 17 + 4 + 1 + 4 + 4 * 32),
        (Group([[[0.0, 2.0], [0.5, 0.0]]], algebra=[[[1.0, 0.0], [0.0, -1.0]]]), 17 + 12 + 8 * 32),
    ],
    ids=["conjugate", "signs", "algebra", "both"],
)
def test_groups_in_numbers_pay_for_them_and_are_read_again(group: Group, bits: int) -> None:
    writer = BitWriter()
    write_group(writer, group)
    assert len(writer) == bits
    writer.natural(12345)
    reader = BitReader(writer.to_bytes())
    assert read_group(reader) == group
    assert reader.natural() == 12345
    assert writable_group(group) is not None


def test_what_is_too_long_is_rounded_to_what_can_be_written() -> None:
    rng = torch.Generator().manual_seed(0)
    change = torch.eye(3).double() + torch.randn(3, 3, generator=rng).double() / 4
    frame = torch.eye(5).double() + torch.randn(5, 5, generator=rng).double() / 8
    for group in (
        SO(3).conjugate(change),
        embed(SO(3).conjugate(change), 5, 1).conjugate(frame),
        Group(algebra=[change - change.mT]),
    ):
        near = writable_group(group)
        write_group(writer := BitWriter(), near)
        assert read_group(BitReader(writer.to_bytes())) == near
        assert writable_group(near) == near
        for exact, rounded in zip(group.algebra, near.algebra, strict=True):
            torch.testing.assert_close(exact.dense(), rounded.dense(), atol=5e-3, rtol=0)
    with pytest.raises(ValueError, match=r"at most 8 dimensions, got .* on 9"):
        writable_group(SO(9).conjugate(torch.eye(9) * 1.5 + 1))
    assert writable_group(SO(9)) == SO(9)


def test_permutations_of_many_points() -> None:
    points = random.Random(0).sample(range(3072), 3072)
    group = Group([points])
    writer = BitWriter()
    write_group(writer, group)
    assert read_group(BitReader(writer.to_bytes())) == group


# how groups in numbers begin
NUMBERS = "0" * 16


LEAF = encode(Z(2))
NESTED = "".join(symbol(type(embed(Z(2), 9))) + integer(9) + integer(1) for _ in range(9)) + LEAF
HOSTILE = {
    "points": (symbol(S) + integer(10**9), r"integers of at most 65536 .* got a larger"),
    "grid": (symbol(GridShifts) + integer(60000), r"at most 65536 dimensions, got more"),
    "pixels": (symbol(p4) + integer(10**300), r"integers of at most 65536"),
    "polygon": (symbol(parse_group("C2d(3)").__class__) + integer(10**9), r"at most 65536"),
    "rotations": (encode(SO(65)), r"at most 16777216 entries, got more"),
    "million": (symbol(Group) + integer(10**6) + integer(2), r"integers of at most 65536"),
    "identities": (symbol(Group) + integer(1) + integer(10**9), r"integers of at most 65536"),
    "generators": (symbol(Group) + integer(65536) + integer(65536), r"16777216 entries"),
    "early": (symbol(Group) + integer(9000) + integer(2), r"ends too early"),
    "parts": (symbol(DirectProduct) + integer(65) + encode(Z(1)) * 65, r"at most 64 parts"),
    "absent": (symbol(DirectProduct) + integer(10**9), r"more parts than \d+ bits hold"),
    "tensors": (encode(DirectProduct(*[Z(2)] * 17)), r"at most 65536 dimensions"),
    "deep": (NESTED, r"nested at most 8 deep"),
    "deeper": ("011" * 20000, r"nested too deeply"),
    "semidirect": (encode(semidirect(GridShifts(4), GridTurns(4))), r"without semidirect"),
    "wreath": (encode(wreath(Z(2), Z(2)))[:3] + LEAF + encode(SO(50)), r"over matrices"),
    "signs": (encode(wreath(Z(2), Z(2)))[:3] + LEAF + encode(Inversion(2)), r"outer group of a"),
    "blocks": (encode(wreath(S(2), Trivial(20000))), r"16777216 entries"),
    "smallest": (symbol(p4) + integer(2), r"expected p4\(n\) with an integer n >= 3, got 2"),
    "room": (encode(embed(Z(2), 9))[:5] + integer(1) + integer(1) + LEAF, r"expected room for 2"),
    "rank": (encode(S(3).conjugate([2, 1, 0]))[:-3] + "111", r"impossible permutation"),
    "symbol": ("0" * 15 + "1" * 30000, r"unknown symbol"),
    "zeros": ("0" * 20000 + "1" * 30000, r"unknown symbol"),
    "numbers end": (
        NUMBERS + "0" + encode(SO(2)) + "0" * 40,
        r"expected 16 more bits, got the end",
    ),
    "change": (NUMBERS + "0" + encode(SO(9)), r"at most 8 dimensions, got one of 9"),
    "singular": (NUMBERS + "0" + encode(SO(2)) + half(1, 1, 1, 1), r"condition at most 100"),
    "infinite": (NUMBERS + "0" + encode(SO(2)) + half(1, 0, 0, np.inf), r"at most 1024, got"),
    "no number": (NUMBERS + "0" + encode(SO(2)) + half(1, 0, 0, np.nan), r"at most 1024, got"),
    "permuted": (NUMBERS + "0" + encode(SO(2)) + half(0, 1, 1, 0), r"the catalogue's code of a"),
    "twice": (
        NUMBERS + "0" + encode(S(2).conjugate([1, 0])) + half(1, 2, 0, 1),
        r"expected the code of S\(2\), got another of the same group",
    ),
    "none": (NUMBERS + "1" + integer(2) + integer(1) * 2, r"1 to 28 generators in numbers, got 0"),
    "many": (NUMBERS + "1" + integer(2) + integer(29) * 2, r"1 to 28 generators .* got 56"),
    "large": (NUMBERS + "1" + integer(9) + integer(2) * 2, r"expected .* at most 7"),
    "swap": (
        NUMBERS + "1" + integer(2) + integer(2) + integer(1) + single(0, 1, 1, 0),
        r"the catalogue's code of a group of permutations",
    ),
    "still": (
        NUMBERS + "1" + integer(2) + integer(1) + integer(3) + single(0, 1, -1, 0, *[0] * 4),
        r"got another of the same group",
    ),
    "length": ("0" * 8 + "1" * 60, r"unknown symbol"),
    "empty": ("", r"ends too early"),
    "flattened": (
        symbol(DirectProduct) + integer(2) + encode(Z(2) * Z(3)) + LEAF,
        r"expected the code of Z\(2\)\*Z\(3\)\*Z\(2\), got another of the same group",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_codes_are_rejected_before_anything_is_built(name: str) -> None:
    bits, sentence = HOSTILE[name]
    reader = reader_of(bits)
    tracemalloc.start()
    with pytest.raises(Rejected, match=sentence) as caught:
        read_group(reader)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**24
    assert len(str(caught.value)) < 400
    assert reader.position == 0


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        (S(10**9), r"S\(1000000000\) cannot be named in a certificate: expected integers"),
        (semidirect(GridShifts(4), GridTurns(4)), r"without semidirect products"),
        (Group([random.Random(1).sample(range(3072), 3072)] * 3), r"certificate: .* too early"),
        (
            SO(3).conjugate(torch.eye(3).double() + 1e-4),
            r"numbers of 16 bits .* got longer ones in SO\(3\)",
        ),
        (Group(algebra=[[[0.0, 0.1], [-0.1, 0.0]]]), r"of 32 in generators, got longer ones"),
        (Group(algebra=list(torch.eye(9)[None])), r"at most 8 dimensions, got .* on 9"),
        (Group(algebra=[[[0.0, 1j], [1j, 0.0]]]), r"of real matrices"),
        (embed(SO(2).conjugate([[2.0, 1.0], [0.0, 1.0]]), 3), r"of the catalogue to encode"),
        (SO(2).conjugate([[1.0, 0.0], [0.0, 512.0]]), r"condition at most 100 in a group"),
    ],
    ids=[
        *("points", "semidirect", "long", "change", "generators", "nine", "complex", "embedded"),
        "condition",
    ],
)
def test_groups_that_could_not_be_read_are_not_written(group: Group, sentence: str) -> None:
    writer = BitWriter()
    with pytest.raises(ValueError, match=sentence):
        write_group(writer, group)
    assert len(writer) == 0


@given(st.lists(st.one_of(st.binary(max_size=4), st.sampled_from([symbol(DirectProduct)])),
                max_size=10))  # fmt: skip
@example([])
@settings(max_examples=300)
def test_any_bits_are_a_group_or_rejected(pieces: list[bytes | str]) -> None:
    writer = BitWriter()
    for piece in pieces:
        writer.bits(piece if isinstance(piece, str) else "".join(f"{b:08b}" for b in piece))
    reader = BitReader(writer.to_bytes())
    try:
        group = read_group(reader)
    except Rejected:
        return
    again = BitWriter()
    write_group(again, group)
    assert BitReader(again.to_bytes()).bits(len(again)) == reader_of(
        BitReader(writer.to_bytes()).bits(reader.position)
    ).bits(len(again))
    assert reader.position == len(again) <= MOST_CODE_BITS


@given(st.binary(max_size=80), st.sampled_from(["0" + encode(SO(2)), "0" + encode(S(3)), "1", ""]))
@settings(max_examples=300, deadline=None)
def test_any_numbers_are_rejected_or_written_as_they_were_read(tail: bytes, head: str) -> None:
    bits = NUMBERS + head + "".join(f"{byte:08b}" for byte in tail)
    reader = reader_of(bits)
    try:
        group = read_group(reader)
    except Rejected:
        return
    write_group(writer := BitWriter(), group)
    assert (
        BitReader(writer.to_bytes()).bits(len(writer))
        == bits.ljust(len(writer), "0")[: len(writer)]
    )
    assert len(writer) == reader.position
