"""The log evidence of a convolutional network, ours and laplace-torch's, in one run.

The network is CONV of van der Ouderaa et al. (2023). See ``README.md`` in this folder for what the
columns mean.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Literal

import torch
from measure import cpu_seconds
from peers import laplace_torch as peer
from torch import Tensor, nn

from isotropy.evidence import CurvatureOptions, Laplace, laplace
from isotropy.evidence._curvature_blocks import KroneckerBlock
from isotropy.run import write_json

Padding = Literal["circular", "zeros", "module"]

_WIDTH, _SIZE, _CLASSES = 10, 32, 10
_LAYERS = ((1, 1), (2, 2), (2, 1), (4, 2), (4, 1), (8, 2), (8, 2), (16, 2))  # width, stride
_AGREE = 1e-6  # relative, two ways to the same evidence or factor in float64
_CHECKED = 100  # images for all that is not timed
_PADDINGS: dict[Padding, str] = {
    "circular": "circular",
    "zeros": "zeros",
    "module": "circular, by a module",
}


def main() -> int:
    args = _arguments()
    torch.set_num_threads(args.threads)
    device = "cuda" if args.cuda else "cpu"
    x, y = (tensor.to(device) for tensor in _digits(args.images, args.channels))
    model = _network(args.channels).to(device)
    _print_header(args, model, _trained(model, x, y, args.epochs))
    theirs = None if args.no_peer else _peer_name()
    timed = _timed(model, x, y, args, theirs)
    _print_times(timed, theirs, args.cuda)
    x, y = x[:_CHECKED].double(), y[:_CHECKED]
    checks = _checks(model.double(), x, y, args.batch, theirs)
    _print_checks(checks, theirs, len(x))
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    if args.json:
        asked = ("images", "batch", "channels", "epochs", "repeats", "threads", "cuda")
        facts: dict[str, Any] = {key: getattr(args, key) for key in asked}
        facts |= {"torch": torch.__version__, "peer": theirs}
        write_json(args.json, {**facts, "timed": timed, "checks": checks})
    return 0 if all(check["fine"] for check in checks.values()) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--images", type=_positive, default=1000, help="at most 1797")
    parser.add_argument("--batch", type=_positive, default=250, help="images at a time")
    parser.add_argument("--channels", type=int, choices=(1, 3), default=1, help="of the images")
    parser.add_argument("--epochs", type=_positive, default=6, help="of training beforehand")
    parser.add_argument("--repeats", type=_positive, default=3, help="turns of each library")
    parser.add_argument("--threads", type=_positive, default=1, help="threads of PyTorch")
    parser.add_argument("--cuda", action="store_true", help="on a GPU; wall seconds")
    parser.add_argument("--no-peer", action="store_true", help="ours only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    args = parser.parse_args()
    if args.json and not args.json.resolve().parent.is_dir():
        parser.error(f"expected a file in an existing folder, got {args.json}")
    if args.images > 1797:
        parser.error(f"expected at most 1797 images, got {args.images}")
    if args.cuda and not torch.cuda.is_available():
        parser.error("expected a GPU for --cuda, got none")
    return args


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def _peer_name() -> str | None:
    try:
        return peer.name()
    except ModuleNotFoundError as error:
        print(f"laplace-torch is left out: {error}")
        return None


# --- the network and its data -----------------------------------------------------------------


class Conv(nn.Sequential):
    """The network CONV, 32×32 pixels, with twins that pad in another way.

    Args:
        channels: Those of the images.
        padding: "circular" or "zeros", by the convolution; "module" for circular padding by a
            module before a convolution that does not pad.
    """

    def __init__(self, channels: int, padding: Padding = "circular") -> None:
        layers: list[nn.Module] = []
        for width, stride in _LAYERS:
            here = width * _WIDTH
            if padding == "module":
                layers += [nn.CircularPad2d(1), nn.Conv2d(channels, here, 3)]
            else:
                layers += [nn.Conv2d(channels, here, 3, padding=1, padding_mode=padding)]
            layers += [Polyphase(), nn.ReLU()] if stride == 2 else [nn.ReLU()]
            channels = here
        head = [nn.Linear(channels, 4 * channels), nn.ReLU(), nn.Linear(4 * channels, _CLASSES)]
        super().__init__(*layers, nn.Flatten(), *head)

    def twin(self, padding: Padding) -> Conv:
        """The same weights with another padding."""
        weights = list(self.parameters())
        twin = Conv(weights[0].shape[1], padding).to(weights[0])
        for mine, its in zip(weights, twin.parameters(), strict=True):
            its.data.copy_(mine)
        return twin


class Polyphase(nn.Module):
    """Every other pixel: of the four choices, for each image, the one with the largest value."""

    def forward(self, x: Tensor) -> Tensor:
        """From (n, c, h, w) to (n, c, h/2, w/2)."""
        phases = torch.stack([x[..., i::2, j::2] for j in (0, 1) for i in (0, 1)], 1)
        best = phases.detach().flatten(2).amax(-1).argmax(-1)
        return phases[torch.arange(len(x), device=x.device), best]


def _digits(images: int, channels: int) -> tuple[Tensor, Tensor]:
    """Handwritten digits, 32×32 pixels, standardised."""
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(0))[:images]
    small = torch.tensor(pixels, dtype=torch.float32).reshape(-1, 1, 8, 8)[order]
    x = nn.functional.interpolate(small, size=(_SIZE, _SIZE), mode="bilinear")
    x = (x - x.mean()) / x.std()
    return x.expand(-1, channels, -1, -1).contiguous(), torch.tensor(labels)[order].long()


def _network(channels: int) -> Conv:
    """The network as it starts."""
    model, rng = Conv(channels), torch.Generator().manual_seed(0)
    for module in model.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            slope = 0.0 if isinstance(module, nn.Conv2d) else 5**0.5  # torch's own for Linear
            nn.init.kaiming_uniform_(module.weight, slope, generator=rng)
            nn.init.constant_(module.get_parameter("bias"), 0)
    parameters = sum(p.numel() for p in model.parameters())
    assert parameters == {1: 338_590, 3: 338_770}[channels], parameters  # as published
    return model


def _trained(model: Conv, x: Tensor, y: Tensor, epochs: int) -> float:
    """Train a network in place; its mean loss afterwards."""
    loss, rng = nn.CrossEntropyLoss(), torch.Generator().manual_seed(0)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(x), generator=rng).split(25):
            optimiser.zero_grad()
            loss(model(x[batch]), y[batch]).backward()
            optimiser.step()
    model.eval()
    with torch.no_grad():
        return float(loss(model(x), y))


# --- what is timed ----------------------------------------------------------------------------


def _ours(model: nn.Module, x: Tensor, y: Tensor, batch: int) -> Laplace:
    return laplace(
        model, nn.CrossEntropyLoss(), (x, y), curvature=CurvatureOptions(batch_size=batch)
    )


def _timed(
    model: Conv, x: Tensor, y: Tensor, args: argparse.Namespace, theirs: str | None
) -> dict[str, dict[str, Any]]:
    """Seconds of the whole and the evidence of each library, called in turns."""
    libraries: dict[str, Callable[..., Any]] = {"ours": _ours}
    if theirs is not None:
        libraries["peer"] = peer.fit
    rows: dict[str, dict[str, Any]] = {name: {"seconds": []} for name in libraries}
    for fit in libraries.values():
        fit(model, x[:_CHECKED], y[:_CHECKED], args.batch)  # the first call is cold
    for _ in range(args.repeats):
        for name, fit in libraries.items():
            began = _clock(args.cuda)
            evidence = float(fit(model, x, y, args.batch).log_marginal_likelihood())
            rows[name]["seconds"].append(_clock(args.cuda) - began)
            rows[name]["evidence"] = evidence
    return rows


def _clock(cuda: bool) -> float:
    if not cuda:
        return cpu_seconds()
    torch.cuda.synchronize()
    return time.perf_counter()


# --- what is right ----------------------------------------------------------------------------


def _checks(
    model: Conv, x: Tensor, y: Tensor, batch: int, theirs: str | None
) -> dict[Padding, dict[str, Any]]:
    """Input factors beside the true ones and evidences of both libraries, by padding."""
    rows: dict[Padding, dict[str, Any]] = {}
    for padding in _PADDINGS:
        twin = model.twin(padding).eval()
        truth = _input_factors(twin, x)
        mine = _ours(twin, x, y, batch)
        factors = {name: _input_factor(mine, name) for name in truth}
        row: dict[str, Any] = {"ours": _errors(factors, truth), "ours_evidence": _evidence(mine)}
        if theirs is not None:
            its = peer.fit(twin, x, y, batch)
            row["peer"] = _errors(peer.input_factors(its, twin), truth)
            row["peer_evidence"] = _evidence(its)
            row["gap"] = abs(row["ours_evidence"] / row["peer_evidence"] - 1)
        rows[padding] = row
    again = abs(rows["circular"]["ours_evidence"] / rows["module"]["ours_evidence"] - 1)
    for padding, row in rows.items():
        # one function, padded in two ways; the peer is known to be wrong about the first
        gap = again if padding == "circular" else row.get("gap", 0.0)
        row["fine"] = all(error < _AGREE for error in (*row["ours"], gap))
    return rows


def _input_factor(mine: Laplace, name: str) -> Tensor:
    (block,) = mine.blocks[name]
    assert isinstance(block, KroneckerBlock)
    return block.input[0]


def _errors(found: dict[str, Tensor], truth: dict[str, Tensor]) -> list[float]:
    return [float((found[name] - a).norm() / a.norm()) for name, a in truth.items()]


def _evidence(fitted: Any) -> float:
    return float(fitted.log_marginal_likelihood())


@torch.no_grad()
def _input_factors(model: Conv, x: Tensor) -> dict[str, Tensor]:
    """The mean of aaᵀ over the patches a of all images, for each kernel by name."""
    found = {}
    for name, layer in model.named_children():
        if isinstance(layer, nn.Conv2d):
            z = _bordered(layer, x)
            h, w = z.shape[-2] - 2, z.shape[-1] - 2
            moved = [z[..., i : i + h, j : j + w] for i in range(3) for j in range(3)]
            rows = torch.stack(moved, 2).permute(0, 3, 4, 1, 2).reshape(-1, 9 * z.shape[1])
            found[f"{name}.weight"] = rows.mT @ rows / len(rows)
        x = layer(x)
    return found


def _bordered(layer: nn.Conv2d, x: Tensor) -> Tensor:
    if layer.padding == (0, 0):
        return x
    height, width = x.shape[-2:]
    if layer.padding_mode == "zeros":
        z = x.new_zeros(*x.shape[:2], height + 2, width + 2)
        z[..., 1:-1, 1:-1] = x
        return z
    rows, columns = (torch.arange(-1, n + 1, device=x.device) % n for n in (height, width))
    return x[..., rows[:, None], columns]


# --- the tables -------------------------------------------------------------------------------

_NAME = 22


def _print_header(args: argparse.Namespace, model: Conv, loss: float) -> None:
    parameters = sum(p.numel() for p in model.parameters())
    print(f"CONV, {parameters} parameters, {args.images} images, {args.batch} at a time")
    print(f"trained for {args.epochs} epochs, mean loss {loss:.3f}; prior precision 1")
    where = torch.cuda.get_device_name() if args.cuda else f"CPU, threads: {args.threads}"
    print(f"{where}; {args.repeats} turns; load {os.getloadavg()[0]:.1f} at the start", flush=True)


def _print_times(rows: dict[str, dict[str, Any]], theirs: str | None, cuda: bool) -> None:
    unit = "wall s" if cuda else "CPU s"
    print(f"\n{'':<{_NAME}} {unit:>8} {'median':>8} {'log evidence':>13}")
    for key, row in rows.items():
        seconds = row["seconds"]
        print(
            f"{_label(key, theirs):<{_NAME}} {min(seconds):>8.2f} {median(seconds):>8.2f} "
            f"{row['evidence']:>13.2f}"
        )
    if "peer" in rows:
        least, middle = (
            of(rows["peer"]["seconds"]) / of(rows["ours"]["seconds"]) for of in (min, median)
        )
        print(f"{'ratio':<{_NAME}} {least:>8.2f} {middle:>8.2f}", flush=True)


def _print_checks(rows: dict[Padding, dict[str, Any]], theirs: str | None, images: int) -> None:
    print(f"\n{images} images, float64: relative error of the worst input factor, log evidence")
    libraries = [key for key in ("ours", "peer") if key in rows["zeros"]]
    titles = " ".join(f"{_label(key, theirs):>22}" for key in libraries)
    print(f"{'padding':<{_NAME}} {titles}" + (f" {'apart':>8}" if "peer" in libraries else ""))
    for padding, row in rows.items():
        cells = [f"{max(row[key]):>10.0e} {row[key + '_evidence']:>11.2f}" for key in libraries]
        cells += [f"{row['gap']:>8.0e}"] if "peer" in libraries else []
        wrong = "" if row["fine"] else "  EVIDENCES DISAGREE"
        print(f"{_PADDINGS[padding]:<{_NAME}} {' '.join(cells)}{wrong}")
    if "peer" in libraries:
        errors = " ".join(f"{error:.2f}" for error in rows["circular"]["peer"])
        print(f"circular, {theirs}, the factors from first to last: {errors}")


def _label(key: str, theirs: str | None) -> str:
    return "isotropy" if key == "ours" else str(theirs)


if __name__ == "__main__":
    sys.exit(main())
