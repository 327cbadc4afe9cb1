from pathlib import Path

import pytest

from isotropy.rl import known_environments
from isotropy.run import Step
from isotropy_papers import Result, Settings, experiment
from isotropy_papers.finzi2023_table3_2 import CLAIMS
from isotropy_papers.thesis_symmetries import thesis_symmetries

pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")

ID = "finzi2023/table3.2"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo writes its warnings to a file in the current folder."""
    monkeypatch.chdir(tmp_path)


def run(steps: list[Step] | None = None, **settings: object) -> Result:
    reported = [] if steps is None else steps
    return experiment(ID).run(Settings(**settings), reported.append)  # type: ignore[arg-type]


def test_every_claim_is_of_a_known_symmetry() -> None:
    for claim in CLAIMS:
        known = [*known_environments()[claim.environment], *thesis_symmetries(claim.environment)]
        assert claim.symmetry in known
        assert "," not in claim.what + claim.claimed
    assert len({(claim.environment, claim.what) for claim in CLAIMS}) == len(CLAIMS)


def test_cells() -> None:
    steps: list[Step] = []
    result = run(steps, test_rows=40, models=("Swimmer-v5", "Walker2d-v4", "Walker2d-v5"))
    found = {(cell.row, cell.column): cell for cell in result.cells}
    assert len(found) == len(result.cells) == 2 * 3 + 3 * 2
    assert len(steps) == 5
    for cell in result.cells:
        low, high = cell.interval or (1, 0)
        assert low <= cell.ours <= high
        assert cell.theirs == (0 if "exact" in cell.row and cell.column != "reward" else None)
    new, old = (
        found[f"Walker2d-{v}: left/right mirror (thesis: exact Z2)", "contact"]
        for v in ("v5", "v4")
    )
    assert new.ours < 1e-12
    assert old.ours > 1e-3
    assert "40 states" in result.notes[0]


def test_seed() -> None:
    same, again, other = (run(test_rows=5, models=("Hopper-v5",), seed=k) for k in (0, 0, 1))
    assert same.cells == again.cells != other.cells


def test_unknown_environment() -> None:
    with pytest.raises(ValueError, match=r"expected models among Walker2d-v5, .*, got 'Ant'"):
        run(models=("Ant",))
