import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from certificate_parts import BitReader, BitWriter
from code_lengths import codebook_bits
from isotropy.certificates import Rejected
from isotropy.certificates._codebooks import read_codebook, write_codebook

EVERY_PATTERN = np.arange(2**16, dtype=np.uint16).view(np.float16)
FINITE = np.unique(EVERY_PATTERN[np.isfinite(EVERY_PATTERN)])


def codebooks() -> st.SearchStrategy[NDArray[np.float16]]:
    chosen = st.sets(st.integers(0, len(FINITE) - 1), min_size=1, max_size=20)
    return chosen.map(lambda places: FINITE[sorted(places)])


def symmetric(levels: NDArray[np.float16]) -> NDArray[np.float16]:
    return np.unique(np.concatenate([levels, -levels]) + np.float16(0))


@pytest.mark.parametrize("levels", [1, 2, 3, 7, 15])
def test_a_codebook_is_charged_as_a_set(levels: int) -> None:
    assert len(FINITE) == 63487
    general = FINITE[1000 : 1000 + levels]
    writer = BitWriter()
    write_codebook(writer, general)
    exact = math.ceil(math.log2(math.comb(63487, levels)))
    assert len(writer) == codebook_bits(general) == 1 + exact <= 1 + 16 * levels
    pairs = FINITE[FINITE > 0][7 : 7 + levels // 2]
    zero = np.zeros(levels % 2, np.float16)
    mirrored = np.concatenate([-pairs[::-1], zero, pairs])
    write_codebook(writer, mirrored)
    half = 1 + math.ceil(math.log2(math.comb(31743, levels // 2)))
    assert len(writer) - 1 - exact == codebook_bits(mirrored) == half


@given(codebooks(), st.booleans())
def test_codebooks_are_read_again(levels: NDArray[np.float16], mirror: bool) -> None:
    levels = symmetric(levels) if mirror else levels
    writer = BitWriter()
    write_codebook(writer, levels)
    assert len(writer) == codebook_bits(levels)
    reader = BitReader(writer.to_bytes())
    read = read_codebook(reader, len(levels))
    assert read.dtype == np.float16
    assert read.tolist() == levels.tolist()
    assert reader.position == len(writer)


def test_every_single_level() -> None:
    for place in (*range(0, len(FINITE), 97), len(FINITE) - 1):
        writer = BitWriter()
        write_codebook(writer, FINITE[place : place + 1])
        assert read_codebook(BitReader(writer.to_bytes()), 1)[0] == FINITE[place]


def test_zero_has_one_sign() -> None:
    levels = np.array([-1.0, -0.0, 2.0], np.float16)
    writer, plain = BitWriter(), BitWriter()
    write_codebook(writer, levels)
    write_codebook(plain, levels + np.float16(0))
    assert writer.to_bytes() == plain.to_bytes()
    read = read_codebook(BitReader(writer.to_bytes()), 3)
    assert not np.signbit(read[1])


@given(st.binary(max_size=40), st.integers(1, 16))
@settings(max_examples=200)
def test_any_bytes_are_a_codebook_or_rejected(data: bytes, count: int) -> None:
    reader = BitReader(data)
    try:
        levels = read_codebook(reader, count)
    except Rejected:
        return
    assert len(levels) == count
    assert np.isfinite(levels).all()
    assert (np.diff(levels.astype(float)) > 0).all()
    writer = BitWriter()
    write_codebook(writer, levels)
    written = BitReader(writer.to_bytes()).bits(len(writer))
    assert written == BitReader(data).bits(reader.position)


def test_the_longer_code_of_a_symmetric_codebook_is_rejected() -> None:
    writer = BitWriter()
    writer.below(0, 2)
    writer.subset([31743 - 5, 31743, 31743 + 5], 63487)
    with pytest.raises(Rejected, match=r"expected the shorter code of a symmetric codebook"):
        read_codebook(BitReader(writer.to_bytes()), 3)


@pytest.mark.parametrize("count", [0, 257, 10**6])
def test_too_many_levels_are_rejected(count: int) -> None:
    with pytest.raises(Rejected, match=r"expected from 1 to 256 levels"):
        read_codebook(BitReader(bytes(10)), count)


@pytest.mark.parametrize(
    ("levels", "sentence"),
    [
        (np.array([0.0, 1.0]), r"expected a vector of float16 levels"),
        ([0.0, 1.0], r"expected a vector of float16 levels"),
        (np.zeros((1, 1), np.float16), r"expected a vector of float16 levels"),
        (np.zeros(0, np.float16), r"expected from 1 to 256 levels, got 0"),
        (FINITE[:257], r"expected from 1 to 256 levels, got 257"),
        (np.array([0, np.nan], np.float16), r"expected finite ascending levels"),
        (np.array([0, np.inf], np.float16), r"expected finite ascending levels"),
        (np.array([1, 0], np.float16), r"expected finite ascending levels, got \[1.0, 0.0\]"),
        (np.array([-0.0, 0.0], np.float16), r"expected finite ascending levels"),
    ],
    ids=["double", "list", "matrix", "none", "many", "nan", "inf", "descending", "zeros"],
)
def test_bad_codebooks_are_refused(levels: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        write_codebook(BitWriter(), levels)  # type: ignore[arg-type]
