"""Studies in a database: made, found again, and refused where they are of something else."""

from __future__ import annotations

import json
import secrets
from collections.abc import Container, Mapping
from typing import Any

import optuna
import sqlalchemy
from optuna.trial import TrialState

from isotropy._run._json import bounded_json, shown
from isotropy.search import _trials
from isotropy.search._database import Database, quiet_optuna
from isotropy.search._search_result import Origin, SearchResult
from isotropy.search._server_rows import check_server_rows
from isotropy.search._space import SearchSpace
from isotropy.search._strategy import ChildProposal
from isotropy.search._study_notes import FORMAT, SETTINGS, settings_from
from isotropy.search._study_tables import insert
from isotropy.search._worker_claims import Claims

_NAMED, _LONGEST = 20, 300
_MEANINGS = {
    "format": "the format",
    "space": "the images and groups",
    "child": "the data and training",
    "seed": "the seed",
    "by_network": "by_network",
}
# Optuna's own table, whose rows its storage can overwrite but not add where there is none.
_ATTRIBUTES = sqlalchemy.table(
    "study_user_attributes",
    sqlalchemy.column("study_id", sqlalchemy.Integer),
    sqlalchemy.column("key", sqlalchemy.String),
    sqlalchemy.column("value_json", sqlalchemy.Text),
)


def shared_study(database: Database, name: str, settings: Mapping[str, Any]) -> optuna.Study:
    """The study of a name: a new one, or one of the same settings.

    Args:
        database: Where it lives.
        name: Of the study.
        settings: The space's description, the child's fingerprint, ``seed`` and ``by_network``.

    Raises:
        ValueError: If the study of that name is of other settings, or was made by something else;
            it is left as it was. Also if the settings are out of all bounds.
    """
    wanted = {**settings, "format": FORMAT}
    settings_from({**wanted, "mark": "0" * 16})  # what could not be read again is not begun
    check_server_rows(database.engine, name)
    with quiet_optuna():
        study = optuna.create_study(
            storage=database.storage,
            study_name=name,
            direction="maximize",
            load_if_exists=True,
            sampler=optuna.samplers.RandomSampler(),
        )
    if SETTINGS not in study.user_attrs:
        used = bool(study.get_trials(deepcopy=False)) or len(study.directions) != 1
        # Another worker may have settled it since, and trained something.
        if used and SETTINGS not in study.user_attrs:
            raise ValueError(_foreign(study, database))
        _settle(database, study, wanted)
    _require(study, wanted, database)
    return study


def _settle(database: Database, study: optuna.Study, settings: Mapping[str, Any]) -> None:
    """Note what a study is of, all at once, unless another worker has noted it."""
    row = {
        "study_id": number_of(database, study),
        "key": SETTINGS,
        "value_json": json.dumps({**settings, "mark": secrets.token_hex(8)}),
    }
    settled = insert(database.engine, _ATTRIBUTES).values(**row)
    with database.engine.begin() as connection:
        connection.execute(settled.on_conflict_do_nothing(index_elements=["study_id", "key"]))


def settings_of(study: optuna.Study) -> dict[str, Any]:
    """What a study is of, and its mark, which no other study has.

    Args:
        study: Made by `shared_study`.

    Raises:
        ValueError: If its settings are not what a search writes.
    """
    found = study.user_attrs[SETTINGS]
    settings_from(found)
    return dict(found)


def existing_study(database: Database, name: str) -> optuna.Study:
    """The study of a name that a search has made.

    Raises:
        ValueError: If there is none, or it was made by something else.
    """
    check_server_rows(database.engine, name)
    names = optuna.get_all_study_names(database.storage)
    if name not in names:
        known = ", ".join(map(shown, names[:_NAMED])) or "none at all"
        known += ", …" if len(names) > _NAMED else ""
        raise ValueError(
            f"expected the name of a study at {database.address}, got {name!r} where there are: "
            f"{known}"
        )
    with quiet_optuna():
        study = optuna.load_study(study_name=name, storage=database.storage)
    if SETTINGS not in study.user_attrs:
        raise ValueError(_foreign(study, database))
    settings_of(study)
    return study


def _require(study: optuna.Study, wanted: Mapping[str, Any], database: Database) -> None:
    settings = settings_of(study)
    for key, value in wanted.items():
        got = settings.get(key)
        if got != value:
            expected, found = _differing(value, got)
            raise ValueError(
                f"expected a study with {_MEANINGS[key]} {expected}, got {_short(found)} "
                f"in study {study.study_name!r} at {database.address}"
            )


def _differing(expected: Any, found: Any) -> tuple[Any, Any]:
    """Of two descriptions in JSON only what differs."""
    try:
        one, other = bounded_json(expected, "what is wanted"), bounded_json(found, "what there is")
    except ValueError:
        return expected, found
    if not isinstance(one, dict) or not isinstance(other, dict):
        return expected, found
    keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
    return tuple(", ".join(f"{key}: {side.get(key)}" for key in keys) for side in (one, other))  # type: ignore[return-value]


def _short(found: object) -> str:
    """What a study says of itself, as a message may repeat it."""
    text = "".join(one if one.isprintable() else "?" for one in str(found)[:_LONGEST])
    return text + ("…" if len(str(found)) > _LONGEST else "")


def _foreign(study: optuna.Study, database: Database) -> str:
    return (
        "expected a study made by a search for groups, "
        f"got {study.study_name!r} at {database.address}, which something else has made"
    )


def number_of(database: Database, study: optuna.Study) -> int:
    """Optuna's number of a study within its database."""
    return database.storage.get_study_id_from_name(study.study_name)


def result_of(
    database: Database,
    study: optuna.Study,
    space: SearchSpace,
    trained_here: Container[ChildProposal] = (),
) -> SearchResult:
    """What a study holds.

    Args:
        database: Where it lives.
        study: Of a search.
        space: What it ranges over.
        trained_here: What this process has trained itself; all else is the database's word.

    Raises:
        ValueError: If it holds what no search writes.
    """
    settings = settings_of(study)
    # Claims first: what is finished in between is then not counted as running.
    running = Claims(database.engine, settings["mark"], grace=1.0).running()
    trials = _trials.checked(study.get_trials(deepcopy=False), space)
    children = _trials.children(trials, space)
    trained = {_trials.child_key(one.proposal.key) for one in children}
    read = sum(one.proposal not in trained_here for one in children)
    return SearchResult(
        space,
        children,
        by_network=settings["by_network"],
        failed=sum(one.state == TrialState.FAIL for one in trials),
        running=sum(_trials.child_key(key) not in trained for key in running),
        origin=Origin(database.address, read) if read else None,
    )
