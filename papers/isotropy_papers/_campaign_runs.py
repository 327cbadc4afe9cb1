"""The runs of published size that are missing: what each takes, and what it settles.

This table is the only place that knows them. Their order is derived from it, and a test compares it
with the standings: every experiment that was run in part has a run here, or a reason why none
would help.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

from isotropy_papers._experiment import Settings
from isotropy_papers._standings import STANDINGS

# megabytes that 'isotropy data get NAME' keeps; idx files may also travel as .gz
DATA_SIZES = {
    "mnist": 55,
    "fashion-mnist": 55,
    "cifar10": 184,
    "efficientnet-lite0": 19,
    "efficientnet-lite1": 22,
    "efficientnet-lite2": 25,
}
_OPTIONS = ("seeds", "sizes", "epochs", "schedule", "channels", "models", "test_rows", "step")
# a direction that is known already is worth half of one that is not
_NEWS = {True: 2.0, False: 1.0}


@dataclass(frozen=True)
class CampaignRun:
    """One run of published size.

    Args:
        id: The experiment.
        settles: What is known after it, in a sentence.
        claims: How many claims of the paper get a verdict at published size.
        minutes: Estimated minutes on one H200, until cells have been measured.
        basis: What that estimate rests on.
        cells: How many cells are kept one by one.
        settings: As published, where that differs from what ``--full`` takes by itself.
        part: Which part of the experiment, where it has several runs.
        data: Public sets that it needs, by the names of ``isotropy data get``.
        packages: Modules that it imports beside those of a plain installation.
        resumable: Whether a cell that was stopped goes on from a checkpoint of its own.
        shares: The name of the finished cells, which several runs may share; the id unless given.

    Example:
        >>> run = CampaignRun("yeh2022/tableA1", "…", 1, 5, "…", 4, Settings(full=True, seeds=2))
        >>> run.command("cuda")
        'isotropy reproduce yeh2022/tableA1 --full --seeds 2 --device cuda'
    """

    id: str
    settles: str
    claims: int
    minutes: float
    basis: str
    cells: int
    settings: Settings = field(default=Settings(full=True))
    part: str = ""
    data: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    resumable: bool = False
    shares: str = ""

    @property
    def name(self) -> str:
        """What the run is called: the id, and the part where there are several."""
        return f"{self.id}:{self.part}" if self.part else self.id

    @property
    def store(self) -> str:
        """The name of the file of its finished cells."""
        return plain(self.shares or self.id)

    @property
    def worth(self) -> float:
        """Claims that it settles, each twice where nothing of this size has been run before."""
        standing = STANDINGS.get(self.id)
        return self.claims * _NEWS[standing is not None and "not run" in standing.state]

    def options(self) -> dict[str, Any]:
        """The settings that differ from those of ``--full``, as JSON knows them."""
        found = {name: getattr(self.settings, name) for name in _OPTIONS}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in found.items()
            if value is not None
        }

    def seeded(self, seed: int) -> CampaignRun:
        """The same run with another seed, which is a run of its own.

        Args:
            seed: The seed of everything random.

        Example:
            >>> RUNS[0].seeded(3).name
            'finzi2023/figure2.5:seed-3'
        """
        if seed == self.settings.seed:
            return self
        part = "-".join(filter(None, (self.part, f"seed-{seed}")))
        return replace(self, part=part, settings=replace(self.settings, seed=seed))

    def command(self, device: str) -> str:
        """The command that makes the same table in one go.

        Args:
            device: Where.
        """
        words = ["isotropy", "reproduce", self.id, "--full" if self.settings.full else "--quick"]
        for name, value in self.options().items():
            text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
            words += [f"--{name.replace('_', '-')}", f'"{text}"' if " " in text else text]
        words += ["--seed", str(self.settings.seed)] if self.settings.seed else []
        return " ".join([*words, "--device", device])


def plain(name: str) -> str:
    """A name that does for a file.

    Example:
        >>> plain("finzi2023/table3.1:tables")
        'finzi2023-table3.1-tables'
    """
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-")


def is_unsettled(state: str) -> bool:
    """Whether a standing says that a run of published size is missing.

    Example:
        >>> [is_unsettled(state) for state in ("in part: MNIST", "reproduced", "not run in full")]
        [True, False, True]
    """
    return re.search(r"\bin part\b|\bnot run\b|\d of [\d,]+ (steps|epochs)", state) is not None


# what no run of these scripts would settle
OUT_OF_REACH = {
    "finzi2023/figureA.5": "its C8-equivariant Wide ResNets are not in the catalogue",
}

_LAYERWISE = (
    "2.2 ms for a captured step of 128 images of F-FC+CONV on an H200 (docs/layerwise.md), four "
    "times that for 512"
)
_CERTIFICATES = "Table 5.2: an hour on an H200 for nine certificates of 60 to 160 epochs"
_CLASSIFIERS = "a guess: 20 epochs of 50,000 images in a minute each, and as long to measure"
_AGENTS = "a guess: a step of 16 agents at 15 ms; simulators run on the CPU"
_SIMULATOR = ("gymnasium", "mujoco")
_PENDULUM = "finzi2023/pendulum"
_CELLS_OF_CERTIFICATES = "finzi2023/certificates"
_NETWORKS = "finzi2023/classifiers"
_THREE = ("efficientnet-lite0", "efficientnet-lite1", "efficientnet-lite2")


def _full(**options: Any) -> Settings:
    return Settings(full=True, **options)


RUNS: tuple[CampaignRun, ...] = (
    CampaignRun(
        "finzi2023/figure2.5",
        "Whether EMLPs keep their lead over MLPs and augmentation from 30 to 30,000 rows.",
        claims=2,
        minutes=20,
        basis="132,600 steps of ten seeds at 8 ms; one network takes 1.08 ms (docs/networks.md)",
        cells=91,
    ),
    CampaignRun(
        "finzi2023/table2.2",
        "Whether 2000 epochs bring the rollout errors of the pendulum down to the published ones.",
        claims=1,
        minutes=30,
        basis="2000 steps of 40 evaluations at 1.5 ms (docs/networks.md), HNNs 2.5 times that",
        cells=8,
        shares=_PENDULUM,
    ),
    CampaignRun(
        "finzi2023/figure2.6",
        "Which symmetries conserve the angular momentum after 2000 epochs, D2 among them.",
        claims=1,
        minutes=38,
        basis="as Table 2.2, whose eight models it shares",
        cells=10,
        shares=_PENDULUM,
    ),
    CampaignRun(
        "finzi2023/table3.1",
        "Whether the RPP stays within a deviation of the better prior after 1000 epochs.",
        claims=1,
        minutes=20,
        basis="a guess: ten times the 100 epochs that were run on a CPU",
        cells=16,
        settings=_full(models=("MLP", "RPP", "Conv", "RPP learned")),
        part="tables",
    ),
    CampaignRun(
        "finzi2023/table3.1",
        "Whether the RPP is as good as a convolution on CIFAR-10, with ten seeds.",
        claims=1,
        minutes=750,
        basis="a guess: 78,000 steps of 770 million weights at 20 ms, ten seeds of three kinds",
        cells=30,
        settings=_full(models=("CIFAR-10 MLP", "CIFAR-10 RPP", "CIFAR-10 Conv"), seeds=10),
        part="images",
        data=("cifar10",),
    ),
    CampaignRun(
        "finzi2023/figure3.4",
        "Whether a soft symmetry speeds SAC up in a million steps of six locomotion tasks.",
        claims=1,
        minutes=1500,
        basis=_AGENTS,
        cells=6,
        packages=_SIMULATOR,
    ),
    CampaignRun(
        "finzi2023/figureA.2",
        "Whether the policy or the critic gains from the symmetry, in a million steps.",
        claims=1,
        minutes=1500,
        basis=_AGENTS,
        cells=6,
        packages=_SIMULATOR,
    ),
    CampaignRun(
        "finzi2023/table3.3",
        "Rollout errors of models learnt from agents of a million steps.",
        claims=1,
        minutes=400,
        basis=_AGENTS,
        cells=10,
        packages=_SIMULATOR,
    ),
    CampaignRun(
        "finzi2023/figure4.5",
        "Whether accuracy and equivariance go together in networks trained on all images.",
        claims=1,
        minutes=60,
        basis=_CLASSIFIERS,
        cells=35,
        data=("cifar10", "mnist", *_THREE),
        shares=_NETWORKS,
    ),
    CampaignRun(
        "finzi2023/figure4.6",
        "Whether scale, data and recipe do more than BlurPool, in networks trained on all images.",
        claims=1,
        minutes=40,
        basis=_CLASSIFIERS,
        cells=27,
        data=("cifar10", *_THREE),
        shares=_NETWORKS,
    ),
    CampaignRun(
        "finzi2023/figureA.3",
        "Whether trends under brightness and stretch remain in networks trained on all images.",
        claims=1,
        minutes=50,
        basis=_CLASSIFIERS,
        cells=27,
        data=("cifar10",),
        shares=_NETWORKS,
    ),
    CampaignRun(
        "finzi2023/figure5.1",
        "How bounds depend on the share of rows for the prior, and on the dimension.",
        claims=2,
        minutes=40,
        basis=_CERTIFICATES,
        cells=12,
        data=("cifar10",),
    ),
    CampaignRun(
        "finzi2023/figure5.2",
        "Whether Kronecker products do as well as sparse matrices, and film with them best.",
        claims=2,
        minutes=60,
        basis=_CERTIFICATES,
        cells=24,
        data=("cifar10", "fashion-mnist"),
    ),
    CampaignRun(
        "finzi2023/figure5.3",
        "Whether structure that is broken costs a CNN more than an MLP, at three dimensions.",
        claims=1,
        minutes=70,
        basis=_CERTIFICATES,
        cells=18,
        data=("cifar10",),
    ),
    CampaignRun(
        "finzi2023/figureA.4",
        "Whether d = 0 is best for every share of rows.",
        claims=1,
        minutes=45,
        basis=_CERTIFICATES,
        cells=12,
        data=("cifar10",),
    ),
    CampaignRun(
        "finzi2023/figureA.6",
        "Whether wider networks have shorter descriptions.",
        claims=1,
        minutes=45,
        basis=_CERTIFICATES,
        cells=10,
        data=("cifar10",),
    ),
    CampaignRun(
        "finzi2023/figureA.7",
        "Whether bounds follow the double descent of the test error.",
        claims=1,
        minutes=70,
        basis=_CERTIFICATES,
        cells=12,
        data=("cifar10",),
    ),
    CampaignRun(
        "finzi2023/table5.2",
        "Bounds of all rows in one run, the transfer to ResNet-20 among them.",
        claims=1,
        minutes=60,
        basis=_CERTIFICATES,
        cells=9,
        data=("mnist", "fashion-mnist", "cifar10"),
        shares=_CELLS_OF_CERTIFICATES,
    ),
    CampaignRun(
        "finzi2023/tableA.18",
        "Whether subspaces beat pruning on CIFAR-10, too.",
        claims=1,
        minutes=80,
        basis=_CERTIFICATES,
        cells=8,
        data=("mnist", "fashion-mnist", "cifar10"),
        shares=_CELLS_OF_CERTIFICATES,
    ),
    CampaignRun(
        "finzi2023/tableA.19",
        "The best share of rows for the prior, on three sets.",
        claims=1,
        minutes=30,
        basis=_CERTIFICATES,
        cells=9,
        data=("mnist", "fashion-mnist", "cifar10"),
        shares=_CELLS_OF_CERTIFICATES,
    ),
    CampaignRun(
        "finzi2023/tableA.22",
        "Whether d = 0 is best on three sets and three shares.",
        claims=1,
        minutes=80,
        basis=_CERTIFICATES,
        cells=18,
        data=("mnist", "fashion-mnist", "cifar10"),
        shares=_CELLS_OF_CERTIFICATES,
    ),
    CampaignRun(
        "finzi2023/tableA.23",
        "Whether full batches give bounds as good as stochastic training.",
        claims=1,
        minutes=300,
        basis="a guess: 3000 steps of all rows cost 3000 epochs",
        cells=14,
        data=("mnist", "cifar10"),
        shares=_CELLS_OF_CERTIFICATES,
    ),
    CampaignRun(
        "ouderaa2023/table1",
        "Whether the choice of layers holds after the published 1000 epochs.",
        claims=1,
        minutes=180,
        basis=_LAYERWISE,
        cells=12,
        settings=_full(epochs=1000),
        data=("mnist",),
        resumable=True,
    ),
    CampaignRun(
        "ouderaa2023/table2",
        "Which layers become convolutions on CIFAR-10, of eleven kinds, after 60 epochs.",
        claims=1,
        minutes=30,
        basis=_LAYERWISE,
        cells=22,
        part="60-epochs",
        data=("cifar10",),
        resumable=True,
    ),
    CampaignRun(
        "ouderaa2023/table2",
        "Table 2 after the published 4000 epochs.",
        claims=1,
        minutes=1300,
        basis=_LAYERWISE,
        cells=22,
        settings=_full(epochs=4000),
        data=("cifar10",),
        resumable=True,
    ),
    CampaignRun(
        "ouderaa2023/table3",
        "Whether layers take quarter turns on rotated digits, after 1000 epochs of all images.",
        claims=1,
        minutes=90,
        basis=_LAYERWISE,
        cells=6,
        settings=_full(epochs=1000, models=("MNIST", "Translated MNIST", "Rotated MNIST")),
        part="MNIST",
        data=("mnist",),
        resumable=True,
    ),
    CampaignRun(
        "ouderaa2023/table3",
        "Whether layers take quarter turns on rotated photographs, after 4000 epochs.",
        claims=1,
        minutes=240,
        basis=_LAYERWISE,
        cells=4,
        settings=_full(epochs=4000, models=("CIFAR-10", "Rotated CIFAR-10")),
        part="CIFAR-10",
        data=("cifar10",),
        resumable=True,
    ),
    CampaignRun(
        "ouderaa2023/table4",
        "What every layer of FC+CONV becomes on CIFAR-10, after 4000 epochs.",
        claims=1,
        minutes=130,
        basis=_LAYERWISE,
        cells=1,
        settings=_full(epochs=4000),
        data=("cifar10",),
        resumable=True,
    ),
    CampaignRun(
        "ouderaa2023/table7",
        "Accuracies of the forms of group convolutions on rotated images, after 60 epochs.",
        claims=1,
        minutes=10,
        basis=_LAYERWISE,
        cells=8,
        part="60-epochs",
        data=("cifar10",),
        resumable=True,
    ),
    CampaignRun(
        "ouderaa2023/table7",
        "The same after the published 4000 epochs.",
        claims=1,
        minutes=400,
        basis=_LAYERWISE,
        cells=8,
        settings=_full(epochs=4000),
        data=("cifar10",),
        resumable=True,
    ),
    CampaignRun(
        "yeh2022/tableA1",
        "Whether Augerino with 75 transformations comes near to learned sharing.",
        claims=1,
        minutes=6,
        basis="a guess: 24 times the quick run, which takes over a minute on one core",
        cells=4,
    ),
)
