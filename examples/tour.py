"""A tour: groups by name, what commutes with them, how far a network is from a symmetry.

The pictures go to the folder given (``tour/`` by default).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch import nn

from isotropy import Pseudoscalar, Regular, T, V, equivariant_basis, identify, measure
from isotropy.equivariance import image_action
from isotropy.groups import SO, Group, RubiksCube, S, Z, p4, parse_group, wreath
from isotropy.nn import anti_aliased
from isotropy.report import plot_basis, plot_contributions


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)

    print("Groups have names, orders and random elements")
    for text in ("Z(8)", "S(5)", "p4(6)", "wreath(S(3),Z(2))", "RubiksCube", "SO(3)", "SO13p"):
        group = parse_group(text)
        print(f"  {text:20} acts on R^{group.d:<3} order {group.order()}")

    print("\nWhat commutes with them: equivariant linear maps (thesis Figure 2.2)")
    layers = [
        ("deep sets: S(8), V→V", (V >> V)(S(8))),
        ("convolution: Z(8), V→V", (V >> V)(Z(8))),
        ("2-D convolution: Z(5)*Z(5)", (V >> V)(Z(5) * Z(5))),
        ("group convolution: p4(4)", (Regular >> Regular)(p4(4))),
    ]
    show([(title, equivariant_basis(rep)) for title, rep in layers], folder / "layers.png")

    print("\nHigher tensors (thesis Figure 2.3)")
    tensors = [
        ("graphs: S(4), T(4)", T(4)(S(4))),
        ("Z(4), T(3)", T(3)(Z(4))),
        ("SO(3), T(4)", T(4)(SO(3))),
        ("signs: S(3), T(2)*Pseudoscalar", (T(2) * Pseudoscalar)(S(3))),
        ("Rubik's cube, T(2)", T(2)(RubiksCube())),
    ]
    show([(title, equivariant_basis(rep)) for title, rep in tensors], folder / "tensors.png")

    print("\nA large one: the cube's T(4), 5.3 million entries, no linear algebra")
    start = time.process_time()
    basis = equivariant_basis(T(4)(RubiksCube()), cache=False)
    seconds = time.process_time() - start
    print(f"  rank {basis.rank} in {seconds:.1f} CPU seconds, residual {basis.residual():.0e}")

    print("\nYour own group in one line, and its name")
    mine = Group([[2, 3, 4, 5, 0, 1], [1, 0, 2, 3, 4, 5]])
    found = identify(mine)
    print(f"  {mine}\n  is the {found.name}, order {found.order}")
    print(f"  and indeed {wreath(Z(2), Z(3))} has order {wreath(Z(2), Z(3)).order()}")

    print(
        "\nHow far is a network from a symmetry, and which layer is to blame? (thesis Figure 4.4)"
    )
    torch.manual_seed(0)
    network = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1, padding_mode="circular"), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1, padding_mode="circular"), nn.ReLU()),
        nn.AdaptiveAvgPool2d(1),
        *(nn.Flatten(), nn.Linear(32, 10)),
    )
    images = nn.functional.interpolate(torch.rand(16, 3, 16, 16), size=32, mode="bicubic")
    shift = image_action("translation", boundary="periodic")
    contributions = {}
    for title, model in (("max pooling", network), ("blurred", anti_aliased(network))):
        found = measure(model, images, shift, layers=True, softmax=True)
        contributions[title] = found.layers["translation"]
        kinds = ", ".join(
            f"{kind} {size:.2g}" for kind, size in contributions[title].by_kind().items()
        )
        print(f"  {title:12} LEE {found.errors['translation'].lee:.2g}; {kinds}")
    print(f"  picture: {plot_contributions(contributions, folder / 'contributions.png')}")


def show(titled: list, path: Path) -> None:
    for title, basis in titled:
        print(f"  {title:38} {basis.size:>6} entries, rank {basis.rank:>3} ({basis.method})")
    print(f"  picture: {plot_basis(titled, path)}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "tour"))
