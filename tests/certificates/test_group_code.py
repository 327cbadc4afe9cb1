import random
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from isotropy.certificates._bits import BitReader, BitWriter
from isotropy.certificates._group_code import MOST_CODE_BITS, read_group, write_group
from isotropy.certificates._rejected import Rejected
from isotropy.groups import (
    FAMILIES,
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


def test_permutations_of_many_points() -> None:
    points = random.Random(0).sample(range(3072), 3072)
    group = Group([points])
    writer = BitWriter()
    write_group(writer, group)
    assert read_group(BitReader(writer.to_bytes())) == group


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
    "symbol": ("0" * 20000 + "1" * 30000, r"unknown symbol"),
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
        (Group(algebra=[[[0.0, 1.0], [1.0, 0.0]]]), r"expected a group of the catalogue"),
    ],
    ids=["points", "semidirect", "long", "matrices"],
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
