"""How a network for a certificate is looked for; no bit of a bound rests on it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from isotropy.certificates._descent import Descent, Optimiser


@dataclass(frozen=True)
class Recipe:
    """A search for a short message with few errors.

    A bound over codes holds for all of them at once, however one was found: try recipes at will,
    keep the best certificate. (Not so for what makes a prior from a share of the rows: of several
    priors, the one that does best on the other rows has seen them.) Learning rates are in units of
    the network's parameters: a weight w steps by ``rate`` · √(D/d), so that one rate does for every
    dimension.

    Args:
        d: The dimension of the subspace; ``None`` takes 4 √n, about 1000 for 60,000 rows, or a
            fifth of the parameters where that is less. With the projector ``"identity"``, all.
        levels: How many values the weights may take.
        projector: One of `PROJECTORS`.
        epochs: Passes over the sample with free weights; ``None`` takes 30, or as many as make
            3000 steps.
        quantised_epochs: Passes with quantised weights, after that; ``None`` takes 20, or as many
            as make 2000 steps.
        rate: The highest learning rate of free weights.
        quantised_rate: The same of quantised weights and their codebook.
        batch: Rows in a step, at most a twentieth of the sample; ``None`` for all of them.
        optimiser: ``"adam"`` or ``"sgd"``.
        weight_decay: Of the weights w.
        clip: The longest gradient.
        codebook: ``"uniform"`` or ``"kmeans"``: where the codebook starts.
        prior_epochs: Passes over the rows that make a prior, where there is one; ``None`` takes
            20, or as many as make 3000 steps.
        minutes: Shorten the schedules so that training takes about this long.

    Example:
        >>> Recipe(d=500).on(1000).epochs, Recipe(d=500).on(60_000).epochs
        (150, 30)
    """

    d: int | None = None
    levels: int = 7
    projector: str = "kronecker-orthonormal"
    epochs: int | None = None
    quantised_epochs: int | None = None
    rate: float = 0.008
    quantised_rate: float = 0.002
    batch: int | None = 500
    optimiser: Optimiser = "adam"
    weight_decay: float = 0.0
    clip: float | None = None
    codebook: str = "uniform"
    prior_epochs: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "quantised_epochs", "prior_epochs", "d"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"expected {name} of at least 0, got {value}")
        if self.batch is not None and self.batch < 1:
            raise ValueError(f"expected batches of at least 1 row, got {self.batch}")
        for name in ("rate", "quantised_rate"):
            if not getattr(self, name) > 0:
                raise ValueError(f"expected a positive {name}, got {getattr(self, name)}")

    def on(self, n: int) -> Recipe:
        """The recipe with all that depends on the size of the sample filled in."""
        batch = None if self.batch is None else min(self.batch, max(1, n // 20))
        steps = 1 if batch is None else n // batch

        def passes(given: int | None, usual: int, least_steps: int) -> int:
            return max(usual, -(-least_steps // steps)) if given is None else given

        return replace(
            self,
            batch=batch,
            epochs=passes(self.epochs, 30, 3000),
            quantised_epochs=passes(self.quantised_epochs, 20, 2000),
        )

    def free(self, seed: int) -> Descent:
        """The schedule for free weights."""
        return Descent(
            self.epochs or 0, self.batch, self.optimiser, self.weight_decay, self.clip, seed
        )

    def quantised(self, seed: int) -> Descent:
        """The schedule for quantised weights; always by Adam in batches."""
        return Descent(self.quantised_epochs or 0, self.batch or 500, seed=seed + 1)
