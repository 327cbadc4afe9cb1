"""A predictor free of any symmetry, to hold claims against: the best of three simple families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy._run import ProgressCallback, Step
from isotropy._run import generator as make_generator

Task = Literal["regression", "classification"]

# a network is not tried where a polynomial leaves less than this share of the variance
_EXACT = 1e-4
_MOST_FEATURES = 2000
_SIMPLEST_FIRST = ("linear", "quadratic", "network")
# a simpler family that does nearly as well is preferred
_MUCH_BETTER = 1.05
_RIDGES = (1e-10, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_CLASS_RIDGES = (1e-4, 1e-2, 1.0)
_HELD_OUT = 0.25
_PATIENCE = 40


@dataclass(frozen=True)
class FreePredictor:
    """A fitted predictor.

    Args:
        kind: ``"linear"``, ``"quadratic"`` or ``"network"``.
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
    predict: Callable[[Tensor], Tensor]
    constant: Tensor
    unexplained: float


def sample_losses(prediction: Tensor, y: Tensor, task: Task) -> Tensor:
    """The loss of each row: squared error summed over outputs, or the cross-entropy in nats.

    Args:
        prediction: Shape ``(N, k)``.
        y: Targets, shape ``(N, k)``, or classes ``(N,)``.
        task: Which of the two.
    """
    if task == "classification":
        return functional.cross_entropy(prediction.double(), y, reduction="none")
    return (prediction.double() - y.double()).square().sum(-1)


