from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from certificate_parts import random_normals, random_words

_WORD = 1 << 64
_words = st.integers(0, _WORD - 1)


def _mixed(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) % _WORD
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) % _WORD
    return word ^ (word >> 31)


def _splitmix(state: int, count: int) -> list[int]:
    """The published generator, one number after another."""
    numbers = []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) % _WORD
        numbers.append(_mixed(state))
    return numbers


def _unsigned(words: torch.Tensor) -> list[int]:
    return [word % _WORD for word in words.tolist()]


def test_the_twin_is_the_published_generator() -> None:
    # the first numbers of SplitMix64 from 1234567, as its author's code gives them
    assert _splitmix(1234567, 3) == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@settings(max_examples=50, deadline=None)
@given(seed=_words, stream=_words, start=st.integers(0, 1 << 40))
def test_words_are_those_of_splitmix(seed: int, stream: int, start: int) -> None:
    [first] = _splitmix(seed, 1)
    key = _mixed((first + stream) % _WORD)
    skipped = (key + start * 0x9E3779B97F4A7C15) % _WORD
    assert _unsigned(random_words(seed, stream, 5, start=start)) == _splitmix(skipped, 5)


def test_the_first_words_never_change() -> None:
    assert [f"{word:016x}" for word in _unsigned(random_words(0, 0, 3))] == [
        "568a9b0b1a2c05ec",
        "44e5b8b147ef718b",
        "458563ab55521133",
    ]
    assert [f"{word:016x}" for word in _unsigned(random_words(7, 1 << 32, 2))] == [
        "1567d047f75bdadd",
        "ccf805727db2102f",
    ]


def test_a_normal_is_the_sum_of_the_bytes_of_its_word() -> None:
    words = _unsigned(random_words(3, 4, 1000, start=5))
    sums = [sum(word.to_bytes(8, "little")) for word in words]
    expected = [(total - 8 * 127.5) / (8 * (256**2 - 1) / 12) ** 0.5 for total in sums]
    torch.testing.assert_close(
        random_normals(3, 4, 1000, start=5),
        torch.tensor(expected, dtype=torch.float64),
        rtol=1e-15,
        atol=0,
    )


def test_normals_look_normal() -> None:
    count = 1_000_000
    numbers = random_normals(11, 12, count)
    # five deviations of each estimate: 1/√n, √(2/n), √(6/n), √(24/n)
    assert abs(float(numbers.mean())) < 5 / count**0.5
    assert abs(float(numbers.var()) - 1) < 5 * (2 / count) ** 0.5
    assert abs(float((numbers**3).mean())) < 5 * (6 / count) ** 0.5
    # a sum of 8 uniform numbers out of 256 has excess kurtosis -6/5 · (256² + 1)/(256² - 1) / 8
    assert abs(float((numbers**4).mean()) - 3 + 0.15) < 5 * (24 / count) ** 0.5
    assert float(numbers.abs().max()) <= 4.88


@pytest.mark.parametrize("lag", [1, 2, 64, 1000])
def test_numbers_of_a_stream_are_uncorrelated(lag: int) -> None:
    numbers = random_normals(1, 0, 200_000)
    assert abs(float((numbers[lag:] * numbers[:-lag]).mean())) < 5 / (200_000 - lag) ** 0.5


@pytest.mark.parametrize("other", [(0, 1), (1, 0), (1, 1), (0, 1 << 32)], ids=str)
def test_streams_and_seeds_are_uncorrelated(other: tuple[int, int]) -> None:
    product = random_normals(0, 0, 200_000) * random_normals(*other, 200_000)
    assert abs(float(product.mean())) < 5 / 200_000**0.5


def test_every_bit_is_fair() -> None:
    words = random_words(5, 6, 100_000)
    ones = torch.stack([(words >> bit & 1).sum() for bit in range(64)])
    assert float((ones / 100_000 - 0.5).abs().max()) < 5 * 0.5 / 100_000**0.5


def test_dtype_is_a_cast() -> None:
    assert torch.equal(
        random_normals(1, 2, 100, dtype=torch.float32), random_normals(1, 2, 100).float()
    )


@pytest.mark.parametrize("count", [0, 1])
def test_few_numbers(count: int) -> None:
    assert random_words(0, 0, count).shape == random_normals(0, 0, count).shape == (count,)


@pytest.mark.parametrize(
    ("seed", "stream", "sentence"),
    [
        (-1, 0, r"expected a seed from 0 to 2⁶⁴ - 1, got -1"),
        (1 << 64, 0, r"expected a seed from 0 to 2⁶⁴ - 1, got 18446744073709551616"),
        (0, -1, r"expected a stream from 0 to 2⁶⁴ - 1, got -1"),
        (0, 1 << 64, r"expected a stream from 0 to 2⁶⁴ - 1, got 18446744073709551616"),
    ],
    ids=["seed below", "seed above", "stream below", "stream above"],
)
def test_seeds_and_streams_are_words(seed: int, stream: int, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        random_words(seed, stream, 1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_gpu_gives_the_same_bits() -> None:
    assert torch.equal(random_words(9, 8, 5000, device="cuda").cpu(), random_words(9, 8, 5000))
    assert torch.equal(random_normals(9, 8, 5000, device="cuda").cpu(), random_normals(9, 8, 5000))
