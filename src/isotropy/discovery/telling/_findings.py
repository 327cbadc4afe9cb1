"""All that one search found, what it tried, and what else is worth knowing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

from isotropy._run import write_json
from isotropy.discovery.modelling._model_claims import Modelled
from isotropy.discovery.proposing._proposer import Proposed
from isotropy.discovery.telling._finding import Finding
from isotropy.discovery.telling._finding_files import (
    FORMAT,
    LIST_FILE,
    PLACES,
    inside,
    made_folder,
    without_links,
)
from isotropy.discovery.telling._findings_answer import answer, findings_html
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._test_claims import Outcomes
from isotropy.discovery.testing._tested import rank


@dataclass(frozen=True, eq=False)
class Findings(Sequence[Finding]):
    """All that one search found, and what it tried.

    Args:
        findings: What was found, ranked as ``merged`` does.
        tried: What was tried, a text or a dictionary of plain values each.
        seconds: How long it took.
        notes: Anything else worth knowing.
        trivial: Symmetries that hold for a trivial reason, and are no discoveries.
        nearly: Symmetries that are broken too much to be claimed, but whose soft model predicts
            better than a model without them.
        partly: Symmetries of the first layers of a network, where the task as a whole has none.
        reading: How the data were read, in a phrase: "2000 sequences of 24 steps".
        stopped: Why the search ended before all was tried; empty where it did not.

    Example:
        >>> found = Findings([Finding.of("S(3)", "S(3)", order=6)])
        >>> len(found), found[0].name, found.best
        (1, 'S(3)', None)
    """

    findings: Sequence[Finding] = ()
    tried: Sequence[str | Mapping[str, Any]] = ()
    seconds: float = 0.0
    notes: Sequence[str] = ()
    trivial: Sequence[Finding] = ()
    nearly: Sequence[Finding] = ()
    partly: Sequence[Finding] = ()
    reading: str = ""
    stopped: str = ""

    def __post_init__(self) -> None:
        for name in ("findings", "tried", "notes", "trivial", "nearly", "partly"):
            object.__setattr__(self, name, tuple(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.findings)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    @overload
    def __getitem__(self, at: int) -> Finding: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Finding]: ...

    def __getitem__(self, at: int | slice) -> Finding | Sequence[Finding]:
        return self.findings[at]

    @staticmethod
    def merged(parts: Sequence[Findings]) -> Findings:
        """What several searches of the same data found, ranked.

        Those of the whole task come before those of layers of a network, then those that are sure,
        with p-values of at most 0.01; of these the continuous ones, the largest first.

        Example:
            >>> small, large = (Finding.of(f"S({n})", f"S({n})", order=n) for n in (2, 3))
            >>> [one.name for one in Findings.merged([Findings([small]), Findings([large])])] == [
            ...     "S(3)",
            ...     "S(2)",
            ... ]
            True
        """
        found = sorted((one for part in parts for one in part), key=_rank)
        listed = {
            name: [one for part in parts for one in getattr(part, name)]
            for name in ("tried", "notes", "trivial", "nearly", "partly")
        }
        reading = next((part.reading for part in parts if part.reading), "")
        stopped = next((part.stopped for part in parts if part.stopped), "")
        seconds = sum(part.seconds for part in parts)
        return Findings(found, seconds=seconds, reading=reading, stopped=stopped, **listed)

    def task_first(self) -> Findings:
        """The same, with what holds of layers alone apart from what holds of the task."""
        layers = [one for one in self if one.of_network]
        rest = [one for one in self if not one.of_network]
        return replace(self, findings=rest, partly=(*self.partly, *layers))

    @property
    def best(self) -> Finding | None:
        """The first that is confirmed and not trivial; None where there is none."""
        sure = [f for f in self.findings if f.confirmed and not f.trivial]
        return min(sure, key=_rank, default=None)

    @property
    def answer(self) -> str:
        """What was found, in one sentence."""
        return answer(self)

    def to_json(self) -> dict[str, Any]:
        """What ``isotropy discover --json`` says.

        Example:
            >>> Findings(tried=["all swaps"], seconds=0.5).to_json().get("seconds")
            0.5
        """
        return {
            "answer": self.answer,
            "findings": [finding.to_json() for finding in self.findings],
            "tried": [one if isinstance(one, str) else dict(one) for one in self.tried],
            "seconds": self.seconds,
            "notes": list(self.notes),
            "trivial": [finding.to_json() for finding in self.trivial],
            "nearly": [finding.to_json() for finding in self.nearly],
            "partly": [finding.to_json() for finding in self.partly],
            "reading": self.reading,
            "stopped": self.stopped,
        }

    def save(self, folder: str | Path) -> Path:
        """Write ``findings.json``, and each finding to a folder of its own inside.

        Example:
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     Findings.load(Findings(tried=["all swaps"]).save(folder)).tried
            ('all swaps',)
        """
        folder = without_links(made_folder(folder))
        places = {}
        for kind, word in PLACES.items():
            several = getattr(self, kind)
            places[kind] = [f"{word}-{number}" for number in range(1, len(several) + 1)]
            for place, finding in zip(places[kind], several, strict=True):
                finding.save(inside(folder, place))
        whole = {**self.to_json(), **places}
        write_json(folder / LIST_FILE, {"format": FORMAT, **whole})
        return folder

    @staticmethod
    def load(folder: str | Path) -> Findings:
        """Read what ``save`` wrote.

        The folder may come from a stranger: every field is checked, nothing in it is run, and no
        link is followed out of it.

        Raises:
            ValueError: If it is damaged, or another version wrote it.
        """
        from isotropy.discovery.telling._load_finding import loaded_list

        given = loaded_list(Path(folder))
        names = ("tried", "seconds", "notes", "reading", "stopped")
        fields: dict[str, Any] = {name: given[name] for name in names if name in given}
        for kind in PLACES:
            places = given.get(kind, ())
            fields[kind] = [Finding.load(inside(Path(folder), place)) for place in places]
        return Findings(**fields)

    def _repr_html_(self) -> str:
        return findings_html(self)

    def __str__(self) -> str:
        lines = [str(finding) for finding in self.findings] or ["no symmetry found"]
        for finding in (*self.findings, *self.nearly):
            if finding.soft is not None:
                lines += [] if finding.confirmed else [str(finding)]
                lines += [f"  {finding.soft.comparison}", f"  {finding.soft.comparison.gain}"]
        return "\n".join([*lines, *map(str, self.trivial)])


def _rank(finding: Finding) -> tuple[Any, ...]:
    """Smaller comes first."""
    return rank(finding.claim, finding.test, finding.of_network)


def reported_findings(
    proposed: Proposed,
    outcomes: Outcomes | None,
    found: Sequence[Modelled],
    near: Sequence[Modelled],
    bench: Bench,
) -> Findings:
    """All that one search found, and what it tried.

    Args:
        proposed: What was proposed.
        outcomes: What the tests say; None where there was no time for them.
        found: What stands, with models.
        near: What holds nearly, with soft models.
        bench: What claims were tested with.
    """
    tried: list[str | Mapping[str, Any]] = [one.line for one in proposed.tried]
    if outcomes is None:
        names = [claim.label for claim in proposed.claims if not claim.is_trivial]
        tried += [f"{name}: proposed, not tested" for name in names]
        return Findings((), tried, notes=[one.text for one in proposed.notes])
    tried += [one.line() for one in outcomes.tested if not one.claim.statement.trivial]
    confirmed = any(one.confirmed for one in outcomes.tested)
    notes = bench.problem.rows.notes(bench)
    notes += [one.text for one in proposed.notes if not (one.unless_confirmed and confirmed)]
    notes += [text for one in outcomes.tested if (text := one.claim.untestable(one))]
    return Findings(
        [finding(one, bench) for one in found],
        tried,
        0.0,
        notes,
        [finding(Modelled(one), bench) for one in outcomes.trivial],
        [finding(one, bench, holds=False) for one in near],
    )


def finding(one: Modelled, bench: Bench, *, holds: bool = True) -> Finding:
    """What is reported of a claim: its statement, its test and its models.

    Args:
        one: The claim.
        bench: What it was tested with.
        holds: Whether it costs less than the margin; else it holds nearly.
    """
    tested, claim = one.tested, one.tested.claim
    return Finding(
        claim.stated(tested, bench),
        tested.outcome if holds else tested.near_outcome,
        one.models,
        (*claim.notes(tested, bench), *one.notes),
        claim.examples(bench.problem.outside, bench.seed),
    )
