"""From data to named symmetries: propose on one part, fit on the second, confirm on the third."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from isotropy._run import ProgressCallback, Step
from isotropy._run import generator as make_generator
from isotropy.data import Dataset, Transitions
from isotropy.discovery._finding import Finding
from isotropy.discovery._findings import Findings
from isotropy.discovery._methods import (
    METHODS,
    Method,
    checked_methods,
    refuse_options,
    refuse_search_options,
)
from isotropy.discovery._nearly import NearClaim, offered, standing
from isotropy.discovery._task_data import TaskData
from isotropy.discovery.confirming._claim_test import ClaimTest, claim_test, holm
from isotropy.discovery.confirming._free_predictor import (
    FreePredictor,
    Task,
    sample_losses,
)
from isotropy.discovery.confirming._splits import three_way_split
from isotropy.discovery.generators._continuous import (
    ContinuousClaims,
    TestedClaim,
)
from isotropy.discovery.generators._search import Blocks, CannotTell
from isotropy.discovery.generators._smooth_predictor import smooth_predictor
from isotropy.discovery.images._discover_images import discover_images
from isotropy.discovery.images._group_search import discover_groups
from isotropy.discovery.images._image_data import ImageData
from isotropy.discovery.naming._pair_group import PairGroup
from isotropy.discovery.permutations._permutation_claim import (
    PermutationClaim,
    confirm_permutations,
    near_permutations,
    tried_line,
)
from isotropy.discovery.permutations._proposals import Proposals, propose
from isotropy.discovery.transitions._discover_transitions import discover_transitions

# a predictor of the other kind is taken where it leaves so much less
_BETTER = 1.05
# shares of variance or entropy, unexplained, that are worth a note
_MUCH_LEFT, _NOTHING = 0.05, 0.95


def discover(
    X: ArrayLike | Tensor | Dataset | Transitions,
    y: ArrayLike | Tensor | None = None,
    *,
    task: Task | None = None,
    groups: ArrayLike | None = None,
    channels_first: bool = False,
    candidates: Sequence[str] = (),
    blocks: Blocks | None = None,
    entry_names: tuple[Sequence[str], Sequence[str]] | None = None,
    methods: Method | Sequence[Method] = METHODS,
    margin: float = 0.05,
    near_margin: float = 0.5,
    level: float = 0.05,
    fit_models: bool = True,
    study: str | os.PathLike[str] | None = None,
    strategy: str = "lattice",
    children: int | None = None,
    seed: int = 0,
    progress: ProgressCallback | None = None,
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
    tested: averaging that predictor over the group must cost less than ``margin`` of what can be
    learned (``confirm``), Holm's correction over all proposals.

    Of images, the evidence proposes on the first part which layers commute with shifts and quarter
    turns (``learn_layers``). To the second part a network is fitted whose layers are free, and
    others whose first layers are strict; each must lose no more than ``margin``, on the third
    part, to the best one built without its symmetry. Shifts wrap around the edges of the image.

    With ``methods="groups"``, dozens of small networks are trained on the first part instead, each
    with hidden layers that commute with another set of the twelve grid transformations
    (``search_groups``). The best sets are claims: networks fitted to the second part with their
    weights shared so must lose no more than ``margin``, on the third, to a free one, to the best
    one with a single group, and to those of other claims that lack one of its groups.

    Of logged transitions (s, a, s′), signed permutations of the entries of observations and actions
    are looked for: mirrors of a body, exchanges of its limbs (``discover_transitions``).

    Where a symmetry is confirmed but surely costs something, it comes with a soft model as well,
    which prefers the symmetry and is not bound to it (``Finding.soft``). One that costs more than
    ``margin``, but surely less than ``near_margin``, is no finding: it is in ``Findings.nearly``
    where its soft model surely predicts the third part better than a predictor free of symmetry
    and every model of a finding. These tests have Holm's correction among themselves, and change
    nothing for findings.

    Args:
        X: Inputs, shape ``(N, n)``, ``(N, n, channels)`` for sequences and sets,
            ``(N, channels, height, width)`` for images; a ``Dataset``; or ``Transitions``. With
            ``methods="layers"`` or ``"groups"``, arrays of shape ``(N, height, width)`` are images
            of one channel.
        y: Targets: ``(N,)`` or ``(N, m)`` of numbers, ``(N, m, channels)``, or ``(N,)`` classes.
        task: ``"regression"`` or ``"classification"``; by default told from the targets, as
            ``isotropy.data.load`` does.
        groups: Rows with one value here stay on one side of every split, shape ``(N,)``.
        channels_first: Whether sequences and sets have shape ``(N, channels, n)`` instead.
        candidates: Groups to try as well, such as ``"Z(12)"`` or ``"S(3)+S(9)"``, acting on
            positions in their order (and on outputs alike, where there are as many), or on the
            pixels of an image, row by row. For ``"groups"``, names of the grid transformations that
            sets are made of, by default all that act on the images.
        blocks: Columns that a continuous symmetry moves alike: a number k of consecutive blocks,
            or the columns (or names) of each. By default told from names such as px1, px2, else
            every k is tried.
        entry_names: Of transitions: a name for each entry of an observation, and of an action.
        methods: What to look for: ``"permutations"``, ``"generators"`` of continuous symmetries;
            ``"layers"`` and motions of images, which is all that is looked for in these by
            default; ``"transitions"``, the same for these; ``"groups"`` of images alone, by a
            search that takes minutes.
        margin: The largest cost that still counts as a symmetry.
        near_margin: The largest cost of a symmetry that is worth a soft model; not looked for
            where it is no more than ``margin``, nor without ``fit_models``, nor in images or
            transitions.
        level: The chance of confirming anything false.
        fit_models: Whether to fit a model with each symmetry that is found.
        study: For ``"groups"``, the path of an SQLite file or the URL of a PostgreSQL database
            that keeps the networks' scores. A call with the same data, options and study goes on
            with it; several at once, in any number of processes, share the work.
        strategy: Of that search: ``"lattice"``, ``"dqn"``, ``"random"`` or ``"tpe"``.
        children: How many networks it trains at most, by default 60.
        seed: Of splits, networks and random group elements.
        progress: Told what is being done.

    Returns:
        The findings, continuous ones first, then the largest group first; empty where nothing
        holds.

    Raises:
        ValueError: If values are missing, inputs or targets constant, rows too few to split, images
            too small, too large or without classes, a method or option is for data of another
            kind, ``near_margin`` is not a share below 1, or the study is of another search.
        ConnectionError: If the database of the study cannot be reached.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(300, 5))
        >>> found = discover(x, x.sum(1) + 0.1 * rng.normal(size=300))
        >>> found[0].name, found[0].confirmed
        ('S(5), all positions', True)
    """
    started = time.perf_counter()
    tell = progress or (lambda step: None)
    methods = checked_methods(methods, X)
    if not 0 <= near_margin < 1:
        raise ValueError(f"expected a near_margin of at least 0 and below 1, got {near_margin!r}")
    softening = fit_models and near_margin > margin
    if isinstance(X, Transitions):
        refuse_search_options(study, strategy, children)
        given = {"y": y, "task": task, "groups": groups, "blocks": blocks}
        given |= {"candidates": candidates or None, "channels_first": channels_first or None}
        refuse_options("transitions", **given)
        names = entry_names or (None, None)
        return discover_transitions(
            X,
            observation_names=names[0],
            action_names=names[1],
            margin=margin,
            level=level,
            fit_models=fit_models,
            seed=seed,
            progress=progress,
        )
    refuse_options("data that are no transitions", entry_names=entry_names)
    if methods == ("groups",):
        refuse_options(blocks=blocks, channels_first=channels_first or None)
        return discover_groups(
            ImageData.of(X, y, task, groups),
            names=candidates,
            study=study,
            strategy=strategy,
            children=children,
            margin=margin,
            level=level,
            fit_models=fit_models,
            seed=seed,
            progress=progress,
        )
    refuse_search_options(study, strategy, children)
    if methods == ("layers",):
        refuse_options(blocks=blocks, channels_first=channels_first or None)
        return discover_images(
            ImageData.of(X, y, task, groups),
            candidates=candidates,
            margin=margin,
            level=level,
            fit_models=fit_models,
            seed=seed,
            progress=progress,
        )
    permuting, moving = "permutations" in methods, "generators" in methods
    data = TaskData.of(X, y, task, groups, channels_first, permuting=permuting)
    find, fit, held = three_way_split(len(data.x), seed=seed, groups=data.groups)
    tell(Step(0, 5, "proposing symmetries"))
    proposals = Proposals((), (), None, ())
    if permuting:
        proposals = propose(
            data.rows(find),
            margin=margin,
            near_margin=near_margin if softening else 0.0,
            candidates=candidates,
            seed=seed,
        )
    tell(Step(1, 5, "looking for continuous symmetries"))
    continuous = _continuous(data, find, blocks, margin, seed) if moving else None
    tell(Step(2, 5, "fitting a predictor free of symmetry"))
    fitted, outside = data.rows(fit), data.rows(held)
    free = fitted.free_predictor(seed + 1)
    smooth = free
    if continuous is not None and continuous.claims:
        smooth = smooth_predictor(fitted, seed + 1)
        if smooth.unexplained * _BETTER < free.unexplained:
            free = smooth
    tell(Step(3, 5, "confirming"))
    claims = [PermutationClaim.of(proposal, data) for proposal in proposals.claims]
    tests = confirm_permutations(claims, free, outside, margin=margin, level=level, seed=seed)
    diagonal = proposals.convolution
    if diagonal is not None:
        tests.append(diagonal.test(free, fitted, outside, margin=margin, level=level))
    moved: list[TestedClaim] = []
    if continuous is not None and continuous.claims:
        moved = continuous.tests(smooth, fitted, outside, margin=margin, level=level, seed=seed)
    tests = _corrected(tests, moved)
    tell(Step(4, 5, "fitting models"))
    for claim, test in zip(claims, tests, strict=False):
        claim.test = test
    confirmed = [claim for claim in claims if claim.confirmed]
    seen = data.rows(np.concatenate([find, fit]))
    near: list[NearClaim] = []
    if softening:
        wide: dict[str, Any] = {"margin": near_margin, "level": level, "seed": seed}
        near = near_permutations(proposals, claims, data, free, seen, outside, **wide)
        if continuous is not None:
            near += continuous.near(moved, smooth, fitted, seen, outside, **wide)
        near = standing(near)
    rival = free
    if fit_models and (near or any(test.confirmed for test in tests)):
        # models are compared on equal terms: both fitted to all rows but those of the test
        rival = seen.free_predictor(seed + 1)
    shown = [claim for claim in confirmed if not any(claim.is_within(other) for other in confirmed)]
    found: list[Finding] = []
    tried: list[str | Mapping[str, Any]] = [
        *proposals.tried,
        *(tried_line(c.name, c.proposal.method, c.proposal.chance, c.test) for c in claims),
    ]
    notes = _notes(free, fitted, outside)
    if data.arrangement.inputs == data.arrangement.channels > 1:
        notes.append(
            f"x was read as {data.arrangement.inputs} positions with as many channels; for images "
            "of one channel: methods='layers', --method layers"
        )
    trivial = _without_effect(proposals, free, outside, margin, level, seed)
    if continuous is not None:
        found, lines = continuous.findings(
            moved, data, find, fit, held, smooth, fit_models=fit_models, seed=seed
        )
        tried += [*continuous.tried(), *lines]
        notes += continuous.notes
        trivial += continuous.trivial(free, fitted, outside, margin=margin, level=level, seed=seed)
    if diagonal is not None:
        tried.append(tried_line(diagonal.name, "diagonals", diagonal.chance, tests[-1]))
        if tests[-1].confirmed:
            # what turns a filter around is said with it
            turned = PairGroup(diagonal.name.generators, *reversed(diagonal.labels.shape))
            shown = [claim for claim in shown if not turned.contains(claim.group)]
            found.append(diagonal.finding(tests[-1], seen, outside, rival, fit_models))
    found += [claim.finding(proposals, seen, outside, rival, fit_models, seed) for claim in shown]
    if near and free is smooth and continuous is not None and continuous.claims:
        rival = smooth_predictor(seen, seed + 1)
    nearly = offered(near, seen, outside, rival, rivals=found, level=level, seed=seed)
    return Findings(found, tried, time.perf_counter() - started, notes, trivial, nearly)


