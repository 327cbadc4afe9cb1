"""``isotropy discover``: from data to named, confirmed symmetries."""

from collections.abc import Mapping
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isotropy.cli._frame import Answer, Frame, verb
from isotropy.cli._group_search import StrategyOption, require_search, telling_what_is_kept

if TYPE_CHECKING:
    from isotropy._run import ProgressCallback
    from isotropy.certificates._certify_findings import CertifiedFinding
    from isotropy.data import Dataset, Transitions
    from isotropy.data._dataset import TaskKind
    from isotropy.discovery import Findings

    # of each finding, or in a sentence why there are none
    Certified = list[CertifiedFinding | str]


class MethodOption(StrEnum):
    """What to look for."""

    permutations = "permutations"
    generators = "generators"
    layers = "layers"
    transitions = "transitions"
    groups = "groups"


class TaskOption(StrEnum):
    """What the targets are."""

    regression = "regression"
    classification = "classification"


@verb("discover")
def discover(
    frame: Frame,
    data: Annotated[
        Path | None,
        typer.Argument(
            metavar="DATA",
            help="An .npz of x and y, or of observations, actions and next_observations, a table, "
            "or a folder of images; without it, small examples.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME,…", help="The columns of a table to predict."),
    ] = None,
    task: Annotated[
        TaskOption | None, typer.Option(help="What the targets are; by default told from them.")
    ] = None,
    groups: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A column: rows with one value are never split up."),
    ] = None,
    channels_first: Annotated[
        bool,
        typer.Option(
            "--channels-first", help="Sequences are (rows, channels, n), not (rows, n, channels)."
        ),
    ] = False,
    candidates: Annotated[
        str | None,
        typer.Option(
            metavar='"GROUP, …"',
            help='Groups to try as well: "Z(12), S(3)+S(9)"; with --method groups the only ones: '
            '"rotation, horizontal flip".',
        ),
    ] = None,
    blocks: Annotated[
        int | None,
        typer.Option(
            metavar="K", help="Columns are K blocks that a continuous symmetry moves alike."
        ),
    ] = None,
    method: Annotated[
        list[MethodOption] | None,
        typer.Option(
            help="What to look for, by default all that suits the data; generators: continuous "
            "symmetries; layers: of networks for images, and motions of these; transitions: "
            "signed permutations of observations and actions; groups: sets of motions that layers "
            "may commute with, by training many networks."
        ),
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|URL",
            help="With --method groups: keep what is trained in this SQLite file or PostgreSQL "
            "database. The same command goes on with it, and several at once share the work.",
        ),
    ] = None,
    strategy: Annotated[
        StrategyOption | None,
        typer.Option(help="With --method groups: how to search, by default lattice."),
    ] = None,
    children: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="With --method groups: train at most N networks, by default 60."
        ),
    ] = None,
    margin: Annotated[
        float,
        typer.Option(help="What a symmetry may cost, as a share of what can be learned."),
    ] = 0.05,
    near_margin: Annotated[
        float,
        typer.Option(
            help="What may cost so much and be offered as a soft model; 0 to look for none."
        ),
    ] = 0.5,
    certify: Annotated[
        bool,
        typer.Option(
            "--certify",
            help="Certify two networks for each finding, with the symmetry and without it.",
        ),
    ] = False,
    delta: Annotated[
        float | None,
        typer.Option(
            help="With --certify: the probability that a pair of bounds may fail with, by default "
            "0.05."
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="With --certify, for numbers: an error is one missed by more than this, by "
            "default half a standard deviation."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Save findings, models, certificates and report.html here."
        ),
    ] = None,
) -> Answer:
    """Find the symmetries of a task, name them, and confirm them by test."""
    from isotropy.data import Dataset
    from isotropy.discovery import discover, example_tasks
    from isotropy.discovery._methods import METHODS

    seed = 0 if frame.seed is None else frame.seed
    names = None
    tasks: dict[str, Dataset | Transitions]
    if data is None:
        if target is not None or groups is not None or task is not None:
            raise ValueError("expected DATA for --target, --groups and --task, got none")
        tasks = dict(example_tasks(seed))
    else:
        loaded, names = _loaded(data, target, task, groups)
        tasks = {str(data): loaded}
    if certify:
        _require_certifiable(tasks, delta, tolerance, groups)
    elif delta is not None or tolerance is not None:
        raise ValueError("expected --certify with --delta or --tolerance, got no --certify")
    searching = method == [MethodOption.groups]
    require_search(searching, study, strategy, children)
    if out is not None and out.exists() and not out.is_dir():
        raise ValueError(f"expected a folder to save to, got the file {str(out)!r}")
    found: dict[str, Findings] = {}
    with telling_what_is_kept(searching, study), frame.progress("discovering") as progress:
        for name, one in tasks.items():
            found[name] = discover(
                one,
                channels_first=channels_first,
                candidates=_groups(candidates),
                blocks=blocks,
                entry_names=names,
                methods=[one.value for one in method] if method else METHODS,
                margin=margin,
                near_margin=near_margin,
                study=study,
                strategy="lattice" if strategy is None else strategy.value,
                children=children,
                seed=seed,
                progress=progress,
            )
    certified: dict[str, Certified] = {}
    if certify:
        with frame.progress("certifying") as progress:
            for name, findings in found.items():
                certifiable = tasks[name]
                assert isinstance(certifiable, Dataset)
                certified[name] = _certified(
                    findings, certifiable, delta or 0.05, tolerance, seed, progress
                )
    answer = _together(found, named=data is None)
    if out is not None:
        answer["saved"] = str(_saved(found, tasks, out, data is None))
    if certify:
        folders = {name: _folder(out, name, data is None) for name in found} if out else {}
        told = [one for name, pairs in certified.items() for one in _told(pairs, folders.get(name))]
        for finding, certificates in zip(answer["findings"], told, strict=True):
            finding["certificates"] = certificates
    return Answer(answer, _text(found, tasks, answer.get("saved"), certified))


