"""What forward and backward of networks cost, in turns in one process: the half that is shared.

Standard library only, because it runs in each library's own environment.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from measure import cost_of, cpu_seconds, peak_from_now, peak_memory, report

Network = TypeVar("Network")
Step = Callable[[], Any]

_LIMIT = 3600.0  # CPU seconds to build a network
_TURN = 0.02  # seconds that a turn fills with calls, so that the clock's own cost does not count
_SETTLE = 1.0  # seconds; jax goes on to free the memory of a step after it has returned


def settings() -> dict[str, Any]:
    """What the parent process asks for, from the command line."""
    return dict(json.loads(sys.argv[1]))


def report_about(facts: dict[str, Any]) -> None:
    """Say what runs here: versions, the hidden representation."""
    report("about", facts)


def resident_peak(step: Step) -> float:
    """The most memory resident during a step, in MB above the level before it.

    What earlier steps freed but the allocator kept is given back first: else the step would take
    its memory from there, unseen.
    """
    time.sleep(_SETTLE)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    level = peak_from_now()
    step()
    return (peak_memory() - level) / 1e6


def compare(
    build: Callable[[str], Network],
    count: Callable[[Network], int],
    flavours: dict[str, Callable[[Network], Step]],
    repeats: int,
    wait: Callable[[], None] = lambda: None,
    peak: Callable[[Step], float] = resident_peak,
) -> None:
    """Build an EMLP and an MLP, step each in every flavour; print costs as JSON lines.

    The steps are timed in turns, EMLP, MLP, EMLP, ..., so that noise hits all of them. A turn is
    one call that is not timed, then as many as fill 20 ms, at least one, and counts as their
    mean. A flavour that fails is reported and left out.

    Args:
        build: From "EMLP" or "MLP" to a network.
        count: How many parameters a network has.
        flavours: From a name ("" for the plain one) to what makes a step of a network. A step is
            the loss and the gradients of all parameters, new at each call.
        repeats: How many turns each step has.
        wait: Returns when all that steps have started is done.
        peak: The memory in MB that a call of a step takes.
    """
    networks = {kind: _built(kind, build, count) for kind in ("EMLP", "MLP")}
    steps: dict[str, Step] = {}
    for flavour, prepare in flavours.items():
        for kind, network in networks.items():
            name = f"{kind} {flavour}".strip()
            step = _first(name, prepare, network, wait)
            if step is not None:
                steps[name] = step
    for name, step in steps.items():
        report("peak", {"name": name, "peak_mb": peak(step)})
    calls = {name: _calls_in_a_turn(step, wait) for name, step in steps.items()}
    _take_turns(steps, calls, repeats, wait)


def _built(kind: str, build: Callable[[str], Network], count: Callable[[Network], int]) -> Network:
    network, cost = cost_of(lambda: build(kind), _LIMIT)
    report("build", {"name": kind, **cost, "parameters": count(network)})
    return network  # type: ignore[no-any-return]


def _first(
    name: str, prepare: Callable[[Network], Step], network: Network, wait: Callable[[], None]
) -> Step | None:
    """Make a step and call it once: whatever is compiled or captured is so by then."""
    wall, cpu = time.perf_counter(), cpu_seconds()
    try:
        step = prepare(network)
        step()
        wait()
    except Exception as error:  # whatever a library raises is this row's result
        report("failed", {"name": name, "error": sentence(error)})
        return None
    cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
    report("first", {"name": name, "cpu": cpu, "wall": wall})
    return step


def sentence(error: Exception) -> str:
    """An error in one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no message'}"


def _calls_in_a_turn(step: Step, wait: Callable[[], None]) -> int:
    step()
    wait()
    began = time.perf_counter()
    step()
    wait()
    return max(1, round(_TURN / (time.perf_counter() - began)))


def _take_turns(
    steps: dict[str, Step], calls: dict[str, int], repeats: int, wait: Callable[[], None]
) -> None:
    seconds: dict[str, dict[str, list[float]]] = {n: {"cpu": [], "wall": []} for n in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            step()  # what the step before left to be done is not this one's cost
            wait()
            wall, cpu = time.perf_counter(), cpu_seconds()
            for _ in range(calls[name]):
                step()
            wait()
            cpu, wall = cpu_seconds() - cpu, time.perf_counter() - wall
            seconds[name]["cpu"].append(cpu / calls[name])
            seconds[name]["wall"].append(wall / calls[name])
    for name, taken in seconds.items():
        report("times", {"name": name, "calls": calls[name], **taken})
