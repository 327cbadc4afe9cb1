"""What ``isotropy discover`` says to a person."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from isotropy.discovery import Finding, Findings


def discovery_text(found: "Mapping[str, Findings]", saved: "Mapping[str, str]") -> str:
    """The answer in a sentence, then each finding with what there is to know of it."""
    from isotropy._run import time_in_words
    from isotropy._run._terminal_text import terminal_line

    brief = len(found) > 1
    lines: list[str] = []
    for name, findings in found.items():
        lines += [name, f"  {findings.answer}", ""]
        for finding in findings:
            lines += _of_finding(finding, brief)
        for finding in findings.nearly:
            lines += _of_finding(finding, brief)
        lines += [f"  {finding}" for finding in (*findings.partly, *findings.trivial)]
        if brief:
            lines += _helps_and_hurts(findings)
        else:
            lines += [f"  {note}" for note in findings.notes]
            lines += _tried_lines(findings)
        if name in saved:
            lines.append(f"  report: {saved[name]}")
        lines.append("")
    seconds = sum(findings.seconds for findings in found.values())
    lines.append(f"searched for {time_in_words(seconds)}")
    return "\n".join(map(terminal_line, lines))  # a name must not break its line


def _of_finding(finding: "Finding", brief: bool) -> Iterator[str]:
    yield f"  {finding}"
    yield f"    {finding.action}"
    beyond = [
        str(part["name"]) for part in getattr(finding.details, "discrete", ()) if part["holds"]
    ]
    if beyond:
        yield f"    {'hold' if len(beyond) > 1 else 'holds'} too: {', '.join(beyond)}"
    if brief:
        return
    comparison = str(finding.comparison)  # which some notes repeat
    compared = finding.comparison is not None
    for note in finding.notes:
        if not (compared and (note == comparison or note.startswith("mean loss on the "))):
            yield f"    {note}"
    if compared:
        yield f"    {comparison}"
    if finding.equivariance_error is not None:
        yield f"    equivariance error of the model: {finding.equivariance_error:.1e}"
    if finding.soft is not None:
        yield f"    {finding.soft.comparison}"
        yield f"    {finding.soft.comparison.gain}"
    if finding.certificates is not None:
        worth = finding.certificates.get("verdict") or finding.certificates.get("reason")
        if worth:
            yield f"    {worth}"


def _helps_and_hurts(findings: "Findings") -> Iterator[str]:
    """What else was tested, with what it costs."""
    rest = [
        one
        for one in findings.tried
        if isinstance(one, Mapping) and not one["confirmed"] and one.get("effect") is not None
    ]
    if rest:
        costs = ", ".join(f"{one['name']} {_percent(one['effect'])}" for one in rest)
        yield f"  would cost too much: {costs}"


def _tried_lines(findings: "Findings") -> Iterator[str]:
    if findings.tried:
        yield ""
        yield "  tried:"
        yield from (f"    {_tried(one)}" for one in findings.tried)


def _tried(one: "str | Mapping[str, Any]") -> str:
    if isinstance(one, str):
        return one
    from isotropy.discovery.testing._tested import shown_p_value

    effect = one.get("effect")
    cost = ""
    if effect is not None and effect == effect:
        cost = f", {'costs' if effect >= 0 else 'saves'} {_percent(abs(effect))}"
    if one["p_value"] is None:
        return f"{one['name']}: not promising{cost}"
    verdict = "confirmed" if one["confirmed"] else "not confirmed"
    note = f"; {one['note']}" if one.get("note") else ""
    return f"{one['name']}: {verdict} ({shown_p_value(one['p_value'])}){cost}{note}"


def _percent(share: float) -> str:
    percent = 100 * share
    return f"{percent:.2g} %" if abs(percent) < 99.5 else f"{percent:.0f} %"
