import math
import tracemalloc
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from certificate_parts import BitReader, BitWriter, width_of
from isotropy.certificates import Rejected

NAMES = ("dense", "sparse", "film")


def text_of(writer: BitWriter) -> str:
    data = writer.to_bytes()
    text = "".join(f"{byte:08b}" for byte in data)
    assert set(text[len(writer) :]) <= {"0"}
    assert len(text) - len(writer) < 8
    return text[: len(writer)]


def elias_delta(number: int) -> str:
    """From the definition: the length's length in unary, the length, the digits but the first."""
    digits = bin(number)[2:]
    length = bin(len(digits))[2:]
    return "0" * (len(length) - 1) + length + digits[1:]


@pytest.mark.parametrize("limit", [1, 2, 3, 6, 8, 255, 256, 257])
def test_numbers_below_a_limit_take_the_bits_of_the_limit(limit: int) -> None:
    for value in {0, limit // 2, limit - 1}:
        writer = BitWriter()
        writer.below(value, limit)
        assert len(writer) == math.ceil(math.log2(limit)) == width_of(limit)
        assert int(text_of(writer) or "0", 2) == value
        assert BitReader(writer.to_bytes()).below(limit) == value


@given(st.one_of(st.integers(0, 300), st.integers(0, 10**400)))
def test_natural_numbers_are_elias_delta(value: int) -> None:
    writer = BitWriter()
    writer.natural(value)
    assert text_of(writer) == elias_delta(value + 1)
    reader = BitReader(writer.to_bytes())
    assert reader.natural() == value
    assert reader.position == len(writer)
    assert BitReader(writer.to_bytes()).natural(limit=value) == value
    if value:
        with pytest.raises(Rejected, match=r"expected a number of at most"):
            BitReader(writer.to_bytes()).natural(limit=value - 1)


def test_codes_of_natural_numbers_are_prefix_free() -> None:
    codes = sorted(elias_delta(n + 1) for n in range(2000))
    assert not any(b.startswith(a) for a, b in pairwise(codes))


def test_every_subset_has_its_own_place() -> None:
    for limit, count in ((1, 1), (7, 0), (7, 3), (7, 7), (10, 4)):
        width = math.ceil(math.log2(math.comb(limit, count)))
        seen = set()
        for chosen in combinations(range(limit), count):
            writer = BitWriter()
            writer.subset(chosen, limit)
            assert len(writer) == width
            assert BitReader(writer.to_bytes()).subset(count, limit) == list(chosen)
            seen.add(text_of(writer))
        assert len(seen) == math.comb(limit, count)


@dataclass
class Field:
    """A value, the methods that write and read it, and what these are told besides."""

    method: str
    value: Any
    told_writer: tuple[Any, ...] = ()
    told_reader: tuple[Any, ...] = ()


@st.composite
def fields(draw: st.DrawFn) -> Field:
    method = draw(st.sampled_from(["below", "natural", "choice", "subset", "bits"]))
    if method == "below":
        limit = draw(st.one_of(st.integers(1, 20), st.integers(1, 10**60)))
        return Field(method, draw(st.integers(0, limit - 1)), (limit,), (limit,))
    if method == "natural":
        return Field(method, draw(st.integers(0, 10**30)))
    if method == "choice":
        return Field(method, draw(st.sampled_from(NAMES)), (NAMES,), (NAMES,))
    if method == "bits":
        text = draw(st.text("01", max_size=40))
        return Field(method, text, (), (len(text),))
    limit = draw(st.integers(1, 500))
    chosen = sorted(draw(st.sets(st.integers(0, limit - 1), max_size=12)))
    return Field(method, chosen, (limit,), (len(chosen), limit))


@given(st.lists(fields(), max_size=12))
def test_what_is_written_is_read_again(message: list[Field]) -> None:
    writer = BitWriter()
    for field in message:
        getattr(writer, field.method)(field.value, *field.told_writer)
    reader = BitReader(writer.to_bytes())
    for field in message:
        assert getattr(reader, field.method)(*field.told_reader) == field.value
    assert reader.position == len(writer)
    assert reader.remaining == 8 * len(writer.to_bytes()) - len(writer)
    reader.finish()
    assert reader.remaining == 0


@given(st.binary(max_size=40), st.lists(fields(), min_size=1, max_size=8))
def test_any_bytes_are_read_or_rejected(data: bytes, message: list[Field]) -> None:
    reader, writer = BitReader(data), BitWriter()
    try:
        for field in message:
            got = getattr(reader, field.method)(*field.told_reader)
            getattr(writer, field.method)(got, *field.told_writer)
    except Rejected:
        return
    # what was accepted has no other code
    assert text_of(writer) == BitReader(data).bits(reader.position)


def test_looking_ahead_reads_nothing() -> None:
    reader = BitReader(b"\xa5\x0f")
    reader.below(8)
    assert reader.peek(5) == "00101"
    assert reader.peek(10**12) == "0010100001111"
    assert reader.position == 3
    assert reader.bits(13) == "0010100001111"
    assert reader.peek(8) == reader.bits(0) == ""


@pytest.mark.parametrize(
    ("data", "read", "sentence"),
    [
        (b"\xff", lambda r: r.below(5), r"expected a number below 5, got one that is not"),
        (b"\xff" * 99, lambda r: r.below(2**700 + 1), r"expected a number below 2\^700"),
        (b"\xff", lambda r: r.below(1000), r"expected 10 more bits, got the end of the message"),
        (b"", lambda r: r.natural(), r"expected 1 more bits, got the end"),
        (bytes(100), lambda r: r.natural(), r"at most 2\^32 bits, got a longer"),
        (b"\0\0\0\x01" + b"\xff" * 9, lambda r: r.natural(), r"more bits, got the end"),
        (b"\0\0\0\x01" + b"\xff" * 9, lambda r: r.natural(limit=9), r"at most 9, got a larger one"),
        (b"\xff", lambda r: r.choice(NAMES), r"expected a number below 3"),
        (b"\xff", lambda r: r.subset(2, 4), r"expected a number below 6"),
        (b"\x80\0", lambda r: r.below(256) and r.finish(), r"expected the end of the message"),
        (b"\x81", lambda r: r.below(2) and r.finish(), r"expected the end of the message"),
    ],
    ids=["below", "huge", "short", "empty", "zeros", "long", "limit", "name", "set", "byte", "pad"],
)
def test_bad_bits_are_rejected(data: bytes, read: object, sentence: str) -> None:
    with pytest.raises(Rejected, match=sentence):
        read(BitReader(data))  # type: ignore[operator]


def test_announced_lengths_allocate_nothing() -> None:
    announced = BitWriter()
    announced.bits("0" * 31 + "1" * 32)  # a number of 2^32 - 1 bits
    data = announced.to_bytes() + bytes(1000)
    tracemalloc.start()
    for limit in (None, 10**9):
        with pytest.raises(Rejected):
            BitReader(data).natural(limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (lambda w: w.below(5, 5), r"expected a number from 0 and below 5, got 5"),
        (lambda w: w.below(-1, 5), r"expected a number from 0 and below 5, got -1"),
        (lambda w: w.natural(-1), r"expected a natural number, got -1"),
        (lambda w: w.choice("rough", NAMES), r"expected one of dense, sparse, film, got 'rough'"),
        (lambda w: w.subset([3, 2], 5), r"expected ascending numbers .* got \[3, 2\]"),
        (lambda w: w.subset([2, 2], 5), r"expected ascending numbers"),
        (lambda w: w.subset([2, 5], 5), r"expected ascending numbers"),
        (lambda w: w.subset([-1, 2], 5), r"expected ascending numbers"),
        (lambda w: w.bits("012"), r"expected the characters 0 and 1, got '012'"),
        (lambda w: BitReader(b"").below(0), r"expected a limit of at least 1, got 0"),
        (lambda w: BitReader(b"").subset(3, 2), r"expected from 0 to 2 numbers below 2, got 3"),
    ],
    ids=[
        *("above", "negative", "unnatural", "name", "descending", "twice", "beyond", "under"),
        *("characters", "limit", "count"),
    ],
)
def test_bad_values_are_refused(write: object, sentence: str) -> None:
    writer = BitWriter()
    with pytest.raises(ValueError, match=sentence):
        write(writer)  # type: ignore[operator]
    assert len(writer) == 0


@pytest.mark.parametrize(
    ("method", "arguments", "length"),
    [
        ("below", (0, 1), 0),
        ("natural", (1000,), 16),
        ("choice", ("sparse", NAMES), 2),
        ("subset", ([3, 17, 40], 64), 16),  # three numbers of 6 bits would take 18
        ("bits", ("0101",), 4),
    ],
)
def test_lengths_of_single_codes(method: str, arguments: tuple[Any, ...], length: int) -> None:
    writer = BitWriter()
    getattr(writer, method)(*arguments)
    assert len(writer) == length


def test_single_codes_are_read() -> None:
    assert BitReader(b"\xff").below(256) == 255
    assert BitReader(b"\x80").natural(limit=10) == 0
    assert BitReader(b"\x40").choice(NAMES) == "sparse"
    writer = BitWriter()
    writer.subset([3, 17, 40], 64)
    assert BitReader(writer.to_bytes()).subset(3, 64) == [3, 17, 40]
    assert BitReader(b"P").bits(4) == "0101"
    reader = BitReader(b"P")
    assert (reader.peek(2), reader.peek(100), reader.position) == ("01", "01010000", 0)
    BitReader(b"").finish()
