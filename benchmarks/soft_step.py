"""A training step of softened networks, each beside a plain MLP of the same width, in one run.

A step is the mean squared loss, with and without ``log_prior``, its gradients and an update by
Adam, in float32. Networks take turns, so that noise hits all of them; what counts is the least
CPU time. ``strict`` is the network before it was softened. The aim is 2.5 times the MLP.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from measure import cpu_seconds
from measure_steps import Step
from torch import Tensor, nn

from isotropy.groups import SL, O, O2eR3, Z
from isotropy.nn import EMLP, MLP, log_prior, soften
from isotropy.reps import Rep, Scalar, V
from isotropy.run import write_json

_AIM = 2.5  # times a step of the MLP, with the prior
_SAMPLES = 1000  # that the prior is divided by


class Case(NamedTuple):
    """A softened network, what it was before, and an MLP to compare with."""

    name: str
    soft: nn.Module
    strict: nn.Module
    plain: nn.Module
    x: Tensor
    y: Tensor


def main() -> int:
    args = _arguments()
    torch.set_num_threads(args.threads)
    print(f"torch {torch.__version__}, {args.threads} threads, {args.repeats} turns")
    print(f"load {os.getloadavg()[0]:.1f} at the start\n")
    print(
        f"{'':12}{'ms of a step: least CPU, median in brackets':^60}{'over the MLP':^24}\n"
        f"{'':12}{'MLP':>15}{'strict':>15}{'soft':>15}{'with prior':>15}"
        f"{'strict':>8}{'soft':>8}{'prior':>8}"
    )
    rows = {}
    for name in args.cases:
        rows[name] = _timed(_CASES[name](name), args.repeats)
        _print_row(name, rows[name])
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    if args.json:
        write_json(args.json, {"torch": torch.__version__, "threads": args.threads, "rows": rows})
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=list(_CASES), default=list(_CASES))
    parser.add_argument("--repeats", type=_positive, default=30, help="turns that a step has")
    parser.add_argument("--threads", type=_positive, default=1, help="threads of PyTorch")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    args = parser.parse_args()
    if args.json and not args.json.resolve().parent.is_dir():
        parser.error(f"expected a file in an existing folder, got {args.json}")
    return args


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


# --- networks ---------------------------------------------------------------------------------


def _vectors(
    rep_in: Rep, rep_out: Rep, group: Any, channels: int, layers: int, batch: int
) -> Callable[[str], Case]:
    def build(name: str) -> Case:
        torch.manual_seed(0)
        strict = EMLP(rep_in, rep_out, group, channels=channels, layers=layers)
        plain = MLP(strict.in_features, strict.out_features, channels=channels, layers=layers)
        x, y = torch.randn(batch, strict.in_features), torch.randn(batch, strict.out_features)
        return Case(name, soften(strict), strict, plain, x, y)

    return build


def _images(name: str) -> Case:
    """Convolutions on small maps, beside fully connected layers of the same widths."""
    torch.manual_seed(0)
    side, channels, batch = 3, [1, 32, 32, 32], 500
    steps: list[nn.Module] = []
    dense: list[nn.Module] = [nn.Flatten()]
    for before, after in pairwise(channels):
        steps += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
        dense += [nn.Linear(before * side**2, after * side**2), nn.ReLU()]
    head = nn.Linear(channels[-1] * side**2, 1)
    strict = nn.Sequential(*steps, nn.Flatten(), head)
    plain = nn.Sequential(*dense, nn.Linear(channels[-1] * side**2, 1))
    x, y = torch.randn(batch, 1, side, side), torch.randn(batch, 1)
    return Case(name, soften(strict, x[:2]), strict, plain, x, y)


_CASES: dict[str, Callable[[str], Case]] = {
    "inertia": _vectors(5 * Scalar + 5 * V, V * V, O(3), 384, 3, 500),
    "SL(3)": _vectors(5 * Scalar + 5 * V, V * V, SL(3), 384, 3, 500),
    "pendulum": _vectors(4 * V, Scalar, O2eR3(), 128, 3, 500),
    "walker": _vectors(5 * Scalar + 6 * V, 3 * V, Z(2), 256, 2, 256),
    "images": _images,
}


# --- times ------------------------------------------------------------------------------------


def _step_of(network: nn.Module, x: Tensor, y: Tensor, *, prior: bool = False) -> Step:
    optimizer = torch.optim.Adam(network.parameters(), 1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(network(x), y)
        if prior:
            loss = loss - log_prior(network, samples=_SAMPLES)
        loss.backward()
        optimizer.step()

    return step


def _timed(case: Case, repeats: int) -> dict[str, list[float]]:
    steps = {
        "MLP": _step_of(case.plain, case.x, case.y),
        "strict": _step_of(case.strict, case.x, case.y),
        "soft": _step_of(case.soft, case.x, case.y),
        "prior": _step_of(case.soft, case.x, case.y, prior=True),
    }
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeats):
        for name, step in steps.items():
            step()  # what the step before left in caches is not this one's cost
            began = cpu_seconds()
            step()
            found[name].append(1e3 * (cpu_seconds() - began))
    return found


def _ratio(row: dict[str, list[float]], name: str) -> float:
    return min(row[name]) / min(row["MLP"])


def _print_row(name: str, row: dict[str, list[float]]) -> None:
    times = "".join(f"{min(ms):8.2f} ({median(ms):4.1f})" for ms in row.values())
    ratios = "".join(f"{_ratio(row, kind):8.2f}" for kind in ("strict", "soft", "prior"))
    print(f"{name:12}{times}{ratios}{'' if _ratio(row, 'prior') <= _AIM else '  over'}")


if __name__ == "__main__":
    sys.exit(main())
