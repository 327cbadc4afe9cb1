"""How many children each strategy trains to be as good as deep Q-learning after 1000 of them."""

from __future__ import annotations

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._search_replays import CHILDREN, PUBLISHED_DQN, STRATEGIES, Replays, Search
from isotropy_papers._search_tables import AUGMENTATIONS, BASES
from isotropy_papers._statistics import mean_95, median_interval

_QUICK = (PUBLISHED_DQN, "lattice", "random")
_QUICK_SET = "mnist Aug1"


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Replay strategies against the tables of all networks.

    Args:
        settings: Quick: two searches of three strategies on one data set. Full: 20 searches of all
            five on twelve. ``seeds`` gives another number; ``models`` are strategies and data sets,
            such as "lattice" and "fashion-mnist Aug5"; ``out`` may hold tables, and keeps searches.
        progress: Called before each search.

    Returns:
        Children needed, their ratio to the published search's, and accuracies in percent.
    """
    strategies, sets = _chosen(settings)
    seeds = settings.or_else(seeds=20 if settings.full else 2)["seeds"]
    replays = Replays(settings, progress)
    cells: list[Cell] = []
    for name in sets:
        base, augmentation = name.split()
        found = {
            one: [replays.search(base, augmentation, one, settings.seed + k) for k in range(seeds)]
            for one in dict.fromkeys((PUBLISHED_DQN, *strategies))
        }
        for one in strategies:
            cells += _cells(f"{name}, {one}", found[one], found[PUBLISHED_DQN])
    notes = (
        "children: how many are trained until one is as good on validation rows as the best of the "
        f"{CHILDREN} children of the published search with the same seed; median over {seeds} "
        "searches, with a bootstrap interval of it",
        "ratio: the child at which the published search itself was first as good as in the end, "
        f"over children; ratio to all: its {CHILDREN} children over children, for it cannot know "
        "when to stop; medians over searches",
        "validation and test: of the child that is best on validation rows when a search ends, in "
        "percent, mean over searches and 1.96 standard errors; others end where they are as good "
        "as the published search, after at most all 148 networks",
        "a part of the ratio is due to networks: all 4096 sets of groups make 148, each trained "
        "once, and random search has that part; the rest is the strategy's",
        "the published search trains every set of groups as a child of its own, the others every "
        "network once; each child is trained on 4000 rows for 4 epochs; no training is done here, "
        "all accuracies are those of the tables of basu2021/states",
        "the published search is replayed with three differences: among our networks and images; "
        "it learns from all pairs of evaluated states one action apart, not from the last 10,000 "
        "steps walked; after 101 steps without a new state it jumps to a random one, so that it "
        f"always reaches {CHILDREN} children, where theirs stops after 60 episodes",
        "intervals are over searches only: training, validation and test rows are the same in all",
        "options of the lattice search were chosen on made-up tables, before any of these tables "
        "were looked at",
    )
    return Result("basu2021/strategies", cells, replays.close(), notes)


def _chosen(settings: Settings) -> tuple[list[str], list[str]]:
    """Strategies and data sets; of each those named, or else the usual ones."""
    sets = [f"{base} {one}" for base in BASES for one in AUGMENTATIONS]
    named = settings.chosen([*STRATEGIES, *sets]) if settings.models else []
    strategies = [one for one in STRATEGIES if one in named]
    wanted = [one for one in sets if one in named]
    usual = list(STRATEGIES if settings.full else _QUICK)
    return strategies or usual, wanted or (sets if settings.full else [_QUICK_SET])


def _cells(row: str, searches: list[Search], published: list[Search]) -> list[Cell]:
    pairs = list(zip(searches, published, strict=True))
    needed = [one.needed(goal.best) for one, goal in pairs]
    against = [goal.needed(goal.best) / n for n, (_, goal) in zip(needed, pairs, strict=True)]
    cells = []
    for column, values in (
        ("children", needed),
        ("ratio", against),
        ("ratio to all", [CHILDREN / n for n in needed]),
    ):
        middle, interval = median_interval(values)
        cells.append(Cell(row, column, middle, None, interval))
    for column, values in (
        ("validation", [100 * one.best for one in searches]),
        ("test", [100 * one.test for one in searches]),
    ):
        mean, interval = mean_95(values)
        cells.append(Cell(row, column, mean, None, interval))
    return cells


EXPERIMENT = Experiment(
    "basu2021/strategies",
    "Children that search strategies train to be as good as deep Q-learning",
    run,
)
