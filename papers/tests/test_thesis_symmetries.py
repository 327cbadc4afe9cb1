"""Published representations that are no symmetry of the body: how they act, how far they fail."""

from math import isnan
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")

from isotropy.rl import dynamics_error, environment_symmetry, known_environments, make_environment
from isotropy_papers.thesis_symmetries import thesis_symmetries

pytestmark = pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
PUBLISHED = [(id, name) for id in known_environments() for name in thesis_symmetries(id)]


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo writes its warnings to a file in the current folder."""
    monkeypatch.chdir(tmp_path)


def test_names() -> None:
    assert len(PUBLISHED) == 7
    assert list(thesis_symmetries("Ant-v5")) == ["thesis"]
    assert thesis_symmetries("Ant-v5")["thesis"].name == "Z(4)"


@pytest.mark.parametrize(("id", "name"), PUBLISHED)
def test_each_fits_its_environment_and_holds_poorly(id: str, name: str) -> None:
    symmetry = thesis_symmetries(id)[name]
    env = make_environment(id)
    assert symmetry.observation_size == env.observation_space.shape[0]
    assert symmetry.action_size == env.action_space.shape[0]
    assert symmetry.observation_names == environment_symmetry(id).observation_names
    assert symmetry.holds == "poorly"
    assert dynamics_error(id, symmetry, n=40, elements=3).median > 0.4


def test_swimmer_as_run_differs_in_one_sign() -> None:
    ours, as_run = (
        symmetry.matrices(symmetry.elements())[0][1]
        for symmetry in (
            environment_symmetry("Swimmer-v5"),
            thesis_symmetries("Swimmer-v5")["thesis"],
        )
    )
    place = torch.arange(8) == 4
    assert torch.equal(as_run - ours, 2 * torch.eye(8, dtype=torch.float64) * place)


@pytest.mark.parametrize(
    ("id", "name", "free", "contact"),
    [
        ("Swimmer-v5", "thesis", (0.3, 1.2), None),
        ("Swimmer-v5", "thesis front/back", (0.4, 1.4), None),
        ("Ant-v5", "thesis", (1.5, 5), (1.5, 5)),
    ],
)
def test_broken(id: str, name: str, free: tuple[float, float], contact: Any) -> None:
    found = dynamics_error(id, thesis_symmetries(id)[name], n=60)
    assert free[0] <= found.free_median <= free[1]
    if contact is None:
        assert not found.contact.any()
        assert isnan(found.contact_median)
    else:
        assert contact[0] <= found.contact_median <= contact[1]
