import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("search_worker.py")


@pytest.fixture(scope="session")
def fakes():
    """Stand-ins for children and strategies."""
    spec = importlib.util.spec_from_file_location("search_worker", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def worker_script(tmp_path_factory):
    """A process that starts workers, what it had imported of databases, and its errors."""
    errors = tmp_path_factory.mktemp("workers") / "errors"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with errors.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, SCRIPT],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            start_new_session=True,
        )
    yield process, json.loads(process.stdout.readline()), errors
    os.killpg(process.pid, signal.SIGKILL)  # with workers, where something went wrong
    process.communicate()


@pytest.fixture
def workers(fakes, worker_script):
    """Runs workers on one study, kills the first one at a child, and gives the key of that."""
    process, _, errors = worker_script

    def run(storage, log, count, hang):
        process.stdin.write(json.dumps([str(storage), str(log), count, hang]) + "\n")
        process.stdin.flush()
        for _ in range(600):
            if fakes.noted(log, "hangs"):
                break
            time.sleep(0.05)
        [(pid, key)] = fakes.noted(log, "hangs")
        os.kill(pid, signal.SIGKILL)
        codes = json.loads(process.stdout.readline())
        assert (codes, errors.read_text()) == ([-signal.SIGKILL, *[0] * (count - 1)], "")
        return key

    return run
