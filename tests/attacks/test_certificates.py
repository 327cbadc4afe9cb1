"""Bytes that nobody vouches for: no crash, no hang, and no claim accepted that is not true.

Whatever is accepted is reproduced by the second verifier. ``make soak`` draws a million.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attacks import certificates
from isotropy.certificates import Certificate, Hypothesis, Rejected

SOAK = Path(__file__).with_name("soak.py")


@pytest.mark.parametrize(
    "base", sorted(set(certificates.bases()), key=attrgetter("name")), ids=attrgetter("name")
)
def test_honest_certificates_are_reproduced(base: certificates.Base) -> None:
    assert certificates.judge(base.content, base) in ("verified", "verified given")


@given(st.binary(max_size=200))
def test_random_bytes_are_no_certificate(content: bytes) -> None:
    for bytes_ in (content, b"isotropy" + content, b"isotropy\1\0" + content):
        with pytest.raises(Rejected):
            Certificate.from_bytes(bytes_)


@settings(max_examples=300)
@given(st.binary(max_size=64))
def test_random_messages_are_rejected_or_canonical(message: bytes) -> None:
    with suppress(Rejected):
        assert Hypothesis.from_message(message).to_message() == message


@pytest.mark.parametrize(
    "attack", [attack for attack, _ in certificates.ATTACKS], ids=lambda a: a.__name__
)
def test_altered_certificates(attack: object) -> None:
    seen = Counter[str]()
    for number in range(25):
        chance = random.Random(f"test {number}")
        base = chance.choice(certificates.bases())
        content = attack(base, chance)  # type: ignore[operator]
        try:
            seen[certificates.judge(content, base)] += 1
        except Exception as error:
            error.add_note(f"{base.name}, case {number}: {content.hex()}")
            raise
    assert seen["rejected"] + seen["over the price"] > 0 or seen["verified"] > 0


def test_a_soak_goes_on_where_it_stopped(tmp_path: Path) -> None:
    def soak(cases: int) -> dict[str, object]:
        options = {"--cases": cases, "--workers": 1, "--out": tmp_path}
        words = [str(word) for pair in options.items() for word in pair]
        told = subprocess.run(
            [sys.executable, str(SOAK), *words], capture_output=True, text=True, check=True
        )
        return dict(json.loads(told.stdout))

    first, again = soak(20), soak(30)
    assert (first["cases"], again["cases"]) == (20, 30)
    assert first["failed"] == again["failed"] == 0


def test_a_start_has_no_weight_whose_rounding_errors_outweigh_the_others() -> None:
    """Weights of 1e37 outside an equivariant space left 1e21 inside, which decided every row."""
    checked = 0
    for base in {base.name: base for base in certificates.bases()}.values():
        header, message, start = certificates.parts(base.content)
        if not start or header["model_digest"] is not None:
            continue
        for weight, allowed in ((65504.0, True), (65505.0, False), (1.2e37, False)):
            values = np.frombuffer(start, "<f4").copy()
            values[0] = weight
            content = certificates.modest(base, message, values.tobytes())
            verdict = certificates.verify(content, base.sample)
            assert ("weights up to 65504" not in verdict.reason) == allowed, verdict
            checked += 1
    assert checked >= 3
