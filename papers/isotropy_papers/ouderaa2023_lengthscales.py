"""Lengthscales that the evidence learns (van der Ouderaa et al. 2023, section 3.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from isotropy.evidence import LearningOptions, PriorOptions, learn_priors
from isotropy.layerwise import layer_types
from isotropy.nn import PathSum, SparseConv2d, SparseLinear, lengthscales
from isotropy.run import ProgressCallback
from isotropy.run import generator as make_generator
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._layerwise_runs import mean_cell
from isotropy_papers._trained_classifiers import training_rows
from isotropy_papers._vision_models import seeded

Basis: TypeAlias = Literal["normalised", "interpolating", "plain"]
Task: TypeAlias = Literal["pattern", "quadrant"]

_ID = "ouderaa2023/lengthscales"
_TASKS: tuple[Task, ...] = ("pattern", "quadrant")
_SHIFTS = ((1, 0), (0, 1), (2, -3), (3, 2), (4, 4))
_PATTERNS = (((1.0, 1.0), (0.0, 0.0)), ((1.0, 0.0), (1.0, 0.0)))
_NOISE = 0.1
_WEAK = 0.01  # a prior precision that keeps no path small by itself
_TEST_SEED = 2**32  # test images are none that a seed of training images gives


@dataclass(frozen=True)
class Way:
    """What the evidence learns.

    Args:
        omega: ω, up the evidence; or σ of its prior N(0, σ²), with ω trained like weights; or
            nothing about it.
        priors: Whether prior precisions are learned, too.
        basis: Of the S-FC path.
    """

    omega: Literal["learned", "prior", "fixed"] = "fixed"
    priors: bool = False
    basis: Basis = "normalised"


_WAYS = {
    "fixed": Way(),
    "priors": Way(priors=True),
    "ω": Way("learned"),
    "ω+priors": Way("learned", priors=True),
    "σ+priors": Way("prior", priors=True),
    "ω interpolating": Way("learned", basis="interpolating"),
    "ω plain": Way("learned", basis="plain"),
}
_QUICK = ("fixed", "ω", "ω+priors")


@dataclass(frozen=True)
class LengthscalePlan:
    """How networks are trained.

    Args:
        size: Height and width of images.
        rows: Training images.
        channels: Of both layers.
        epochs: Passes through the images; the evidence is asked after ten, and after every
            second one from then on.
        test_rows: Test images.
    """

    size: int = 8
    rows: int = 240
    channels: int = 4
    epochs: int = 100
    test_rows: int = 1000


def images(rows: int, size: int, seed: int) -> tuple[Tensor, dict[Task, Tensor]]:
    """One of two patterns, anywhere on a torus, and noise.

    Args:
        rows: How many images.
        size: Their height and width.
        seed: Of all that is random.

    Returns:
        Standardised images of shape (rows, 1, size, size), and their labels: which pattern, or
        in which quadrant its corner is.

    Example:
        >>> x, labels = images(5, 8, seed=0)
        >>> x.shape, list(labels)
        (torch.Size([5, 1, 8, 8]), ['pattern', 'quadrant'])
    """
    random = make_generator(seed)
    pattern = torch.randint(2, (rows,), generator=random)
    place = torch.randint(size, (rows, 2), generator=random)
    x = torch.zeros(rows, 1, size, size)
    x[:, 0, :2, :2] = torch.tensor(_PATTERNS)[pattern]
    moved = [image.roll(by, (1, 2)) for image, by in zip(x, place.tolist(), strict=True)]
    x = torch.stack(moved) + _NOISE * torch.randn(x.shape, generator=random)
    far = (place >= size // 2).long()
    labels: dict[Task, Tensor] = {"pattern": pattern, "quadrant": 2 * far[:, 0] + far[:, 1]}
    return (x - x.mean()) / x.std(), labels


def network(plan: LengthscalePlan, classes: int, basis: Basis, seed: int) -> nn.Sequential:
    """Two layers S-FC+S-CONV, the mean over the map, and a linear layer.

    Args:
        plan: Sizes.
        classes: The number of outputs.
        basis: Of S-FC.
        seed: Of weights and anchors.

    Example:
        >>> net = network(LengthscalePlan(), 2, "normalised", seed=0)
        >>> net(torch.zeros(5, 1, 8, 8)).shape
        torch.Size([5, 2])
    """
    layers: list[nn.Module] = []
    before = 1
    with seeded(seed):
        for _ in range(2):
            paths = {
                "S-FC": SparseLinear(before, plan.channels, plan.size, basis=basis),
                "S-CONV": SparseConv2d(before, plan.channels),
            }
            layers += [PathSum(paths), nn.ReLU()]
            before = plan.channels
        head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes)
        return nn.Sequential(*layers, *head)


@torch.no_grad()
def shift_errors(model: nn.Sequential, x: Tensor) -> list[float]:
    """How far every layer is from commuting with shifts, on the inputs that it gets.

    That is ‖f(shift x) − shift f(x)‖ over the norm of f(x) less its mean over images and places,
    in the mean over some circular shifts: a constant output makes no error small.

    Args:
        model: A network with ``PathSum`` layers.
        x: Images.

    Example:
        >>> conv = nn.Sequential(PathSum({"conv": SparseConv2d(1, 2)}))
        >>> shift_errors(conv, torch.randn(3, 1, 8, 8))[0] < 1e-5
        True
    """
    errors = []
    for layer in model:
        y = layer(x)
        if isinstance(layer, PathSum):
            spread = (y - y.mean((0, 2, 3), keepdim=True)).norm()
            apart = [(layer(x.roll(by, (2, 3))) - y.roll(by, (2, 3))).norm() for by in _SHIFTS]
            errors.append(float(torch.stack(apart).mean() / spread))
        x = y
    return errors


def learned(
    task: Task, way: Way, plan: LengthscalePlan, seed: int, device: str = "cpu"
) -> dict[str, float]:
    """Train one network, and say what its layers have become.

    Args:
        task: Which labels.
        way: What the evidence learns.
        plan: How long, and on what.
        seed: Of images, weights and batches.
        device: Where to train.

    Returns:
        Numbers by column.
    """
    x, labels = images(plan.rows, plan.size, seed)
    seen, asked = images(plan.test_rows, plan.size, seed + _TEST_SEED)
    x, y = x.to(device), labels[task]
    model = network(plan, 2 if task == "pattern" else 4, way.basis, seed).to(device)
    names, own = lengthscales(model, SparseLinear), dict(model.named_parameters())
    for name in lengthscales(model):
        own[name].requires_grad_(way.omega != "fixed" and name in names)
    before = shift_errors(model, x)
    nothing = way.omega == "fixed" and not way.priors
    found = learn_priors(
        model,
        "classification",
        (x, y),
        epochs=plan.epochs,
        batch_size=40,
        learning_rate=0.02,
        seed=seed,
        learning=LearningOptions(
            burn_in=plan.epochs if nothing else 10,
            every=2,
            steps=20 if way.priors else 0,
            hyper_learning_rate=0.25,
        ),
        priors=PriorOptions(
            groups=_tensor,
            precisions=_WEAK,
            hyperparameters=names if way.omega == "learned" else (),
        ),
    )
    types = layer_types(model, found.effective, found.precisions)
    numbers: dict[str, float] = {}
    for k, (name, after) in enumerate(zip(types, shift_errors(model, x), strict=True)):
        omegas = {
            n.split(".")[-2]: float(own[n].detach()) for n in names if n.startswith(f"{name}.")
        }
        numbers |= {
            f"layer {k} inner |ω|": abs(omegas["inner_basis"]),
            f"layer {k} outer |ω|": abs(omegas["outer_basis"]),
            f"layer {k} error before": before[k],
            f"layer {k} error": after,
            f"layer {k} S-FC relative": types[name].paths["S-FC"],
        }
    with torch.no_grad():
        right = model(seen.to(device)).argmax(1).cpu() == asked[task]
    return numbers | {
        "log evidence before": found.history[0].log_marginal_likelihood,
        "log evidence": found.log_marginal_likelihood,
        "accuracy %": 100 * float(right.double().mean()),
    }


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Learn lengthscales on labels that do not depend on the place, and on labels that do.

    Args:
        settings: ``models`` are the ways of learning; a quick run leaves some out. ``sizes`` is the
            number of training images. Full: larger images, longer, five seeds.
        progress: Called before each network.

    Returns:
        Lengthscales, equivariance errors, evidence and accuracy, by task and way.
    """
    ways = settings.chosen(list(_WAYS))
    if settings.models is None and not settings.full:
        ways = list(_QUICK)
    plan = LengthscalePlan(size=12, rows=400, epochs=150) if settings.full else LengthscalePlan()
    chosen = settings.or_else(
        seeds=5 if settings.full else 1,
        epochs=plan.epochs,
        channels=plan.channels,
        test_rows=plan.test_rows,
    )
    seeds = range(settings.seed, settings.seed + chosen.pop("seeds"))
    plan = replace(plan, rows=training_rows(settings, plan.rows) or plan.rows, **chosen)
    parts = Finished(_ID, {"plan": asdict(plan)}, settings, progress)
    jobs: dict[str, Callable[[], dict[str, float]]] = {
        f"{task}, {way}, seed {seed}": partial(
            learned, task, _WAYS[way], plan, seed, settings.device
        )
        for task in _TASKS
        for way in ways
        for seed in seeds
    }
    found: dict[str, Any] = parts.get(list(jobs), lambda names: [jobs[name]() for name in names])
    cells: list[Cell] = []
    for task in _TASKS:
        for way in ways:
            rows = [found[f"{task}, {way}, seed {seed}"] for seed in seeds]
            for column in rows[0]:
                cells += mean_cell(f"{task}, {way}", column, [row[column] for row in rows])
    return Result(_ID, cells, parts.close(), _notes(plan, len(seeds)))


def _notes(plan: LengthscalePlan, seeds: int) -> tuple[str, ...]:
    return (
        f"{plan.rows} training and {plan.test_rows} test images of {plan.size}×{plan.size}, the "
        f"same for both tasks, {plan.epochs} epochs of Adam; two layers S-FC+S-CONV of "
        f"{plan.channels} channels; {seeds} {'seed' if seeds == 1 else 'seeds'}",
        f"every ω starts at 1 per pixel, every prior precision at {_WEAK}; fixed: both stay; "
        "priors: they are learned alone; ω: lengthscales of S-FC alone go up the evidence; σ: they "
        "have the prior N(0, σ²), σ learned",
        "error: of commuting with circular shifts, over the spread of a layer's outputs; before: "
        "at the start, the evidence after ten epochs; relative: of effective parameters",
        "S-FC has normalised bases where no other are named; nothing was published",
        "rates, weak priors and the normalised basis were chosen on the quick run of seeds 0 to 2: "
        "judge by others",
    )


def _tensor(name: str) -> str:
    return name


EXPERIMENT = Experiment(_ID, "Convolution found by lengthscales that the evidence learns", run)
