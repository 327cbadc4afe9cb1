import math
from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from certificate_parts import BitReader, BitWriter
from code_lengths import counts_bits, sequence_bits
from isotropy.certificates import Goal, Hypothesis, Rejected, _sequences
from isotropy.certificates._sequences import (
    BLOCK,
    MOST_LEVELS,
    MOST_SYMBOLS,
    read_sequence,
    write_sequence,
)


def code(symbols: object, levels: int) -> str:
    writer = BitWriter()
    write_sequence(writer, symbols, levels)  # type: ignore[arg-type]
    return BitReader(writer.to_bytes()).bits(len(writer))


def log2_multinomial(counts: list[int]) -> float:
    return (math.lgamma(sum(counts) + 1) - sum(math.lgamma(c + 1) for c in counts)) / math.log(2)


def entropy_bits(symbols: NDArray[np.int64]) -> float:
    n = len(symbols)
    return -sum(c * math.log2(c / n) for c in Counter(symbols.tolist()).values())


@pytest.mark.parametrize(
    ("length", "levels"), [(1, 2), (4, 2), (9, 2), (1, 3), (5, 3), (6, 4), (4, 5), (3, 6)]
)
def test_every_sequence_has_its_own_code(length: int, levels: int) -> None:
    codes = [code(symbols, levels) for symbols in product(range(levels), repeat=length)]
    assert len(set(codes)) == levels**length
    assert not any(b.startswith(a) for a, b in pairwise(sorted(codes)))
    kraft = math.fsum(2.0 ** -len(c) for c in codes)
    # one bit for the mode, and less than one for each of counts and arrangement
    assert 1 / 8 < kraft <= 1


@pytest.mark.parametrize(("length", "levels"), [(4, 2), (5, 3), (5, 4), (3, 5)])
def test_lengths_are_the_closed_forms(length: int, levels: int) -> None:
    everything = list(product(range(levels), repeat=length))
    with_counts = Counter(tuple(sorted(s)) for s in everything)
    with_classes = Counter(tuple(sorted(min(i, levels - 1 - i) for i in s)) for s in everything)
    classes = (levels + 1) // 2
    of_counts = math.ceil(math.log2(len(with_counts)))
    of_classes = math.ceil(math.log2(math.comb(length + classes - 1, length)))
    for symbols in everything:
        arrangements = with_counts[tuple(sorted(symbols))]
        # how many sequences have these classes, all their sides included
        folded = with_classes[tuple(sorted(min(i, levels - 1 - i) for i in symbols))]
        plain = of_counts + math.ceil(math.log2(arrangements))
        mirrored = of_classes + math.ceil(math.log2(folded))
        assert len(code(symbols, levels)) == 1 + min(plain, mirrored)


def test_the_plain_code_is_lexicographic() -> None:
    """Counts too lopsided to be mirrored: their arrangements are numbered in order."""
    symbols = sorted(set(_arrangements_of([0, 0, 0, 0, 1, 1, 1, 1, 2])))
    codes = [code(s, 5) for s in symbols]
    assert len({len(c) for c in codes}) == 1
    width = math.ceil(math.log2(len(symbols)))
    assert codes[0][0] == "0"
    assert [int(c[-width:], 2) for c in codes] == list(range(630))


def _arrangements_of(symbols: list[int]) -> list[tuple[int, ...]]:
    if not symbols:
        return [()]
    return [
        (first, *rest)
        for first in sorted(set(symbols))
        for at in [symbols.index(first)]
        for rest in _arrangements_of(symbols[:at] + symbols[at + 1 :])
    ]


# counts of normal numbers on equal bins of ±max|w|, and log₂ of their multinomial coefficients
NORMAL = [
    ([6, 38, 253, 435, 227, 40, 1], 1907.0, 1950),
    ([27, 202, 839, 1300, 854, 256, 22], 7442.4, 7496),
    ([4, 56, 243, 1007, 2273, 2833, 2233, 1035, 273, 39, 4], 25058.4, 25146),
]


