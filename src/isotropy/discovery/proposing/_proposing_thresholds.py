"""The thresholds of the proposing stage."""

from __future__ import annotations

from dataclasses import dataclass

from isotropy.discovery._thresholds import Thresholds


@dataclass(frozen=True)
class ProposingThresholds(Thresholds):
    """How claims are come by; ``python benchmarks/thresholds.py --only FIELD`` shows each.

    Example:
        >>> ProposingThresholds.now().coincidence
        0.05
    """

    coincidence: float = 0.05  # chance of a symmetry by coincidence; more lets more be tested

    # --- permutations ---------------------------------------------------------------------------

    most_groups: int = 8  # of permutations that are tested; more are corrected for
    cheap_group: float = 0.02  # cost on the first part, up to which large groups come first
    screening_margins: float = 2.0  # a group is tested that costs so many on the first part
    screening_held_out: float = 0.3  # of the first part: rows that costs are measured on
    screening_rows: int = 600  # of these at most; more take time, fewer are noisier
    screening_elements: int = 24  # of a group that a predictor is averaged over; fewer are noisier
    finest_cost: float = 1e-5  # costs as small as half of what a predictor leaves count, from here
    coarsest_cost: float = 0.01  # up to here: more lets coincidences through where little is left
    little_used: float = 0.5  # of what a position does on average; one that does less is ignored
    finer_limit: float = 0.85  # a step from the margin to the largest cost that is no coincidence
    limits_tried: int = 30  # such steps; more find finer limits
    fitted_kinds: float = 4.0  # of groups that might have been fitted to a predictor
    cheaper_subgroup: float = 0.25  # a subgroup that costs so much less is what holds
    plain_share: float = 0.8  # prior of a natural group that moves positions one by one
    widest_blocks: int = 64  # of more columns blocks are not looked for
    coincidence_draws: int = 500  # of random maps; more tell smaller chances
    block_entries: int = 400  # of maps whose eigenvalues are found; larger ones take time
    swapped_positions: int = 32  # of more swaps are not tried, which take two predictions each
    equal_swaps: tuple[float, ...] = (0.06, 0.03, 0.01)  # costs of equal ones; unrelated: 1/4
    gradient_positions: int = 64  # of more gradients are not compared
    gradient_rows: int = 256  # more take time, fewer are noisier
    coarser_gradients: tuple[float, ...] = (4.0, 16.0, 64.0, 256.0)  # errors over sampling errors
    coloured_terms: int = 600  # of a polynomial whose coefficients are compared
    coloured_coefficients: int = 4000  # the same with all outputs
    spare_rows: int = 10  # beyond the terms; fewer tell nothing of the noise
    coarser_coefficients: tuple[float, ...] = (1.0, 4.0, 16.0)  # noise, in that of the data
    coefficient_widths: tuple[float, ...] = (0.22, 0.35, 0.5, 0.7, 1.0, 1.4)  # prior, in their size

    # --- convolutions ---------------------------------------------------------------------------

    strides: tuple[int, ...] = (1, 2, 3)  # of filters; more are more chances of a coincidence

    # --- generators -----------------------------------------------------------------------------

    generator_points: int = 3000  # where slopes of a fit are taken; more are surer, and take time
    widest_class: int = 32  # columns that move as one block; more have too many unknowns
    class_numbers: float = 3e7  # of a basis of a class of motions; larger ones take too long
    free_outputs: int = 12  # that any matrix may move; more have too many unknowns
    block_readings: int = 4  # of column names as blocks; more find unlikely blocks, and take time
    blocks_listed: int = 2  # where there are more, one of them; more tell readers little
    hidden_listed: int = 4  # combinations of columns that do not vary; more tell readers little
    most_algebras: int = 3  # exact ones that are tested, of a chart each; more are corrected for
    most_usual: int = 2  # beside them, of rotations and boosts that are tried whatever the data
    widest_rotated: int = 8  # block that is rotated whatever the data; wider ones are unlikely
    usual_change: float = 0.2  # of an unrelated direction's; more put unlikely actions to the test
    usual_mean_change: float = 0.1  # the same on average over the motions of an action
    better_invariants: float = 0.9  # of what a fit leaves; invariants that leave less are believed
    nothing_learned: float = 0.9  # of the variance: a fit that leaves more has nothing to say
    much_unexplained: float = 0.8  # the same for a statement on the fit, as that it is linear
    sharp_direction: float = 0.1  # sine by which a direction that is ignored may be off
    ignorable_change: float = 0.01  # of the variance, when what is ignored is held fixed
    similar_units: float = 10.0  # ratio of deviations up to which columns keep a common unit
    wild_units: float = 1e6  # ratio of deviations from which columns must be rescaled by the user
    digits_tried: int = 10  # after which all values of a column may end; more find finer rounding
    rounded_by_chance: float = 1e-6  # chance of such values; more see rounding in fewer of them
    constraint_rows: int = 4096  # that surfaces and rounding are looked for in; more tell no more
    samples_per_term: int = 3  # of a polynomial that vanishes on the data; fewer find chance ones
    thin_spread: float = 1e-3  # of a column's; thinner data tell no gradient off their surface
    coarsest_rounding: float = 0.01  # of the spread; rounding to fewer digits explains nothing
    constraint_errors: float = 3.0  # by which data may leave a surface; more find false ones
    constraint_gap: float = 5.0  # times that the next polynomial must be further off
    quadric_columns: int = 24  # with their products; of more columns squares alone are tried
    square_columns: int = 200  # of more, linear relations alone; their fits take time
    independent_direction: float = 1e-3  # singular value; noisy vectors with less span no direction
    normal_rows: int = 256  # at which normals of surfaces are compared; more take time
    new_normal: float = 0.1  # sine to known normals; a surface with less follows from those known
    new_normal_share: float = 0.25  # of the rows, where a new surface must have such a normal
    on_surface: float = 1e-4  # mean square of a motion that leaves the surface: rounding of data
    surface_gap: float = 30.0  # times that the next motion must leave it more
    tidy_slack: float = 1.5  # distances from data that a polynomial of fewer terms may have
    tidy_shares: tuple[float, ...] = (0.3, 0.1, 0.03, 1e-2, 1e-3, 1e-4)  # smaller terms are dropped
    tidy_cosine: float = 0.9  # with what was found; less is another polynomial
    largest_simple: int = 12  # numerator and denominator of simple numbers; more find false ones
    largest_whole: int = 60  # common denominator of the coefficients of a tidy polynomial
    resamplings: int = 24  # of rows; more are surer of the rise after a null space, and take time
    resampled_parts: int = 40  # of the rows; more take memory, fewer vary more
    many_unknowns: int = 400  # of a class; with more, half as many parts, which take memory
    gap_quantile: float = 0.1  # of resamplings, which may rise less; more trust a rise by chance
    evened_noise: float = 0.02  # of noise, spread over all directions; less trusts few rows more
    least_ratio: float = 0.5  # to noise; what is below one is noise as much as one is
    only_noise: float = 3.0  # ratio to noise; more has a bias that both estimates share
    noise_and_bias: float = 12.0  # ratio to noise that an exact null space may have with a bias
    smallest_gap: float = 3.0  # rise of ratios after an exact null space; less finds chance ones
    smallest_drop: float = 8.0  # rise of changes after a symmetry that is not exact
    finest_estimate: float = 1e-7  # sine; estimates are not taken for more exact than this
    coarsest_estimate: float = 0.25  # nor for less, else any algebra would be near
    estimate_slack: float = 2.0  # times that its halves disagree, by which an estimate may be off
    slack_of_few: float = 3.0  # the same of few directions, which agree by chance
    few_directions: int = 2  # up to which they are few
    snap_slack: float = 1.25  # errors by which the exact algebra may be off: they are estimates
    hopeless_sine: float = 0.5  # between an estimate and an algebra; a larger one is not tried
    conjugated_sine: float = 100.0  # errors from which conjugation may still bring algebras near
    conjugate_steps: int = 12  # of conjugation; more come nearer, and take time
    rounded_at_once: int = 2  # height of fractions before structure is known; more find chance
    structured_elements: int = 80  # of an algebra not of simple numbers; more take very long
    much_nearer: float = 1 / 3  # of the distance of motions, for another algebra to be preferred
    motion_slack: float = 2.0  # errors by which motions and their translations may be off
    linear_slack: float = 1.5  # the same of linear parts, for the size of the least
    motions_left: float = 0.5  # of each element when made a motion; less is another algebra
    centre_decimals: tuple[int, ...] = (0, 1, 2)  # of simple centres; more find chance ones
    weight_draws: int = 3  # of elements that split space; eigenvalues of one may be equal
    independent_weights: float = 0.05  # ratio of singular values; less are no independent weights
    zero_weight: float = 3.0  # errors; smaller weights are tried as zero
    semisimple_tried: int = 4  # dimensions of the semisimple part; more take time
    bracket_drop: float = 0.6  # ratio of singular values of brackets; more try unlikely sizes
    all_brackets: int = 48  # elements of an algebra; of larger ones random pairs are bracketed
    bracket_pairs: int = 1500  # of such elements; more are surer that they close, and take time
    closure_steps: int = 30  # towards a closed algebra; more come nearer, and take time
    closure_patience: int = 3  # steps that must halve what is left, as near a closed algebra
    closure_inner_steps: int = 60  # to solve for one step; more are more exact, and take time
    components_tried: int = 16  # of a group beside the connected one; each takes a test
    reversed_axes: int = 4  # of a fixed space that are reversed one by one; each takes a test
    connected_starts: int = 12  # to bring a matrix to one within a group; fewer miss some
    connected_steps: int = 60  # from each of them; fewer miss some, more take time

    # --- transitions ----------------------------------------------------------------------------

    product_columns: int = 90  # of entries whose products are fitted; of more there are too many
    coefficient_ridge: float = 1e-3  # of a fit of increments, which columns that sum to one need
    clear_coefficient: float = 3.0  # standard errors; smaller coefficients are taken for zero
    centred: float = 0.2  # deviations; a smaller mean of an entry is taken for zero
    mean_weight: float = 0.3  # of means beside coefficients, which say more of what goes where
    similar_sizes: float = 0.7  # logarithm of sizes that entries may differ by to be exchanged
    images: int = 6  # of each entry, where it may go; more are slower, fewer miss some
    most_matches: int = 80  # that are held against a predictor; each takes predictions
    screen_share: float = 0.25  # of the first part, to hold matches against a predictor on
    screen_rows: int = 3000  # of these at most; more take time, fewer are noisier
    most_repaired: int = 6  # matches that are changed step by step until no step is cheaper
    repair_steps: int = 30  # other matches that are tried as steps, beside signs and swaps
    far_apart: float = 0.4  # of entries that matches differ in to be repaired one by one
    repair_gain: float = 0.005  # of the variance of increments, for a step to be worth it
    screen_slack: float = 0.5  # of the margin that an element may cost to be proposed
    ignored_entry: float = 1e-3  # of the variance of increments; what does less is ignored
    most_elements_listed: int = 5  # that were not promising; more tell readers little
    most_still_listed: int = 2  # of those that hardly move what they take to other rows

    # --- images ---------------------------------------------------------------------------------

    generous: float = 3.0  # margins that a motion may cost on rows of the training, to be tested
    layer_rows: int = 700  # that types of layers are learned from; their time grows with them
    layer_epochs: int = 24  # of learning them; more are surer of types
    layer_burn_in: int = 8  # epochs before the evidence is asked
    layer_every: int = 4  # epochs between estimates of it
    layer_rate: float = 5e-3  # of learning them
    layer_batch: int = 64  # rows of a step
    layer_curvature_rows: int = 300  # that curvatures are estimated from
    layer_channels: int = 2  # of the first layer, where features have four slices
    layer_error_images: int = 8  # on which the error of each layer is measured, to be shown

    # --- sets of groups -------------------------------------------------------------------------

    children: int = 60  # networks that are trained at most; more find better sets
    child_steps: int = 250  # of a network: four epochs of 4000 rows
    child_batch: int = 64  # rows of a step
    child_epochs: tuple[int, int] = (4, 60)  # at least, and at most of few rows
    claimed_sets: int = 3  # the best ones that are tested; more are corrected for
    grid_sides: tuple[int, int] = (4, 20)  # of hidden grids, from and to
    narrow_grid: int = 8  # a grid that is aimed at is no smaller: else there is nothing to share
    grid_shifts: int = 4  # shifts of fewer elements are halves that change places, named otherwise
    largest_grid: int = 64  # side of an image; larger ones take too long
    most_grid_numbers: int = 12_288  # of an image, channels counted
