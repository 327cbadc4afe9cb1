"""Claims about layers: how far into a network its layers may commute with motions of the image."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from isotropy._run import Step
from isotropy.discovery.claims._motions import SHIFTS, TURNS
from isotropy.discovery.predictors._image_network import (
    DEPTH,
    ImageNetwork,
    ImagePath,
    working_grid,
)
from isotropy.discovery.predictors._image_predictors import FREE, made_image_network, network_spec
from isotropy.discovery.reading._image_data import ImageData
from isotropy.evidence import CurvatureOptions
from isotropy.layerwise import (
    LayerLearningOptions,
    LayerType,
    LayerwiseResult,
    learn_layers,
)

_ROWS = 700
_EPOCHS, _BURN_IN, _EVERY = 24, 8, 4
_RATE, _BATCH = 5e-3, 64
_CURVATURE_ROWS = 300
_LIFTED_ALPHA = 2  # as in the paper: slices multiply it by four
_SEARCHES: dict[ImagePath, str] = {
    "conv": "translation or none",
    "group_conv": "turns, translation or none",
}
_WORDS = {"factored": "none", "conv": "translation", "group_conv": "translation and quarter turns"}


@dataclass(frozen=True)
class LayerClaim:
    """The first layers of a network commute with motions of the image.

    Args:
        path: The strict path that they have: "conv" or "group_conv".
        depth: How many they are.
        grid: Height and width of the maps that the group acts on.
        learned: Whether the evidence proposes so many, or fewer are tried where these fail.

    Example:
        >>> claim = LayerClaim("conv", 3, (8, 8), True)
        >>> claim.name, claim.paths[2:]
        ('translation in layers 0–2', [['conv'], ['factored', 'conv']])
    """

    path: ImagePath
    depth: int
    grid: tuple[int, int]
    learned: bool

    @property
    def paths(self) -> list[list[ImagePath]]:
        """The paths of each layer, those beyond the claim as free as they were."""
        return [[self.path]] * self.depth + FREE[self.depth :]

    @property
    def network(self) -> tuple[str, int]:
        """What tells its network from others."""
        return self.path, self.depth

    @property
    def parts(self) -> frozenset[str]:
        """What the motions are made of."""
        return SHIFTS | TURNS if self.path == "group_conv" else SHIFTS

    @property
    def group(self) -> str:
        """The group as text."""
        height, width = self.grid
        return f"p4({height})" if self.path == "group_conv" else f"Z({height})*Z({width})"

    @property
    def order(self) -> int:
        """The number of its elements."""
        return self.grid[0] * self.grid[1] * (4 if self.path == "group_conv" else 1)

    @property
    def name(self) -> str:
        """What it is, in prose."""
        return f"{_WORDS[self.path]} in {self._which}"

    @property
    def action(self) -> str:
        """What is claimed, in a phrase."""
        turns = " and turns" if self.path == "group_conv" else ""
        rest = ", so that the class stays" if self.depth == DEPTH else "; the others are free"
        which = self._which
        verb = "commutes" if self.depth == 1 else "commute"
        return f"{which} of a network {verb} with shifts{turns} of {_map(self.grid)} maps{rest}"

    @property
    def method(self) -> str:
        """Why it was tried."""
        return "types of layers by the evidence" + ("" if self.learned else ", and fewer of them")

    @property
    def _which(self) -> str:
        if self.depth == DEPTH:
            return "all layers"
        return "layer 0" if self.depth == 1 else f"layers 0–{self.depth - 1}"

    def is_within(self, other: LayerClaim) -> bool:
        """Whether another claim says this and more."""
        larger = (len(other.parts), other.depth) > (len(self.parts), self.depth)
        return larger and self.parts <= other.parts and self.depth <= other.depth


@dataclass(frozen=True)
class LayerProposals:
    """What the evidence says of layers, and the claims that follow.

    Args:
        depths: How many layers, from the first on, have become strict, by their path.
        tables: A row of plain values for each layer, by the path looked for: maps, type, the share
            of each path, and as ``history`` these shares at every estimate of the evidence.
        grid: Height and width of the maps that the first layer sees.

    Example:
        >>> proposals = LayerProposals({"conv": 3, "group_conv": 4}, {}, (8, 8))
        >>> [claim.depth for claim in proposals.claims("group_conv", within=2)]
        [2, 1]
        >>> [claim.name for claim in proposals.claims("conv")][:2]
        ['translation in layers 0–2', 'translation in layers 0–1']
    """

    depths: Mapping[ImagePath, int]
    tables: Mapping[ImagePath, tuple[Mapping[str, Any], ...]]
    grid: tuple[int, int]

    def claims(self, path: ImagePath, within: int = DEPTH) -> list[LayerClaim]:
        """The claims about a path, the boldest first; fewer layers where that costs too much."""
        learned = self.depths.get(path, 0)
        depth, found = min(learned, within), []
        while depth:
            found.append(LayerClaim(path, depth, self.grid, depth == learned))
            # networks with slices take long
            depth = depth // 2 if path == "group_conv" else depth - 1
        return found

    def with_errors(self, errors: Sequence[float] | None) -> LayerProposals:
        """The same, with what each layer of a free network adds to its error under translation."""
        if errors is None:
            return self
        tables = {
            path: tuple(
                {**row, "lee": {"translation": error}}
                for row, error in zip(rows, errors, strict=True)
            )
            for path, rows in self.tables.items()
        }
        return replace(self, tables=tables)

    def tried(self) -> list[str]:
        """The tables by layer, in words."""
        return [
            f"{row['layer']} ({row['maps']}), {_SEARCHES[path]}: {row['type']}; {row['shares']}"
            for path, rows in self.tables.items()
            for row in rows
        ]


def propose_layers(
    data: ImageData, seed: int, report: Callable[[str, Step], None]
) -> LayerProposals:
    """Learn the types of layers by the evidence, and claim the longest run from the first one on.

    For shifts a layer has a "factored" and a "conv" path, for turns of square images a
    "group_conv" path as well.
    """
    some = data.at_most(_ROWS, seed)
    _, height, width = data.image
    depths: dict[ImagePath, int] = {}
    tables: dict[ImagePath, tuple[Mapping[str, Any], ...]] = {}
    for path, words in _SEARCHES.items():
        if path == "group_conv" and height != width:
            continue
        network, learned = _learned_types(some, path, seed, partial(report, words))
        names = [f"layers.{k}" for k in range(DEPTH)]
        kinds = [learned.types[name].kind for name in names]
        depths[path] = next((k for k, kind in enumerate(kinds) if kind != path), DEPTH)
        tables[path] = tuple(
            {
                **_row(k, network, learned.types[name]),
                "history": [dict(shares.layers[name]) for shares in learned.history],
            }
            for k, name in enumerate(names)
        )
    return LayerProposals(depths, tables, working_grid(height, width)[1])


def _learned_types(
    data: ImageData, path: ImagePath, seed: int, report: Callable[[Step], None]
) -> tuple[ImageNetwork, LayerwiseResult]:
    paths = [[*some, path] if path == "group_conv" else some for some in FREE]
    spec = network_spec(data, paths)
    if path == "group_conv":
        spec["alpha"] = _LIFTED_ALPHA
    network = made_image_network(spec, None, seed)  # learn_layers has units of its own
    found = learn_layers(
        data.maps,
        data.y,
        model=network,
        epochs=_EPOCHS,
        batch_size=_BATCH,
        learning_rate=_RATE,
        learning=LayerLearningOptions(
            burn_in=_BURN_IN,
            every=_EVERY,
            curvature=CurvatureOptions(subset=min(_CURVATURE_ROWS, len(data.x))),
        ),
        seed=seed,
        progress=report,
    )
    return network, found


def _row(number: int, network: ImageNetwork, layer: LayerType) -> dict[str, Any]:
    before, after = network.sizes[number : number + 2]
    shares = ", ".join(f"{path} {share:.2f}" for path, share in layer.paths.items())
    maps = _map(before) if before == after else f"{_map(before)} to {_map(after)}"
    return {
        "layer": f"layer {number}",
        "maps": maps,
        "type": _WORDS.get(layer.kind, layer.kind),
        "shares": shares,
        **{path: float(share) for path, share in layer.paths.items()},
    }


def _map(size: Sequence[int]) -> str:
    return f"{size[0]}×{size[1]}"
