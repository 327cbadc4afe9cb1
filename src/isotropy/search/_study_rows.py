"""What the rows of a study's database may hold, whoever wrote them.

SQLite keeps any value in any column, and Optuna and SQLAlchemy take what they find. So every row is
held against these rules before they see it. The rules need nothing but plain values: the process
that looks at a file knows neither Optuna nor PyTorch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from isotropy._run._json import bounded_json, shown
from isotropy.search._study_keys import key_parts
from isotropy.search._study_notes import (
    SETTINGS,
    Choices,
    StudySettings,
    check_accuracy,
    check_note,
    check_param,
    distribution_of,
    is_real,
    settings_from,
)
from isotropy.search._study_values import (
    LARGEST,
    check_date,
    check_number_of_kind,
    check_one_of,
    check_text,
    whole,
)

MOST_STUDIES, MOST_TRIALS, MOST_ROWS = 10_000, 50_000, 2_000_000
MOST_CLAIMS, MOST_EACH = 10_000, 100
LONGEST_CLAIM = 86_400.0
_NAME = 512
_STATES = ("RUNNING", "COMPLETE", "PRUNED", "FAIL", "WAITING")
_DIRECTIONS = ("NOT_SET", "MINIMIZE", "MAXIMIZE")
_KINDS = ("FINITE", "INF_POS", "INF_NEG")
# What Optuna and its dashboard note of a trial, without what samplers keep: one of them unpickles.
_SYSTEM = re.compile(r"fixed_params|constraints|(dashboard|artifacts):.*", re.DOTALL)
_VERSION = re.compile(r"v\d{1,4}\.\d{1,4}\.\d{1,4}\.[a-z]", re.ASCII)
_RELEASE = re.compile(r"[0-9A-Za-z.+_-]{1,64}", re.ASCII)

Read = Callable[[str, tuple[str, ...]], Iterable[tuple[Any, ...]]]


@dataclass(slots=True)
class _Study:
    settings: StudySettings | None = None
    directions: list[str] = field(default_factory=list)
    numbers: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Trial:
    study: _Study
    state: str
    accuracies: int = 0
    key: str | None = None
    params: dict[str, object] = field(default_factory=dict)
    rows: int = 0


def check_rows(read: Read, *, now: float, version: str | None = None) -> None:
    """Refuse rows that neither Optuna nor a search would write.

    Args:
        read: From a table and columns to all rows of it, none where there is no such table.
        now: Seconds since 1970, to which claims are compared.
        version: The one that Optuna's tables must be of; ``None`` to leave that to Optuna.

    Raises:
        ValueError: If a value is not of its column's kind, a row belongs to nothing, there are too
            many, or a study of a search holds what no search would.
    """
    studies = _studies(read)
    _study_attributes(read, studies)
    trials = _trials(read, studies)
    _trial_attributes(read, trials)
    _params(read, trials)
    _values(read, trials)
    for trial in trials.values():
        _check_trial(trial)
    check_versions(read, version)
    _claims(read, now)


def _studies(read: Read) -> dict[int, _Study]:
    found: dict[int, _Study] = {}
    for number, name in _bounded(read("studies", ("study_id", "study_name")), MOST_STUDIES):
        check_text(name, "a study's name", _NAME)
        found[whole(number, "a study's number", least=1)] = _Study()
    columns = "study_direction_id", "study_id", "direction", "objective"
    for row, number, direction, objective in _bounded(read("study_directions", columns)):
        whole(row, "a direction's number")
        check_one_of(direction, _DIRECTIONS, "a direction")
        study = _owner(found, number, "a direction", "study")
        study.directions.append(direction)
        if whole(objective, "an objective") >= MOST_EACH or len(study.directions) > MOST_EACH:
            raise ValueError(f"expected up to {MOST_EACH} objectives, got more")
    return found


def _study_attributes(read: Read, studies: dict[int, _Study]) -> None:
    for study, key, text in _attributes(read, "study", "user", studies):
        if key == SETTINGS:
            study.settings = settings_from(bounded_json(text, "the settings of a study"))
        else:
            bounded_json(text, "an attribute of a study", finite=False)
    for _, _, text in _attributes(read, "study", "system", studies):
        bounded_json(text, "an attribute of a study", finite=False)
    for study in studies.values():
        if study.settings is not None and study.directions != ["MAXIMIZE"]:
            raise ValueError(
                f"expected a search that is maximised, got {shown(study.directions)} as directions"
            )


def _trials(read: Read, studies: dict[int, _Study]) -> dict[int, _Trial]:
    found: dict[int, _Trial] = {}
    columns = "trial_id", "number", "study_id", "state", "datetime_start", "datetime_complete"
    for trial, number, study_number, state, start, end in _bounded(read("trials", columns)):
        study = _owner(studies, study_number, "a trial", "study")
        check_one_of(state, _STATES, "a state")
        check_date(start)
        check_date(end)
        found[whole(trial, "a trial's number", least=1)] = _Trial(study, state)
        place = whole(number, "a trial's place")
        if place in study.numbers:
            raise ValueError(f"expected one trial of each place, got two of {place}")
        study.numbers.add(place)
    for study in studies.values():
        if study.settings is not None and len(study.numbers) > MOST_TRIALS:
            raise ValueError(f"expected up to {MOST_TRIALS} trials in a search, got more")
        if study.numbers and max(study.numbers) != len(study.numbers) - 1:
            raise ValueError("expected trials numbered from 0 on, got a number left out")
    return found


def _trial_attributes(read: Read, trials: dict[int, _Trial]) -> None:
    for trial, key, text in _attributes(read, "trial", "user", trials):
        _count(trial)
        settings = trial.study.settings
        note = bounded_json(text, "a note of a trial", finite=settings is not None)
        if settings is not None:
            check_note(key, note)
            if key == "key":
                settings.check_key(note)
                trial.key = note
    for trial, key, text in _attributes(read, "trial", "system", trials):
        _count(trial)
        bounded_json(text, "an attribute of a trial", finite=False)
        if trial.study.settings is not None and not _SYSTEM.fullmatch(key):
            raise ValueError(
                f"expected no attributes of a sampler in a search, got {shown(key)}, which Optuna "
                "may unpickle"
            )


def _attributes(
    read: Read, of: str, kind: str, owners: dict[int, Any]
) -> Iterator[tuple[Any, str, object]]:
    """The owner, name and JSON of each attribute of studies or trials."""
    columns = f"{of}_{kind}_attribute_id", f"{of}_id", "key", "value_json"
    for row, number, key, text in _bounded(read(f"{of}_{kind}_attributes", columns)):
        whole(row, "an attribute's number")
        check_text(key, "an attribute's name", _NAME)
        yield _owner(owners, number, "an attribute", of), key, text


def _params(read: Read, trials: dict[int, _Trial]) -> None:
    known: dict[object, Choices] = {}
    columns = "param_id", "trial_id", "param_name", "param_value", "distribution_json"
    for row, number, name, value, text in _bounded(read("trial_params", columns)):
        whole(row, "a parameter's number")
        check_text(name, "a parameter's name", _NAME)
        trial = _owner(trials, number, "a parameter", "trial")
        _count(trial)
        if text not in known:
            known[text] = distribution_of(bounded_json(text, "a distribution", finite=False))
        chosen = check_param(value, known[text])
        if trial.study.settings is not None:
            trial.study.settings.check_choices(name, known[text])
            trial.params[name] = chosen


def _values(read: Read, trials: dict[int, _Trial]) -> None:
    columns = "trial_value_id", "trial_id", "objective", "value", "value_type"
    for row, number, objective, value, kind in _bounded(read("trial_values", columns)):
        whole(row, "a value's number")
        trial = _owner(trials, number, "a value", "trial")
        _count(trial)
        check_one_of(kind, _KINDS, "a kind of value")
        check_number_of_kind(value, kind)
        trial.accuracies += 1
        if whole(objective, "an objective") >= max(1, len(trial.study.directions)):
            raise ValueError(f"expected a value for each objective, got one of {objective}")
        if trial.study.settings is not None:
            check_accuracy(value)
    kept = "intermediate_value", "intermediate_value_type"
    steps = read(
        "trial_intermediate_values", ("trial_intermediate_value_id", "trial_id", "step", *kept)
    )
    for row, number, step, value, kind in _bounded(steps):
        whole(row, "a value's number")
        _owner(trials, number, "a value", "trial")
        whole(step, "a step", least=-LARGEST)
        check_one_of(kind, (*_KINDS, "NAN"), "a kind of value")
        check_number_of_kind(value, kind)
    beats = read("trial_heartbeats", ("trial_heartbeat_id", "trial_id", "heartbeat"))
    for row, number, beat in _bounded(beats):
        whole(row, "a heartbeat's number")
        _owner(trials, number, "a heartbeat", "trial")
        if beat is None:
            raise ValueError("expected a date as a heartbeat, got none")
        check_date(beat)


def _check_trial(trial: _Trial) -> None:
    """See that a child of a search has an accuracy, and is what its parameters say."""
    if trial.study.settings is None:
        if trial.accuracies and trial.accuracies != len(trial.study.directions):
            raise ValueError("expected a value for each objective, got more or fewer")
        return
    if trial.state == "COMPLETE" and trial.accuracies != 1:
        raise ValueError("expected an accuracy of every finished child, got none")
    if trial.key is not None:
        trial.study.settings.check_params(trial.key, trial.params)


def check_versions(read: Read, wanted: str | None = None) -> None:
    """Refuse tables that are not of one version of Optuna.

    Args:
        read: From a table and columns to all rows of it, none where there is no such table.
        wanted: The version that they must be of; ``None`` to leave that to Optuna.

    Raises:
        ValueError: If they are of several, of none that Optuna has, or of another.
    """
    columns = "schema_version", "library_version"
    for number, release in _bounded(read("version_info", columns), 1):
        whole(number, "a version of tables")
        if not isinstance(release, str) or not _RELEASE.fullmatch(release):
            raise ValueError(f"expected a version of Optuna, got {shown(release)}")
    for (version,) in _bounded(read("alembic_version", ("version_num",)), 1):
        if not isinstance(version, str) or not _VERSION.fullmatch(version):
            raise ValueError(f"expected a version of Optuna's tables, got {shown(version)}")
        if wanted not in (None, version):
            raise ValueError(
                f"expected Optuna's tables of version {wanted}, got {version}: for an older one, "
                "see `optuna storage upgrade`"
            )


def _claims(read: Read, now: float) -> None:
    columns = "study", "child", "key", "worker", "turn", "expires"
    rows = _bounded(read("isotropy_claims", columns), MOST_CLAIMS)
    for study, child, key, worker, turn, expires in rows:
        check_text(study, "the mark of a study", _NAME)
        check_text(worker, "a worker's name", _NAME)
        key_parts(key)
        if child != key.partition("<")[0]:
            raise ValueError(f"expected a claim on {shown(key)}, got one on {shown(child)}")
        whole(turn, "a turn")
        if not is_real(expires) or not 0 <= expires <= now + LONGEST_CLAIM:
            raise ValueError(
                f"expected claims that end within {LONGEST_CLAIM:.0f} seconds, got one that ends "
                f"at {shown(expires)}"
            )


def _bounded(rows: Iterable[tuple[Any, ...]], most: int = MOST_ROWS) -> Iterator[tuple[Any, ...]]:
    for count, row in enumerate(rows):
        if count >= most:
            rows_in_words = "one row" if most == 1 else f"{most} rows"
            raise ValueError(f"expected at most {rows_in_words} in a study's table, got more")
        yield row


def _owner(owners: dict[int, Any], number: object, what: str, of: str) -> Any:
    found = owners.get(number) if type(number) is int else None
    if found is None:
        raise ValueError(f"expected {what} of a known {of}, got one of {shown(number)}")
    return found


def _count(trial: _Trial) -> None:
    trial.rows += 1
    if trial.study.settings is not None and trial.rows > MOST_EACH:
        raise ValueError(f"expected up to {MOST_EACH} rows for each child, got more")
