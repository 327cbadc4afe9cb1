"""Studies in a database: made, found again, and refused where they are of something else."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import optuna
from optuna.trial import TrialState

from isotropy.discovery.search import _trials
from isotropy.discovery.search._claims import Claims
from isotropy.discovery.search._database import Database
from isotropy.discovery.search._search_result import SearchResult
from isotropy.discovery.search._space import SearchSpace

FORMAT = "isotropy format"
_FORMAT = 1
SETTLING = "settings"
_MEANINGS = {
    FORMAT: "the format",
    "space": "the space",
    "child": "the child",
    "seed": "the seed",
    "by_network": "by_network",
}


@contextmanager
def _without_chatter() -> Iterator[None]:
    """Optuna tells on standard error of every study that it makes or finds."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def shared_study(database: Database, name: str, settings: Mapping[str, Any]) -> optuna.Study:
    """The study of a name: a new one, or one of the same settings.

    Args:
        database: Where it lives.
        name: Of the study.
        settings: The space's description, the child's fingerprint, ``seed`` and ``by_network``.

    Raises:
        ValueError: If the study of that name is of other settings, or was made by something else;
            it is left as it was.
    """
    wanted = {**settings, FORMAT: _FORMAT}
    with _without_chatter():
        study = optuna.create_study(
            storage=database.storage,
            study_name=name,
            direction="maximize",
            load_if_exists=True,
            sampler=optuna.samplers.RandomSampler(),
        )
    claims = Claims(database.engine, number_of(database, study), grace=10.0)
    # Two workers may make the study at once: one of them says what it is of.
    while FORMAT not in study.user_attrs:
        if study.get_trials(deepcopy=False) or len(study.directions) != 1:
            raise _foreign(study, database)
        if claims.claim(SETTLING):
            if FORMAT not in study.user_attrs:
                for key in (*settings, FORMAT):
                    study.set_user_attr(key, wanted[key])
            claims.release(SETTLING)
        else:
            time.sleep(0.05)
    _require(study, wanted, database)
    return study


def existing_study(database: Database, name: str) -> optuna.Study:
    """The study of a name that a search has made.

    Args:
        database: Where it lives.
        name: Of the study.

    Raises:
        ValueError: If there is none, or it was made by something else.
    """
    names = optuna.get_all_study_names(database.storage)
    if name not in names:
        known = ", ".join(map(repr, names)) or "none at all"
        raise ValueError(
            f"expected the name of a study at {database.address}, got {name!r} where there are: "
            f"{known}"
        )
    with _without_chatter():
        study = optuna.load_study(study_name=name, storage=database.storage)
    if FORMAT not in study.user_attrs:
        raise _foreign(study, database)
    _require(study, {FORMAT: _FORMAT}, database)
    return study


def _require(study: optuna.Study, wanted: Mapping[str, Any], database: Database) -> None:
    for key, value in wanted.items():
        got = study.user_attrs.get(key)
        if got != value:
            raise ValueError(
                f"expected a study with {_MEANINGS[key]} {value}, got {got} "
                f"in study {study.study_name!r} at {database.address}"
            )


def _foreign(study: optuna.Study, database: Database) -> ValueError:
    return ValueError(
        "expected a study made by a search for groups, "
        f"got {study.study_name!r} at {database.address}, which something else has made"
    )


def number_of(database: Database, study: optuna.Study) -> int:
    """Optuna's number of a study within its database.

    Args:
        database: Where it lives.
        study: Any.
    """
    return database.storage.get_study_id_from_name(study.study_name)


def result_of(study: optuna.Study, space: SearchSpace) -> SearchResult:
    """What a study holds.

    Args:
        study: Of a search.
        space: What it ranges over.
    """
    trials = study.get_trials(deepcopy=False)
    return SearchResult(
        space,
        _trials.children(trials, space),
        by_network=study.user_attrs["by_network"],
        failed=sum(one.state == TrialState.FAIL for one in trials),
        running=sum(one.state == TrialState.RUNNING for one in trials),
    )
