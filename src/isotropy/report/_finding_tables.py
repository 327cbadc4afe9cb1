"""Tables of a page about findings: what was tried, with verdicts and numbers in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from isotropy.discovery.claims._statement import ContinuousDetails
from isotropy.report._words import percent, short_number

if TYPE_CHECKING:
    from isotropy.discovery import Finding

_LONG = 24  # words of a table that need a column of some width
_HEADS = {"chance": "by coincidence", "effect": "cost", "p_value": "p", "confirmed": "verdict"}
_CLASS_HEADS = {"action": "motions", "title": "group", "chosen": "verdict"}
_DISCRETE_HEADS = {**_HEADS, "name": "transformation", "holds": "verdict"}
_CLASS = ("action", "chosen", "title", "dimension", "unknowns", "gap", "exact")
_SURE = 1e-6  # smaller p-values of a normal approximation say no more
_DISCRETE = ("name", "holds", "p_value", "effect")
_SOFT = ("model", "loss", "gain", "error")
_SOFT_HEADS = {"loss": "mean loss", "gain": "above the soft model", "error": "standard error"}
_VERDICTS = {  # of what is true, and of what is not
    "confirmed": ("confirmed", "not confirmed"),
    "chosen": ("chosen", ""),
    "exact": ("yes", "no"),
    "holds": ("holds", "does not hold"),
}
_MARK = " class='chosen'"


def finding_tables(finding: Finding) -> Iterator[str]:
    """The classes of actions that were looked at, and what holds beyond the continuous group."""
    details = finding.details
    if isinstance(details, ContinuousDetails) and details.classes:
        rows = [
            {**one, "action": f"{one.get('action', '')} ({one['note']})"}
            if one.get("note")
            else one
            for one in details.classes
        ]
        yield (
            "<h3>Kinds of motion looked for</h3><p class='aside'>Each is a space of so many "
            "unknowns, in which a group of some dimension was found. The gap says how clearly the "
            "motions outside the group stand apart. A group is exact where noise alone explains "
            f"what error it has.</p>{html_table(rows, _CLASS, _CLASS_HEADS)}"
        )
    if isinstance(details, ContinuousDetails) and details.discrete:
        shown = [{**one, "holds": _verdict_of(one)} for one in details.discrete]
        yield (
            "<h3>Beyond the continuous group</h3><p class='aside'>Single transformations that no "
            f"path within the group leads to.</p>{html_table(shown, _DISCRETE, _DISCRETE_HEADS)}"
        )


def soft_table(finding: Finding) -> str:
    """What softening gains, in a line and a table; nothing where there is no soft model."""
    if finding.soft is None:
        return ""
    comparison = finding.soft.comparison
    rows: list[dict[str, Any]] = [
        {"model": "soft model", "loss": comparison.soft},
        {
            "model": "strict model",
            "loss": comparison.strict,
            "gain": comparison.better_than_strict,
            "error": comparison.strict_error,
        },
        {
            "model": "free predictor",
            "loss": comparison.free,
            "gain": comparison.better_than_free,
            "error": comparison.free_error,
        },
    ]
    sure = (
        f"p = {short_number(comparison.p_value)}" if comparison.p_value >= _SURE else "p &lt; 10⁻⁶"
    )
    return (
        "<h3>A soft model</h3><p>It prefers the symmetry and is not bound to it. All three were "
        f"fitted to the same rows; these are mean losses on {comparison.samples} samples set "
        "aside. That the soft model is no better than the free predictor has "
        f"<b class='number'>{sure}</b>.</p>"
        f"{html_table(rows, _SOFT, _SOFT_HEADS)}"
    )


def html_table(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str] | None = None,
    heads: Mapping[str, str] = _HEADS,
) -> str:
    """Rows with the columns given, less those that are empty; or with all that they have."""
    present = list(dict.fromkeys(key for row in rows for key in row))
    if columns is not None:
        present = [key for key in columns if any(row.get(key) not in (None, "") for row in rows)]
    named = {key: escape(str(heads.get(key, key))) for key in present}
    top = "".join(f"<th scope='col'>{head}</th>" for head in named.values())
    lines = (
        f"<tr{_MARK if row.get('chosen') is True else ''}>"
        f"{''.join(_cell(key, row.get(key, ''), head) for key, head in named.items())}</tr>"
        for row in rows
    )
    return f"<div class='scroll'><table><tr>{top}</tr>{''.join(lines)}</table></div>"


def _cell(key: str, value: Any, head: str) -> str:
    """A cell that knows the head of its column, for screens with no room for columns.

    A pair of texts is what it says and, in small letters, what explains it.
    """
    small = ""
    if isinstance(value, tuple):  # words, and others that explain them
        value, rest = value
        small = f" <small>{escape(rest)}</small>" if rest else ""
    kind, words = _kind_and_words(key, value)
    named = f" class='{kind}'" if kind else ""
    return f"<td{named} data-head='{head}'>{escape(words)}{small}</td>"


def _kind_and_words(key: str, value: Any) -> tuple[str, str]:
    if isinstance(value, bool) and key in _VERDICTS:
        yes, no = _VERDICTS[key]
        return ("number sure", yes) if value else ("number not", no)
    if key == "verdict":
        return ("sure" if value == "confirmed" else "not"), str(value)
    if value is None or value != value:
        return "", "–"
    if key == "p_value" and isinstance(value, float) and value < _SURE:
        return "number", "< 10⁻⁶"
    if isinstance(value, float):
        return "number", percent(value) if key == "effect" else short_number(value)
    return "long" if len(str(value)) > _LONG else "", str(value)


def _verdict_of(one: Mapping[str, Any]) -> bool | str:
    holds = one.get("holds")
    return bool(holds) if holds is not None and one.get("testable", True) else "cannot be told"
