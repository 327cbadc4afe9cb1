"""Our side of ``emlp_step.py``: forward and backward of EMLP and MLP in one process."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from measure_steps import Step, compare, report_about, resident_peak, settings
from torch import Tensor, nn

import isotropy
from isotropy.data import Task, inertia, lorentz_scattering, o5_invariant
from isotropy.nn import EMLP, MLP, uniform_rep

_TASKS: dict[str, Callable[[], Task]] = {
    "inertia": inertia,
    "o5": o5_invariant,
    "lorentz": lorentz_scattering,
}


class CapturedStep:
    """A step recorded once as a CUDA graph: a call replays it on the same memory.

    Args:
        step: The step.

    Attributes:
        peak_mb: The memory that the graph took, in MB.
    """

    def __init__(self, step: Step) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):  # libraries make their workspaces here, which a graph cannot
                step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with _peak_of_device() as peak, torch.cuda.graph(self.graph, stream=stream):
            self.result = step()
        self.peak_mb = peak[0]

    def __call__(self) -> Any:
        """Replay the graph; the result is overwritten by the next call."""
        self.graph.replay()
        return self.result


@contextmanager
def _peak_of_device() -> Iterator[list[float]]:
    torch.cuda.synchronize()
    level = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    peak: list[float] = []
    yield peak
    peak.append((torch.cuda.max_memory_allocated() - level) / 1e6)


def device_peak(step: Step) -> float:
    """The most memory allocated on the GPU during a step, in MB above the level before it."""
    if isinstance(step, CapturedStep):
        return step.peak_mb  # a replay allocates nothing
    with _peak_of_device() as peak:
        step()
    return peak[0]


def step_of(network: nn.Module, parameters: list[nn.Parameter], x: Tensor, y: Tensor) -> Step:
    def step() -> Any:
        loss = nn.functional.mse_loss(network(x), y)
        return loss.detach(), torch.autograd.grad(loss, parameters)

    return step


def main() -> None:
    given = settings()
    device = torch.device(given["device"])
    task = _TASKS[given["task"]]()
    symmetry = task.symmetry
    x, y = (rows.to(device, torch.float32) for rows in task.draw(given["batch"], generator=0))
    size = {"channels": given["channels"], "layers": given["layers"]}

    def build(kind: str) -> nn.Module:
        torch.manual_seed(0)
        network = EMLP if kind == "EMLP" else MLP
        return network(symmetry.rep_in, symmetry.rep_out, **size, device=device)

    def eager(network: nn.Module) -> Step:
        return step_of(network, list(network.parameters()), x, y)

    def compiled(network: nn.Module) -> Step:
        whole = torch.compile(network, fullgraph=True)
        return step_of(whole, list(network.parameters()), x, y)

    flavours: dict[str, Callable[[nn.Module], Step]] = {"": eager}
    if given["compile"]:
        flavours["compiled"] = compiled
    on_gpu = device.type == "cuda"
    if on_gpu:
        flavours["captured"] = lambda network: CapturedStep(eager(network))
    report_about(
        {
            "python": platform.python_version(),
            "isotropy": isotropy.__version__,
            "torch": torch.__version__,
            "device": torch.cuda.get_device_name(device) if on_gpu else "CPU",
            "hidden": str(uniform_rep(given["channels"], symmetry.group)),
        }
    )
    compare(
        build,
        lambda network: sum(p.numel() for p in network.parameters()),
        flavours,
        given["repeats"],
        wait=torch.cuda.synchronize if on_gpu else lambda: None,
        peak=device_peak if on_gpu else resident_peak,
    )


if __name__ == "__main__":
    main()
