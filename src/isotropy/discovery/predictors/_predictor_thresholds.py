"""The thresholds of predictors that are free of symmetry."""

from __future__ import annotations

from dataclasses import dataclass

from isotropy.discovery._thresholds import Thresholds


@dataclass(frozen=True)
class PredictorThresholds(Thresholds):
    """How predictors are fitted; ``python benchmarks/thresholds.py --only FIELD`` shows each.

    Example:
        >>> PredictorThresholds.now().much_left
        0.05
    """

    much_left: float = 0.05  # of what is to be learned: more is said aloud
    nothing_learned: float = 0.95  # of it: who leaves more has learned nothing, which is said too
    much_better: float = 1.05  # what is less simple is taken where the simpler leaves so much more

    # --- tables ---------------------------------------------------------------------------------

    held_out: float = 0.25  # of the rows: fewer to fit to, more to choose a family by
    nearly_exact: float = 1e-4  # of the variance: what leaves less wants no kernel and no trees
    kernel_enough: float = 5e-3  # of the variance: a kernel that leaves less wants no network
    good_fit: float = 0.01  # of the variance: a smooth function that leaves less needs no rival
    ridges: tuple[float, ...] = (1e-10, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)  # more suit more noise
    class_ridges: tuple[float, ...] = (1e-4, 1e-2, 1.0)  # the same of classes, which take longer
    class_steps: int = 200  # of fitting these; fewer end sooner, and short of the best
    most_products: int = 2000  # of two columns; more are not fitted, which would take long
    products_per_row: int = 2  # more are not fitted either: they learn rows by heart
    averaged_within: float = 3.0  # kernel and network are averaged where none is so much worse
    tree_outputs: int = 8  # that trees are grown for, one by one; more take longer
    tree_rounds: int = 150  # of boosting; more explain more of what is left, and take longer
    tree_depth: int = 4  # columns that a tree looks at together; more learn more of the noise
    tree_leaf: int = 10  # rows of a leaf; fewer learn more of the noise

    # --- networks of tables ---------------------------------------------------------------------

    network_units: int = 128  # of each layer; more learn more and take longer
    network_batch: int = 256  # rows of a step; more are steadier, and fewer steps an epoch
    network_rate: float = 3e-3  # of training: larger learns faster, or not at all
    network_steps: int = 3000  # of training; more teach networks more, fewer take less time
    network_epochs: tuple[int, int] = (20, 400)  # at least of many rows, and at most of few
    network_patience: int = 40  # epochs without gain; fewer end sooner, and miss late gains
    network_decay: float = 1e-3  # of weights: more learns less of the noise
    smooth_members: int = 4  # networks of a smooth function, an even number; more even out luck
    smooth_steps: int = 2000  # of training them; more teach them more, fewer take less time
    smooth_fewest_steps: int = 800  # of few rows; more teach them more, fewer take less time
    smooth_steps_per_row: int = 5  # of rows between; more teach them more, fewer take less time
    smooth_warm_up: float = 0.1  # of the steps, in which the rate rises; shorter may go astray
    smooth_decay: float = 1e-4  # of weights: more learns less of the noise
    smooth_checked_every: int = 50  # steps; fewer keep a better network, and take longer
    smooth_checked_rows: int = 2000  # that it is kept by; more choose better, and take longer

    # --- kernels --------------------------------------------------------------------------------

    kernel_chosen_on: int = 400  # rows; more choose better, and take their cube in time
    kernel_rows: int = 2000  # that the chosen one is fitted to; more learn more and take longer
    kernel_work: int = 20_000  # rows times positions, of sums over positions; more take longer
    kernel_fewest_rows: int = 300  # of sums over positions; where work leaves fewer, none is tried
    kernel_lengths: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0)  # deviations; more suit more targets
    kernel_orders: tuple[int, ...] = (1, 2, 3)  # positions that interact; more suit more targets
    kernel_degrees: tuple[int, ...] = (2, 3, 4)  # of polynomials; more suit more targets
    kernel_ridges: tuple[float, ...] = tuple(10.0**-k for k in range(8))  # more suit more noise
    kernel_landmarks: int = 600  # rows whose kernels tell classes apart; more take longer
    kernel_functions: int = 250  # of landmarks, the leading ones; more learn finer borders
    kernel_class_ridges: tuple[float, ...] = (1e-3, 1e-2, 1e-1)  # more suit more noise in classes
    kernel_class_held_out: float = 0.2  # of the rows: fewer to fit to, more to choose these by
    kernel_class_steps: int = 150  # of fitting classes; fewer end sooner, and short of the best

    # --- smooth functions -----------------------------------------------------------------------

    smooth_held_out: float = 0.15  # of the rows: fewer to fit to, more to choose a family by
    polynomial_enough: float = 2e-4  # of the variance: one that leaves less wants no kernel
    polynomial_degrees: tuple[int, ...] = (1, 2, 3, 4)  # more suit more targets, and take longer
    polynomial_terms: int = 5000  # at most; more suit more targets, and take longer
    polynomial_rows_per_term: float = 1.1  # fewer fit more, and will do where there is no noise
    polynomial_ridges: tuple[float, ...] = (1e-12, 1e-8, 1e-5, 1e-3, 1e-2, 1e-1)  # as others
    transformed_terms: int = 500  # of functions of the target beyond degree two; more take longer
    transformed_better: float = 5.0  # these are taken where the target itself leaves so much more
    linear_leaves: float = 0.1  # of the variance: what leaves more is not said to be linear
    higher_degree_leaves: float = 0.97  # of what linear leaves: who leaves less is not linear
    tails_leave: float = 1.5  # times that: who leaves more has tails that no polynomial fits
    shared_scale: float = 10.0  # deviations of columns that differ less are taken for one
    far_centre: float = 3.0  # deviations: columns whose mean is nearer zero are not centred

    # --- products and distances of blocks -------------------------------------------------------

    widest_block: int = 6  # columns; wider ones would be seen in more ways, which take longer
    most_blocks: int = 8  # more have more products than rows tell of
    ways_to_see_blocks: int = 16  # that are tried; more find more, and take longer
    invariants_chosen_on: int = 300  # rows; more choose better, and take their cube in time

    # --- images ---------------------------------------------------------------------------------

    image_held_out: float = 0.2  # of the rows: fewer to train on, more to choose epochs by
    image_steps: int = 400  # of training; more teach networks more, fewer take less time
    image_batch: int = 64  # rows of a step; more are steadier, and fewer steps an epoch
    map_batch: int = 32  # the same of targets that are images, every pixel of which counts
    image_epochs: int = 80  # at most, of few rows
    image_patience: int = 25  # epochs without gain; fewer end sooner, and miss late gains
    image_rate: float = 3e-3  # of training: larger learns faster, or not at all
    map_rate: float = 8e-3  # the same of targets that are images
    image_decay: float = 0.1  # of weights: more learns less of the noise
    learned_all: float = 0.0005  # of the constant's loss: who leaves so little has learned it all
    temperatures: tuple[float, float] = (0.5, 5.0)  # that logits are divided by, from and to
    temperatures_tried: int = 24  # between them
    image_channels: int = 8  # of the first layer; more learn more and take longer
    pixel_units: int = 128  # of each layer of the network of plain pixels
    going_on: float = 0.5  # of the usual training, for what goes on from a trained network
    linear_pixels: int = 1100  # of larger images squares of pixels have one weight
    image_ridges: tuple[float, ...] = (1e-8, 1e-3, 1e-2, 0.1, 1.0, 10.0)  # of linear maps
    image_elements: int = 16  # of a group that a predictor is averaged over; more take longer
    similar_images: float = 0.6  # moved images that are distinguished better are not like the data
    similar_shifted: float = 0.85  # shifted ones: what is cut in two at the edges is recognised
    well_fitted: float = 0.5  # margins: a predictor with the symmetry that costs no more will do
    distinguished_rows: int = 2400  # that moved images are distinguished by
    distinguished_units: int = 64  # of the network that distinguishes them
    distinguished_steps: int = 250  # of its training
    distinguished_batch: int = 128  # rows of a step
    distinguished_rate: float = 3e-3  # of its training
