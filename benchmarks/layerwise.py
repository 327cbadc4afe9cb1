"""F-FC+CONV, ours and with the published block-diagonal inputs, in one run.

The network of van der Ouderaa et al. (2023) whose layers are a factored linear map and a
convolution. See ``README.md`` in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Literal

import torch
from isotropy_step import CapturedStep, device_peak
from measure import cpu_seconds
from measure_steps import Step
from peers import block_diagonal_factors as peer
from torch import Tensor, nn

from isotropy.evidence import CurvatureOptions, Laplace, laplace
from isotropy.evidence._curvature_blocks import KroneckerBlock
from isotropy.nn import LayerwiseNetwork
from isotropy.run import write_json

_CLASSES, _SIZE, _EPOCH = 10, 32, 5000
_AGREE = 1e-9  # relative, two ways to the same evidence in float64
_CHECKED_ALPHA, _CHECKED_IMAGES, _CHECKED_PRECISION = 2, 20, 1e-4
# blocks share an output factor, as published
_ALIKE: dict[str, Literal["expand"]] = {"channel": "expand"}


def main() -> int:
    args = _arguments()
    torch.set_num_threads(args.threads)
    _print_header(args)
    facts: dict[str, Any] = {"alpha": args.alpha, "torch": torch.__version__}
    if args.cuda:
        rows = _on_a_gpu(args)
        _print_gpu(rows)
        fine = True
    else:
        check = _check()
        fine = check["apart"] < _AGREE
        _print_check(check, fine)
        rows = _timed(args)
        _print_times(rows, args)
        facts["check"] = check
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    if args.json:
        asked = ("batch", "images", "peer_images", "largest", "repeats", "threads", "cuda")
        facts |= {key: getattr(args, key) for key in asked}
        write_json(args.json, {**facts, "rows": rows})
    return 0 if fine else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--alpha", type=_positive, default=10, help="width of the network")
    parser.add_argument("--batch", type=_positive, default=128, help="images of a training step")
    parser.add_argument("--images", type=_positive, default=150, help="images of a KFAC batch")
    parser.add_argument("--peer-images", type=_positive, default=16, help="of the peer's, from 4")
    parser.add_argument("--largest", type=_positive, default=3200, help="dense matrix decomposed")
    parser.add_argument("--repeats", type=_positive, default=2, help="turns of each")
    parser.add_argument("--threads", type=_positive, default=1, help="threads of PyTorch")
    parser.add_argument("--no-peer", action="store_true", help="ours only")
    parser.add_argument("--cuda", action="store_true", help="ours on a GPU; wall milliseconds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    args = parser.parse_args()
    if args.json and not args.json.resolve().parent.is_dir():
        parser.error(f"expected a file in an existing folder, got {args.json}")
    if not 4 <= args.peer_images <= args.images:
        parser.error(
            f"expected 4 to {args.images} images for the peer, as --images has it, got "
            f"{args.peer_images}"
        )
    if args.cuda and not torch.cuda.is_available():
        parser.error("expected a GPU for --cuda, got none")
    return args


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


# --- the network and its work -----------------------------------------------------------------


def _network(alpha: int, **kind: Any) -> LayerwiseNetwork:
    torch.manual_seed(0)
    return LayerwiseNetwork(
        1, _CLASSES, paths=("factored", "conv"), alpha=alpha, size=_SIZE, **kind
    )


def _images(count: int, **kind: Any) -> tuple[Tensor, Tensor]:
    """Random images: what they show changes no time."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(count, 1, _SIZE, _SIZE, generator=rng, dtype=torch.float64)
    return x.to(**{"dtype": torch.float32, **kind}), torch.arange(count) % _CLASSES


def _step_of(network: nn.Module, x: Tensor, y: Tensor) -> Step:
    """A training step: forwards, backwards, SGD with momentum and the pull of a unit prior."""
    optimiser = torch.optim.SGD(network.parameters(), 0.001, momentum=0.9, weight_decay=1 / _EPOCH)

    def step() -> Tensor:
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(network(x), y)
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def _ours(network: nn.Module, x: Tensor, y: Tensor, batch: int) -> Laplace:
    return laplace(
        network,
        "classification",
        (x, y),
        curvature=CurvatureOptions(batch_size=batch, sharing=_ALIKE),
    )