def fit_free_predictor(
    x: Tensor,
    y: Tensor,
    task: Task,
    *,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> FreePredictor:
    """Fit a linear map, a polynomial of degree two and a network; keep the best on held-out rows.

    Args:
        x: Inputs, shape ``(N, n)``.
        y: Targets, shape ``(N, k)``, or classes ``(N,)``.
        task: What the targets are.
        seed: Of the held-out rows and the network.
        progress: Told of each family.
    """
    x = x.double()
    rng = make_generator(seed)
    order = torch.randperm(len(x), generator=rng)
    held = max(1, round(_HELD_OUT * len(x)))
    rest, hold = order[held:], order[:held]
    constant = _constant(y[rest], task, _classes(y))
    worst = float(sample_losses(constant.expand(held, -1), y[hold], task).mean()) + 1e-300
    found: list[tuple[float, str, Callable[[], Callable[[Tensor], Tensor]]]] = []

    def consider(
        kind: str, fitted: Callable[[Tensor], Tensor], again: Callable[[], Callable[..., Tensor]]
    ) -> None:
        loss = float(sample_losses(fitted(x[hold]), y[hold], task).mean())
        found.append((loss / worst, kind, again))

    for done, degree in enumerate((1, 2)):
        if progress is not None:
            progress(Step(done, 3, "free predictor"))
        width = x.shape[1] if degree == 1 else _quadratic_width(x.shape[1])
        if degree == 2 and (width > _MOST_FEATURES or width > 2 * len(rest)):
            continue
        for ridge in _RIDGES if task == "regression" else _CLASS_RIDGES:
            fitted = _fit_polynomial(x[rest], y[rest], task, degree, ridge)
            consider(
                "linear" if degree == 1 else "quadratic",
                fitted,
                lambda d=degree, r=ridge: _fit_polynomial(x, y, task, d, r),  # type: ignore[misc]
            )
    if min(entry[0] for entry in found) > _EXACT:
        if progress is not None:
            progress(Step(2, 3, "free predictor"))
        network = _fit_network(x[rest], y[rest], x[hold], y[hold], task, rng)
        consider("network", network, lambda: network)
    least = min(entry[0] for entry in found)
    unexplained, kind, again = min(
        (entry for entry in found if entry[0] <= _MUCH_BETTER * least + _EXACT),
        key=lambda entry: (_SIMPLEST_FIRST.index(entry[1]), entry[0]),
    )
    return FreePredictor(kind, again(), _constant(y, task, _classes(y)), unexplained)


def quadratic_terms(x: Tensor) -> Tensor:
    """All products x_i x_j with i ≤ j, ordered by (i, j); shape ``(N, n(n+1)/2)``.

    Args:
        x: Shape ``(N, n)``.

    Example:
        >>> quadratic_terms(torch.tensor([[2.0, 3.0]]))
        tensor([[4., 6., 9.]])
    """
    i, j = torch.triu_indices(x.shape[1], x.shape[1])
    return x[:, i] * x[:, j]


def _quadratic_width(n: int) -> int:
    return n + n * (n + 1) // 2


def _classes(y: Tensor) -> int:
    return int(y.max()) + 1 if y.ndim == 1 else y.shape[1]


def _constant(y: Tensor, task: Task, classes: int) -> Tensor:
    if task == "classification":
        counts = torch.bincount(y, minlength=classes).double() + 0.5
        return (counts / counts.sum()).log()
    return y.double().mean(0)


def _fit_polynomial(
    x: Tensor, y: Tensor, task: Task, degree: int, ridge: float
) -> Callable[[Tensor], Tensor]:
    centre, scale = x.mean(0), x.std(0).clamp_min(1e-12)

    def features(rows: Tensor) -> Tensor:
        z = (rows.double() - centre) / scale
        return z if degree == 1 else torch.cat([z, quadratic_terms(z)], 1)

    phi = features(x)
    middle = phi.mean(0)
    phi = phi - middle
    if task == "classification":
        weights, offset = _softmax_regression(phi, y, ridge)
    else:
        offset = y.double().mean(0)
        weights = _ridge(phi, y.double() - offset, ridge)
    return lambda rows: (features(rows) - middle) @ weights + offset


def _ridge(phi: Tensor, y: Tensor, ridge: float) -> Tensor:
    gram = phi.mT @ phi
    gram.diagonal().add_(ridge * len(phi) + 1e-12 * float(gram.diagonal().max()))
    solved: Tensor = torch.linalg.solve(gram, phi.mT @ y)
    return solved


def _softmax_regression(phi: Tensor, y: Tensor, ridge: float) -> tuple[Tensor, Tensor]:
    classes = int(y.max()) + 1
    weights = torch.zeros(phi.shape[1], classes, dtype=phi.dtype, requires_grad=True)
    offset = torch.zeros(classes, dtype=phi.dtype, requires_grad=True)
    solver = torch.optim.LBFGS([weights, offset], max_iter=200, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        loss = functional.cross_entropy(phi @ weights + offset, y)
        loss = loss + 0.5 * ridge * weights.square().sum()
        loss.backward()
        return loss

    solver.step(closure)
    return weights.detach(), offset.detach()


def _fit_network(
    x: Tensor, y: Tensor, x_held: Tensor, y_held: Tensor, task: Task, rng: torch.Generator
) -> Callable[[Tensor], Tensor]:
    """A network of two hidden layers, stopped where the held-out loss is least."""
    centre, scale = x.mean(0), x.std(0).clamp_min(1e-12)
    classify = task == "classification"
    shift = torch.zeros(1) if classify else y.double().mean(0)
    unit = torch.ones(1) if classify else y.double().std().clamp_min(1e-12)
    classes = max(_classes(y), _classes(y_held))

    def prepared(rows: Tensor) -> Tensor:
        return ((rows.double() - centre) / scale).float()

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(torch.randint(2**31, (), generator=rng)))
        net = nn.Sequential(
            nn.Linear(x.shape[1], 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(),
            nn.Linear(128, classes),
        )  # fmt: skip
    inputs, held = prepared(x), prepared(x_held)
    targets = y if classify else ((y.double() - shift) / unit).float()
    held_targets = y_held if classify else ((y_held.double() - shift) / unit).float()

    def loss(rows: Tensor, wanted: Tensor) -> Tensor:
        if classify:
            return functional.cross_entropy(net(rows), wanted)
        return functional.mse_loss(net(rows), wanted)

    batch = min(256, len(x))
    epochs = max(20, min(400, 3000 * batch // len(x)))
    solver = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=1e-3)
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
        if waited > _PATIENCE:
            break
    net.load_state_dict(kept)
    net.requires_grad_(False)
    return lambda rows: net(prepared(rows)).double() * unit + shift