def _loaded(
    path: Path, target: str | None, task: TaskOption | None, groups: str | None
) -> "tuple[Dataset | Transitions, tuple[tuple[str, ...], tuple[str, ...]] | None]":
    """The data, and of transitions the names of entries."""
    from isotropy.data import Transitions, load
    from isotropy.data._load import holds_transitions, transition_names

    options = {"--target": target, "--task": task, "--groups": groups}
    if not holds_transitions(path) or target is not None:
        return load(path, target=target, task=_kind(task), groups=groups), None
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{path}: expected no {name} for transitions, got {str(value)!r}")
    return Transitions.load(path.expanduser()), transition_names(path)


def _described(data: "Dataset | Transitions") -> str:
    from isotropy.data import Transitions

    if not isinstance(data, Transitions):
        return str(data)
    sizes = data.observations.shape[1], data.actions.shape[1]
    return f"{len(data)} transitions, observations of {sizes[0]} entries, actions of {sizes[1]}"


def _require_certifiable(
    tasks: "dict[str, Dataset | Transitions]",
    delta: float | None,
    tolerance: float | None,
    groups: str | None,
) -> None:
    """Refuse before the long search what would be refused after it."""
    from isotropy.data import Dataset

    datasets = [one for one in tasks.values() if isinstance(one, Dataset)]
    if len(datasets) < len(tasks):
        raise ValueError(
            "expected no --certify for transitions: a bound needs rows that are independent"
        )
    if delta is not None and not 0 < delta < 1:
        raise ValueError(f"expected delta between 0 and 1, got {delta}")
    if groups is not None:
        raise ValueError(
            "expected no --groups with --certify: a bound needs rows that are independent"
        )
    if tolerance is None:
        return
    if not tolerance > 0:
        raise ValueError(f"expected a positive tolerance, got {tolerance}")
    if any(one.task == "classification" for one in datasets):
        raise ValueError("expected a tolerance for a regression, got one with labels")


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
                    finding,
                    data,
                    delta=delta,
                    tolerance=tolerance,
                    seed=seed,
                    progress=progress,
                )
            )
        except CannotCertify as error:
            pairs.append(str(error))
    return pairs


