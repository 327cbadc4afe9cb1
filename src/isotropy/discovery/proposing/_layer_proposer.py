"""Layers of networks: how many of the first may commute with motions, by the evidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from isotropy._run import Step
from isotropy.discovery.claims._layer_claim import LAYER_WORDS, LayerClaim
from isotropy.discovery.predictors._image_network import (
    DEPTH,
    ImageNetwork,
    ImagePath,
    working_grid,
)
from isotropy.discovery.predictors._image_predictors import (
    made_image_network,
    network_spec,
    strict_paths,
)
from isotropy.discovery.proposing._proposer import Proposal, Proposer, Tell, Tried
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.reading._shape_reading import RowLayout
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._image_bench import ImageBench
from isotropy.equivariance import MeasureOptions, measure
from isotropy.evidence import CurvatureOptions
from isotropy.layerwise import LayerLearningOptions, LayerType, LayerwiseResult, learn_layers

_SEARCHES: Mapping[ImagePath, str] = {
    "conv": "translation or none",
    "group_conv": "turns, translation or none",
}


@dataclass(frozen=True, eq=False)
class LearnedLayers:
    """What the evidence says of layers that may have a strict path.

    Args:
        path: The path.
        depth: How many layers, from the first on, have become strict.
        grid: Height and width of the maps that the first layer sees.
        table: A row of plain values for each layer: maps, type, the share of each path, and as
            ``history`` these shares at every estimate of the evidence.

    Example:
        >>> [claim.depth for claim in LearnedLayers("group_conv", 4, (8, 8)).claims(within=2)]
        [2, 1]
        >>> claims = LearnedLayers("conv", 3, (8, 8)).claims()
        >>> [claim.statement.name for claim in claims][:2]
        ['translation in layers 0–2', 'translation in layers 0–1']
    """

    path: ImagePath
    depth: int
    grid: tuple[int, int]
    table: tuple[Mapping[str, Any], ...] = ()

    @staticmethod
    def of(data: ImageData, path: ImagePath, seed: int, tell: Tell) -> LearnedLayers:
        """Learn the types of layers, and count the longest run from the first one on.

        For shifts a layer has a "factored" and a "conv" path, for turns of square images a
        "group_conv" path as well.

        Args:
            data: Images and their classes.
            path: The path that layers may have alone.
            seed: Of weights and batches.
            tell: Whom to tell how it goes on.
        """
        network, learned = _learned(data, path, seed, tell)
        types = [learned.types[f"layers.{k}"] for k in range(DEPTH)]
        histories = [
            [dict(shares.layers[f"layers.{k}"]) for shares in learned.history] for k in range(DEPTH)
        ]
        return LearnedLayers(
            path,
            next((k for k, one in enumerate(types) if one.kind != path), DEPTH),
            working_grid(*data.image[1:])[1],
            tuple(
                {**_row(k, network, one), "history": history}
                for k, (one, history) in enumerate(zip(types, histories, strict=True))
            ),
        )

    def claims(self, within: int = DEPTH, layout: RowLayout | None = None) -> list[LayerClaim]:
        """Claims, the boldest first; fewer layers where that costs too much.

        Args:
            within: How many layers may be claimed.
            layout: How images are laid out.
        """
        depth, found = min(self.depth, within), list[LayerClaim]()
        while depth:
            learned = depth == self.depth
            found.append(
                LayerClaim(self.path, depth, self.grid, learned, self.table, layout or RowLayout())
            )
            # networks with slices take long
            depth = depth // 2 if self.path == "group_conv" else depth - 1
        return found

    def with_errors(self, errors: Sequence[float] | None) -> LearnedLayers:
        """The same, with what each layer of a free network adds to its error under translation."""
        if errors is None:
            return self
        pairs = zip(self.table, errors, strict=True)
        return replace(
            self, table=tuple({**row, "lee": {"translation": error}} for row, error in pairs)
        )

    def lines(self) -> list[str]:
        """The table, in words."""
        words = _SEARCHES[self.path]
        return [
            f"{row['layer']} ({row['maps']}), {words}: {row['type']}; {row['shares']}"
            for row in self.table
        ]


def layer_errors(network: nn.Module, maps: Tensor) -> list[float] | None:
    """The contribution of each of the four layers to the error under translation.

    Returns:
        A number for each layer; None where the network cannot be measured.

    Example:
        >>> import torch
        >>> network = ImageNetwork((1, 8, 8), 2, [["conv"]] * 3 + [["factored", "conv"]], alpha=2)
        >>> errors = layer_errors(network.eval(), torch.rand(4, 1, 8, 8))
        >>> errors is None or len(errors)
        4
    """
    images = ProposingThresholds.now().layer_error_images
    options = MeasureOptions(layer_inputs=images)
    try:
        found = measure(
            network, maps[:images], "translation", layers=True, options=options, samples=0
        )
    except (ValueError, RuntimeError):  # a picture that is missing is no reason to stop a search
        return None
    totals = [0.0] * DEPTH
    for layer in found.layers["translation"].layers:
        room, _, rest = layer.name.partition(".")
        number = rest.partition(".")[0]
        if room == "layers" and number.isdigit():
            totals[int(number)] += float(layer.contribution)
    return totals


def _learned(
    data: ImageData, path: ImagePath, seed: int, tell: Tell
) -> tuple[ImageNetwork, LayerwiseResult]:
    limits = ProposingThresholds.now()
    some = data.at_most(limits.layer_rows, seed)
    turned = path == "group_conv"
    paths = [[*free, path] if turned else free for free in strict_paths("conv", 0)]
    spec = network_spec(some, paths)
    if turned:
        spec["alpha"] = limits.layer_channels  # as in the paper: slices multiply it by four
    network = made_image_network(spec, None, seed)  # learn_layers has units of its own

    def report(step: Step) -> None:
        tell(f"types of layers ({_SEARCHES[path]}): epoch {step.done} of {step.total}")

    found = learn_layers(
        some.maps,
        some.y,
        model=network,
        epochs=limits.layer_epochs,
        batch_size=limits.layer_batch,
        learning_rate=limits.layer_rate,
        learning=LayerLearningOptions(
            burn_in=limits.layer_burn_in,
            every=limits.layer_every,
            curvature=CurvatureOptions(subset=min(limits.layer_curvature_rows, len(some.x))),
        ),
        seed=seed,
        progress=report,
    )
    return network, found


def _row(number: int, network: ImageNetwork, layer: LayerType) -> dict[str, Any]:
    before, after = (f"{h}×{w}" for h, w in network.sizes[number : number + 2])
    shares = ", ".join(f"{path} {share:.2f}" for path, share in layer.paths.items())
    return {
        "layer": f"layer {number}",
        "maps": before if before == after else f"{before} to {after}",
        "type": LAYER_WORDS.get(layer.kind, layer.kind),
        "shares": shares,
        **{path: float(share) for path, share in layer.paths.items()},
    }


@dataclass(frozen=True, eq=False)
class LayerProposer(Proposer):
    """Looks for layers that may commute with shifts, and with quarter turns of square images."""

    words = "learning the types of layers"
    by = 0.8

    def propose(self, bench: Bench, tell: Tell) -> Iterator[Proposal]:
        """Of each path the boldest claim that costs little."""
        data = bench.problem.find
        assert isinstance(data, ImageData)
        if data.task != "classification":
            return
        tell(self.words)
        _, height, width = data.image
        paths: list[ImagePath] = ["conv", "group_conv"] if height == width else ["conv"]
        learned = [LearnedLayers.of(data, path, bench.seed, tell) for path in paths]
        for one in learned:
            yield from map(Tried, one.lines())
        images, deepest = ImageBench(bench), DEPTH
        free = images.network("conv", 0, "network with free layers", tell)
        errors = layer_errors(free.network, images.apart.maps)
        for one in learned:
            # a layer that may not commute with shifts need not be asked about turns
            depths = one.with_errors(errors).claims(deepest, data.layout)
            deepest = 0
            for claim in depths:
                cost = _cost(claim, images, tell)
                if cost is not None and cost <= bench.margin:
                    deepest = claim.depth
                    yield claim
                    break
                line = {"name": claim.label, "method": claim.method, "effect": cost}
                yield Tried({**line, "p_value": None, "confirmed": False})


def _cost(claim: LayerClaim, images: ImageBench, tell: Tell) -> float | None:
    """What a claim costs on rows held out of the training; None where that is not known.

    It is held against the network with one strict layer less, too: free ones may have learned too
    little to speak against it.
    """
    network = claim.network(images.bench, tell)
    cost = images.cost(images.of_layers(network, images.apart))
    if cost is None or cost > images.bench.margin or claim.depth == 1:
        return cost
    replace(claim, depth=claim.depth - 1).network(images.bench, tell)
    return images.cost(images.of_layers(network, images.apart))
