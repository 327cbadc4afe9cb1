"""Networks of the layer-wise paper, trained with and without the evidence, for its tables."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path as FilePath
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.evidence import CurvatureOptions, LearningOptions, PriorOptions, laplace, learn_priors
from isotropy.layerwise import (
    AugmentedBatches,
    begin_with_strict_paths,
    layer_types,
    starting_precisions,
)
from isotropy.nn import LayerwiseNetwork
from isotropy.run import ProgressCallback, Step
from isotropy.run import generator as make_generator
from isotropy_papers._classifiers import shifted_and_flipped
from isotropy_papers._experiment import Cell, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._image_sets import digest_of
from isotropy_papers._layerwise_tasks import LayerwiseTask, Pair, task_of
from isotropy_papers._statistics import mean_interval
from isotropy_papers._trained_classifiers import training_rows
from isotropy_papers._vision_models import seeded

Kind: TypeAlias = Literal["fc", "factored", "sparse_fc", "conv", "sparse_conv", "group_conv"]
Passes: TypeAlias = Literal["exact", "signs"]
Form: TypeAlias = Literal["full", "separable", "depthwise", "pointwise"]

CIFAR, MNIST = (3, 10), (1, 10)  # channels and classes
QUADRANTS = (1, 40)

_FEW = 4
_SGD = partial(torch.optim.SGD, momentum=0.9)


@dataclass(frozen=True)
class Net:
    """A ``LayerwiseNetwork`` before it is built.

    Args:
        paths: Of every layer.
        alpha: Its width.
        form: Of group convolutions.
        omega: Whether lengthscales are parameters, under a learned prior of their own; otherwise
            they stay at 1.

    Example:
        >>> Net(("factored", "conv")).parameters(*MNIST)
        1730805
    """

    paths: tuple[Kind, ...]
    alpha: int = 10
    form: Form = "pointwise"
    omega: bool = False

    def parameters(self, channels: int, classes: int) -> int:
        """How many, lengthscales not counted.

        Args:
            channels: Of the images.
            classes: The number of outputs.
        """
        network = LayerwiseNetwork(
            channels, classes, paths=self.paths, alpha=self.alpha, form=self.form, device="meta"
        )
        return sum(p.numel() for name, p in network.named_parameters() if not _is_omega(name))

    def built(self, channels: int, classes: int, seed: int) -> LayerwiseNetwork:
        """The network at random.

        Args:
            channels: Of the images.
            classes: The number of outputs.
            seed: Of weights and anchor points; the same on every device.
        """
        with seeded(seed):
            network = LayerwiseNetwork(
                channels,
                classes,
                paths=self.paths,
                alpha=self.alpha,
                form=self.form,
                basis="interpolating",  # as published
            )
        for name, parameter in network.named_parameters():
            if _is_omega(name):
                parameter.requires_grad_(self.omega)
        return network


@dataclass(frozen=True)
class LayerwisePlan:
    """How long networks are trained, and what the evidence is computed on.

    Args:
        epochs: Passes through the training images.
        burn_in: After how many of them the priors are updated first.
        every: After how many more each time.
        batch: Images in a step.
        optimiser: "SGD", with momentum 0.9 as in the published code, or "Adam".
        rate: Its learning rate.
        schedule: How that falls.
        steps: Of Adam at 0.1 on the priors for each estimate, or "best".
        hold_back: How much narrower than their draw priors begin, of all but the most symmetric
            paths; None to begin with precisions of 1 throughout.
        strict_start: Whether the other paths begin with the gain of all, without which few images,
            or three paths, do not wake the network up.
        subset: Training images for each estimate; None for all.
        probes: Random passes for each of its batches; None for one for each class.
        augmented: Whether training images are shifted and flipped.

    Example:
        >>> LayerwisePlan(epochs=60).estimates
        10
    """

    epochs: int
    burn_in: int = 10
    every: int = 5
    batch: int = 128
    optimiser: Literal["SGD", "Adam"] = "SGD"
    rate: float = 0.01
    schedule: Literal["constant", "cosine"] = "cosine"
    steps: int | Literal["best"] = 20
    hold_back: float | None = None
    strict_start: bool = False
    subset: int | None = 10_000
    probes: int | None = None
    augmented: bool = False

    @property
    def estimates(self) -> int:
        """How often the priors are updated."""
        return len(range(self.burn_in, self.epochs, self.every))

    def curvature(self, rows: int, *, evidence: bool) -> CurvatureOptions:
        """Options of an estimate.

        Args:
            rows: How many training images there are.
            evidence: Whether anything depends on it; otherwise it is as cheap as can be.
        """
        if not evidence:
            return CurvatureOptions("diagonal", subset=min(_FEW, rows))
        subset = rows if self.subset is None else min(self.subset, rows)
        passes: Passes = "exact" if self.probes is None else "signs"
        return CurvatureOptions(passes=passes, probes=self.probes, subset=subset)


@dataclass(frozen=True)
class LayerwiseRow:
    """What a trained network shows.

    Args:
        parameters: How many it has.
        accuracy: On test images, in percent.
        nll: The mean of −log p of test images.
        loss: −log evidence, for each training image; None without evidence.
        layers: The ``LayerType`` of each layer, of what JSON knows; none without evidence.
        before: Likewise, before anything was learned.

    Example:
        >>> LayerwiseRow(10, 98.0, 0.1, None, []) == LayerwiseRow(
        ...     **asdict(LayerwiseRow(10, 98.0, 0.1, None, []))
        ... )
        True
    """

    parameters: int
    accuracy: float
    nll: float
    loss: float | None
    layers: list[dict[str, Any]]
    before: list[dict[str, Any]] = field(default_factory=list)

    def shares(self, path: str, *, before: bool = False) -> list[float]:
        """The relative effective number of parameters of a path, for each layer."""
        return [layer["paths"][path] for layer in (self.before if before else self.layers)]


@dataclass(frozen=True)
class Job:
    """A network to train.

    Args:
        task: On what.
        net: Which.
        evidence: Whether priors are learned.
    """

    task: str
    net: Net
    evidence: bool


@dataclass(frozen=True)
class LayerwiseStudy:
    """What some jobs have found.

    Args:
        rows: By job, one for each seed.
        notes: How they were trained.
        seconds: How long it took.
    """

    rows: dict[str, list[LayerwiseRow]]
    notes: tuple[str, ...]
    seconds: float


def trained(
    network: LayerwiseNetwork,
    train: Pair,
    test: Pair,
    *,
    evidence: bool,
    plan: LayerwisePlan,
    seed: int = 0,
    checkpoint: FilePath | None = None,
    progress: ProgressCallback | None = None,
) -> LayerwiseRow:
    """Train a network, by its posterior alone or with priors that the evidence learns.

    Every tensor has a prior precision of its own.

    Args:
        network: What to train, where its parameters are.
        train: Images and labels.
        test: Images and labels.
        evidence: Whether priors are learned; otherwise they stay at 1 (MAP).
        plan: How long.
        seed: Of the order of images, and of estimates.
        checkpoint: A file to go on from.
        progress: Called after every epoch.

    Example:
        >>> task = task_of("MNIST", Settings(), 40, 20)
        >>> net, plan = Net(("conv",), 1).built(*MNIST, seed=0), LayerwisePlan(1)
        >>> trained(net, task.train, task.test, evidence=False, plan=plan).parameters
        4078
    """
    device = next(network.parameters()).device
    plain = train[0].to(device), train[1]
    names = [name for name, p in network.named_parameters() if p.requires_grad]
    if evidence and plan.strict_start:
        begin_with_strict_paths(network)
    options = plan.curvature(len(train[0]), evidence=evidence)
    if device.type == "cuda":
        options = replace(options, batch_size=500)
    before = _before(network, plain, options) if evidence else []
    start = starting_precisions(network, names, plan.hold_back) if evidence else None
    with warnings.catch_warnings():
        if not evidence:
            # of an evidence that nobody looks at
            warnings.filterwarnings("ignore", "expected samples of all")
        found = learn_priors(
            network,
            "classification",
            _augmented(*plain, plan.batch, seed) if plan.augmented else plain,
            epochs=plan.epochs,
            batch_size=plan.batch,
            learning_rate=plan.rate,
            seed=seed,
            progress=progress,
            learning=LearningOptions(
                optimiser=torch.optim.Adam if plan.optimiser == "Adam" else _SGD,
                schedule=plan.schedule,
                burn_in=plan.burn_in if evidence else plan.epochs,
                every=plan.every,
                steps=plan.steps,
                hyper_schedule="constant",
                curvature=options,
                cuda_graph=device.type == "cuda",
                checkpoint=checkpoint,
            ),
            priors=PriorOptions(
                groups=_tensor,
                precisions=start,
                evidence_data=plain,
            ),
        )
    accuracy, nll = _tested(network, *test)
    size = sum(p.numel() for name, p in network.named_parameters() if not _is_omega(name))
    if not evidence:
        return LayerwiseRow(size, accuracy, nll, None, [])
    loss = -found.log_marginal_likelihood / len(train[0])
    types = layer_types(network, found.effective, found.precisions)
    layers = [layer.to_json() for layer in types.values()]
    return LayerwiseRow(size, accuracy, nll, loss, layers, before)


def _before(network: nn.Module, train: Pair, options: CurvatureOptions) -> list[dict[str, Any]]:
    """What every layer is with random weights and precisions of 1."""
    effective = laplace(network, "classification", train, curvature=options).effective_parameters(
        by="tensor"
    )
    return [layer.to_json() for layer in layer_types(network, effective).values()]


def studied(
    id: str,
    jobs: Mapping[str, Job],
    settings: Settings,
    progress: ProgressCallback,
    *,
    quick: LayerwisePlan,
    full: LayerwisePlan,
    rows: int = 1000,
) -> LayerwiseStudy:
    """Train all networks of a table, each only once where ``settings.out`` keeps them.

    A training that was stopped goes on from its last epochs there, too.

    Args:
        id: The experiment.
        jobs: By name.
        settings: ``epochs`` and ``schedule`` replace those of the plan, ``sizes`` (one number)
            that of training images.
        progress: Called before each network, and after each epoch.
        quick: The plan of a quick run.
        full: The plan as published.
        rows: Training images of a quick run.

    Raises:
        ValueError: If data are missing, or several sizes are given.
    """
    plan = _adapted(full if settings.full else quick, settings)
    number = training_rows(settings, None if settings.full else rows)
    chosen = settings.or_else(seeds=1, test_rows=None if settings.full else 1000)
    tasks = {
        name: task_of(name, settings, number, chosen["test_rows"])
        for name in dict.fromkeys(job.task for job in jobs.values())
    }
    digests = {name: digest_of(*task.train, *task.test) for name, task in tasks.items()}
    seeds = range(settings.seed, settings.seed + chosen["seeds"])
    found: dict[str, list[LayerwiseRow]] = {}
    files = []
    for before, (name, job) in enumerate(jobs.items()):
        # a file for each network: runs of some of them go on with one another's
        about = {"plan": asdict(plan), "job": asdict(job), "data": digests[job.task]}
        parts = Finished(id, about, settings, _ignore)
        training = _LayerwiseTraining(tasks[job.task], job, plan, settings)
        report = partial(_tell, progress, name, before * plan.epochs, len(jobs) * plan.epochs)
        named = {f"{name}, seed {seed}": seed for seed in seeds}
        kept = parts.get(list(named), partial(training.rows, about, report, named))
        found[name] = [LayerwiseRow(**row) for row in kept.values()]
        files.append(parts)
    notes = _notes(plan, list(tasks.values()), chosen["seeds"], settings.full)
    return LayerwiseStudy(found, notes, sum(parts.close() for parts in files))


def mean_cell(
    row: str, column: str, values: Sequence[float | None], theirs: float | None = None
) -> list[Cell]:
    """The cell of the mean over seeds; none where there are no values.

    Args:
        row: Its row.
        column: Its column.
        values: One for each seed.
        theirs: What was published.

    Example:
        >>> mean_cell("digit", "MAP CONV", [99.0], 99.38)
        [Cell(row='digit', column='MAP CONV', ours=99.0, theirs=99.38, interval=None)]
    """
    present = [value for value in values if value is not None]
    if not present:
        return []
    mean, interval = mean_interval(present)
    return [Cell(row, column, mean, theirs, interval)]


def fit_cells(
    name: str,
    plain: Sequence[LayerwiseRow],
    learned: Sequence[LayerwiseRow],
    published: Sequence[float],
) -> list[Cell]:
    """The columns that Tables 2 and 3 share: NLL and accuracy of both trainings, −log evidence.

    Args:
        name: The row of the table.
        plain: What MAP found, seed by seed.
        learned: What was found with learned priors.
        published: One number for each of the columns, in this order.

    Example:
        >>> plain, learned = (
        ...     LayerwiseRow(10, 80.0, 0.5, None, []),
        ...     LayerwiseRow(10, 90.0, 0.4, 0.6, []),
        ... )
        >>> cells = fit_cells("MNIST", [plain], [learned], (0.172, 97.59, 0.023, 99.21, 0.328))
        >>> [cell.ours for cell in cells]
        [0.5, 80.0, 0.4, 90.0, 0.6]
    """
    found: dict[str, list[float | None]] = {
        "MAP NLL": [row.nll for row in plain],
        "MAP accuracy": [row.accuracy for row in plain],
        "evidence NLL": [row.nll for row in learned],
        "evidence accuracy": [row.accuracy for row in learned],
        "-log evidence": [row.loss for row in learned],
    }
    return [
        cell
        for (column, values), theirs in zip(found.items(), published, strict=True)
        for cell in mean_cell(name, column, values, theirs)
    ]


def held_back_plan(
    epochs: int, *, augmented: bool = False, strict_start: bool = False
) -> LayerwisePlan:
    """What finds symmetry soonest of all plans tried: Adam, paths of less symmetry held back.

    Example:
        >>> held_back_plan(60).estimates
        11
    """
    return LayerwisePlan(
        epochs,
        burn_in=5,
        batch=512,
        optimiser="Adam",
        rate=0.002,
        steps="best",
        hold_back=10.0,
        strict_start=strict_start,
        subset=2000,
        augmented=augmented,
    )


def quick_plan(epochs: int, *, batch: int = 16, subset: int = 256) -> LayerwisePlan:
    """A short plan: small batches, and four estimates, the first after a third of the epochs.

    Example:
        >>> plan = quick_plan(12)
        >>> plan.burn_in, plan.every, plan.estimates
        (4, 2, 4)
    """
    short = LayerwisePlan(
        epochs,
        batch=batch,
        optimiser="Adam",
        rate=0.003,
        steps="best",
        hold_back=10.0,
        strict_start=True,
        subset=subset,
        probes=4,
    )
    return _shortened(short)


def _shortened(plan: LayerwisePlan) -> LayerwisePlan:
    every = max(1, plan.epochs // 6)
    return replace(plan, burn_in=max(1, plan.epochs - 4 * every), every=every)


def _adapted(plan: LayerwisePlan, settings: Settings) -> LayerwisePlan:
    plan = replace(plan, **settings.or_else(epochs=plan.epochs, schedule=plan.schedule))
    return plan if settings.full else _shortened(plan)


def _ignore(step: Step) -> None:
    """Say nothing."""


def _tell(progress: ProgressCallback, name: str, before: int, total: int, step: Step) -> None:
    progress(Step(before + step.done, total, f"{name}: {step.message}"))


@dataclass(frozen=True)
class _LayerwiseTraining:
    """How a job is done, seed by seed."""

    task: LayerwiseTask
    job: Job
    plan: LayerwisePlan
    settings: Settings

    def rows(
        self,
        about: dict[str, Any],
        progress: ProgressCallback,
        seeds: Mapping[str, int],
        names: list[str],
    ) -> list[dict[str, Any]]:
        return [self._row(about, progress, seeds[name]) for name in names]

    def _row(self, about: dict[str, Any], progress: ProgressCallback, seed: int) -> dict[str, Any]:
        task, net, out = self.task, self.job.net, self.settings.out
        progress(Step(0, None, f"seed {seed}"))
        network = net.built(task.train[0].shape[1], task.classes, seed).to(self.settings.device)
        checkpoint = None
        if out is not None:
            text = json.dumps([about, seed], sort_keys=True)
            digest = hashlib.sha256(text.encode()).hexdigest()[:12]
            checkpoint = out / f"training-{digest}.safetensors"
        row = trained(
            network,
            task.train,
            task.test,
            evidence=self.job.evidence,
            plan=self.plan,
            seed=seed,
            checkpoint=checkpoint,
            progress=progress,
        )
        if checkpoint is not None:
            checkpoint.unlink(missing_ok=True)
        return asdict(row)


def _notes(
    plan: LayerwisePlan, tasks: Sequence[LayerwiseTask], seeds: int, full: bool
) -> tuple[str, ...]:
    train, test = tasks[0].train[0], tasks[0].test[0]
    subset = plan.curvature(len(train), evidence=True).subset
    often = "epoch" if plan.every == 1 else f"{plan.every} epochs"
    passes = "a pass for each class" if plan.probes is None else f"{plan.probes} random passes"
    steps = "SGD with momentum 0.9" if plan.optimiser == "SGD" else "Adam"
    notes = [
        f"{len(train)} training and {len(test)} test images, {plan.epochs} epochs of batches of "
        f"{plan.batch}, {steps}, learning rate {plan.rate:g} ({plan.schedule}), "
        + ("shifts and flips; " if plan.augmented else "")
        + f"{seeds} {'seed' if seeds == 1 else 'seeds'}"
        + ("" if seeds == 1 else "; interval: one standard deviation over seeds to either side"),
        f"evidence: one prior precision for each tensor, estimates {plan.estimates}, from epoch "
        f"{plan.burn_in} on, every {often}, each of {subset} images with {passes}: "
        + ("best precisions" if plan.steps == "best" else f"{plan.steps} steps of Adam at 0.1")
        + (
            "; all begin at 1"
            if plan.hold_back is None
            else f"; all but the most symmetric paths begin {plan.hold_back:g} times narrower than "
            "their draw, others at 1" + (", and with the gain of all" if plan.strict_start else "")
        )
        + "; MAP: all precisions 1",
        "maps are halved by one phase for each image, where the published code takes one for a "
        "whole batch",
    ]
    if any(task.stands_in for task in tasks):
        notes.append(
            "the small digits of scikit-learn stand in for the published images, which have not "
            "been obtained ('isotropy data get mnist', 'isotropy data get cifar10')"
        )
    if not full:
        notes.append(
            "quick: networks this narrow, trained this little, show how it is done, not more"
        )
    return tuple(notes)


@torch.no_grad()
def _tested(network: nn.Module, x: Tensor, y: Tensor, batch: int = 500) -> tuple[float, float]:
    """Accuracy in percent, and the mean of −log p."""
    device = next(network.parameters()).device
    network.eval()
    logits = torch.cat([network(part.to(device)).cpu() for part in x.split(batch)]).double()
    right = (logits.argmax(1) == y).double().mean()
    return 100 * float(right), float(functional.cross_entropy(logits, y))


def _augmented(x: Tensor, y: Tensor, batch: int, seed: int) -> AugmentedBatches:
    """Shuffled batches of images, each shifted and flipped anew."""
    random = make_generator(seed)
    return AugmentedBatches(x, y, batch, partial(shifted_and_flipped, generator=random), random)


def _is_omega(name: str) -> bool:
    return name.endswith(".omega")


def _tensor(name: str) -> str:
    return name
