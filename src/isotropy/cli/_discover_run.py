"""One call of ``isotropy discover``: it searches, certifies and saves."""

import logging
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
    from isotropy.discovery import Findings

    # of each finding, or in a sentence why there are none
    Certified = list[CertifiedFinding | str]

_LOG = logging.getLogger(__name__)
_EXAMPLES = "Three data sets and their symmetries"


class DiscoverRun:
    """The options of a call, and what it saves."""

    def __init__(
        self,
        common: CommonOptions,
        asked: dict[str, Any],
        names: "tuple[tuple[str, ...], tuple[str, ...]] | None",
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

    def found(self, name: str, data: "Dataset | Transitions") -> "Findings":
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
        findings: "Findings",
        data: "Dataset | Transitions",
        delta: float | None,
        tolerance: float | None,
    ) -> "Findings":
        """The findings with what their certificates say."""
        from isotropy.data import Dataset

        assert isinstance(data, Dataset)
        seed = self._asked["seed"]
        with self._common.progress("certifying") as progress:
            pairs = _certified(findings, data, delta or 0.05, tolerance, seed, progress)
        self._pairs[name] = {k: pair for k, pair in enumerate(pairs) if not isinstance(pair, str)}
        self._loaded.discard(name)
        return with_certificates(findings, pairs, self._place(name))

    def saved(self, found: "dict[str, Findings]") -> str | None:
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

    def _save_common_page(self, found: "dict[str, Findings]") -> None:
        from isotropy.report._demo_page import DemoCase, write_demo_page

        assert self._folder is not None
        cases = [
            DemoCase(name, findings, folder=str(self._place(name)))
            for name, findings in found.items()
        ]
        words = "Data in, named symmetry out, with the model that has it and a test that it holds."
        write_demo_page(cases, self._folder / "report.html", title=_EXAMPLES, words=words)

    def reports(self, found: "dict[str, Findings]") -> dict[str, str]:
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
    findings: "Findings",
    data: "Dataset",
    delta: float,
    tolerance: float | None,
    seed: int,
    progress: "ProgressCallback",
) -> "Certified":
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
