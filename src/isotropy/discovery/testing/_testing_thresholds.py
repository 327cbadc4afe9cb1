"""The thresholds of the testing stage."""

from __future__ import annotations

from dataclasses import dataclass

from isotropy.discovery._thresholds import Thresholds


@dataclass(frozen=True)
class TestingThresholds(Thresholds):
    """How claims are tested; ``python benchmarks/thresholds.py --only FIELD`` shows what each does.

    Example:
        >>> TestingThresholds.now().significant_cost
        0.01
    """

    __test__ = False  # pytest takes classes of such names for tests

    significant_cost: float = 0.01  # more is "approximate"; smaller calls noise a broken symmetry
    most_rows_of_permutations: int = 1500  # more confirm finer symmetries, fewer take less time
    elements: int = 64  # of a group that a predictor is averaged over; fewer are noisier
    dearer: float = 0.003  # of what can be learned: what a larger group may cost beyond a smaller
    dearer_level: float = 1e-3  # of its test, for there are many pairs of groups
    most_joins: int = 6  # of pairs of groups; each takes a test
    better_network: float = 2.0  # standard errors by which the network of a subgroup is better
    fewest_of_ring: int = 6  # positions in which neighbours are no vectors once shifts hold
    arbitrary: float = 0.4  # of the margin, for blocks and bases that nothing suggests
    least_reach: float = 0.3  # of the distance between data that images must lie away
    least_share: float = 0.5  # of the inputs that must have images within the data
    most_paired: int = 4  # of more blocks only neighbours are swapped: they generate the rest
    most_near: int = 2  # permutation groups that are tried with the near margin
    neighbours: int = 5  # of a row, whose distance is that between data
    smallest_step: float = 0.1  # of a walk along orbits, in standard deviations
    largest_step: float = 3.0  # in distances between data, so that rotations go all the way around
    walk_pool: int = 128  # elements that steps are taken from, besides their inverses
    mixing_ridge: float = 0.1  # half a turn has no finite motion from the place half way
    forgotten: int = 4  # one in so many steps goes by, so that the walk forgets its start
    least_moves: int = 16  # one in so many elements is a new place, or the row tells nothing
    watched_inputs: int = 256  # on which it is measured how far a walk has come
    measured_elements: int = 4  # one in so many, at which that is done
    correction_draws: int = 20_000  # of correlated statistics; more tell smaller p-values
    drawn_p_value: float = 2e-3  # of smaller ones draws show too few; their sum does for them
    set_trainings: int = 3  # of a network with a set of groups; more even out their luck

    # --- transitions ----------------------------------------------------------------------------

    log_coverage: float = 0.9  # of a log that lies near itself; elsewhere a predictor knows little
    least_kept: float = 0.6  # of those rows must stay near; less swaps columns that go together
    least_kept_by_all: float = 0.2  # of rows that all elements of a group keep so, to be tested on
    in_columns: float = 0.5  # of the margin, in single columns: two elements hide half of an error
    least_relevant: float = 0.02  # of the variance of an increment, for what moves to matter to it
    clearly_relevant: float = 3.0  # standard errors by which it does
    least_moved: float = 0.05  # of the squared distance to other rows' images; less is no motion