def _told(pairs: "Certified", folder: Path | None) -> list[dict[str, Any]]:
    """What JSON says of certificates, which are saved where there is a folder."""
    told = []
    for number, pair in enumerate(pairs, 1):
        if isinstance(pair, str):
            told.append({"reason": pair})
            continue
        said = pair.to_json()
        if folder is not None:
            for kind, one in (("with", pair.with_symmetry), ("without", pair.without)):
                one.save(path := folder / f"{kind}-{number}.iso")
                said[kind]["path"] = str(path)
        told.append(said)
    return told


def _kind(task: TaskOption | None) -> "TaskKind | None":
    if task is None:
        return None
    return "regression" if task is TaskOption.regression else "classification"


def _groups(text: str | None) -> list[str]:
    """Split at the commas that stand outside parentheses."""
    if text is None:
        return []
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _together(found: "dict[str, Findings]", named: bool) -> dict[str, Any]:
    """One JSON object; findings of examples say which one they are of."""
    answer: dict[str, Any] = {
        "findings": [],
        "tried": [],
        "seconds": 0.0,
        "notes": [],
        "trivial": [],
        "nearly": [],
    }
    for name, findings in found.items():
        part = findings.to_json()
        if named:
            for kind in ("findings", "trivial", "nearly"):
                part[kind] = [{"data": name, **finding} for finding in part[kind]]
            part["tried"] = [{"data": name, "tried": part["tried"]}]
            part["notes"] = [f"{name}: {note}" for note in part["notes"]]
        for key in answer:
            answer[key] += part[key]
    return answer


def _saved(
    found: "dict[str, Findings]", tasks: "dict[str, Dataset | Transitions]", out: Path, named: bool
) -> Path:
    from isotropy.report import write_finding_page

    for name, findings in found.items():
        folder = _folder(out, name, named)
        findings.save(folder)
        write_finding_page(
            findings, folder / "report.html", title=Path(name).name, data=_described(tasks[name])
        )
    return out


def _folder(out: Path, name: str, named: bool) -> Path:
    return out / name.replace(" ", "-") if named else out


def _tried(one: "str | Mapping[str, Any]") -> str:
    if isinstance(one, str):
        return one
    from isotropy.discovery._finding import shown_p_value

    verdict = "confirmed" if one["confirmed"] else "not confirmed"
    if one["p_value"] is None:
        return f"{one['name']}: not promising, costs {100 * one['effect']:.2g} %"
    chance = shown_p_value(one["p_value"])
    return f"{one['name']}: {verdict} ({chance}), costs {100 * one['effect']:.2g} %"


def _text(
    found: "dict[str, Findings]",
    tasks: "dict[str, Dataset | Transitions]",
    saved: Any,
    certified: "Mapping[str, Certified] | None" = None,
) -> str:
    lines = []
    for name, findings in found.items():
        pairs = iter((certified or {}).get(name, ()))
        lines.append(f"{name}  {_described(tasks[name])}" if len(found) == 1 else name)
        if not len(findings):
            nothing = ", nothing to certify" if name in (certified or {}) else ""
            lines.append(f"  no symmetry found{nothing}")
        for finding in (*findings, *findings.nearly):
            lines.append(f"  {finding}")
            lines.append(f"    {finding.action}")
            lines += [f"    {note}" for note in finding.notes if len(found) == 1]
            if finding.soft is not None:
                told = finding.soft.comparison
                lines += [f"    {told}", f"    {told.gain}"]
            lines += [f"    {pair}" for pair in islice(pairs, 1)]
        lines += [f"  {finding}" for finding in findings.trivial]
        if len(found) == 1:
            lines += [f"  {note}" for note in findings.notes]
        if any(
            isinstance(one, str) and one.startswith(("layer ", "child ")) for one in findings.tried
        ):
            lines += ["", "  tried:", *(f"    {_tried(one)}" for one in findings.tried)]
        lines.append("")
    seconds = sum(findings.seconds for findings in found.values())
    lines.append(f"{seconds:.3g} s")
    if saved is not None:
        lines.append(f"saved to {saved}")
    return "\n".join(lines)
