"""The thresholds of the modelling stage."""

from __future__ import annotations

from dataclasses import dataclass

from isotropy.discovery._thresholds import Thresholds


@dataclass(frozen=True)
class ModellingThresholds(Thresholds):
    """How models are made; ``python benchmarks/thresholds.py --only FIELD`` shows what each does.

    Example:
        >>> ModellingThresholds.now().fewest_rows
        40
    """

    curve_shares: tuple[float, ...] = (1 / 8, 1 / 3)  # of the rows: fewer show what few rows gain
    fewest_rows: int = 40  # of a point of the curve: fewer tell of chance
    curve_entries: int = 30_000  # of the inputs that models are fitted to; more would take minutes
    curve_pixels: int = 150_000  # the same of images, whose networks take one pass over them
    rows_of_error: int = 200  # on which the equivariance error is measured

    # --- networks -------------------------------------------------------------------------------

    model_held_out: float = 0.2  # of the rows: fewer to fit to, more to stop by
    model_layers: int = 2  # hidden ones; more learn more and take longer
    permuted_width: int = 320  # of a hidden layer, of copies of what is permuted; more take longer
    permuted_copies: int = 64  # at most, for groups of few things; more take longer
    permuted_scalars: int = 64  # beside the copies, which stay where they are; more take longer
    continuous_channels: int = 128  # of a hidden layer, of continuous groups; more take longer
    model_steps: int = 1200  # of training, of few rows; fewer leave errors
    rows_per_model_step: int = 3  # of more rows; fewer train longer on what more rows tell
    most_model_steps: int = 4000  # of very many rows; fewer leave errors
    continuous_steps: int = 800  # of training, of continuous groups; fewer leave errors
    model_epochs: tuple[int, int] = (10, 300)  # at least of many rows, and at most of few
    model_batch: int = 256  # rows of a step; more are steadier, and fewer steps an epoch
    model_rate: float = 1e-2  # of training: larger learns faster, or not at all
    model_decay: float = 1e-4  # of weights: more learns less of the noise
    linear_model_steps: int = 300  # of a linear layer; fewer end sooner, and short of the best

    # --- soft models ----------------------------------------------------------------------------

    # variances are of weights, where inputs and targets have unit size
    strict_variance: float = 100.0  # of what has the symmetry; more is less of a prior
    linear_strict_variance: float = 1e8  # the same of linear layers, which have less noise to fear
    free_variances: tuple[float, ...] = (1e-4, 1e-2)  # of what breaks it; more suit more data
    linear_variances: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 1e2, 1e4)  # as above
    soft_steps: int = 400  # of training what is fitted already; fewer break less of the symmetry
    soft_rate: float = 3e-3  # of the same: larger forgets more of what is fitted

    # --- transitions ----------------------------------------------------------------------------

    transition_width: int = 180  # of a layer with as many weights, if they were free
    transition_widest: int = 512  # of a layer, whatever the group; wider ones take time
    transition_steps: int = 1500  # of training; fewer leave errors
    transition_rate: float = 3e-3  # of a group of one; times the root of its order

    # --- permutations ---------------------------------------------------------------------------

    softened_width: int = 256  # of a soft model's hidden layer, whose copies of the input differ
    fewest_copies: int = 4  # of the input in it
    most_copies: int = 16  # more take time
