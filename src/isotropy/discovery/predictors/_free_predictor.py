"""A predictor free of any symmetry, to hold claims against: the best of a few families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from isotropy._run import ProgressCallback, Step
from isotropy._run import generator as make_generator
from isotropy.discovery.predictors._kernel_predictor import (
    choose_kernel,
    fit_kernel,
    softmax_regression,
)
from isotropy.discovery.predictors._predictor_thresholds import PredictorThresholds

Task = Literal["regression", "classification"]
Predict = Callable[[Tensor], Tensor]

_SIMPLEST_FIRST = ("linear", "quadratic", "kernel", "network", "kernel and network")


@dataclass(frozen=True)
class FreePredictor:
    """A fitted predictor.

    Args:
        kind: ``"linear"``, ``"quadratic"``, ``"kernel"``, ``"network"`` or ``"kernel and
            network"``, with ``" and trees"`` behind it where trees explain some of what the first
            leaves.
        predict: From inputs, shape ``(N, n)``, to predictions ``(N, k)``: values, or logits of
            classes.
        constant: The best constant prediction, shape ``(k,)``.
        unexplained: The held-out loss as a share of the constant's.

    Example:
        >>> x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0))
        >>> fitted = fit_free_predictor(x, x[:, :1] * x[:, 1:2], "regression")
        >>> fitted.kind, fitted.unexplained < 1e-4
        ('quadratic', True)
    """

    kind: str
    predict: Predict
    constant: Tensor
    unexplained: float

    @property
    def is_linear(self) -> bool:
        """Whether it is a linear map, of whatever family."""
        return self.kind in ("linear", "a polynomial of degree 1")

    @property
    def is_quadratic(self) -> bool:
        """Whether it is a polynomial of degree two, of whatever family."""
        return self.kind.startswith(("quadratic", "a polynomial of degree 2"))

    def share_left(self, x: Tensor, y: Tensor, task: Task) -> float:
        """The loss on some rows, as a share of the constant's."""
        with torch.no_grad():
            predictions = (self.predict(x), self.constant.expand(len(x), -1))
        mine, worst = (float(sample_losses(p, y, task).mean()) for p in predictions)
        return mine / max(worst, 1e-300)


def sample_losses(prediction: Tensor, y: Tensor, task: Task) -> Tensor:
    """The loss of each row: squared error summed over outputs, or the cross-entropy in nats."""
    if task == "classification":
        return functional.cross_entropy(prediction.double(), y, reduction="none")
    return (prediction.double() - y.double()).square().sum(-1)


@dataclass(frozen=True)
class _Fit:
    """A family fitted to most rows: its share of loss on the others, and how to fit all rows."""

    unexplained: float
    kind: str
    partial: Predict
    again: Callable[[], Predict]