def _check() -> dict[str, float]:
    """The evidence by both ways at a small size, in float64.

    The prior is weak, so that the curvature is a good part of it.
    """
    network = _network(_CHECKED_ALPHA, dtype=torch.float64)
    x, y = _images(_CHECKED_IMAGES, dtype=torch.float64)
    mine = _ours(network, x, y, 10)
    factors = peer.DenseFactors(peer.BlockDiagonalNetwork(network))
    for few in torch.arange(len(x)).split(10):
        factors.add(x[few], y[few])
    ours = float(mine.log_marginal_likelihood(_CHECKED_PRECISION))
    theirs = factors.log_evidence(_CHECKED_PRECISION)
    fit = float(mine.log_likelihood())
    return {"ours": ours, "peer": theirs, "fit": fit, "apart": abs(ours / theirs - 1)}


# --- on a processor ---------------------------------------------------------------------------


def _timed(args: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """CPU seconds of each kind of work, ours and the peer's, in turns."""
    network = _network(args.alpha)
    its = None if args.no_peer else peer.BlockDiagonalNetwork(network)
    rows = {
        "step": _timed_steps(network, its, args),
        "kfac": _timed_passes(network, its, args),
    }
    x, y = _images(args.images)
    mine = _ours(network, x, y, args.images)
    rows["eigen"] = {"ours": _seconds(mine.eigenvalues)}
    rows["memory"] = {"ours": _megabytes(mine)}
    if its is not None:
        widths = peer.DenseFactors(its).widths()
        rows["eigen"] |= _dense_eigen(widths, args.largest)
        rows["memory"]["peer"] = sum(4 * width**2 for width in widths) / 1e6
    return rows


def _timed_steps(
    network: nn.Module, its: nn.Module | None, args: argparse.Namespace
) -> dict[str, Any]:
    x, y = _images(args.batch)
    networks = {"ours": network} if its is None else {"ours": network, "peer": its}
    steps = {name: _step_of(one, x, y) for name, one in networks.items()}
    for name, one in networks.items():
        _step_of(one, x[:2], y[:2])()  # the first call is cold
        if name == "ours":
            steps[name]()
    return _turns(steps, args.repeats)


def _timed_passes(
    network: nn.Module, its: nn.Module | None, args: argparse.Namespace
) -> dict[str, Any]:
    """A batch, and each image more of a long pass, which leaves out what is done once."""
    x, y = _images(2 * args.images)
    few, many = args.peer_images // 4, args.peer_images
    calls: dict[str, Callable[[], Any]] = {
        "ours": lambda: _ours(network, x[: args.images], y[: args.images], args.images),
        "ours twice": lambda: _ours(network, x, y, args.images),
    }
    if its is not None:

        def dense(count: int) -> Callable[[], None]:
            return lambda: peer.DenseFactors(its).add(x[:count], y[:count])

        calls |= {"peer few": dense(few), "peer many": dense(many)}
    _ours(network, x[:20], y[:20], 20)
    row = _turns(calls, args.repeats)
    row["more"] = {"ours": (row["ours twice"] - row["ours"]) / args.images}
    if its is not None:
        slope = (row["peer many"] - row["peer few"]) / (many - few)
        row["peer"] = row["peer many"] + slope * (args.images - many)
        row["more"]["peer"], row["peer_counts"] = slope, [few, many]
    return row


def _dense_eigen(widths: list[int], largest: int) -> dict[str, Any]:
    """Seconds for dense factors of some widths; beyond the largest by the cube of the width.

    Matrices are random: real ones of few images are of so low a rank that LAPACK may give up.
    """
    done: dict[int, float] = {}
    for width in sorted({min(width, largest) for width in widths}):
        matrix = torch.randn(width, width, generator=torch.Generator().manual_seed(0))
        matrix = matrix + matrix.mT
        done[width] = _seconds(partial(torch.linalg.eigvalsh, matrix))
    total = sum(done[min(width, largest)] * max(1, width / largest) ** 3 for width in widths)
    return {"peer": total, "peer_largest": max(widths), "peer_measured_up_to": max(done)}


def _turns(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, Any]:
    """The least seconds of each call over some turns."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            taken[name].append(_seconds(call))
    return {name: min(seconds) for name, seconds in taken.items()}


def _seconds(call: Callable[[], Any]) -> float:
    gc.collect()
    began = cpu_seconds()
    call()
    return cpu_seconds() - began


def _megabytes(mine: Laplace) -> float:
    """The size of our factors."""
    total = 0
    for block in (block for blocks in mine.blocks.values() for block in blocks):
        assert isinstance(block, KroneckerBlock)
        total += sum(factor.nbytes for factor in (block.input, block.output))
    return total / 1e6


# --- on a GPU ---------------------------------------------------------------------------------


def _on_a_gpu(args: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Wall milliseconds and peak memory of our steps and passes."""
    network = _network(args.alpha, device="cuda")
    x, y = (tensor.cuda() for tensor in _images(4 * args.images))
    some = _images(args.batch)
    step = _step_of(network, some[0].cuda(), some[1].cuda())
    calls: dict[str, Step] = {
        f"step, batch {args.batch}": step,
        "the same as a CUDA graph": CapturedStep(step),
        f"KFAC, {args.images} images": lambda: _ours(
            network, x[: args.images], y[: args.images], args.images
        ),
        f"KFAC, {4 * args.images} images": lambda: _ours(network, x, y, args.images),
    }
    rows = {}
    for name, call in calls.items():
        call()
        rows[name] = {"ms": _wall(call, args.repeats), "peak_mb": device_peak(call)}
    one, four = (rows[f"KFAC, {count * args.images} images"]["ms"] for count in (1, 4))
    rows[f"KFAC, {args.images} images more"] = {"ms": (four - one) / 3}
    found = [_ours(network, x, y, args.images) for _ in range(2)]  # spectra are kept
    found.pop().eigenvalues()
    rows["eigenvalues"] = {"ms": _wall(found.pop().eigenvalues, 1)}
    return rows


def _wall(call: Callable[[], Any], repeats: int) -> float:
    """The median milliseconds of a call; short ones are called in tens."""
    calls = 1 if repeats == 1 else 10
    taken = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
        taken.append(1000 * (time.perf_counter() - began) / calls)
    return median(taken)


# --- the tables -------------------------------------------------------------------------------

_NAME = 34


def _print_header(args: argparse.Namespace) -> None:
    parameters = sum(p.numel() for p in _network(args.alpha).parameters())
    print(f"F-FC+CONV, alpha {args.alpha}, {_SIZE}x{_SIZE} pixels, {parameters} parameters")
    where = torch.cuda.get_device_name() if args.cuda else f"CPU, threads: {args.threads}"
    print(f"{where}; {args.repeats} turns; load {os.getloadavg()[0]:.1f} at the start", flush=True)


def _print_check(check: dict[str, float], fine: bool) -> None:
    print(
        f"\nalpha {_CHECKED_ALPHA}, {_CHECKED_IMAGES} images, prior precision "
        f"{_CHECKED_PRECISION:g}, float64: log likelihood {check['fit']:.2f}, log evidence "
        f"{check['ours']:.4f} (isotropy) {check['peer']:.4f} (published), "
        f"apart {check['apart']:.0e}{'' if fine else '  EVIDENCES DISAGREE'}",
        flush=True,
    )


def _print_times(rows: dict[str, dict[str, Any]], args: argparse.Namespace) -> None:
    step, kfac, eigen, memory = (rows[name] for name in ("step", "kfac", "eigen", "memory"))
    steps = _EPOCH / args.batch
    epoch = {name: steps * seconds for name, seconds in step.items()}
    scaled = args.peer_images < args.images
    print(f"\n{'CPU s':<{_NAME}} {'isotropy':>10} {'published':>11} {'ratio':>8}")
    _print_row(f"training step, batch {args.batch}", step)
    _print_row(f"epoch of {_EPOCH} images", epoch)
    _print_row(f"KFAC, {args.images} images", kfac, scaled)
    _print_row("KFAC, an image more", kfac["more"])
    over = "peer" in eigen and eigen["peer_largest"] > eigen["peer_measured_up_to"]
    _print_row("eigenvalues", eigen, over)
    _print_row("factors, MB", memory)
    if "peer" not in kfac:
        return
    if scaled:
        few, many = kfac["peer_counts"]
        print(f"~ KFAC from {few} images, {kfac['peer few']:.2f} s, and ", end="")
        print(f"{many}, {kfac['peer many']:.2f} s")
    if over:
        print(f"~ eigenvalues measured up to width {eigen['peer_measured_up_to']}, beyond it up to")
        print(f"  {eigen['peer_largest']} by the cube of the width")


def _print_row(name: str, row: dict[str, Any], scaled: bool = False) -> None:
    text = f"{name:<{_NAME}} {row['ours']:>10.3g}"
    if "peer" in row:
        mark = "~" if scaled else ""
        text += f" {mark + format(row['peer'], '.3g'):>11} {row['peer'] / row['ours']:>8.1f}"
    print(text, flush=True)


def _print_gpu(rows: dict[str, dict[str, float]]) -> None:
    print(f"\n{'':<{_NAME}} {'wall ms':>10} {'peak MB':>10}")
    for name, row in rows.items():
        peak = f"{row['peak_mb']:>10.0f}" if "peak_mb" in row else ""
        print(f"{name:<{_NAME}} {row['ms']:>10.2f} {peak}")


if __name__ == "__main__":
    sys.exit(main())
