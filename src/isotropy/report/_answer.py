"""The answer in one sentence, as a page sets it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from isotropy.report._words import raised

if TYPE_CHECKING:
    from isotropy.discovery import Findings

_CHANCE = re.compile(r"\bp ([<=]) ")
_POWER = re.compile(r"\b1e(-?)0*(\d+)\b")


def answer_of(found: Findings) -> str:
    r"""What a search found, in one sentence, with powers of ten as people write them.

    Example:
        >>> from isotropy.discovery import Finding, Findings
        >>> sure = Finding.of("S(3)", "S(3)", order=6, confirmed=True, p_value=0.0)
        >>> answer_of(Findings([sure])).replace("\N{NO-BREAK SPACE}", " ")
        'S(3) (p < 10⁻⁶).'
    """
    answer = found.answer
    if found.stopped:  # why it ended has a line of its own
        answer = answer.replace(f" The search ended early: {found.stopped}.", "")
    answer = _POWER.sub(lambda power: f"10{raised(power[1] + power[2])}", answer)
    return _CHANCE.sub("p\N{NO-BREAK SPACE}\\1\N{NO-BREAK SPACE}", answer)
