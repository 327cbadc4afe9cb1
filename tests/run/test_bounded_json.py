"""JSON from strangers is read as Python reads it, or refused with a sentence."""

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isotropy._run._json import shown, utf8_text
from isotropy.run import bounded_json

LETTERS = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | LETTERS
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.dictionaries(LETTERS, inner), max_leaves=20
)


@given(VALUES, st.booleans())
def test_what_python_writes_is_read_as_it_was(value: Any, plain: bool) -> None:
    text = json.dumps(value, ensure_ascii=plain)
    assert bounded_json(utf8_text(text.encode(), "a note"), "a note", finite=False) == value


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"{}", "expected text as a note, got b'{}'"),
        (None, "expected text as a note, got None"),
        (" " * 2**25 + "1", "expected a note of at most 33554432 bytes, got more"),
        ("[" * 33 + "]" * 33, "expected a note nested at most 32 deep, got deeper JSON"),
        ('{"a":' * 33, "expected a note nested at most 32 deep, got deeper JSON"),
        ("[]," * 400_001, "expected a note of at most 400000 lists and 4000000 values, got more"),
        ("0," * 4_000_001, "expected a note of at most 400000 lists and 4000000 values, got more"),
        ("9" * 4001, "expected numbers of at most 4000 digits in a note, got one of 4001"),
        ("[1e999]", "expected finite numbers in a note, got '1e999'"),
        ("[-Infinity]", "expected finite numbers in a note, got '-Infinity'"),
        ('{"a": 1, "b": 2, "\\u0061": 1}', "expected every name once in a note, got 'a' twice"),
        ('["\\ud83d", "\\ude00"]', "expected Unicode text in a note, got half of a surrogate pair"),
        ('"\ud800"', "expected Unicode text in a note, got half of a surrogate pair"),
        ("[1", "expected a note as JSON, got Expecting ',' delimiter: line 1 column 3 (char 2)"),
    ],
)
def test_anything_else_is_refused(text: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        bounded_json(text, "a note")


def test_what_is_within_bounds_is_read() -> None:
    assert bounded_json('"' + "[" * 500_000 + '\\\\"', "a note") == "[" * 500_000 + "\\"
    assert bounded_json('"\\ud83d\\ude00 \\\\ud800"', "a note") == "\U0001f600 \\ud800"
    assert bounded_json("[" * 40 + "]" * 40, "a note", depth=40)
    nan, infinity = bounded_json("[NaN, -Infinity]", "a note", finite=False)
    assert math.isnan(nan)
    assert infinity == -math.inf


@given(VALUES | st.binary() | st.integers(2**100, 2**20_000))
def test_an_error_repeats_a_value_in_a_few_printable_letters(value: object) -> None:
    text = shown(value)
    assert len(text) <= 63
    assert re.fullmatch(r"[ -~]+", text)