def fit_free_predictor(
    x: Tensor,
    y: Tensor,
    task: Task,
    *,
    classes: int | None = None,
    groups: NDArray[np.int64] | None = None,
    channels: int = 1,
    trees: bool = True,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> FreePredictor:
    """Fit a linear map, a polynomial of degree two, a kernel and a network; keep the best.

    The best is the one that does best on rows held out, or the mean of the last two.

    What the best one leaves is given to boosted trees, which are added where they help: a claim is
    only as good as the predictor that it is held against.

    Args:
        x: Inputs, shape ``(N, n)``.
        y: Targets, shape ``(N, k)``, or classes ``(N,)``.
        task: What the targets are.
        classes: How many classes there are, some of which these rows may lack.
        groups: Which rows belong together, and are held out together.
        channels: Columns at each position of the input, where these are laid out channel by
            channel.
        trees: Whether trees may be added; they jump, which motions do only where bodies meet.
        seed: Of the held-out rows, the network and the trees.
        progress: Called with each step.
    """
    limits, x = PredictorThresholds.now(), x.double()
    tell = progress or (lambda _step: None)
    rng = make_generator(seed)
    rest, hold = map(torch.as_tensor, held_out_rows(len(x), limits.held_out, groups, rng))
    width = y.shape[1] if y.ndim == 2 else max(int(y.max()) + 1, classes or 0)
    constant = _constant(y[rest], task, width)
    worst = float(sample_losses(constant.expand(len(hold), -1), y[hold], task).mean()) + 1e-300
    fits: list[_Fit] = []

    def consider(kind: str, partial: Predict, again: Callable[[], Predict]) -> _Fit:
        loss = float(sample_losses(partial(x[hold]), y[hold], task).mean())
        fits.append(_Fit(loss / worst, kind, partial, again))
        return fits[-1]

    for done, degree in enumerate((1, 2)):
        tell(Step(done, 4, "free predictor"))
        terms = x.shape[1] if degree == 1 else _quadratic_width(x.shape[1])
        if degree == 2 and terms > min(limits.most_products, limits.products_per_row * len(rest)):
            continue
        for ridge in limits.ridges if task == "regression" else limits.class_ridges:
            fit = partial(_fit_polynomial, width=width, task=task, degree=degree, ridge=ridge)
            consider(_SIMPLEST_FIRST[degree - 1], fit(x[rest], y[rest]), partial(fit, x, y))
    if min(fit.unexplained for fit in fits) > limits.nearly_exact:
        tell(Step(2, 4, "free predictor"))
        kernel = _kernel(x[rest], y[rest], task, width, channels)
        by_kernel = consider("kernel", kernel(x[rest], y[rest]), lambda: kernel(x, y))
    if min(fit.unexplained for fit in fits) > limits.kernel_enough:
        network = _fit_network(x[rest], y[rest], x[hold], y[hold], task, width, rng)
        by_network = consider("network", network, lambda: network)
        left = sorted((by_kernel.unexplained, by_network.unexplained))
        if left[1] < limits.averaged_within * left[0]:
            consider(
                "kernel and network",
                _mean(by_kernel.partial, network),
                lambda: _mean(kernel(x, y), network),
            )
    least = min(fit.unexplained for fit in fits)
    enough = limits.much_better * least + limits.nearly_exact
    best = min(
        (fit for fit in fits if fit.unexplained <= enough),
        key=lambda fit: (_SIMPLEST_FIRST.index(fit.kind), fit.unexplained),
    )
    whole = _constant(y, task, width)
    if trees and best.unexplained > limits.nearly_exact and whole.numel() <= limits.tree_outputs:
        tell(Step(3, 4, "free predictor"))
        grown = with_trees(x[rest], y[rest], best.partial, task, seed)
        added = consider(f"{best.kind} and trees", grown, lambda: grown)
        if added.unexplained < best.unexplained / limits.much_better:
            best = added
    return FreePredictor(best.kind, best.again(), whole, best.unexplained)


def quadratic_terms(x: Tensor) -> Tensor:
    """All products x_i x_j with i ≤ j, ordered by (i, j); shape ``(N, n(n+1)/2)``.

    Example:
        >>> quadratic_terms(torch.tensor([[2.0, 3.0]]))
        tensor([[4., 6., 9.]])
    """
    i, j = torch.triu_indices(x.shape[1], x.shape[1])
    return x[:, i] * x[:, j]


def _quadratic_width(n: int) -> int:
    return n + n * (n + 1) // 2


def held_out_rows(
    count: int,
    share: float,
    groups: NDArray[np.int64] | None,
    rng: torch.Generator,
    *,
    least: int = 1,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to fit and rows to hold out, groups kept whole, each in random order."""
    units = np.arange(count) if groups is None else np.unique(groups, return_inverse=True)[1]
    number = int(units.max()) + 1
    held = min(max(least, round(share * number)), number - 1)
    place = np.empty(number, dtype=np.int64)
    place[torch.randperm(number, generator=rng).numpy()] = np.arange(number)
    order = np.argsort(place[units], kind="stable")
    out = place[units][order] < held
    return order[~out], order[out]


def _constant(y: Tensor, task: Task, classes: int) -> Tensor:
    if task == "classification":
        counts = torch.bincount(y, minlength=classes).double() + 0.5
        return (counts / counts.sum()).log()
    return y.double().mean(0)


def _fit_polynomial(
    x: Tensor, y: Tensor, width: int, task: Task, degree: int, ridge: float
) -> Callable[[Tensor], Tensor]:
    centre, scale = x.mean(0), x.std(0).clamp_min(1e-12)

    def features(rows: Tensor) -> Tensor:
        z = (rows.double() - centre) / scale
        return z if degree == 1 else torch.cat([z, quadratic_terms(z)], 1)

    phi = features(x)
    middle = phi.mean(0)
    phi = phi - middle
    if task == "classification":
        steps = PredictorThresholds.now().class_steps
        weights, offset = softmax_regression(
            phi, y, width, lambda size: 0.5 * ridge * size, most_steps=steps
        )
    else:
        offset = y.double().mean(0)
        weights = _ridge(phi, y.double() - offset, ridge)
    return lambda rows: (features(rows) - middle) @ weights + offset


def _kernel(
    x: Tensor, y: Tensor, task: Task, width: int, channels: int
) -> Callable[[Tensor, Tensor], Predict]:
    """A kernel chosen on some rows, and how to fit it to any."""
    centre, scale = x.mean(0), x.std(0).clamp_min(1e-12)
    values = functional.one_hot(y, width).double() if task == "classification" else y.double()
    choice = choose_kernel((x - centre) / scale, values - values.mean(0), channels)
    classes = width if task == "classification" else None
    return partial(fit_kernel, choice=choice, channels=channels, classes=classes)


def _mean(first: Predict, second: Predict) -> Predict:
    return lambda rows: (first(rows) + second(rows)) / 2


def _ridge(phi: Tensor, y: Tensor, ridge: float) -> Tensor:
    gram = phi.mT @ phi
    gram.diagonal().add_(ridge * len(phi) + 1e-12 * float(gram.diagonal().max()))
    solved: Tensor = torch.linalg.solve(gram, phi.mT @ y)
    return solved


def _fit_network(
    x: Tensor,
    y: Tensor,
    x_held: Tensor,
    y_held: Tensor,
    task: Task,
    width: int,
    rng: torch.Generator,
) -> Callable[[Tensor], Tensor]:
    """A network of two hidden layers, stopped where the held-out loss is least."""
    centre, scale = x.mean(0), x.std(0).clamp_min(1e-12)
    limits, classify = PredictorThresholds.now(), task == "classification"
    units = limits.network_units
    shift = torch.zeros(1) if classify else y.double().mean(0)
    unit = torch.ones(1) if classify else y.double().std().clamp_min(1e-12)

    def prepared(rows: Tensor) -> Tensor:
        return ((rows.double() - centre) / scale).float()

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=rng)))
        net = nn.Sequential(
            nn.Linear(x.shape[1], units), nn.SiLU(), nn.Linear(units, units), nn.SiLU(),
            nn.Linear(units, width),
        )  # fmt: skip
    inputs, held = prepared(x), prepared(x_held)
    targets = y if classify else ((y.double() - shift) / unit).float()
    held_targets = y_held if classify else ((y_held.double() - shift) / unit).float()

    def loss(rows: Tensor, wanted: Tensor) -> Tensor:
        if classify:
            return functional.cross_entropy(net(rows), wanted)
        return functional.mse_loss(net(rows), wanted)

    batch = min(limits.network_batch, len(x))
    fewest, most = limits.network_epochs
    epochs = max(fewest, min(most, limits.network_steps * batch // len(x)))
    solver = torch.optim.AdamW(
        net.parameters(), lr=limits.network_rate, weight_decay=limits.network_decay
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(solver, epochs)
    best, kept = float("inf"), {k: v.clone() for k, v in net.state_dict().items()}
    waited = 0
    for _ in range(epochs):
        order = torch.randperm(len(x), generator=rng)
        for rows in order.split(batch):
            solver.zero_grad()
            loss(inputs[rows], targets[rows]).backward()
            solver.step()
        schedule.step()
        with torch.no_grad():
            reached = float(loss(held, held_targets))
        waited += 1
        if reached < best:
            best, kept = reached, {k: v.clone() for k, v in net.state_dict().items()}
            waited = 0
        if waited > limits.network_patience:
            break
    net.load_state_dict(kept)
    net.requires_grad_(False)
    return lambda rows: net(prepared(rows)).double() * unit + shift


def with_trees(x: Tensor, y: Tensor, predict: Predict, task: Task, seed: int) -> Predict:
    """A predictor with boosted trees grown on what it leaves, output by output.

    For classes what is left is their indicators less the probabilities: one step of boosting
    beyond the predictor's logits.
    """
    from sklearn.ensemble import HistGradientBoostingRegressor

    limits, predicted = PredictorThresholds.now(), predict(x)
    if task == "classification":
        left = functional.one_hot(y, predicted.shape[1]).double() - predicted.softmax(1)
        gain = 4.0  # an indicator varies by at most a quarter as fast as its logit
    else:
        left, gain = y.double() - predicted, 1.0
    forests = [
        HistGradientBoostingRegressor(
            max_iter=limits.tree_rounds,
            max_depth=limits.tree_depth,
            min_samples_leaf=limits.tree_leaf,
            random_state=seed,
        ).fit(x.numpy(), column.numpy())
        for column in left.detach().T
    ]

    def corrected(rows: Tensor) -> Tensor:
        values = rows.detach().double().numpy()
        grown = torch.stack([torch.as_tensor(forest.predict(values)) for forest in forests], 1)
        return predict(rows) + gain * grown

    return corrected


def notes_of_share(left: float) -> list[str]:
    """What a share of the loss that a predictor leaves means for claims.

    Example:
        >>> notes_of_share(0.99)
        ['next to nothing could be learned from these rows, so nothing can be claimed']
    """
    limits = PredictorThresholds.now()
    if left > limits.nothing_learned:
        return ["next to nothing could be learned from these rows, so nothing can be claimed"]
    if left > limits.much_left:
        return [
            f"claims are about what the predictor has learned: the {left:.0%} that it leaves may "
            "be noise, or have less symmetry"
        ]
    return []
