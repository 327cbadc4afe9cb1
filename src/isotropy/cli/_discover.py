"""``isotropy discover``: from data to named, confirmed symmetries."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from typer import Argument, Option

from isotropy.cli._discover_run import DiscoverRun, discovery_text
from isotropy.cli._discover_saving import default_folder, require_folder
from isotropy.cli._options import (
    MethodOption,
    StrategyOption,
    Target,
    Task,
    TaskOption,
    listed_groups,
    require_search,
    say_what_is_kept,
    task_kind,
)
from isotropy.cli._output import complain
from isotropy.cli._verbs import BAD_INPUT, INTERRUPTED, Answer, CommonOptions, verb

if TYPE_CHECKING:
    from isotropy.data import Dataset, Transitions
    from isotropy.discovery import Findings

EntryNames: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]] | None
_MOST_ROWS = 20_000  # more are not looked at


@verb("discover")
def discover(
    common: CommonOptions,
    data: Annotated[
        Path | None,
        Argument(
            metavar="DATA",
            help="An .npz of x and y, or of observations, actions and next_observations, a table, "
            "or a folder of images; without it, small examples.",
        ),
    ] = None,
    target: Target = None,
    task: Task = None,
    groups: Annotated[
        str | None, Option(metavar="NAME", help="A column: rows with one value are never split up.")
    ] = None,
    channels_first: Annotated[
        bool,
        Option(
            "--channels-first", help="Sequences are (rows, channels, n), not (rows, n, channels)."
        ),
    ] = False,
    candidates: Annotated[
        str | None,
        Option(
            metavar='"GROUP, …"',
            help='Groups to try as well: "Z(12), S(3)+S(9)"; with --method groups the only ones: '
            '"rotation, horizontal flip".',
        ),
    ] = None,
    blocks: Annotated[
        int | None,
        Option(
            metavar="K", help="Columns are K blocks; a continuous symmetry moves each the same way."
        ),
    ] = None,
    method: Annotated[
        list[MethodOption] | None,
        Option(
            help="What to look for, by default all that suits the data; generators: continuous "
            "symmetries; layers: of networks for images, and motions of these; transitions: "
            "signed permutations of observations and actions; groups: sets of motions that layers "
            "may commute with, by training many networks."
        ),
    ] = None,
    study: Annotated[
        str | None,
        Option(
            metavar="FILE|URL",
            help="With --method groups: keep what is trained in this SQLite file or PostgreSQL "
            "database. The same command goes on with it, and several at once share the work.",
        ),
    ] = None,
    strategy: Annotated[
        StrategyOption | None,
        Option(help="With --method groups: how to search, by default lattice."),
    ] = None,
    children: Annotated[
        int | None,
        Option(metavar="N", help="With --method groups: train at most N networks, by default 60."),
    ] = None,
    margin: Annotated[
        float, Option(help="What a symmetry may cost, as a share of what can be learned.")
    ] = 0.05,
    near_margin: Annotated[
        float,
        Option(help="What may cost so much and be offered as a soft model; 0 to look for none."),
    ] = 0.5,
    certify: Annotated[
        bool,
        Option(
            "--certify",
            help="Certify two networks for each finding, with the symmetry and without it.",
        ),
    ] = False,
    delta: Annotated[
        float | None,
        Option(
            help="With --certify: the probability that a pair of bounds may fail with, by default "
            "0.05."
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        Option(
            help="With --certify, for numbers: an error is one missed by more than this, by "
            "default half a standard deviation."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="How long it may take: 90s, 5m, 1h; then what is sure is reported. Without a "
            "limit, the same data and seed give the same answer however busy the machine is.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        Option(
            "--resume",
            help="Go on with the search that was saved in --out, with the same data and options.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Save findings, models, certificates and report.html here; by default in a folder "
            "named after DATA, with --json nowhere.",
        ),
    ] = None,
    no_save: Annotated[bool, Option("--no-save", help="Save nothing.")] = False,
) -> Answer:
    """Find the symmetries of a task, name them, and confirm them by test."""
    from isotropy._run import seconds_of

    seed = 0 if common.seed is None else common.seed
    if budget is not None:
        seconds_of(budget)
    tasks, names = _tasks(data, target, task, groups, seed)
    _check_certifying(certify, tasks, delta, tolerance, groups)
    searching = MethodOption.groups in (method or ())
    require_search(searching, study, strategy, children)
    folder = _folder_to_save_to(data, out, no_save, resume, common.json)
    if searching and study is None and folder is not None and out is not None:
        study = str(_made(folder) / "search.db")
    asked: dict[str, Any] = {
        "channels_first": channels_first,
        "candidates": listed_groups(candidates),
        "blocks": blocks,
        "methods": [one.value for one in method] if method else None,
        "margin": margin,
        "near_margin": near_margin,
        "strategy": "lattice" if strategy is None else strategy.value,
        "children": children,
        "seed": seed,
    }
    run = DiscoverRun(common, asked, names, budget, study, folder, resume, data is None)
    found = _searched(run, tasks)
    if searching and any(map(_is_interrupted, found.values())):
        say_what_is_kept(study)
    lost = run.saved(found)
    if certify and lost is None:
        for name, findings in found.items():
            if not findings.stopped:
                found[name] = run.certified(name, findings, tasks[name], delta, tolerance)
        lost = run.saved(found)
    return _answer(run, found, lost, folder, named=data is None)


def _searched(run: DiscoverRun, tasks: "dict[str, Dataset | Transitions]") -> "dict[str, Findings]":
    """What is found in each task, up to an interruption."""
    found: dict[str, Findings] = {}
    for name, one in tasks.items():
        found[name] = run.found(name, one)
        if _is_interrupted(found[name]):
            break
    return found


def _answer(
    run: DiscoverRun,
    found: "dict[str, Findings]",
    lost: str | None,
    folder: Path | None,
    named: bool,
) -> Answer:
    """The answer, or why it could not be saved, with the exit code."""
    answer = _together(found, named=named)
    if lost is not None:
        complain(lost)
        return Answer(answer, discovery_text(found, {}), BAD_INPUT)
    if folder is not None:
        answer["saved"] = str(folder)
    interrupted = any(map(_is_interrupted, found.values()))
    text = discovery_text(found, run.reports(found))
    return Answer(answer, text, INTERRUPTED if interrupted else 0)


def _is_interrupted(findings: "Findings") -> bool:
    return findings.stopped.startswith("interrupted")


def _tasks(
    data: Path | None, target: str | None, task: TaskOption | None, groups: str | None, seed: int
) -> "tuple[dict[str, Dataset | Transitions], EntryNames]":
    """What to search, by name, and of transitions the names of entries."""
    if data is not None:
        loaded, names = _loaded(data, target, task, groups, seed)
        return {str(data): loaded}, names
    if target is not None or groups is not None or task is not None:
        raise ValueError("expected DATA for --target, --groups and --task, got none")
    from isotropy.discovery import example_tasks

    return dict(example_tasks(seed)), None


def _folder_to_save_to(
    data: Path | None, out: Path | None, no_save: bool, resume: bool, as_json: bool
) -> Path | None:
    if no_save and (out is not None or resume):
        raise ValueError(
            f"expected --no-save alone, got {'--out' if out is not None else '--resume'} with it"
        )
    folder = out
    if folder is None and data is not None and not no_save and (resume or not as_json):
        folder = default_folder(data)
    if resume and folder is None:
        raise ValueError("expected --out with --resume, to go on with what was saved there")
    if folder is not None:
        require_folder(folder)
    return folder


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _loaded(
    path: Path, target: str | None, task: TaskOption | None, groups: str | None, seed: int
) -> "tuple[Dataset | Transitions, EntryNames]":
    """The data, and of transitions the names of entries."""
    from isotropy.data import Intake, load

    if target is not None or not _holds_transitions(path):
        data = load(
            path,
            target=target,
            task=task_kind(task),
            groups=groups,
            intake=Intake(missing="drop", text="drop", most_rows=_MOST_ROWS, seed=seed, guess=True),
        )
        return data, None
    from isotropy.data import Transitions
    from isotropy.data._transition_files import transition_names

    for name, value in {"--task": task, "--groups": groups}.items():
        if value is not None:
            raise ValueError(f"{path}: expected no {name} for transitions, got {str(value)!r}")
    return Transitions.load(path.expanduser()), transition_names(path)


def _holds_transitions(path: Path) -> bool:
    if path.suffix.lower() != ".npz":
        return False
    from isotropy.data._transition_files import holds_transitions

    return holds_transitions(path)


def _check_certifying(
    certify: bool,
    tasks: "dict[str, Dataset | Transitions]",
    delta: float | None,
    tolerance: float | None,
    groups: str | None,
) -> None:
    """Refuse before the long search what would be refused after it."""
    if not certify:
        if delta is not None or tolerance is not None:
            raise ValueError("expected --certify with --delta or --tolerance, got no --certify")
        return
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


def _together(found: "dict[str, Findings]", named: bool) -> dict[str, Any]:
    """One JSON object; findings of examples say which one they are of."""
    parts = {name: findings.to_json() for name, findings in found.items()}
    if not named:
        return next(iter(parts.values()))
    answer: dict[str, Any] = {"findings": [], "tried": [], "seconds": 0.0, "notes": []}
    answer |= {"trivial": [], "nearly": [], "partly": []}
    for name, part in parts.items():
        for kind in ("findings", "trivial", "nearly", "partly"):
            part[kind] = [{"data": name, **finding} for finding in part[kind]]
        part["tried"] = [{"data": name, "tried": part["tried"]}]
        part["notes"] = [f"{name}: {note}" for note in part["notes"]]
        for key in answer:
            answer[key] += part[key]
    answer["answers"] = {name: part["answer"] for name, part in parts.items()}
    answer["stopped"] = next((part["stopped"] for part in parts.values() if part["stopped"]), "")
    return answer
