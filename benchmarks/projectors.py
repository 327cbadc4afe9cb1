"""P w and its gradient for every kind of projector, and the published Kronecker product's.

See ``README.md`` in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measure import cpu_seconds
from peers.projectors import KroneckerWithRemainder
from torch import Tensor

from isotropy.certificates import PROJECTORS, projector
from isotropy.run import write_json

Product = Callable[[Tensor], Tensor]

_NETWORKS: dict[str, dict[str, tuple[int, ...]]] = {
    "LeNet-5": {
        "conv1.weight": (20, 1, 5, 5),
        "conv1.bias": (20,),
        "conv2.weight": (50, 20, 5, 5),
        "conv2.bias": (50,),
        "fc1.weight": (500, 800),
        "fc1.bias": (500,),
        "head.weight": (10, 500),
        "head.bias": (10,),
    },
    # convolutions, normalisation layers and head, each kind as one
    "ResNet-18": {
        "convolutions.weight": (11_159_232, 1, 1, 1),
        "norm.weight": (4800,),
        "norm.bias": (4800,),
        "head.weight": (10, 512),
        "head.bias": (10,),
    },
}
_FILM = ("norm.weight", "norm.bias", "head.weight", "head.bias")
_PEERS = {"kronecker": False, "kronecker-orthonormal": True}
_TURN = 0.02  # seconds that a turn fills with calls, at least one
_MOST_ENTRIES = 5e9  # a dense projector of more takes minutes


def main() -> int:
    args = _arguments()
    torch.set_num_threads(args.threads)
    print(f"CPU ms, least of {args.repeats} turns; {args.threads} threads, float32")
    print(f"load {os.getloadavg()[0]:.1f} at the start")
    rows = []
    for network in args.networks:
        for d in args.dimensions:
            rows += _rows(network, d, args)
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    if args.json:
        facts = {"repeats": args.repeats, "threads": args.threads, "torch": torch.__version__}
        write_json(args.json, {**facts, "rows": rows})
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--networks", choices=list(_NETWORKS), nargs="+", default=list(_NETWORKS))
    parser.add_argument("--dimensions", type=_positive, nargs="+", default=[1000])
    parser.add_argument("--kinds", choices=PROJECTORS, nargs="+", default=list(PROJECTORS))
    parser.add_argument("--repeats", type=_positive, default=5, help="turns of each")
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


def _rows(network: str, d: int, args: argparse.Namespace) -> list[dict[str, Any]]:
    """One network and dimension: all kinds in turns."""
    shapes = {name: torch.Size(shape) for name, shape in _NETWORKS[network].items()}
    D = sum(shape.numel() for shape in shapes.values())
    film = [name for name in _FILM if name in shapes]
    print(f"\n{network}, D = {D:,}, d = {d}")
    products: dict[str, Product] = {}
    rows: dict[str, dict[str, Any]] = {}
    for kind in args.kinds:
        began = cpu_seconds()
        try:
            products[kind] = projector(kind, shapes, d, 0, film=film)
        except ValueError as error:
            print(f"{kind}: {error}")
            continue
        rows[kind] = {"network": network, "D": D, "d": d, "kind": kind}
        rows[kind]["build"] = 1000 * (cpu_seconds() - began)
        if kind in _PEERS:
            products[f"{kind}, peer"] = KroneckerWithRemainder(D, d, orthonormal=_PEERS[kind])
    if "dense" in products and d * D > _MOST_ENTRIES:
        print("dense: not timed at this size")
        del products["dense"], rows["dense"]
    taken = _turns(products, D, d, args.repeats)
    print(f"{'':22}{'build':>8}{'forward':>9}{'backward':>9} {'peer, both':>17} {'ratio':>13}")
    for kind, row in rows.items():
        row["forward"], row["backward"] = taken[kind]
        line = f"{kind:22}{row['build']:>8.1f}{row['forward']:>9.2f}{row['backward']:>9.2f}"
        if kind in _PEERS:
            peer = row["peer"] = taken[f"{kind}, peer"]
            line += f" {peer[0]:>8.2f} {peer[1]:>8.2f}"
            line += f" {peer[0] / taken[kind][0]:>6.1f} {peer[1] / taken[kind][1]:>6.1f}"
        print(line, flush=True)
    return list(rows.values())


def _turns(
    products: dict[str, Product], D: int, d: int, repeats: int
) -> dict[str, tuple[float, float]]:
    """The least milliseconds of P w and of its gradient, each product in turn."""
    rng = torch.Generator().manual_seed(0)
    w = torch.randn(d, generator=rng).requires_grad_()
    gradient = torch.randn(D, generator=rng)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in products}
    for _ in range(repeats):
        for name, product in products.items():
            theta = product(w)
            forward = _milliseconds(lambda p=product: p(w))
            backward = _milliseconds(
                lambda t=theta: torch.autograd.grad(t, w, gradient, retain_graph=True)
            )
            taken[name].append((forward, backward))
    return {
        name: (min(f for f, _ in times), min(b for _, b in times)) for name, times in taken.items()
    }


def _milliseconds(call: Callable[[], Any]) -> float:
    calls = 0
    began = cpu_seconds()
    while calls == 0 or cpu_seconds() - began < _TURN:
        call()
        calls += 1
    return 1000 * (cpu_seconds() - began) / calls


if __name__ == "__main__":
    sys.exit(main())
