"""Stand-ins for children and strategies, and a script that runs several workers of one search.

The script reads requests from standard input, so that one import of PyTorch serves all workers.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import traceback
from pathlib import Path

import torch

from isotropy.search import ChildProposal, SearchSpace, Trained, search_groups

GROUPS = ("rotation", "horizontal flip", "vertical flip", "horizontal scramble")
SPACE = SearchSpace((1, 4, 4), GROUPS, ((4,),))
GRACE = 3.0  # a busy machine may keep a process waiting for a second


class InOrder:
    """Proposes all states, in their order."""

    def __init__(self, space=SPACE, keeps_weights=False):
        self.space = space
        self.keeps_weights = keeps_weights

    def propose(self, scores, taken):
        every = map(ChildProposal, self.space.states())
        return next((one for one in every if one not in scores and one not in taken), None)


class FakeChild:
    """An accuracy that is a hash of state and seed; each call leaves lines in a log."""

    def __init__(self, log, seconds=0.0, hang=None):
        self.log = Path(log)
        self.seconds = seconds
        self.hang = hang
        self.calls = 0

    def __call__(self, state, *, seed, epochs=None, start=None):
        self.note("began", state)
        self.calls += 1
        if self.calls == self.hang:
            self.note("hangs", state)
            time.sleep(120)
        time.sleep(self.seconds)
        self.note("ended", state)
        return Trained(accuracy(state, seed), 10 + len(state.groups), epochs or 4, weights(state))

    def note(self, what, state):
        # One short write to a file opened for appending is whole, also between processes.
        with self.log.open("a") as file:
            file.write(f"{what} {os.getpid()} {state.key}\n")

    def fingerprint(self):
        return "fake child"


def accuracy(state, seed):
    digest = hashlib.sha256(f"{state.key} {seed}".encode()).digest()
    return int.from_bytes(digest[:4], "big") / 2**32


def expected():
    """What each child must give in a search of seed 0, worked out without a search."""
    return {
        ChildProposal(state): accuracy(state, child_seed(0, SPACE, state))
        for state in SPACE.states()
    }


def child_seed(seed, space, state):
    """The seed of a child, by its definition."""
    text = f"{seed}\n{space.digest()}\n{state.key}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def weights(state):
    return {"bias": torch.full((2,), float(len(state.groups)))}


def noted(log, what):
    """The (process number, key) of each line of a log of one kind."""
    if not Path(log).exists():
        return []
    lines = (line.split(" ", 2) for line in Path(log).read_text().splitlines())
    return [(int(pid), key) for kind, pid, key in lines if kind == what]


def work(storage, log, hang):
    search_groups(
        FakeChild(log, seconds=0.05, hang=hang),
        SPACE,
        strategy=InOrder(),
        storage=storage,
        by_network=False,
        grace=GRACE,
    )


def start(storage, log, count, hang):
    """Start workers, of which the first one hangs at a child, and wait for all of them."""
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                # Only the first one hangs, so that another one can finish its child.
                work(storage, log, hang if number == 0 else None)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        pids.append(pid)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def answer(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main():
    answer(sorted({"optuna", "sqlalchemy"} & set(sys.modules)))
    for line in sys.stdin:
        answer(start(*json.loads(line)))


if __name__ == "__main__":
    main()
