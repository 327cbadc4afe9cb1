"""What a check found, and what the bound rests on that no computation can check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from isotropy.certificates._certificate import Certificate
from isotropy.certificates._hypothesis import Hypothesis

# a larger one that nobody asked for may have been chosen for the bound that it gives
USUAL_DELTA = 0.05

ALWAYS_ASSUMED = (
    "the rows are independent draws from the distribution that the risk refers to; delta, and "
    "which classes there are, was known beforehand",
)


@dataclass(frozen=True)
class Verdict:
    """What `verify` found.

    Args:
        verdict: "verified" where all that the bound rests on was computed anew, but for the rows
            being independent draws; "verified given" where it rests on more that no computation
            can check, which ``reason`` names; "rejected" where a claim does not hold.
        bound: The bound that the bytes and the data give; ``None`` where they give none.
        reason: Why it was rejected, or a sentence that sums up what holds.
        assumes: What no computation can check, for the reader to judge.
        details: Errors, rows, how many stand there more than once, bits, δ, the kind of bound, the
            network, what counts as an error.
    """

    verdict: Literal["verified", "verified given", "rejected"]
    bound: float | None
    reason: str
    assumes: tuple[str, ...] = ()
    details: Any = None

    @property
    def valid(self) -> bool:
        """Whether it is verified, and not only given something that nobody checked."""
        return self.verdict == "verified"

    def __bool__(self) -> bool:
        return self.valid


def unchecked(
    certificate: Certificate,
    hypothesis: Hypothesis,
    start_is_known: bool,
    delta: float | None,
    repeats: int,
) -> tuple[str, ...]:
    """What the bound rests on besides, that nobody has checked."""
    found = []
    if delta is None and certificate.delta > USUAL_DELTA:
        found.append(
            f"delta = {certificate.delta:g}, which is more than the usual {USUAL_DELTA:g}, was "
            "fixed before the rows were seen"
        )
    if repeats:
        found.append(f"the {repeats} rows that repeat an earlier one were drawn so, and not copied")
    if hypothesis.architecture is None:
        found.append(
            f"the module {certificate.model[:80]!r}, its constants and its buffers were made "
            "without looking at the rows"
        )
    if hypothesis.groups:
        names = ", ".join(map(str, hypothesis.groups))
        found.append(f"the module uses no symmetry but {names[:200]}, which is paid for")
    if hypothesis.start == "given" and not start_is_known:
        found.append("the start was fixed before the rows were seen")
    if hypothesis.start == "rows" and not start_is_known:
        found.append(
            f"the start was trained on the {hypothesis.percent} % dealt to it and no other row, "
            "and not chosen among several by how they do on the others"
        )
    return tuple(found)
