"""From data to named symmetries: propose on one part, fit on the second, confirm on the third."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils import data as torch_data

from isotropy._run import Patience, ProgressCallback, one_thread, seconds_of
from isotropy._run import generator as make_generator
from isotropy._run._moved_keywords import moved_keywords
from isotropy._run._terminal_text import plain_names
from isotropy.data import Dataset, Transitions
from isotropy.discovery._discover_options import DiscoverOptions
from isotropy.discovery._positions import PositionOptions, PositionSearch
from isotropy.discovery.predictors._free_predictor import Task
from isotropy.discovery.proposing.generators._generator_search import Blocks
from isotropy.discovery.proposing.images._discover_images import discover_images
from isotropy.discovery.proposing.layer_groups._image_group_search import discover_groups
from isotropy.discovery.proposing.transitions._discover_transitions import discover_transitions
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.reading._methods import (
    METHODS,
    Method,
    known_methods,
    refuse_options,
    refuse_search_options,
    suiting_methods,
)
from isotropy.discovery.reading._plan import Plan
from isotropy.discovery.reading._shape_reading import ShapeReading, read_shape
from isotropy.discovery.reading._splits import three_way_split
from isotropy.discovery.reading._task_data import TaskData, as_dataset
from isotropy.discovery.telling._findings import Findings

_MOST_ROWS = 20_000
_FEWEST_OF_CLASS = 10
_TIME_FOR_GROUPS = 900.0  # seconds of a budget that leave time for a search among sets of groups


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
    margin, near_margin, level = options.margin, options.near_margin, options.level
    chosen = known_methods(methods)
    if not 0 <= near_margin < 1:
        raise ValueError(f"expected a near_margin of at least 0 and below 1, got {near_margin!r}")
    seconds = None if budget is None else seconds_of(budget)
    if chosen == ("transitions",) and not isinstance(X, Transitions):
        raise ValueError(
            f"expected Transitions for the method 'transitions', got {type(X).__name__}"
        )
    given = _as_data(X, y, options.task, groups)
    asked = () if chosen == METHODS else chosen
    reading, given = read_shape(given, asked, options.channels_first)
    chosen = suiting_methods(chosen, reading.kind)
    if reading.kind == "images" and not asked and (seconds or 0.0) >= _TIME_FOR_GROUPS:
        chosen = (*chosen, "groups")
    _refuse(reading, blocks, candidates, options)
    if "groups" not in chosen:
        refuse_search_options(options.study, options.strategy, options.children)
    given, drawn = _at_most(given, _MOST_ROWS, seed, shuffled=reading.kind != "images")
    rows = _as_rows(given, reading, chosen)
    plan = Plan(reading, chosen, _entries(given), seconds)
    patience = Patience(seconds, keep_on_interrupt=options.keep_on_interrupt)
    common: dict[str, Any] = {"margin": margin, "level": level, "fit_models": fit_models}
    common["seed"] = seed
    timed = plan.timed(options.progress)
    with one_thread():
        if isinstance(rows, Transitions):
            names = [plain_names(tuple(given)) for given in options.entry_names or ()]
            parts = [
                _attempted(
                    patience,
                    "looking at transitions",
                    lambda: discover_transitions(
                        rows,
                        observation_names=names[0] if names else None,
                        action_names=names[1] if names else None,
                        progress=patience.watched(timed),
                        **common,
                    ),
                )
            ]
        elif isinstance(rows, ImageData):
            search = {
                "study": options.study,
                "strategy": options.strategy,
                "children": options.children,
            }
            shared = {**common, "level": common["level"] / (2 if reading.doubtful else 1)}
            parts = _of_images(rows, chosen, candidates, search, shared, patience, timed)
            parts = parts if asked else [_task_first(part) for part in parts]
            if reading.doubtful and not any(len(part) for part in parts):
                # no motion of an image: are they elements of a set?
                assert isinstance(given, Dataset)
                as_set = TaskData.of(given)
                sets = PositionOptions(moving=False, **{**common, "level": common["level"] / 2})
                parts.append(PositionSearch(as_set, sets, patience, timed).findings())
        else:
            positions = PositionOptions(
                permuting="permutations" in chosen and rows.arrangement.inputs > 1,
                moving="generators" in chosen,
                candidates=candidates,
                blocks=blocks,
                near_margin=near_margin if fit_models and near_margin > margin else 0.0,
                **common,
            )
            parts = [PositionSearch(rows, positions, patience, timed).findings()]
    found = Findings.merged(parts)
    notes = [note for note in (*_notes(given), *drawn, reading.note) if note]
    return replace(
        found,
        notes=(*notes, *found.notes),
        seconds=time.perf_counter() - started,
        reading=reading.words,
        stopped=patience.why,
    )


def _as_data(x: Any, y: Any, task: Task | None, groups: Any) -> Dataset | Transitions:
    """Whatever was given, as transitions or as a data set with targets that vary."""
    if isinstance(x, Transitions):
        refuse_options("transitions", y=y, task=task, groups=groups)
        return x
    found = as_dataset(x, y, task, groups)
    if found.y is None:
        raise ValueError(f"{found.source}: expected targets, got none")
    if bool((found.y == found.y[:1]).all()):
        classes = "" if found.task == "regression" else ", of at least two classes"
        raise ValueError(
            f"{found.source}: expected targets that vary{classes}, got the same in every row"
        )
    if found.task == "classification":
        counts = found.y.bincount().sort(descending=True).values
        if int(counts[1]) < _FEWEST_OF_CLASS:
            raise ValueError(
                f"{found.source}: expected at least {_FEWEST_OF_CLASS} rows of a second class, got "
                f"{int(counts[1])}"
            )
    return found


def _as_rows(
    given: Dataset | Transitions, reading: ShapeReading, methods: Sequence[Method]
) -> TaskData | ImageData | Transitions:
    """Data as the search for their kind takes them, enough to be split in three."""
    if isinstance(given, Transitions):
        return given
    rows: TaskData | ImageData
    if reading.kind == "images":
        rows = ImageData.of(given)
    else:
        only = methods == ("permutations",)
        rows = TaskData.of(given, reading.channels_first, permuting=only)
    three_way_split(len(rows.x), groups=rows.groups)  # are there enough?
    return rows


def _at_most(
    data: Dataset | Transitions, most: int, seed: int, *, shuffled: bool
) -> tuple[Dataset | Transitions, list[str]]:
    """Rows in random order, no more than are looked at, and a note where there are more.

    Files are often sorted, and whoever looks at some rows takes the first. Of images rows are drawn
    wherever some will do.
    """
    if isinstance(data, Transitions) or (not shuffled and len(data) <= most):
        return data, []
    drawn = torch.randperm(len(data), generator=make_generator(seed))[:most]
    more = len(data) > most
    return data.rows(drawn), [f"{most} of {len(data)} rows were drawn at random"] if more else []


def _entries(data: Dataset | Transitions) -> int:
    if isinstance(data, Transitions):
        return data.observations.numel() + data.actions.numel()
    return data.x.numel()


def _notes(data: Dataset | Transitions) -> Sequence[str]:
    return () if isinstance(data, Transitions) else getattr(data, "notes", ())


def _refuse(
    reading: ShapeReading,
    blocks: Any,
    candidates: Sequence[str],
    options: DiscoverOptions,
) -> None:
    """Refuse options that are for data of another kind."""
    channels_first = options.channels_first or None
    if reading.kind == "transitions":
        refuse_options(
            "transitions",
            blocks=blocks,
            candidates=candidates or None,
            channels_first=channels_first,
        )
        return
    refuse_options("data that are no transitions", entry_names=options.entry_names)
    if reading.kind == "images":
        refuse_options(blocks=blocks, channels_first=channels_first)


def _of_images(
    images: ImageData,
    methods: Sequence[Method],
    candidates: Sequence[str],
    search: dict[str, Any],
    common: dict[str, Any],
    patience: Patience,
    progress: ProgressCallback | None,
) -> list[Findings]:
    """Motions and layers, then sets of groups; each has its share of the level."""
    common = {**common, "level": common["level"] / len(methods)}
    watched = patience.watched(progress)
    parts = []
    if "layers" in methods:
        asked = () if "groups" in methods else candidates
        parts.append(
            discover_images(images, candidates=asked, progress=watched, patience=patience, **common)
        )
    if "groups" in methods:
        parts.append(
            _attempted(
                patience,
                "searching for sets of groups",
                lambda: discover_groups(
                    images, names=candidates, progress=watched, **search, **common
                ),
            )
        )
    return parts


def _task_first(found: Findings) -> Findings:
    """Findings of layers apart from those of the task."""
    layers = [finding for finding in found if finding.layers]
    rest = [finding for finding in found if not finding.layers]
    return replace(found, findings=rest, partly=layers)


def _attempted(patience: Patience, what: str, work: Any) -> Findings:
    found = patience.attempt(what, work)
    return Findings() if found is None else found
