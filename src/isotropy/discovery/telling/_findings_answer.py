"""What findings say in words: the answer in a sentence, and what a notebook shows."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from isotropy.discovery.testing._tested import shown_p_value

if TYPE_CHECKING:
    from isotropy.discovery.telling._finding import Finding
    from isotropy.discovery.telling._findings import Findings

_COUNTS = {1: "One", 2: "Two", 3: "Three", 4: "Four"}
_NOTICED = 0.02  # share of a loss below which two models are as good as each other
_EXACT = 1e-3  # share of what there is to learn that a model leaves which has learned all of it


def answer(found: Findings) -> str:
    """The best finding, how sure it is and what its model gains; or that there is none.

    Example:
        >>> from isotropy.discovery import Finding, Findings
        >>> finding = Finding.of("Z(12), cyclic shift", "Z(12)", confirmed=True, p_value=1e-9)
        >>> answer(Findings([finding]))
        'Z(12), cyclic shift (p < 1e-06).'
        >>> answer(Findings())
        'No symmetry was found.'
    """
    best = found.best
    if best is None:
        words = "No symmetry was found"
        if found.nearly:
            words += f", but {found.nearly[0].name} holds nearly: a soft model gains by it"
        elif found.partly:
            words = "No symmetry of the task was found"
            words += f"; {found.partly[0].name} may be built into a network"
        elif found.trivial:
            words += f" but a trivial one: {found.trivial[0].trivial}"
        words += "."
    else:
        words = _of(best)
        others = sum(one.confirmed and one is not best for one in found)
        if others:
            hold = "other holds" if others == 1 else "others hold"
            words += f" {_COUNTS.get(others, others)} {hold} too."
    return f"{words} The search ended early: {found.stopped}." if found.stopped else words


def _of(best: Finding) -> str:
    sure = shown_p_value(best.p_value)
    hedge = ", approximately" if best.approximate else ""
    return f"{best.name}{hedge} ({sure}){_gain(best)}."


def _gain(best: Finding) -> str:
    comparison = best.comparison
    if comparison is None:
        return ""
    if comparison.strict_accuracy is not None and comparison.free_accuracy is not None:
        return (
            f": a model that has it is right in {comparison.strict_accuracy:.1%} of "
            f"{comparison.samples} rows held out, one without in {comparison.free_accuracy:.1%}"
        )
    close = abs(comparison.strict - comparison.free) < 2 * comparison.error
    if abs(comparison.saved) < _NOTICED or (close and comparison.saved > 0):
        return ": a model that has it predicts as well as one without"
    if max(comparison.strict, comparison.free) < _EXACT * comparison.constant:
        return ": models with it and without it predict almost exactly"
    if comparison.saved > 0:
        return f": a model that has it errs {comparison.saved:.0%} less than one without"
    both = f": {comparison.loss} {comparison.strict:.2g} with it, {comparison.free:.2g} without"
    if close:
        both += ", too close to tell apart in these rows"
    return both


def finding_html(finding: Finding) -> str:
    """One finding: its name, what it does, how sure it is and what its model gains.

    Example:
        >>> from isotropy.discovery import Finding
        >>> print(finding_html(Finding.of("S(3)", "S(3)", "any permutation")))
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
