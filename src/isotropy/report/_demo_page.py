"""Several searches on one page: contents, then a part for each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from isotropy.report._document import document, html_path, write_document
from isotropy.report._finding_page import answer_of, as_findings, opening, sections
from isotropy.report._plots import Plots

if TYPE_CHECKING:
    from isotropy.discovery import Finding, Findings

_HEADING = re.compile(r"(</?h)([2-5])\b")


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
