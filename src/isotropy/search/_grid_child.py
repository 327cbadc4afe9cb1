"""The usual child: a network of grids, trained a little on few rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import torch
from torch import Tensor
from torch.nn import functional

from isotropy.nn import GridNetwork
from isotropy.search._child import Trained
from isotropy.search._space import SearchSpace, State


@dataclass(frozen=True)
class Training:
    """How a child is trained.

    Args:
        epochs: Passes through the training rows.
        batch: Rows of a step.
        rate: Of Adam.
        published: As the paper's code does it: one scalar bias for each hidden layer behind the
            rectifier, weights drawn by the number of orbits, the same batches in every epoch,
            and the best epoch's accuracy instead of the last one's.

    Raises:
        ValueError: If a number is not positive.

    Example:
        >>> Training(epochs=10).batch
        64
    """

    epochs: int = 4
    batch: int = 64
    rate: float = 1e-3
    published: bool = False

    def __post_init__(self) -> None:
        for name in ("epochs", "batch", "rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"expected {name} above 0, got {getattr(self, name)}")


class GridChild:
    """Trains the network of a state on images, and tells its share of right validation rows.

    Pixels are standardised by one mean and one deviation, of all training pixels, so that every
    permutation of them still acts.

    Args:
        space: The states.
        train: Images (n, channels, height, width) and classes from 0 on (n,).
        validation: Likewise; never the rows on which a result is reported.
        training: How children are trained.
        classes: How many there are; by default as many as are met.
        device: Where they are trained.

    Raises:
        ValueError: If images are not of the size of the space, or there are none.

    Example:
        >>> space = SearchSpace((1, 4, 4), ("rotation",), hidden=((2,),))
        >>> x, y = torch.rand(64, 1, 4, 4), torch.arange(64) % 2
        >>> child = GridChild(space, (x + y[:, None, None, None], y), (x, 0 * y), Training(2))
        >>> child(State(("rotation",)), seed=0).parameters
        27
    """

    def __init__(
        self,
        space: SearchSpace,
        train: tuple[Tensor, Tensor],
        validation: tuple[Tensor, Tensor],
        training: Training = Training(),  # noqa: B008  # frozen
        *,
        classes: int | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        for name, (x, y) in (("training", train), ("validation", validation)):
            if x.shape[1:] != torch.Size(space.image) or len(x) != len(y) or not len(x):
                raise ValueError(
                    f"expected {name} images of shape (n, {', '.join(map(str, space.image))}) with "
                    f"n classes, got {tuple(x.shape)} and {tuple(y.shape)}"
                )
        self.space, self.training, self.device = space, training, torch.device(device)
        self._standard = float(train[0].mean()), float(train[0].std().clamp_min(1e-6))
        self._x, self._held = (x.to(self.device).flatten(1) for x, _ in (train, validation))
        self._y, self._answers = (y.to(self.device) for _, y in (train, validation))
        seen = int(max(train[1].max(), validation[1].max())) + 1
        self.classes = seen if classes is None else classes
        self._digest = _digest(*train, *validation)

    @property
    def usual_epochs(self) -> int:
        """Passes through the training rows."""
        return self.training.epochs

    def fingerprint(self) -> str:
        """Data and options in one line."""
        options = {**asdict(self.training), "classes": self.classes, "data": self._digest}
        return json.dumps({"child": "grid", **options}, sort_keys=True)

    def network(self, state: State, *, seed: int = 0) -> GridNetwork:
        """The network of a state, untrained.

        Args:
            state: Its groups and widths.
            seed: Of its weights.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = GridNetwork(
                self.space.image,
                self.space.transformations(state),
                hidden=self.space.hidden[state.hidden],
                classes=self.classes,
                published=self.training.published,
                standardise=self._standard,
            )
        return network.to(self.device)

    def __call__(
        self,
        state: State,
        *,
        seed: int,
        epochs: int | None = None,
        start: Mapping[str, Tensor] | None = None,
    ) -> Trained:
        """Train the network of a state, and forget it.

        Args:
            state: Its groups and widths.
            seed: Of initial weights and batches.
            epochs: Passes through the training rows; ``None`` for as many as usual.
            start: What `Trained.weights` of another child held, to start from.
        """
        network, accuracies = self.fit(state, seed=seed, epochs=epochs, start=start)
        return Trained(
            accuracy=max(accuracies) if self.training.published else accuracies[-1],
            parameters=sum(p.numel() for p in network.parameters()),
            epochs=len(accuracies),
            weights={name: value.cpu() for name, value in network.dense_weights().items()},
        )

    def fit(
        self,
        state: State,
        *,
        seed: int,
        epochs: int | None = None,
        start: Mapping[str, Tensor] | None = None,
    ) -> tuple[GridNetwork, list[float]]:
        """Train the network of a state, and keep it.

        Args:
            state: Its groups and widths.
            seed: Of initial weights and batches.
            epochs: Passes through the training rows; ``None`` for as many as usual.
            start: What `Trained.weights` of another child held, to start from.

        Returns:
            The network, and its share of right validation rows after each epoch.
        """
        network = self.network(state, seed=seed)
        if start is not None:
            network.start_from(start)
        solver = torch.optim.Adam(network.parameters(), self.training.rate, fused=True)
        rng = torch.Generator().manual_seed(seed if start is None else seed + 1)
        order = torch.randperm(len(self._x), generator=rng)
        accuracies = []
        for epoch in range(self.training.epochs if epochs is None else epochs):
            if epoch and not self.training.published:
                order = torch.randperm(len(self._x), generator=rng)
            for rows in order.to(self.device).split(self.training.batch):
                solver.zero_grad()
                functional.cross_entropy(network(self._x[rows]), self._y[rows]).backward()
                solver.step()
            accuracies.append(self._accuracy(network))
        return network, accuracies

    @torch.no_grad()
    def _accuracy(self, network: GridNetwork) -> float:
        right = [
            (network(x).argmax(1) == y).sum()
            for x, y in zip(self._held.split(2048), self._answers.split(2048), strict=True)
        ]
        return float(torch.stack(right).sum()) / len(self._held)


def _digest(*tensors: Tensor) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.cpu().contiguous().numpy().data)
    return digest.hexdigest()[:16]
