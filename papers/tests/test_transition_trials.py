from __future__ import annotations

from pathlib import Path

import pytest
import torch

from isotropy.data import Transitions
from isotropy.rl import TransitionModel, environment_symmetry
from isotropy_papers import Settings, experiment
from isotropy_papers._transition_sets import transition_set
from isotropy_papers._transition_trials import split_episodes


def _invented(id: str, rows: int, seed: int) -> Transitions:
    """Trajectories of a random map that has the symmetry of an environment."""
    symmetry = environment_symmetry(id)
    world = TransitionModel(symmetry, "equivariant", widths=(64, 64), seed=5)
    source = torch.Generator().manual_seed(seed)
    s = torch.randn(rows // 150, symmetry.observation_size, generator=source)
    a = torch.randn(rows // 150, 150, symmetry.action_size, generator=source)
    steps = []
    with torch.no_grad():
        for action in a.unbind(1):
            after = 0.9 * world(s, 2 * action)  # linear maps alone would be too easy
            steps.append((s, action, after))
            s = after
    before, actions, following = (
        torch.stack(column, 1).flatten(0, 1) for column in zip(*steps, strict=True)
    )
    episodes = torch.arange(rows // 150).repeat_interleave(150)
    return Transitions(before, actions, following, episodes=episodes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Saved transitions, with which no simulator is needed."""
    whole: Path = tmp_path_factory.mktemp("data")
    files = whole / "transitions"
    files.mkdir()
    for id, name, rows, seed in (
        ("Swimmer-v5", "Swimmer-v5-random-6000-0", 3000, 0),
        ("Hopper-v5", "Hopper-v5-terminate_when_unhealthy-random-6000-0", 3000, 0),
        ("Ant-v5", "Ant-v5-terminate_when_unhealthy-random-6000-0", 3000, 0),
        ("Ant-v5", "Ant-v5-random-6000-0", 3000, 0),
        ("Ant-v5", "Ant-v5-random-5000-1", 3000, 1),
    ):
        _invented(id, rows, seed).save(files / f"{name}.npz")
    return whole


def test_table_of_rollouts(folder: Path, tmp_path: Path) -> None:
    settings = Settings(
        data=folder,
        out=tmp_path,
        epochs=1,
        channels=16,
        test_rows=2,
        models=("MLP", "equivariant exact"),
    )
    calls: list[str] = []
    result = experiment("finzi2023/table3.3").run(settings, lambda step: calls.append(step.message))
    cells = {(cell.row, cell.column): cell for cell in result.cells}
    assert cells["30 steps", "Hopper-v5 MLP"].theirs == 3.8
    assert "Hopper-v5 equivariant exact" not in {column for _, column in cells}
    for id in ("Swimmer-v5", "Ant-v5"):
        assert cells["equivariance error", f"{id} equivariant exact"].ours < 0.01
        assert cells["equivariance error", f"{id} MLP"].ours > 1
        assert 0 < cells["10 steps", f"{id} MLP"].ours < 100
    assert len(calls) == 5
    # finished parts are not computed again
    again = experiment("finzi2023/table3.3").run(settings, lambda step: calls.append(step.message))
    assert len(calls) == 5
    assert again.cells == result.cells
    with pytest.raises(ValueError, match="one number of agent steps"):
        experiment("finzi2023/table3.3").run(Settings(sizes=(1, 2)), lambda step: None)


def test_few_data_need_the_symmetry(folder: Path) -> None:
    settings = Settings(
        data=folder, sizes=(80,), seeds=1, epochs=120, channels=64, models=("MLP", "RPP")
    )
    result = experiment("finzi2023/section3.6.2").run(settings, lambda step: None)
    free, soft = (cell.ours for cell in result.cells)
    assert soft < free
    with pytest.raises(ValueError, match="at most 3000 rows"):
        experiment("finzi2023/section3.6.2").run(
            Settings(data=folder, sizes=(3001,), models=("MLP",)), lambda step: None
        )


def test_sets_are_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))
    made: list[int] = []

    def make() -> Transitions:
        made.append(1)
        return Transitions(torch.ones(3, 2), torch.ones(3, 1), torch.ones(3, 2))

    for _ in range(2):
        assert len(transition_set("still", make, Settings())) == 3
    assert len(made) == 1


def test_held_out_stretches_share_no_row_with_the_others() -> None:
    rows = torch.arange(6000.0).unsqueeze(1)
    episodes = torch.arange(6000) // 1500
    train, held_out = split_episodes(Transitions(rows, rows, rows + 1, None, episodes))
    both = torch.cat([train.observations, held_out.observations]).flatten()
    assert torch.equal(both.sort().values, rows.flatten())
    assert len(held_out) == 600
    for part in (train, held_out):
        drawn = part.chunks(300, length=100, generator=0).observations
        assert (drawn.diff(dim=1) == 1).all()
