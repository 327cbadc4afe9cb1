"""Findings as a notebook shows them: a few lines of HTML that need no script."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from isotropy.discovery.telling._finding import Finding
    from isotropy.discovery.telling._findings import Findings


def finding_html(finding: Finding) -> str:
    """One finding: its name, what it does, how sure it is and what its model gains.

    Example:
        >>> from isotropy.discovery import Finding
        >>> print(finding_html(Finding("S(3)", "S(3)", "any permutation", "swaps")))
        <p><b>S(3)</b>: not confirmed (p = 1), nothing can be learned<br>any permutation</p>
    """
    rest = str(finding)[len(finding.name) :]
    lines = [f"<b>{escape(finding.name)}</b>{escape(rest)}", escape(finding.action)]
    if finding.comparison is not None:
        lines.append(escape(str(finding.comparison)))
    if finding.soft is not None:
        lines.append(escape(str(finding.soft.comparison)))
    return f"<p>{'<br>'.join(line for line in lines if line)}</p>"


def findings_html(found: Findings) -> str:
    """All findings as a table under the answer, and what else there is to know.

    Example:
        >>> from isotropy.discovery import Findings
        >>> findings_html(Findings())
        '<p><b>No symmetry was found.</b></p>'
    """
    parts = [f"<p><b>{escape(found.answer)}</b></p>"]
    if len(found):
        heads = ("group", "action", "p", "cost", "with the symmetry", "without")
        top = "".join(f"<th scope='col'>{head}</th>" for head in heads)
        parts.append(f"<table><tr>{top}</tr>{''.join(map(_row, found))}</table>")
    lines = [str(one) for one in (*found.nearly, *found.trivial)]
    lines += [found.reading] if found.reading else []
    lines += found.notes
    if lines:
        items = "".join(f"<li>{escape(line)}</li>" for line in lines)
        parts.append(f"<details><summary>more</summary><ul>{items}</ul></details>")
    return "".join(parts)


def _row(finding: Finding) -> str:
    from isotropy.discovery.telling._finding import shown_p_value

    comparison = finding.comparison
    losses = (
        ("–", "–") if comparison is None else (f"{comparison.strict:.3g}", f"{comparison.free:.3g}")
    )
    cells = (
        finding.name,
        finding.action,
        shown_p_value(finding.p_value).removeprefix("p ").removeprefix("= "),
        f"{100 * finding.effect:.2g} %",
        *losses,
    )
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"
