"""From data to named symmetries: propose on one part, fit on the second, confirm on the third."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils import data as torch_data

from isotropy._run import Patience, one_thread
from isotropy._run._moved_keywords import moved_keywords
from isotropy.data import Dataset, Transitions
from isotropy.discovery._discover_options import DiscoverOptions
from isotropy.discovery._stages import searched
from isotropy.discovery.proposing._proposers import proposers_for
from isotropy.discovery.proposing.generators._generator_search import Blocks
from isotropy.discovery.reading._plan import METHODS, Method
from isotropy.discovery.reading._read_problems import read_problems
from isotropy.discovery.telling._findings import Findings


@moved_keywords(options=DiscoverOptions)
def discover(
    X: ArrayLike | Tensor | Dataset | Transitions | torch_data.Dataset[Any],
    y: ArrayLike | Tensor | None = None,
    *,
    groups: ArrayLike | None = None,
    candidates: Sequence[str] = (),
    blocks: Blocks | None = None,
    methods: Method | Sequence[Method] = METHODS,
    fit_models: bool = True,
    budget: float | str | None = None,
    seed: int = 0,
    options: DiscoverOptions | None = None,
) -> Findings:
    """Find the symmetries of a learning task, name them, and confirm them by test.

    Permutations: positions of the input are permuted (columns of a vector, steps of a sequence,
    elements of a set), and positions of the output with them, where it has several. Continuous
    symmetries: columns, or blocks of them, are rotated, boosted, scaled, translated
    (``find_generators``). Images: translations, quarter turns and mirrors that leave the class, and
    layers of a network that may commute with them.

    Rows are split in three. On the first part symmetries are proposed: automorphisms of the equal
    coefficients of a polynomial; swaps and gradients of a network, where a polynomial does not
    do; the usual suspects in their natural order; the Lie algebra of a smooth fit, made exact.
    To the second part a predictor free of symmetry is fitted. On the third each proposal is
    tested: averaging that predictor over the group must cost less than a margin of what can be
    learned (``confirm``), corrected for all proposals together. What two groups generate is claimed
    in their place where it holds too; where it does not, the one that costs more is dropped.

    One way through, for data of every kind: rows are read (what they are, in three parts), each
    proposer looks for its kind of symmetry, all claims are tested together, what stands gets a
    model, and findings say all of it.

    Of images, the evidence proposes on the first part which layers commute with shifts and quarter
    turns (``learn_layers``). To the second part a network is fitted whose layers are free, and
    others whose first layers are strict; each must lose no more than the margin, on the third
    part, to the best one built without its symmetry. Shifts wrap around the edges of the image.

    With ``methods="groups"``, dozens of small networks are trained on the first part instead, each
    with hidden layers that commute with another set of the twelve grid transformations
    (``search_groups``). The best sets are claims: networks fitted to the second part with their
    weights shared so must lose no more than the margin, on the third, to a free one, to the best
    one with a single group, and to those of other claims that lack one of its groups.

    Of logged transitions (s, a, s′), signed permutations of the entries of observations and actions
    are looked for: mirrors of a body, exchanges of its limbs.

    A confirmed symmetry with a significant cost comes with a soft model as well, which prefers the
    symmetry and is not bound to it (``Finding.soft``). One that costs more than the margin, but
    significantly less than ``near_margin``, is no finding: it is in ``Findings.nearly`` where its
    soft model predicts the third part significantly better than a predictor free of symmetry does;
    looked for only where nothing is confirmed. These tests have Holm's correction among themselves.

    Of more rows than 20,000 as many are drawn at random, and ``Findings.notes`` says so.

    Args:
        X: Inputs, shape ``(N, n)``, ``(N, n, channels)`` for sequences and sets,
            ``(N, channels, height, width)`` or ``(N, height, width)`` for images; a ``Dataset``; a
            data set of PyTorch's, with items (x, y); or ``Transitions``. How it is read is in
            ``Findings.reading``; ``read_shape`` has the rules.
        y: Targets: ``(N,)`` or ``(N, m)`` of numbers, ``(N, m, channels)``, images, or ``(N,)``
            classes.
        groups: Rows with one value here stay on one side of every split, shape ``(N,)``.
        candidates: Groups to try as well, such as ``"Z(12)"`` or ``"S(3)+S(9)"``, acting on
            positions in their order (and on outputs, where there are as many), or on the
            pixels of an image, row by row. For ``"groups"``, names of the grid transformations that
            sets are made of, by default all that act on the images.
        blocks: Columns that a continuous symmetry moves in the same way: a number k of consecutive
            blocks, or the columns (or names) of each. By default read from names such as px1, px2,
            else every k is tried.
        methods: What to look for: ``"permutations"``, ``"generators"`` of continuous symmetries;
            ``"layers"`` and motions of images, which is all that is looked for in these by
            default; ``"transitions"``, the same for these; ``"groups"`` of images alone, by a
            search that takes minutes.
        fit_models: Whether to fit a model with each symmetry that is found.
        budget: How long it may take, in seconds or as text such as ``"5m"``. What is sure by then
            is returned, ``Findings.stopped`` says what was not done. Of a quarter of an hour or
            more, images are searched for sets of groups as well.
        seed: Of splits, networks and random group elements.
        options: How data are read, the margin and the level, how a search is kept, progress.

    Returns:
        The findings, ranked: those that are sure, with p-values of at most 0.01, come first; of
        these the continuous ones, the largest first. Empty where nothing holds. Unless methods
        are named, what holds of layers alone is in ``Findings.partly``.

    Raises:
        ValueError: If values are missing, inputs or targets constant, rows too few to split, images
            too small, a method or option is for data of another kind, ``near_margin`` is not a
            share below 1, or the study is of another search.
        ConnectionError: If the database of the study cannot be reached.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(300, 5))
        >>> found = discover(x, x.sum(1) + 0.1 * rng.normal(size=300))
        >>> found[0].name, found[0].confirmed
        ('S(5), all positions', True)
    """
    started = time.perf_counter()
    options = options or DiscoverOptions()
    criteria = options.criteria(fit_models=fit_models, seed=seed)
    read = read_problems(X, y, groups, methods, budget, seed, options)
    patience = Patience(read.plan.budget, keep_on_interrupt=options.keep_on_interrupt)
    progress = read.plan.timed(options.progress)
    parts: list[Findings] = []
    with one_thread():
        for problem in read.problems:
            if any(len(part if read.asked else part.task_first()) for part in parts):
                break
            proposers = proposers_for(problem, candidates, blocks, options, criteria)
            parts.append(searched(problem, proposers, criteria, patience, progress))
            # what rows may be as well is looked at for what is sure, without the user's pixels
            candidates, criteria = (), replace(criteria, near_margin=0.0)
    found = Findings.merged(parts)
    return replace(
        found if read.asked else found.task_first(),
        notes=(*read.notes, *found.notes),
        seconds=time.perf_counter() - started,
        reading=read.plan.reading.words,
        stopped=patience.why,
    )
