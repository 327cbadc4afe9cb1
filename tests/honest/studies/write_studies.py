"""How the studies of this folder were written, by the release before files were checked.

Run it with that release on the path; the test that reads them needs its children.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import optuna
import torch

from isotropy.search import (
    GridChild,
    LatticeSearch,
    SearchResult,
    SearchSpace,
    Trained,
    Training,
    search_groups,
)
from isotropy_papers.score_table import ScoreTable

FOLDER = Path(__file__).parent
SPACE = SearchSpace((1, 4, 4), ("rotation", "horizontal flip", "vertical flip"), ((4,), (2,)))
GRIDS = SearchSpace((1, 4, 4), ("rotation", "horizontal flip", "vertical flip"), ((2,),))

TABLE = SearchSpace((1, 8, 8), ("horizontal flip", "vertical flip"), ((4,),))


class HashChild:
    """An accuracy that is a hash of what is asked for, and of the weights it starts from."""

    usual_epochs = 3

    def __call__(self, state, *, seed, epochs=None, start=None):
        begun = "" if start is None else str(start["bias"].tolist())
        digest = hashlib.sha256(f"{state.key} {seed} {epochs} {begun}".encode()).digest()
        weights = {"bias": torch.tensor([len(state.groups), digest[0]], dtype=torch.float32)}
        share = int.from_bytes(digest[:4], "big") / 2**32
        return Trained(share, 10 + len(state.groups), epochs or 3, weights)

    def fingerprint(self):
        return "a hash"


def grid_child():
    """A network of 4 × 4 pixels, whose classes are where the bright pixel is."""
    pixels = torch.eye(16).repeat(4, 1)
    y = (pixels.argmax(1) % 4 >= 2).long()
    x = pixels.view(-1, 1, 4, 4) + torch.linspace(0, 1, 64).view(-1, 1, 1, 1)
    return GridChild(GRIDS, (x[:48], y[:48]), (x[48:], y[48:]), Training(3, batch=16))


def in_rungs(space):
    return LatticeSearch(space, 0, rungs=(1,), warm=True)


def search(path, children=None):
    strategy = in_rungs(SPACE)
    return search_groups(HashChild(), SPACE, strategy=strategy, storage=path, children=children)


def search_grids(path, children=None):
    return search_groups(
        grid_child(), GRIDS, strategy=in_rungs(GRIDS), storage=path, children=children
    )


def listed(result):
    """A result as JSON has it."""
    return [[one.proposal.key, one.accuracy, one.parameters, one.epochs] for one in result.children]


def score_table():
    counts = np.arange(24).reshape(4, 2, 3) * 4
    sizes = np.array([1024, 512, 512, 256])
    return ScoreTable("made up", TABLE, tuple(TABLE.states()), counts, counts + 1, 100, 200, sizes)


def beside(path):
    """A study of the user's own in the same file, with all that Optuna keeps."""
    study = optuna.create_study(storage=f"sqlite:///{path}", study_name="my own tuning")
    study.enqueue_trial({"rate": 0.5})

    def objective(trial):
        rate = trial.suggest_float("rate", 1e-3, 1, log=True)
        width = trial.suggest_int("width", 1, 9)
        trial.suggest_categorical("kind", ["a", None, 3, True])
        trial.set_user_attr("loss", float("nan"))
        # as Optuna's CMA-ES leaves it; nothing but that sampler reads it
        trial.storage.set_trial_system_attr(trial._trial_id, "cma:optimizer:0", "80054e2e")
        trial.report(rate, 0)
        trial.report(float("nan"), 1)
        if trial.number == 1:
            raise optuna.TrialPruned
        return rate * width

    study.optimize(objective, n_trials=4)
    study.set_user_attr("about", {"who": "me"})


def write(folder):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    full = {"search": listed(search(folder / "all.db")), "grids": listed(search_grids(None))}
    beside(folder / "search.db")
    search(folder / "search.db", 7)
    search_grids(folder / "grids.db", 5)
    held = {name: listed(SearchResult.of(folder / f"{name}.db")) for name in ("search", "grids")}
    # A worker that was killed leaves its last transactions in the file beside.
    shutil.copy(folder / "search.db", folder / "killed.db")
    with closing(sqlite3.connect(folder / "killed.db")) as connection:
        connection.execute("SELECT count(*) FROM studies").fetchone()
        search(folder / "killed.db", 9)
        for end in ("", "-wal"):
            shutil.copy(folder / f"killed.db{end}", folder / f"left.db{end}")
    for name in ("search.db", "grids.db", "left.db", "left.db-wal"):
        data = gzip.compress((folder / name).read_bytes(), mtime=0)
        (FOLDER / f"{name}.gz").write_bytes(data)
    score_table().save(FOLDER / "table.safetensors")
    (FOLDER / "scores.json").write_text(json.dumps({"all": full, "held": held}, indent=1) + "\n")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        write(Path(place))
    sys.exit()
