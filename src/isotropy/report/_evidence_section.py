"""The evidence: every finding in a table, and what each costs beside the others in a plot."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from isotropy.report._finding_tables import html_table
from isotropy.report._plots import Plots, plot_axis, plot_text
from isotropy.report._words import NEGLIGIBLE, percent, short_name, short_number, three_digits

if TYPE_CHECKING:
    from isotropy.discovery import Finding, Findings

SMALLEST_P_VALUE = 1e-6  # the normal approximation of the test says nothing of smaller chances
_MOST_ROWS = 30
_ROW, _FRAME = 27.0, 74.0  # heights in pixels
_FARTHEST = 1.5  # cost that still has a place of its own in the plot
_COLUMNS = ("symmetry", "verdict", "cost", "loss", "right", "error", "bound")
_HEADS = {
    "loss": "loss with / without",
    "right": "classes right with / without",
    "error": "equivariance error",
    "bound": "certified risk with / without",
}


def evidence_section(found: Findings, plots: Plots) -> Iterator[str]:
    """All findings ranked, the surest first; nothing where there are none."""
    shown = ranked(found)
    if not shown:
        return
    rows = [_row(finding) for finding in shown]
    yield (
        "<section class='evidence'><h2>The evidence</h2><p>What a symmetry costs is a share of "
        "what can be learned, measured on samples set aside. Models with and without it were "
        "fitted to the same rows."
        f"</p>{html_table(rows, _COLUMNS, _HEADS)}{_certificate_words(shown)}"
        f"{_effects(found, shown, plots)}</section>"
    )


def ranked(found: Findings) -> list[Finding]:
    """What is not trivial: the best, then what is confirmed, then the rest, then what is close.

    Example:
        >>> from isotropy.discovery import Finding, Findings
        >>> weak, sure = (Finding.of(n, n, confirmed=n == "D(4)") for n in ("S(2)", "D(4)"))
        >>> [finding.name for finding in ranked(Findings([weak, sure]))][0]
        'D(4)'
    """
    best = found.best
    claims = [finding for finding in found if not finding.trivial]
    claims.sort(key=lambda finding: (finding is not best, not finding.confirmed))
    return [*claims, *found.nearly]


def p_value_words(p_value: float) -> str:
    """A p-value as text.

    Example:
        >>> p_value_words(0.0123), p_value_words(1e-46)
        ('p = 0.012', 'p < 10⁻⁶')
    """
    return "p < 10⁻⁶" if p_value < SMALLEST_P_VALUE else f"p = {short_number(p_value)}"


def _row(finding: Finding) -> dict[str, Any]:
    comparison, certified = finding.comparison, finding.certificates or {}
    row: dict[str, Any] = {
        "symmetry": (finding.name, finding.action),
        "verdict": (finding.verdict, p_value_words(finding.p_value) if finding.samples else ""),
        "cost": _cost(finding),
    }
    if comparison is not None:
        row["loss"] = (
            f"{three_digits(comparison.strict)} / {three_digits(comparison.free)}",
            comparison.loss,
        )
        if comparison.strict_accuracy is not None and comparison.free_accuracy is not None:
            row["right"] = f"{comparison.strict_accuracy:.1%} / {comparison.free_accuracy:.1%}"
    if finding.equivariance_error is not None:
        row["error"] = short_number(float(finding.equivariance_error))
    if "with" in certified and "without" in certified:
        row["bound"] = " / ".join(_bound(certified[side]) for side in ("with", "without"))
    return row


def _cost(finding: Finding) -> tuple[str, str] | str:
    if not finding.samples:
        return "not tested"
    if math.isnan(finding.effect):
        return "nothing can be learned"
    low, high = finding.interval
    limits = ""
    if not (math.isinf(low) or math.isinf(high)):
        limits = f"{_limit(low)} to {_limit(high)}, each limit at 95 %; "
    return percent(finding.effect), f"{limits}margin {percent(finding.margin)}"


def _limit(share: float) -> str:
    return "0 %" if abs(share) < NEGLIGIBLE else percent(share)


def _bound(certificate: Mapping[str, Any]) -> str:
    bound = certificate.get("bound")
    return "–" if not isinstance(bound, int | float) else f"{100 * bound:.1f} %"


def _certificate_words(shown: Sequence[Finding]) -> str:
    """What certificates say beyond their bounds, or why there are none."""
    lines = []
    for finding in shown:
        certified = finding.certificates or {}
        if certified.get("reason"):
            lines.append(
                f"{finding.name}: no certificates, {str(certified['reason']).rstrip('.')}."
            )
        elif certified.get("verdict"):
            lines.append(f"{finding.name}: {certified['verdict']}.")
        elif "with" in certified and "without" in certified:
            bits = [_bits(certified[side]) for side in ("with", "without")]
            if all(bits):
                lines.append(f"{finding.name}: {bits[0]} with the symmetry, {bits[1]} without.")
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<h3>Certificates</h3><ul class='aside'>{items}</ul>" if items else ""


def _bits(certificate: Mapping[str, Any]) -> str:
    bits = certificate.get("message_bits", certificate.get("bits"))
    error = certificate.get("train_error", certificate.get("error"))
    if not isinstance(bits, int | float):
        return ""
    words = f"a message of {bits:,.0f} bits"
    return words if error is None else f"{words} that errs on {100 * float(error):.1f} % of rows"


def _effects(found: Findings, shown: Sequence[Finding], plots: Plots) -> str:
    """What each costs, as points with intervals on one line; where there are two to compare."""
    tested = [one for one in shown if one.samples and not math.isnan(one.effect)]
    points = [(one.name, one.effect, one.interval, one.confirmed, one.verdict) for one in tested]
    named = {one.name for one in tested}
    for tried in found.tried:
        if isinstance(tried, Mapping) and tried.get("name") not in named:
            effect, sure = tried.get("effect"), bool(tried.get("confirmed"))
            if isinstance(effect, int | float) and math.isfinite(effect):
                words = "confirmed" if sure else "not confirmed"
                unknown = (-math.inf, math.inf)
                points.append((str(tried.get("name", "")), effect, unknown, sure, words))
    left = len(points) - _MOST_ROWS
    points = points[:_MOST_ROWS]
    if len(points) < 2:
        return ""
    figure = _effect_figure(points, {one.margin for one in tested})
    label = "what each symmetry costs: " + "; ".join(
        f"{name} {percent(effect)}, {words}" for name, effect, _, _, words in points[:8]
    )
    more = f" The first {_MOST_ROWS} are shown." if left > 0 else ""
    return (
        f"<figure class='block'>{plots.add(figure, label, _ROW * len(points) + _FRAME)}"
        "<figcaption>What each symmetry costs, with limits at 95 % each where it was tested: a "
        "full dot is confirmed, a cross is not. Shaded: what counts as a symmetry."
        f"{more}</figcaption></figure>"
    )


def _effect_figure(
    points: Sequence[tuple[str, float, tuple[float, float], bool, str]], margins: set[float]
) -> dict[str, Any]:
    places = list(range(len(points)))
    costs = [min(max(effect, -_FARTHEST), _FARTHEST) for _, effect, _, _, _ in points]
    bounded = [all(map(math.isfinite, interval)) for _, _, interval, _, _ in points]
    limits = [
        tuple(min(max(end, -_FARTHEST), _FARTHEST) for end in interval)
        for _, _, interval, _, _ in points
    ]
    colours = ["var(--sure)" if sure else "var(--not)" for *_, sure, _ in points]
    intervals = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": list(limits[place]),
            "y": [place, place],
            "line": {"color": colours[place], "width": 3},
            "hoverinfo": "skip",
        }
        for place in places
        if bounded[place]
    ]
    dots = {
        "type": "scatter",
        "mode": "markers",
        "x": costs,
        "y": places,
        "text": [
            f"{plot_text(name)}<br>{plot_text(percent(effect))}, {words}"
            for name, effect, _, _, words in points
        ],
        "hovertemplate": "%{text}<extra></extra>",
        "marker": {
            "size": 11,
            "color": colours,
            "symbol": ["circle" if sure else "x" for *_, sure, _ in points],
        },
    }
    names = [plot_text(short_name(name)) for name, *_ in points]
    lowest = min([0.0, *costs, *(low for (low, _), ok in zip(limits, bounded, strict=True) if ok)])
    highest = max([*costs, *(2 * margin for margin in margins), 0.1])
    shapes = [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": lowest - 1,
            "x1": margins.copy().pop(),
            "y0": 0,
            "y1": 1,
            "line": {"width": 0},
            "fillcolor": "var(--inside)",
            "layer": "below",
        }
    ]
    room = 0.06 * (highest - lowest)
    layout = {
        "margin": {"l": 10, "r": 10, "t": 8, "b": 40},
        "hovermode": "closest",
        "shapes": shapes if len(margins) == 1 else [],
        "xaxis": plot_axis(
            title="cost", tickformat=".0%", range=[lowest - room, highest + room], nticks=6
        ),
        "yaxis": plot_axis(
            tickvals=places, ticktext=names, range=[len(points) - 0.4, -0.6], showgrid=False
        ),
    }
    return {"data": [*intervals, dots], "layout": layout}
