"""Runs of isotropy discover on one task or several: searched, saved, set as text."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotropy.cli._discover_saving import (
    fingerprint,
    is_complete,
    save_search,
    saved_search,
    with_certificates,
)
from isotropy.cli._verbs import CommonOptions

if TYPE_CHECKING:
    from isotropy._run import ProgressCallback
    from isotropy.certificates._certify_findings import CertifiedFinding
    from isotropy.data import Dataset, Transitions
    from isotropy.discovery import Finding, Findings

    Certified = list[CertifiedFinding | str]

_LOG = logging.getLogger(__name__)
_EXAMPLES = "Three data sets and their symmetries"


def discovery_text(found: Mapping[str, Findings], saved: Mapping[str, str]) -> str:
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


def _of_finding(finding: Finding, brief: bool) -> Iterator[str]:
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


def _helps_and_hurts(findings: Findings) -> Iterator[str]:
    """What else was tested, with what it costs."""
    rest = [
        one
        for one in findings.tried
        if isinstance(one, Mapping) and not one["confirmed"] and one.get("effect") is not None
    ]
    if rest:
        costs = ", ".join(f"{one['name']} {_percent(one['effect'])}" for one in rest)
        yield f"  would cost too much: {costs}"


def _tried_lines(findings: Findings) -> Iterator[str]:
    if findings.tried:
        yield ""
        yield "  tried:"
        yield from (f"    {_tried(one)}" for one in findings.tried)


def _tried(one: str | Mapping[str, Any]) -> str:
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


class DiscoverRun:
    """The options of a call, and what it saves."""

    def __init__(
        self,
        common: CommonOptions,
        asked: dict[str, Any],
        names: tuple[tuple[str, ...], tuple[str, ...]] | None,
        budget: str | None,
        study: str | None,
        folder: Path | None,
        resume: bool,
        examples: bool,
    ) -> None:
        self._common, self._asked, self._names = common, asked, names
        self._budget, self._study, self._folder = budget, study, folder
        self._resume, self._examples = resume, examples
        self._marks: dict[str, str] = {}
        self._pairs: dict[str, dict[int, CertifiedFinding]] = {}
        self._loaded: set[str] = set()

    def found(self, name: str, data: Dataset | Transitions) -> Findings:
        """What the search finds, or found before."""
        from isotropy.discovery import DiscoverOptions, discover
        from isotropy.discovery.reading._plan import METHODS

        folder = self._place(name)
        if folder is not None:
            self._marks[name] = fingerprint(data, self._asked)
        if self._resume and folder is not None and (folder.exists() or not self._examples):
            before = saved_search(folder, self._marks[name])
            if before is not None:
                _LOG.info("%s: the search in %s is complete", name, folder)
                self._loaded.add(name)
                return before
        with self._common.progress("discovering") as progress:
            asked = self._asked
            return discover(
                data,
                candidates=asked["candidates"],
                blocks=asked["blocks"],
                methods=asked["methods"] or METHODS,
                budget=self._budget,
                seed=asked["seed"],
                options=DiscoverOptions(
                    channels_first=asked["channels_first"],
                    entry_names=self._names,
                    margin=asked["margin"],
                    near_margin=asked["near_margin"],
                    study=self._study,
                    strategy=asked["strategy"],
                    children=asked["children"],
                    keep_on_interrupt=True,
                    progress=progress,
                ),
            )

    def certified(
        self,
        name: str,
        findings: Findings,
        data: Dataset | Transitions,
        delta: float | None,
        tolerance: float | None,
    ) -> Findings:
        """The findings with what their certificates say."""
        from isotropy.data import Dataset

        assert isinstance(data, Dataset)
        seed = self._asked["seed"]
        with self._common.progress("certifying") as progress:
            pairs = _certified(findings, data, delta or 0.05, tolerance, seed, progress)
        self._pairs[name] = {k: pair for k, pair in enumerate(pairs) if not isinstance(pair, str)}
        self._loaded.discard(name)
        return with_certificates(findings, pairs, self._place(name))

    def saved(self, found: dict[str, Findings]) -> str | None:
        """Save all of it; in a sentence why not, where that failed."""
        if self._folder is None:
            return None
        try:
            for name, findings in found.items():
                folder = self._place(name)
                assert folder is not None
                if name in self._loaded:
                    continue
                if findings.stopped and is_complete(folder, self._marks[name]):
                    _LOG.warning(
                        "%s: the search that was saved there is complete, and stays", folder
                    )
                    continue
                save_search(
                    findings,
                    folder,
                    title=Path(name).name,
                    mark=self._marks[name],
                    certificates=self._pairs.get(name, {}),
                )
            if self._examples:
                self._save_common_page(found)
        except OSError as error:
            return (
                f"{self._folder}: expected to save what was found, got "
                f"{error.strerror or error}; what was saved before is as it was"
            )
        return None

    def _save_common_page(self, found: dict[str, Findings]) -> None:
        from isotropy.report._finding_page import DemoCase, write_demo_page

        assert self._folder is not None
        cases = [
            DemoCase(name, findings, folder=str(self._place(name)))
            for name, findings in found.items()
        ]
        words = "Data in, named symmetry out, with the model that has it and a test that it holds."
        write_demo_page(cases, self._folder / "report.html", title=_EXAMPLES, words=words)

    def reports(self, found: dict[str, Findings]) -> dict[str, str]:
        """Where the page of each is."""
        if self._examples and self._folder is not None:
            return {list(found)[-1]: str(self._folder / "report.html")}
        places = {name: self._place(name) for name in found}
        return {name: str(place / "report.html") for name, place in places.items() if place}

    def _place(self, name: str) -> Path | None:
        if self._folder is None:
            return None
        return self._folder / name.replace(" ", "-") if self._examples else self._folder


def _certified(
    findings: Findings,
    data: Dataset,
    delta: float,
    tolerance: float | None,
    seed: int,
    progress: ProgressCallback,
) -> Certified:
    from isotropy.certificates._certify_findings import certify_finding
    from isotropy.certificates._finding_networks import CannotCertify

    pairs: Certified = []
    for finding in findings:
        try:
            pairs.append(
                certify_finding(
                    finding, data, delta=delta, tolerance=tolerance, seed=seed, progress=progress
                )
            )
        except CannotCertify as error:
            pairs.append(str(error))
    return pairs
