"""What holds approximately or trivially, what was tried, and how sure a search is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from isotropy.report._evidence_section import p_value_words
from isotropy.report._finding_cards import finding_card
from isotropy.report._finding_tables import html_table
from isotropy.report._plots import Plots
from isotropy.report._words import percent

if TYPE_CHECKING:
    from isotropy.discovery import Finding, Findings


def nearly_section(found: Findings, plots: Plots) -> Iterator[str]:
    """What is broken, but not so much that a soft model does not profit."""
    words = (
        "Broken too much to be called a symmetry, yet a soft model that prefers it predicts better "
        "than one that does not know of it:"
    )
    yield from _cards("What holds nearly", words, found.nearly, plots)


def partly_section(found: Findings, plots: Plots) -> Iterator[str]:
    """What holds of the first layers of a network, and not of the task."""
    words = (
        "The task as a whole need not have these: the first layers of a network may, and lose "
        "nothing by it."
    )
    yield from _cards("What holds of layers", words, found.partly, plots)


def _cards(head: str, words: str, findings: Sequence[Finding], plots: Plots) -> Iterator[str]:
    if findings:
        cards = "".join(finding_card(finding, plots) for finding in findings)
        yield f"<section><h2>{head}</h2><p>{words}</p>{cards}</section>"


def trivial_section(found: Findings) -> Iterator[str]:
    """What is true for a simpler reason."""
    items = "".join(
        f"<li><b>{escape(one.name)}</b> ({escape(p_value_words(one.p_value))}): "
        f"{escape(one.trivial)}</li>"
        for one in (*found.trivial, *(finding for finding in found if finding.trivial))
    )
    if items:
        yield (
            "<section><h2>What holds trivially</h2><p>True, but for a simpler reason:</p>"
            f"<ul>{items}</ul></section>"
        )


def tried_section(found: Findings, plots: Plots) -> Iterator[str]:
    """What was tried, and the claims that the data did not confirm."""
    looked = "".join(f"<li>{escape(one)}</li>" for one in found.tried if isinstance(one, str))
    rows = [one for one in found.tried if isinstance(one, Mapping)]
    rejected = "".join(
        f"<details class='rejected'><summary>{escape(one.name)}</summary>"
        f"{finding_card(one, plots)}</details>"
        for one in found
        if not one.confirmed and not one.trivial
    )
    if not found.tried and not rejected:
        return
    seconds = f" ({found.seconds:.3g} seconds)" if found.seconds else ""
    yield (
        f"<section><h2>What was tried{seconds}</h2>"
        + rejected
        + (f"<ul>{looked}</ul>" if looked else "")
        + (html_table(rows) if rows else "")
        + "</section>"
    )


def sure_section(found: Findings) -> Iterator[str]:
    """What the test and its p-value mean."""
    margins = {escape(percent(finding.margin)) for finding in (*found, *found.trivial)}
    if margins:
        margin = margins.pop() if len(margins) == 1 else "its margin"
        yield (
            "<h2>How sure is it?</h2><p>Each claim was tested on samples used neither to find the "
            "symmetry nor to fit a model. There, a predictor that was given the symmetry is held "
            "against one that is free of it. The cost is a share of what can be learned, the gap "
            "between the free predictor and one that always gives the same answer: at 0 % the "
            "symmetry is perfect, at 100 % it leaves nothing.</p><p>The p-value is the chance of "
            f"data that speak so clearly for a symmetry that really costs {margin} or more. "
            f"{_correction(found)} where those up to 0.05 are confirmed, the "
            "chance that anything false is confirmed is at most 5 %.</p>"
        )


def _correction(found: Findings) -> str:
    if any(finding.method == "transitions" for finding in found):
        return "Groups are tested one after the other, each only where those before it stand:"
    return "It is corrected for all that was tested:"
