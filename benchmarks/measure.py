"""What one solve costs in a process of its own: the half that every library shares.

Standard library only, because it runs in each library's own environment.
"""

from __future__ import annotations

import contextlib
import json
import math
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

Problem = TypeVar("Problem")


def solve_twice(
    build: Callable[[str, str], Problem],
    solve: Callable[[Problem], Any],
    describe: Callable[[Problem, Any], dict[str, Any]],
) -> None:
    """Solve the problem named on the command line twice; print what each call cost as JSON lines.

    The command line is GROUP REP LIMIT. The first call is cold, the second warm: the problem is
    built anew before each, outside the clock, so nothing found by the first is kept on it. A call
    that uses more than LIMIT CPU seconds ends the process with SIGXCPU; the lines printed before
    that stand.

    Args:
        build: From the texts of a group and a representation to a problem.
        solve: Finds the basis from scratch and returns when it is done.
        describe: The rank, the residual, and whatever else is worth a column.
    """
    group, rep, limit = sys.argv[1], sys.argv[2], float(sys.argv[3])
    try:
        problem = build(group, rep)
        answer, cost = cost_of(lambda: solve(problem), limit)
        report("cold", cost)
        report("answer", describe(problem, answer))
        again = build(group, rep)
        report("warm", cost_of(lambda: solve(again), limit)[1])
    except Exception as error:  # whatever a library raises is this row's result
        sentence = " ".join(str(error).split()) or "no message"
        report("error", {"error": f"{type(error).__name__}: {sentence}"})


def relative_residual(pairs: Iterator[tuple[float, float]]) -> float:
    """The largest error/typical over constraints, as ``isotropy.Basis.residual`` has it.

    Args:
        pairs: For each constraint C, ‖Cv‖/‖v‖ on basis vectors v and ‖Cx‖/‖x‖ on random x.
    """
    return max((error / typical for error, typical in pairs if typical > 1e-13), default=0.0)


def report(stage: str, facts: dict[str, Any]) -> None:
    print(json.dumps({"stage": stage, **facts}), flush=True)


def cost_of(call: Callable[[], Any], limit: float) -> tuple[Any, dict[str, float]]:
    """The answer, and what it took.

    CPU seconds on all threads, wall seconds, peak memory in MB above the level before, and how
    many modules were imported meanwhile: it should be none, as imports are not to be timed.
    """
    modules, level = len(sys.modules), peak_from_now()
    with _cpu_limit(limit):
        wall, cpu = time.perf_counter(), cpu_seconds()
        answer = call()
        cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
    peak_mb, modules = (peak_memory() - level) / 1e6, len(sys.modules) - modules
    return answer, {"cpu": cpu, "wall": wall, "peak_mb": peak_mb, "modules": modules}


def cpu_seconds() -> float:
    """CPU seconds of this process, all threads.

    Not ``time.process_time``: under a CPU limit Linux advances that clock by whole ticks of 4 ms.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


@contextlib.contextmanager
def _cpu_limit(seconds: float) -> Iterator[None]:
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(cpu_seconds() + seconds), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, (most, most))


def peak_from_now() -> int:
    """Lower the recorded peak to what is resident now, which imports may have exceeded."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_memory()


def peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