def _continuous(
    data: TaskData, find: NDArray[np.int64], blocks: Blocks | None, margin: float, seed: int
) -> ContinuousClaims:
    try:
        return ContinuousClaims.proposed(data, find, blocks=blocks, margin=margin, seed=seed)
    except CannotTell as error:
        return ContinuousClaims.refused(data, error)


def _corrected(tests: list[ClaimTest], moved: Sequence[TestedClaim]) -> list[ClaimTest]:
    """Holm's correction over all tests, of permutations and of continuous symmetries."""
    every = [test.p_value for test in tests] + [p for one in moved for p in one.p_values]
    adjusted = iter(holm(every))
    tests = [replace(test, adjusted_p_value=float(next(adjusted))) for test in tests]
    for one in moved:
        one.adjust([float(next(adjusted)) for _ in one.p_values])
    return tests


def _without_effect(
    proposals: Proposals,
    free: FreePredictor,
    outside: TaskData,
    margin: float,
    level: float,
    seed: int,
) -> list[Finding]:
    """Positions that the target ignores: any permutation of them is a symmetry, trivially."""
    ignored = list(proposals.ignored)
    a = outside.arrangement
    if len(ignored) < 2 or len(ignored) == a.inputs:
        return []
    rng = make_generator(seed)
    shuffled = outside.x.clone().unflatten(1, (a.channels, a.inputs))
    for position in ignored:
        order = torch.randperm(len(shuffled), generator=rng)
        shuffled[:, :, position] = shuffled[order][:, :, position]
    with torch.no_grad():
        losses = [
            sample_losses(prediction, outside.y, outside.task).numpy()
            for prediction in (
                free.predict(shuffled.flatten(1)),
                free.predict(outside.x),
                free.constant.expand(len(outside.x), -1),
            )
        ]
    test = claim_test(*losses, margin=margin, level=level, groups=outside.groups)
    if not test.confirmed:
        return []
    names = outside.input_names or tuple(f"x{p}" for p in range(a.inputs))
    listed = ", ".join(names[p] for p in ignored)
    return [
        Finding(
            name=f"S({len(ignored)}), positions that the target ignores",
            group=f"S({len(ignored)})",
            action=f"any permutation of {listed}",
            method="shuffled columns",
            order=int(np.prod(np.arange(1, len(ignored) + 1, dtype=object))),
            confirmed=True,
            p_value=test.p_value,
            effect=test.effect,
            interval=test.interval,
            margin=margin,
            samples=test.samples,
            trivial=f"the target does not depend on {listed}",
        )
    ]


def _notes(free: FreePredictor, fitted: TaskData, outside: TaskData) -> list[str]:
    what = "entropy" if fitted.task == "classification" else "variance"
    with torch.no_grad():
        losses = [
            float(sample_losses(prediction, outside.y, outside.task).mean())
            for prediction in (
                free.predict(outside.x),
                free.constant.expand(len(outside.x), -1),
            )
        ]
    left = losses[0] / max(losses[1], 1e-300)
    notes = [
        f"{fitted.task}; free predictor: {free.kind}, leaves {left:.2g} of the {what}; "
        f"fitted to {len(fitted.x)} rows, claims tested on {len(outside.x)} others"
    ]
    if left > _NOTHING:
        notes.append("next to nothing could be learned from these rows, so nothing can be claimed")
    elif left > _MUCH_LEFT:
        notes.append(
            f"claims are about what the predictor has learned: the {left:.0%} that it leaves may "
            "be noise, or have less symmetry"
        )
    return notes
