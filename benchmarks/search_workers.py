"""Four workers on one PostgreSQL study, one of them killed, against one worker alone.

Real children on G-MNIST Aug1. Prints how many were trained, by whom, whether any was trained twice
or lost, and whether every score is the one worker's. See ``README.md`` in this folder.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

_GROUPS = (
    "rotation",
    "horizontal flip",
    "vertical flip",
    "horizontal scramble",
    "top horizontal scramble",
    "bottom horizontal scramble",
)


def main() -> int:
    args = _arguments()
    if args.worker:
        _work(args.worker)
        return 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of folders that a bare machine does not have
        import pgserver

    # the server runs as a user of its own where this one is root
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        server = pgserver.get_server(Path(folder) / "data")
        try:
            return _compared(server.get_uri(), Path(folder), args.workers)
        finally:
            server.cleanup()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def _compared(url: str, folder: Path, workers: int) -> int:
    from isotropy.search import SearchResult

    start = time.perf_counter()
    running = [_started(url) for _ in range(workers)]
    _wait_until_all_train(url, workers)
    running[0].send_signal(signal.SIGKILL)
    codes = [one.wait() for one in running]
    together = time.perf_counter() - start
    start = time.perf_counter()
    alone_code = _started(str(folder / "alone.db")).wait()
    alone_seconds = time.perf_counter() - start
    many, alone = SearchResult.of(url), SearchResult.of(folder / "alone.db")
    scores = {one.state: one.accuracy for one in many.children}
    expected = {one.state: one.accuracy for one in alone.children}
    twice = [str(state) for state, n in Counter(c.state for c in many.children).items() if n > 1]
    print(f"{workers} workers, the first killed (exit codes {codes}), {together:.0f} s")
    print(f"one worker (exit code {alone_code}), {alone_seconds:.0f} s")
    print(f"{len(many.children)} children, {many.failed} given up with its worker")
    print(f"networks in the space: {len(many.space.networks())}; trained twice: {twice or 'none'}")
    print(f"lost: {[str(s) for s in expected if s not in scores] or 'none'}")
    same = scores == expected
    print(f"all scores equal to the one worker's: {same}; best: {many.best}")
    killed_only_first = codes[0] == -signal.SIGKILL and not any(codes[1:])
    return 0 if same and not twice and killed_only_first else 1


def _started(storage: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, __file__, "--worker", storage], env=environment)


def _wait_until_all_train(url: str, workers: int) -> None:
    from isotropy.search import SearchResult

    while True:
        time.sleep(1.0)
        try:
            found = SearchResult.of(url)
        except ValueError:
            continue  # the study is not there yet
        if found.children and found.running == workers:
            return


def _work(storage: str) -> None:
    import torch

    from isotropy.search import GridChild, SearchSpace, Training, search_groups
    from isotropy_papers.grid_image_sets import g_mnist

    torch.set_num_threads(1)
    space = SearchSpace((1, 28, 28), _GROUPS)
    images = g_mnist("Aug1", train=2000, validation=2000, test=1000)
    child = GridChild(space, images.train, images.validation, Training(epochs=4))
    search_groups(child, space, strategy="random", storage=storage, grace=5.0)


if __name__ == "__main__":
    sys.exit(main())
