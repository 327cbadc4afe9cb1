"""The experiments by their ids; a module is imported when its experiment is asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module

from isotropy_papers._experiment import Experiment
from isotropy_papers._standings import STANDINGS, Standing

PAPERS = {
    "finzi2023": (
        "Finzi 2023: Understanding and Incorporating Mathematical Inductive Biases in Neural "
        "Networks"
    ),
    "yeh2022": "Yeh et al. 2022: Equivariance Discovery by Learned Parameter-Sharing",
    "ouderaa2023": (
        "Van der Ouderaa et al. 2023: Learning Layer-wise Equivariances Automatically using "
        "Gradients"
    ),
    "basu2021": (
        "Basu et al. 2021: Group Equivariant Neural Architecture Search via Group Decomposition …"
    ),
    "": "Benches of our own",
}

_MODULES = {
    "basu2021/figure1": "basu2021_figure1",
    "basu2021/figure5": "basu2021_pairs",
    "basu2021/figure6": "basu2021_pairs",
    "basu2021/figure7": "basu2021_pairs",
    "basu2021/figure8": "basu2021_pairs",
    "basu2021/figure9": "basu2021_pairs",
    "basu2021/figure10": "basu2021_pairs",
    "basu2021/states": "basu2021_states",
    "basu2021/strategies": "basu2021_strategies",
    "basu2021/table3": "basu2021_table3",
    "basu2021/table4": "basu2021_pairs",
    "basu2021/table5": "basu2021_pairs",
    "basu2021/table6": "basu2021_pairs",
    "basu2021/table7": "basu2021_pairs",
    "basu2021/table9": "basu2021_pairs",
    "basu2021/table10": "basu2021_pairs",
    "discovered": "discovered",
    "finzi2023/figure2.5": "finzi2023_figure2_5",
    "finzi2023/figure2.6": "finzi2023_figure2_6",
    "finzi2023/figure3.2": "finzi2023_figure3_2",
    "finzi2023/figure3.4": "finzi2023_returns",
    "finzi2023/figure4.2": "finzi2023_figure4_2",
    "finzi2023/figure4.4": "finzi2023_figure4_4",
    "finzi2023/figure4.5": "finzi2023_figure4_5",
    "finzi2023/figure4.6": "finzi2023_figure4_6",
    "finzi2023/figure4.7": "finzi2023_figure4_7",
    "finzi2023/figure5.1": "finzi2023_figure5_1",
    "finzi2023/figure5.2": "finzi2023_figure5_2",
    "finzi2023/figure5.3": "finzi2023_figure5_3",
    "finzi2023/figureA.2": "finzi2023_returns",
    "finzi2023/figureA.3": "finzi2023_figure_a3",
    "finzi2023/figureA.4": "finzi2023_figure_a4",
    "finzi2023/figureA.5": "finzi2023_figure_a5",
    "finzi2023/figureA.6": "finzi2023_figure_a6",
    "finzi2023/figureA.7": "finzi2023_figure_a7",
    "finzi2023/section3.5.1": "finzi2023_section3_5_1",
    "finzi2023/section3.5.2": "finzi2023_section3_5_2",
    "finzi2023/section3.6.2": "finzi2023_section3_6_2",
    "finzi2023/table2.2": "finzi2023_table2_2",
    "finzi2023/table3.1": "finzi2023_table3_1",
    "finzi2023/table3.2": "finzi2023_table3_2",
    "finzi2023/table3.3": "finzi2023_table3_3",
    "finzi2023/table5.2": "finzi2023_table5_2",
    "finzi2023/tableA.18": "finzi2023_table_a18",
    "finzi2023/tableA.19": "finzi2023_table_a19",
    "finzi2023/tableA.22": "finzi2023_table_a22",
    "finzi2023/tableA.23": "finzi2023_table_a23",
    "finzi2023/theorem-a.2": "finzi2023_theorem_a2",
    "finzi2023/theorem4.1": "finzi2023_theorem4_1",
    "ouderaa2023/lengthscales": "ouderaa2023_lengthscales",
    "ouderaa2023/table1": "ouderaa2023_table1",
    "ouderaa2023/table2": "ouderaa2023_table2",
    "ouderaa2023/table3": "ouderaa2023_table3",
    "ouderaa2023/table4": "ouderaa2023_table4",
    "ouderaa2023/table7": "ouderaa2023_table7",
    "planted": "planted",
    "yeh2022/figure1": "yeh2022_figure1",
    "yeh2022/figure2": "yeh2022_means",
    "yeh2022/figure3": "yeh2022_means",
    "yeh2022/figure4": "yeh2022_means",
    "yeh2022/figure5": "yeh2022_means",
    "yeh2022/figure6": "yeh2022_means",
    "yeh2022/figure7": "yeh2022_figure7",
    "yeh2022/figure8": "yeh2022_figure8",
    "yeh2022/figureA1": "yeh2022_figure_a1",
    "yeh2022/figureA2": "yeh2022_figure_a2",
    "yeh2022/tableA1": "yeh2022_table_a1",
    "yeh2022/table1": "yeh2022_means",
}


def ids() -> list[str]:
    """The ids of all experiments.

    Example:
        >>> ids()[0]
        'basu2021/figure1'
    """
    return sorted(_MODULES)


def experiment(id: str) -> Experiment:
    """The experiment of an id.

    Args:
        id: The paper and the place in it, as ``ids`` lists them.

    Raises:
        ValueError: If there is none of this id.

    Example:
        >>> experiment("finzi2023/figure2.5").id
        'finzi2023/figure2.5'
    """
    if id not in _MODULES:
        near = get_close_matches(id, ids(), 3, 0.3)
        like = f" such as {' or '.join(near)}" if near else ""
        raise ValueError(
            f"expected the id of an experiment{like}, got {id!r}: 'isotropy reproduce' lists all"
        )
    module = import_module(f"isotropy_papers.{_MODULES[id]}")
    several: dict[str, Experiment] | None = getattr(module, "EXPERIMENTS", None)
    found: Experiment = module.EXPERIMENT if several is None else several[id]
    return found


@dataclass(frozen=True)
class Listed:
    """One line of the list of all experiments.

    Args:
        id: The paper and the place in it.
        title: What it shows, in a few words.
        standing: How far it has been run again, and what that costs.

    Example:
        >>> listing()[0].data()["id"]
        'finzi2023/figure2.5'
    """

    id: str
    title: str
    standing: Standing

    @property
    def paper(self) -> str:
        """The paper, of a bench of our own the empty text."""
        return self.id.split("/")[0] if "/" in self.id else ""

    def data(self) -> dict[str, str]:
        """The line as JSON knows it: id, title, state, quick and full."""
        standing = self.standing
        return {
            "id": self.id,
            "title": self.title,
            "state": standing.state,
            "quick": standing.quick,
            "full": standing.full,
        }


def listing() -> list[Listed]:
    """All experiments, by paper, in the order of the numbers of their tables and figures.

    Example:
        >>> print(listing()[-1].id, "|", listing()[-1].standing.state)
        planted | 151 of 155 found, nothing false
    """
    found = [Listed(id, experiment(id).title, STANDINGS[id]) for id in _MODULES]
    return sorted(found, key=lambda one: (list(PAPERS).index(one.paper), _numbers_as_such(one.id)))


def _numbers_as_such(id: str) -> list[tuple[int, str]]:
    """Puts figure5 before figure10, and 2.5 before A.3."""
    parts = re.split(r"(\d+)", id)
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
