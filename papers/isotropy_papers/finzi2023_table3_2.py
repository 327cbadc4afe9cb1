"""Table 3.2 of the thesis: symmetries of locomotion environments, as claimed and as measured."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from isotropy.rl import EnvironmentSymmetry, dynamics_error, environment_symmetry
from isotropy.run import ProgressCallback, Step
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers.thesis_symmetries import thesis_symmetries


@dataclass(frozen=True)
class SimulatorClaim:
    """One symmetry of the table.

    Args:
        environment: The id of the environment.
        symmetry: Its name among ``known_environments``, or ``thesis_symmetries``.
        what: What is done, in words.
        claimed: What the thesis says of it.
    """

    environment: str
    symmetry: str
    what: str
    claimed: str

    def group(self) -> EnvironmentSymmetry:
        """The symmetry itself."""
        published = thesis_symmetries(self.environment)
        return published.get(self.symmetry) or environment_symmetry(self.environment, self.symmetry)


CLAIMS = (
    SimulatorClaim("Walker2d-v5", "mirror", "left/right mirror", "exact Z2"),
    SimulatorClaim("Walker2d-v4", "mirror", "left/right mirror", "exact Z2"),
    SimulatorClaim("Hopper-v5", "mirror", "front/back mirror", "approximate Z2"),
    SimulatorClaim("HalfCheetah-v5", "mirror", "front/back mirror of signs only", "approximate Z2"),
    SimulatorClaim("HalfCheetah-v5", "front/back", "front/back mirror with legs", "approximate Z2"),
    SimulatorClaim("Swimmer-v5", "mirror", "left/right mirror", "exact Z2"),
    SimulatorClaim("Swimmer-v5", "thesis", "left/right mirror as run", "exact Z2"),
    SimulatorClaim("Swimmer-v5", "thesis front/back", "joints exchanged", "approximate Z2"),
    SimulatorClaim("Ant-v5", "mirror", "left/right mirror", "exact Z2"),
    SimulatorClaim("Ant-v5", "D(4)", "body turned and mirrored", "approximate D4"),
    SimulatorClaim("Ant-v5", "thesis", "legs exchanged as run", "approximate Z4"),
    SimulatorClaim("Ant-v5", "world rotation", "world turned", "approximate O(2)"),
    SimulatorClaim("Humanoid-v5", "mirror", "left/right mirror", "exact Z2"),
    SimulatorClaim("Humanoid-v5", "thesis", "left/right as run", "exact Z2"),
    SimulatorClaim("Humanoid-v5", "world rotation", "world turned", "approximate O(2)"),
)
_COLUMNS = ("no contact", "contact", "reward")


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Measure how far the simulators commute with the symmetries of the table.

    Args:
        settings: ``test_rows`` states of random episodes, 200 or in full 1000; ``models`` are
            ids of environments.
        progress: Called before each symmetry.

    Returns:
        For each symmetry the median error of one step without and with contact, relative to how
        far the step went, and the median difference of rewards, relative to their spread;
        intervals are quartiles, "theirs" is 0 where the thesis says exact.

    Example:
        >>> found = run(Settings(models=("Swimmer-v5",), test_rows=3), lambda step: None)
        >>> print(found.cells[0].row, found.cells[0].ours)
        Swimmer-v5: left/right mirror (thesis: exact Z2) 0.0
    """
    start = time.perf_counter()
    environments = settings.chosen(list(dict.fromkeys(claim.environment for claim in CLAIMS)))
    states = settings.or_else(test_rows=1000 if settings.full else 200)["test_rows"]
    claims = [claim for claim in CLAIMS if claim.environment in environments]
    cells: list[Cell] = []
    for number, claim in enumerate(claims):
        progress(Step(number, len(claims), f"{claim.environment} {claim.what}"))
        with warnings.catch_warnings():
            # the older version is measured on purpose
            warnings.filterwarnings("ignore", ".*out of date.*", DeprecationWarning)
            found = dynamics_error(claim.environment, claim.group(), n=states, seed=settings.seed)
        values = (
            found.errors[~found.contact],
            found.errors[found.contact],
            found.reward_differences / found.reward_spread,
        )
        cells += _cells(claim, values)
    notes = (
        f"median over {states} states of random episodes and the elements of the group, one step "
        "each: the error of the next state relative to how far the step went; reward: the "
        "difference relative to the standard deviation of rewards; intervals are quartiles",
        "theirs: 0 where the thesis calls a symmetry exact; it used Z2 for Walker2d and Hopper and "
        "HalfCheetah, Z2 x Z2 for Swimmer, Z4 for Ant and SO(2) for Humanoid",
        '"as run" are the representations of the published code, which differ from the symmetry '
        "of the body: the sideways velocity of Swimmer keeps its sign; the torso of Ant does not "
        "turn with its legs, whose ankles lack signs; x and y of Humanoid are exchanged",
        "Walker2d-v4 has feet of unequal friction, and Humanoid legs of unequal armature and "
        "stiffness; the mirrored Hopper is beyond the limits of its joints; friction pyramids, "
        "which do not turn with the world, break world rotations in contact",
    )
    return Result("finzi2023/table3.2", cells, time.perf_counter() - start, notes)


def _cells(claim: SimulatorClaim, values: Sequence[Tensor]) -> list[Cell]:
    row = f"{claim.environment}: {claim.what} (thesis: {claim.claimed})"
    exact = 0.0 if claim.claimed.startswith("exact") else None
    return [
        _cell(row, column, errors, exact if column != "reward" else None)
        for column, errors in zip(_COLUMNS, values, strict=True)
        if errors.numel()
    ]


def _cell(row: str, column: str, errors: Tensor, theirs: float | None) -> Cell:
    ordered = errors.flatten().sort().values
    low, middle, high = (float(ordered[(len(ordered) - 1) * k // 4]) for k in (1, 2, 3))
    return Cell(row, column, middle, theirs, (low, high))


EXPERIMENT = Experiment(
    "finzi2023/table3.2", "How far locomotion environments have the symmetries claimed", run
)