@pytest.mark.parametrize(("counts", "published", "bits"), NORMAL, ids=["1000", "3500", "10000"])
def test_normal_weights(counts: list[int], published: float, bits: int) -> None:
    assert log2_multinomial(counts) == pytest.approx(published, abs=0.05)
    levels, size = len(counts), sum(counts)
    symbols = np.random.default_rng(0).permutation(np.repeat(np.arange(levels), counts))
    writer = BitWriter()
    write_sequence(writer, symbols, levels)
    assert len(writer) == counts_bits(counts) == bits
    composition = math.ceil(math.log2(math.comb(size + levels - 1, levels - 1)))
    assert bits <= 1 + composition + math.ceil(published)
    # a mirrored code pays for each pair with a bit a symbol, and gets the counts at half price
    folded = [a + b for a, b in zip(counts[: levels // 2], counts[::-1], strict=False)]
    half = math.ceil(math.log2(math.comb(size + levels // 2, levels // 2)))
    classes = math.ceil(log2_multinomial([*folded, counts[levels // 2]]))
    assert bits == 1 + half + classes + sum(folded)
    assert (read_sequence(BitReader(writer.to_bytes()), size, levels) == symbols).all()


@st.composite
def sequences(draw: st.DrawFn) -> tuple[NDArray[np.int64], int]:
    levels = draw(st.integers(1, 12))
    length = draw(st.integers(0, 400))
    seed = draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(levels, draw(st.sampled_from([0.05, 0.5, 5.0]))))
    return rng.choice(levels, length, p=shares), levels


@given(sequences())
def test_sequences_are_read_again(drawn: tuple[NDArray[np.int64], int]) -> None:
    symbols, levels = drawn
    writer = BitWriter()
    write_sequence(writer, symbols, levels)
    assert len(writer) == sequence_bits(symbols, levels)
    n = len(symbols)
    composition = math.ceil(math.log2(math.comb(n + levels - 1, levels - 1)))
    assert len(writer) <= math.ceil(entropy_bits(symbols) - 1e-9) + composition + (levels > 1)
    writer.natural(77)
    reader = BitReader(writer.to_bytes())
    assert (read_sequence(reader, n, levels) == symbols).all()
    assert reader.natural() == 77


@given(st.binary(max_size=60), st.integers(0, 60), st.integers(1, 9))
@settings(max_examples=200)
def test_any_bytes_are_a_sequence_or_rejected(data: bytes, length: int, levels: int) -> None:
    reader = BitReader(data)
    try:
        symbols = read_sequence(reader, length, levels)
    except Rejected:
        return
    assert symbols.shape == (length,)
    assert code(symbols, levels) == BitReader(data).bits(reader.position)


def test_the_longer_of_two_codes_is_rejected() -> None:
    symbols = [0, 0, 1, 0]
    writer = BitWriter()
    writer.below(1, 2)
    _sequences._write_arrangement(writer, np.array([1, 1, 0, 1]), [1, 3])
    writer.bits("000")
    assert len(code(symbols, 3)) < len(writer)
    with pytest.raises(Rejected, match=r"expected the shorter code of a sequence"):
        read_sequence(BitReader(writer.to_bytes()), 4, 3)


def test_long_sequences_are_cut_into_blocks() -> None:
    rng = np.random.default_rng(3)
    symbols = np.full(2 * BLOCK + 5, 3)
    few = rng.random(len(symbols)) < 0.01
    symbols[few] = rng.integers(0, 7, few.sum())
    writer = BitWriter()
    write_sequence(writer, symbols, 7)
    assert len(writer) == sequence_bits(symbols, 7)
    starts = (0, BLOCK, 2 * BLOCK)
    assert len(writer) == sum(len(code(symbols[s : s + BLOCK], 7)) for s in starts)
    assert len(writer) <= entropy_bits(symbols) + 3 * 80
    assert (read_sequence(BitReader(writer.to_bytes()), len(symbols), 7) == symbols).all()


def test_what_takes_no_bits() -> None:
    assert code([], 5) == code([0] * 9, 1) == ""
    assert read_sequence(BitReader(b""), 0, 5).shape == (0,)
    assert read_sequence(BitReader(b""), 9, 1).tolist() == [0] * 9
    assert sequence_bits([], 5) == counts_bits([9]) == 0


@pytest.mark.parametrize("length", [-1, MOST_SYMBOLS + 1, 10**9, 10**100])
def test_too_many_symbols_are_rejected(length: int) -> None:
    with pytest.raises(Rejected, match=r"expected from 0 to 4194304 symbols"):
        read_sequence(BitReader(bytes(10)), length, 1)


@pytest.mark.parametrize("levels", [0, MOST_LEVELS + 1, 10**6])
def test_too_many_levels_are_rejected(levels: int) -> None:
    with pytest.raises(Rejected, match=r"expected from 1 to 256 levels"):
        read_sequence(BitReader(bytes(10)), 1000, levels)
    with pytest.raises(ValueError, match=r"expected from 1 to 256 levels, got"):
        write_sequence(BitWriter(), [0], levels)


@pytest.mark.parametrize(
    ("symbols", "sentence"),
    [
        ([0, 3], r"expected integers from 0 and below 3, got int64 from 0 to 3"),
        ([-1, 2], r"expected integers from 0 and below 3, got int64 from -1 to 2"),
        ([0.0, 1.0], r"expected integers from 0 and below 3, got float64"),
        ([[0, 1]], r"expected a sequence of at most 4194304 symbols, got shape \(1, 2\)"),
        (np.zeros(MOST_SYMBOLS + 1, np.int8), r"got shape \(4194305,\)"),
    ],
    ids=["above", "negative", "fractions", "matrix", "long"],
)
def test_bad_sequences_are_refused(symbols: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        write_sequence(BitWriter(), symbols, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("symbols", "levels", "sentence"),
    [
        ([0, 3], 3, r"expected integers from 0 and below 3, got int64 from 0 to 3"),
        ([-1, 2], 3, r"expected integers from 0 and below 3, got int64 from -1 to 2"),
        ([0.5, 1.0], 3, r"expected integers from 0 and below 3, got float64"),
        ([0, 1], 257, r"expected from 1 to 256 levels, got 257"),
    ],
    ids=["above", "negative", "fractions", "levels"],
)
def test_a_network_whose_symbols_cannot_be_counted_has_no_message(
    symbols: list[float], levels: int, sentence: str
) -> None:
    codebook = np.arange(levels).astype(np.float16)
    net = Hypothesis(None, Goal("classification", 2), np.array(symbols), codebook)
    with pytest.raises(ValueError, match=sentence):
        net.to_message()
