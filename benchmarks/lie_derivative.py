"""The Lie derivative of image classifiers, ours and the published method's, in one run.

All rows run in this process, in turns. See ``README.md`` in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from measure import cpu_seconds
from peers import lie_derivative_double_backward as peer
from torch import Tensor, nn

from isotropy.data import fetch, load
from isotropy.equivariance import layerwise, lie_derivative
from isotropy.run import write_json
from isotropy_papers._efficientnet_lite import efficientnet_lite, preprocess
from isotropy_papers._vision_models import mixer_s16, resnet18, vit_tiny

Turns = dict[str, list[float]]

_ACTION = "translation_x"
_SIZE, _BATCH = 224, 16
_PROBES = 100
_AGREE = 1e-4  # two ways to the same derivative, in float32

_MODELS: dict[str, Callable[[Path | None], nn.Module]] = {
    "EfficientNet-Lite0": lambda folder: efficientnet_lite(
        0, fetch("efficientnet-lite0", folder=folder)
    ),
    "ResNet-18": lambda _: resnet18(seed=0),
    "ViT-Ti/16": lambda _: vit_tiny(seed=0),
    "Mixer-S/16": lambda _: mixer_s16(seed=0),
}


def main() -> int:
    args = _arguments()
    torch.set_num_threads(args.threads)
    images = preprocess(_photographs(args.images) if args.images else _smooth_images())
    rows: dict[str, dict[str, Any]] = {}
    _print_header(args, len(images))
    for name in args.models:
        try:
            model = nn.Sequential(_MODELS[name](args.folder), nn.Softmax(-1)).eval()
        except (OSError, ValueError) as error:
            rows[name] = {"error": str(error)}
            print(f"{name:<{_NAME}} {error}")
            continue
        rows[name] = {"end_to_end": _end_to_end(model, images, args.repeats)}
        if not args.no_layers:
            rows[name]["layers"] = _layers(model, images, args.layer_repeats, args.timed_probes)
        _print_row(name, rows[name])
    _print_agreement(rows)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    if args.json:
        asked = ("models", "repeats", "layer_repeats", "threads", "timed_probes")
        facts: dict[str, Any] = {key: getattr(args, key) for key in asked}
        write_json(args.json, {**facts, "torch": torch.__version__, "rows": rows})
    return 0 if all(_is_fine(row) for row in rows.values()) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=list(_MODELS), default=list(_MODELS))
    parser.add_argument("--repeats", type=_positive, default=11, help="turns end to end")
    parser.add_argument("--layer-repeats", type=_positive, default=3, help="turns layer by layer")
    parser.add_argument("--threads", type=_positive, default=1, help="threads of PyTorch")
    parser.add_argument("--images", type=Path, help="a folder of images, in place of random ones")
    parser.add_argument("--folder", type=Path, help="where trained weights are, or are put")
    parser.add_argument("--no-layers", action="store_true", help="end to end only")
    parser.add_argument(
        "--quick", action="store_true", help="3 turns; layers once, with 10 probes timed of 100"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    args = parser.parse_args()
    if args.json and not args.json.resolve().parent.is_dir():
        parser.error(f"expected a file in an existing folder, got {args.json}")
    if args.images and not args.images.is_dir():
        parser.error(f"expected a folder of images, got {args.images}")
    args.timed_probes = 10 if args.quick else _PROBES
    if args.quick:
        args.repeats, args.layer_repeats = 3, 1
    return args


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def _smooth_images() -> Tensor:
    """Pictures of random blobs, about sixteen pixels wide, in [0, 1]."""
    coarse = torch.rand(_BATCH, 3, 14, 14, generator=torch.Generator().manual_seed(0))
    return nn.functional.interpolate(coarse, size=_SIZE, mode="bicubic").clamp(0, 1)


def _photographs(folder: Path) -> Tensor:
    found = load(folder, size=(_SIZE, _SIZE), crop=True, unreadable="skip").x
    assert isinstance(found, Tensor)
    return found.expand(-1, 3, -1, -1)


# --- what is timed ----------------------------------------------------------------------------


def _end_to_end(model: nn.Module, images: Tensor, repeats: int) -> dict[str, Any]:
    published, lean = peer.prepared(model), peer.prepared(model, frozen=True)
    batch = images.repeat(-(-_BATCH // len(images)), 1, 1, 1)[:_BATCH]

    def forward(x: Tensor) -> Any:
        with torch.no_grad():
            return model(x)

    def ours(x: Tensor) -> Any:
        with torch.no_grad():
            return lie_derivative(model, x, _ACTION)

    steps: dict[str, Callable[[Tensor], Any]] = {
        "forward": forward,
        "ours": ours,
        "ours, gradients": lambda x: lie_derivative(model, x, _ACTION),
        "peer": lambda x: peer.lie_derivative(lean, x, keep_graph=False),
        "peer, gradients": lambda x: peer.lie_derivative(published, x),
        "forward of 16": lambda _: forward(batch),
        "ours of 16": lambda _: ours(batch),
    }
    turns = _take_turns(steps, images, repeats)
    x = images[:1]
    twice, once = peer.lie_derivative(lean, x).detach(), peer.lie_derivative_forward(lean, x)
    gap = float((twice - once).norm() / once.norm())
    return {"cpu": {**turns, **_per_image(turns)}, "same_transform": gap}


def _per_image(turns: Turns) -> Turns:
    return {key: [t / _BATCH for t in turns[key]] for key in turns if key.endswith("of 16")}


def _layers(model: nn.Module, images: Tensor, repeats: int, probes: int) -> dict[str, Any]:
    published = peer.prepared(model)
    rng = torch.Generator().manual_seed(0)
    probed: list[peer.Probed] = []

    def own(x: Tensor) -> None:
        probed[:] = [peer.Probed(published, x)]

    def probe(_x: Tensor) -> None:
        for _ in range(probes):
            probed[0].probe(rng)

    steps: dict[str, Callable[[Tensor], Any]] = {
        "ours": lambda x: layerwise(model, x, _ACTION),
        "peer, own": own,
        "peer, probes": probe,
    }
    own(images[:1])
    probed[0].probe(rng)  # all that is to be warm is so after one
    turns = _take_turns(steps, images, repeats, warm=("ours",))
    turns["peer"] = [
        a + b * _PROBES / probes
        for a, b in zip(turns["peer, own"], turns["peer, probes"], strict=True)
    ]
    exact = layerwise(model, images[:1], _ACTION)
    drawn = layerwise(model, images[:1], _ACTION, method="probes", probes=_PROBES)
    found = {layer.name: layer.squared for layer in drawn.layers}
    # what a last block does to tokens that the head does not read adds exactly nothing
    adding = [layer for layer in exact.layers if layer.squared > 0]
    gaps = [abs(found.get(layer.name, 0.0) / layer.squared - 1) for layer in adding]
    return {
        "cpu": turns,
        "probes_timed": probes,
        "units": len(exact.layers),
        "peer_calls": len(probed[0].own),
        "closure": exact.closure,
        "probes_gap": median(gaps),
    }


def _take_turns(
    steps: dict[str, Callable[[Tensor], Any]],
    images: Tensor,
    repeats: int,
    warm: tuple[str, ...] | None = None,
) -> Turns:
    """CPU seconds of each step, called in turns so that noise hits all; an image for each turn."""
    for name in steps if warm is None else warm:
        steps[name](images[:1])
    turns: Turns = {name: [] for name in steps}
    for turn in range(repeats):
        x = images[turn % len(images)].unsqueeze(0)
        for name, step in steps.items():
            began = cpu_seconds()
            step(x)
            turns[name].append(cpu_seconds() - began)
    return turns


def _is_fine(row: dict[str, Any]) -> bool:
    return "error" not in row and row["end_to_end"]["same_transform"] < _AGREE


# --- the table --------------------------------------------------------------------------------

_NAME = 18
_GROUPS = ((8,), (8, 8, 6), (8, 8, 6), (8, 8), (8, 8, 6))
_TITLES = ("", "value alone", "with gradients", "batch of 16", "layer by layer")
_COLUMNS = ("forward", *("ours", "peer", "ratio") * 2, "forward", "ours", "ours", "peer", "ratio")


def _print_header(args: argparse.Namespace, images: int) -> None:
    print(f"{_ACTION}, CPU s for an image of {_SIZE} pixels; medians of {args.repeats} turns")
    print(f"{images} images, threads: {args.threads}")
    if not args.no_layers:
        counted = "" if args.timed_probes == _PROBES else f", counted as {_PROBES}"
        print(
            f"layers: {args.layer_repeats} turns, {args.timed_probes} probes of the peer{counted}"
        )
    print(f"load {os.getloadavg()[0]:.1f} at the start\n")
    spans = (sum(group) + len(group) - 1 for group in _GROUPS)
    titles = [f"{title:^{span}}" for title, span in zip(_TITLES, spans, strict=True)]
    print(" | ".join([" " * _NAME, *titles]).rstrip())
    print(_aligned("", list(_COLUMNS)), flush=True)


def _print_row(name: str, row: dict[str, Any]) -> None:
    whole = _medians(row["end_to_end"]["cpu"])
    cells = [_seconds(whole["forward"])]
    for kind in ("", ", gradients"):
        ours, theirs = whole[f"ours{kind}"], whole[f"peer{kind}"]
        cells += [_seconds(ours), _seconds(theirs), f"{theirs / ours:.2f}"]
    cells += [_seconds(whole["forward of 16"]), _seconds(whole["ours of 16"])]
    if "layers" in row:
        parts = _medians(row["layers"]["cpu"])
        ours, theirs = parts["ours"], parts["peer"]
        cells += [_seconds(ours), _seconds(theirs), f"{theirs / ours:.2f}"]
    print(_aligned(name, cells), flush=True)


def _print_agreement(rows: dict[str, dict[str, Any]]) -> None:
    print("\nRelative differences, within each method:")
    for name, row in rows.items():
        if "error" in row:
            continue
        gap = row["end_to_end"]["same_transform"]
        text = f"{name:<{_NAME}} twice in reverse, forward mode: {gap:.0e}"
        if "layers" in row:
            parts = row["layers"]
            text += (
                f" | {parts['units']} units: sum and whole {parts['closure']:.0e}, "
                f"exact and {_PROBES} probes {parts['probes_gap']:.2f} (median)"
            )
        print(text + ("" if gap < _AGREE else "  DERIVATIVES DISAGREE"))


def _medians(turns: Turns) -> dict[str, float]:
    return {name: median(values) for name, values in turns.items()}


def _aligned(name: str, cells: list[str]) -> str:
    left = iter(cells)
    groups = [" ".join(f"{next(left, ''):>{width}}" for width in group) for group in _GROUPS]
    return " | ".join([f"{name:<{_NAME}}", *groups]).rstrip()


def _seconds(number: float) -> str:
    return f"{number:.1f}" if number >= 10 else f"{number:.3f}"


if __name__ == "__main__":
    sys.exit(main())
