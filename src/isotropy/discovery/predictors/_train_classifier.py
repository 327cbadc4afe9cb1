"""Training a small network: a falling step, stopped where the held-out loss is least."""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from isotropy.discovery.predictors._free_predictor import held_out_rows, sample_losses
from isotropy.discovery.predictors._predictor_thresholds import PredictorThresholds
from isotropy.discovery.reading._image_data import ImageData

ReportEpoch = Callable[[int, int], None]
Augment = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
_CHUNK = 512  # images in memory


def train_network(
    network: nn.Module,
    head: nn.Linear,
    data: ImageData,
    rng: torch.Generator,
    *,
    augment: Augment | None = None,
    report: ReportEpoch | None = None,
    share: float = 1.0,
) -> float:
    """Train a network in place, and bring its logits to the temperature that suits unseen rows.

    A fifth of the rows is held out; the weights of the epoch that tells their targets best are
    kept. Where these are classes, the last layer is then divided by the temperature that tells
    them best; where they are numbers, the network is trained in standard units, and has to be
    able to ``rescale``.

    Returns:
        The mean loss on the held-out rows.

    Example:
        >>> from isotropy.data import load
        >>> import numpy as np
        >>> y = np.arange(200) % 2
        >>> x = y[:, None, None, None] + 0.3 * np.random.default_rng(0).normal(size=(200, 1, 4, 4))
        >>> data = ImageData.of(load((x, y)))
        >>> network = nn.Linear(16, 2)
        >>> loss = train_network(network, network, data, torch.Generator().manual_seed(0))
        >>> loss < 0.3  # without any training, at least log 2
        True
    """
    limits = PredictorThresholds.now()
    rest, held = map(torch.as_tensor, kept_apart(data, rng))
    wanted, squares = data.y, data.task == "regression"
    if squares:
        mean, scale = data.target_units
        wanted = (data.y - mean) / scale
    maps = data.target is not None
    batch = min(limits.map_batch if maps else limits.image_batch, len(rest))
    epochs = int(share * limits.image_steps * batch) // len(rest)
    epochs = max(1, min(limits.image_epochs, epochs))
    rate = share * (limits.map_rate if maps else limits.image_rate)
    solver = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=limits.image_decay)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(solver, epochs)
    enough = limits.learned_all * _mean_loss(_flat(wanted[rest], data), wanted[held], squares)
    # what goes on from a trained network has to do better than that
    best = _mean_loss(outputs_of(network, data.x[held]), wanted[held], squares)
    kept, waited = _copied(network), 0
    for epoch in range(epochs):
        network.train()
        for rows in rest[torch.randperm(len(rest), generator=rng)].split(batch):
            x, y = data.x[rows], wanted[rows]
            if augment is not None:
                x, y = augment(x, y)
            solver.zero_grad()
            _loss(network(x), y, squares).backward()
            solver.step()
        schedule.step()
        reached = _mean_loss(outputs_of(network, data.x[held]), wanted[held], squares)
        waited += 1
        if reached < best:
            best, kept, waited = reached, _copied(network), 0
        if report is not None:
            report(epoch + 1, epochs)
        if waited > limits.image_patience or best < enough:
            break
    network.load_state_dict(kept)
    network.eval()
    if not squares:
        return _tempered(head, outputs_of(network, data.x[held]), data.y[held])
    rescale: Callable[[Tensor, Tensor], None] = network.get_submodule("").rescale  # type: ignore[assignment]
    rescale(mean, scale)
    return float(sample_losses(outputs_of(network, data.x[held]), data.y[held], data.task).mean())


def _loss(outputs: Tensor, wanted: Tensor, squares: bool) -> Tensor:
    if squares:
        return functional.mse_loss(outputs, wanted.to(outputs.dtype))
    return functional.cross_entropy(outputs, wanted)


def _mean_loss(outputs: Tensor, wanted: Tensor, squares: bool) -> float:
    return float(_loss(outputs.expand(len(wanted), -1), wanted, squares))


def _flat(wanted: Tensor, data: ImageData) -> Tensor:
    """A constant prediction, shape (1, outputs)."""
    if data.task == "regression":
        return wanted.mean(0, keepdim=True)
    return data.constant.unsqueeze(0)


def kept_apart(
    data: ImageData, rng: torch.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows to train on, and rows to choose by; the first that is drawn from a generator."""
    share = PredictorThresholds.now().image_held_out
    return held_out_rows(len(data.x), share, data.groups, rng)


@torch.no_grad()
def outputs_of(network: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Logits or numbers that a network gives for many rows, float64, some hundred at a time."""
    if isinstance(network, nn.Module):
        network.eval()
    return torch.cat([network(part.float()).double() for part in x.split(_CHUNK)])


def doubtful_losses(outputs: Tensor, y: Tensor, constant: Tensor, seen: int) -> Tensor:
    """Losses of a predictor that is no surer than the rows that it was chosen by allow.

        p(y|x) = (1 − ε) softmax(outputs) + ε softmax(constant),   ε = 1 / (seen + 2)

    After so many rows without an error, the next may still be one (Laplace's rule of succession).
    A single row that is wrong and sure of it would otherwise outweigh all others in a test.

    Example:
        >>> outputs, constant = torch.tensor([[50.0, -50.0]]), torch.zeros(2)
        >>> doubtful_losses(outputs, torch.tensor([1]), constant, 98)
        tensor([5.2983], dtype=torch.float64)
    """
    doubt = 1 / (seen + 2)
    sure = (1 - doubt) * outputs.double().softmax(1) + doubt * constant.double().softmax(0)
    return functional.nll_loss(sure.log(), y, reduction="none")


@torch.no_grad()
def _tempered(head: nn.Linear, outputs: Tensor, y: Tensor) -> float:
    """Divide the last layer by the best temperature; the loss that is left."""
    limits = PredictorThresholds.now()
    coldest, hottest = limits.temperatures
    tried = torch.logspace(
        0, 1, limits.temperatures_tried, base=hottest / coldest, dtype=torch.float64
    )
    tried = torch.cat([torch.ones(1, dtype=torch.float64), coldest * tried])
    # rows that are all classified right ask for endless confidence, for which one error then pays
    least = limits.learned_all * log(outputs.shape[1])
    losses = [
        float(functional.cross_entropy(outputs / t, y)) + (least if t < 1 else 0.0) for t in tried
    ]
    best = min(range(len(losses)), key=losses.__getitem__)
    for parameter in head.parameters():
        parameter.div_(float(tried[best]))
    return losses[best]


def _copied(network: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in network.state_dict().items()}
