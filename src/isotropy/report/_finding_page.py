"""What discovery found, as one page that needs nothing else to be read; or several searches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from isotropy.report._curve_section import curve_section
from isotropy.report._document import document, html_path, write_document
from isotropy.report._evidence_section import evidence_section, ranked
from isotropy.report._finding_cards import finding_card, use_section
from isotropy.report._plots import Plots
from isotropy.report._search_sections import (
    nearly_section,
    partly_section,
    sure_section,
    tried_section,
    trivial_section,
)
from isotropy.report._words import raised

if TYPE_CHECKING:
    from isotropy.discovery import Finding, Findings

_HEADING = re.compile(r"(</?h)([2-5])\b")
_CHANCE = re.compile(r"\bp ([<=]) ")
_POWER = re.compile(r"\b1e(-?)0*(\d+)\b")
_MOST_NOTES = 3  # that are not folded away
_UNCONFIRMED = "that the data confirm"


class DemoCase(NamedTuple):
    """One search, as a part of a page.

    Args:
        title: The heading of its part.
        findings: What was found and tried.
        data: What was searched, in a phrase.
        folder: Where the findings are saved, for the lines that load them.

    Example:
        >>> from isotropy.discovery import Findings
        >>> DemoCase("a", Findings(), "a.npz, 300 rows").folder
        'findings'
    """

    title: str
    findings: Findings | Sequence[Finding]
    data: str = ""
    folder: str = "findings"


def demo_page(
    cases: Iterable[tuple[Any, ...]], *, title: str = "Symmetries found", words: str = ""
) -> str:
    """One HTML page about several searches, with all that it needs inside.

    Example:
        >>> from isotropy.discovery import Findings
        >>> page = demo_page([("a", Findings()), ("b", Findings(), "b.npz, 300 rows")])
        >>> page.count("<section class='case'"), page.count("<h1>")
        (2, 1)
    """
    plots = Plots()
    contents, parts = [], []
    for number, one in enumerate(cases, 1):
        case = DemoCase(*one)
        found, place = as_findings(case.findings), f"case-{number}"
        contents.append(
            f"<li><a href='#{place}'>{escape(case.title)}</a><p>{escape(answer_of(found))}</p></li>"
        )
        parts.append(
            f"<section class='case' id='{place}'><h2>{escape(case.title)}</h2>"
            f"{_deeper(opening(found, case.data) + sections(found, plots, case.folder))}</section>"
        )
    below = f"<p>{escape(words)}</p>" if words else ""
    header = (
        f"<h1>{escape(title)}</h1>\n{below}<nav aria-label='Contents'><ol>{''.join(contents)}</ol>"
        "</nav>"
    )
    return document(title, header, "\n".join(parts), plots)


def write_demo_page(cases: Iterable[tuple[Any, ...]], path: str | Path, **words: str) -> Path:
    """Write one HTML page about several searches, with all that it needs inside.

    Args:
        cases: The searches, each a tuple: its heading, the findings, and if you like the data in
            a phrase and the folder where the findings are saved.
        path: Where to write it, a file that ends in .html.
        words: ``title``, the heading of the page, and ``words`` that come below it.

    Returns:
        The path written.

    Raises:
        ValueError: If the path does not end in .html, or its folder is not there.

    Example:
        >>> import tempfile
        >>> from isotropy.discovery import Findings
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_demo_page([("a", Findings())], Path(folder) / "page.html").name
        'page.html'
    """
    return write_document(demo_page(cases, **words), html_path(path))


def _deeper(html: str) -> str:
    """Headings one level further down; in words of users "<" is escaped, so none is theirs."""
    return _HEADING.sub(lambda found: f"{found[1]}{int(found[2]) + 1}", html)


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


def finding_page(
    findings: Findings | Sequence[Finding],
    *,
    title: str = "Symmetries found",
    data: str = "",
    folder: str = "findings",
) -> str:
    """One HTML page about findings, with all that it needs inside and no link to anything.

    The answer comes first, then the pictures that show it, the evidence, what a symmetry saves,
    what was rejected, and how to use the model. Plots are plotly's; without scripts, still
    pictures and tables stand in their places.

    Args:
        findings: What was found and tried.
        title: The heading.
        data: What was searched, in a phrase: a file, its columns, the number of samples.
        folder: Where the findings are saved, for the lines that load them.

    Returns:
        The text of the page.

    Example:
        >>> from isotropy.discovery import Findings
        >>> page = finding_page(Findings(tried=["all swaps"]), data="data.npz")
        >>> "No symmetry was found" in page
        True
    """
    found, plots = as_findings(findings), Plots()
    header = f"<h1>{escape(title)}</h1>\n{opening(found, data)}"
    return document(title, header, sections(found, plots, folder), plots)


def write_finding_page(
    findings: Findings | Sequence[Finding], path: str | Path, **words: str
) -> Path:
    """Write the page of ``finding_page`` to a file that ends in .html.

    Args:
        findings: What was found and tried.
        path: Where to write it.
        words: ``title``, ``data`` and ``folder`` of ``finding_page``; ``folder`` is that of the
            page where findings are saved beside it.

    Returns:
        The path written.

    Raises:
        ValueError: If the path does not end in .html, or its folder is not there.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_finding_page([], Path(folder) / "page.html").name
        'page.html'
    """
    path = html_path(path)
    if (path.parent / "findings.json").is_file():
        words = {"folder": str(path.parent), **words}
    return write_document(finding_page(findings, **words), path)


def as_findings(findings: Findings | Sequence[Finding]) -> Findings:
    """Findings, of which a mere list says what was found and nothing else."""
    from isotropy.discovery import Findings

    return findings if isinstance(findings, Findings) else Findings(findings)


def opening(found: Findings, data: str = "") -> str:
    """The answer, what was searched and how it was read, as HTML."""
    answer, also, others = answer_of(found).partition(". Also ")
    lines = [f"<p class='answer'>{escape(answer)}{'.' if also else ''}</p>"]
    lines += [f"<p class='claim'>Also {escape(others)}</p>"] if also else []
    about = [data] if data else []
    about += [f"Read as {found.reading}."] if found.reading else []
    lines += [f"<p class='aside'>{escape(' · '.join(about))}</p>"] if about else []
    if found.stopped:
        lines.append(f"<p class='stopped'><b>Ended early:</b> {escape(found.stopped)}</p>")
    items = "".join(f"<li>{escape(note)}</li>" for note in found.notes)
    if items and len(found.notes) > _MOST_NOTES:
        summary = f"<summary>{len(found.notes)} notes on the search</summary>"
        lines.append(f"<details class='aside'>{summary}<ul>{items}</ul></details>")
    elif items:
        lines.append(f"<ul class='aside'>{items}</ul>")
    return "\n".join(lines)


def sections(found: Findings, plots: Plots, folder: str) -> str:
    """All that follows the answer, as HTML."""
    return "\n".join(
        chain(
            *(_found(found, plots), evidence_section(found, plots), curve_section(found, plots)),
            *(partly_section(found, plots), nearly_section(found, plots), trivial_section(found)),
            *(tried_section(found, plots),),
            *(use_section(found, folder), sure_section(found)),
        )
    )


def _found(found: Findings, plots: Plots) -> Iterator[str]:
    sure = [finding for finding in ranked(found) if finding.confirmed]
    if not sure:
        besides = "but what holds trivially" if any(trivial_section(found)) else _UNCONFIRMED
        yield (
            f"<article><p class='claim'>None {besides}. There may be none; it may be of a kind "
            "that was not tried; or the samples may be too few or too noisy to tell.</p></article>"
        )
    yield from (finding_card(finding, plots) for finding in sure)
