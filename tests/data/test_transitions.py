from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from isotropy.data import Transitions


def _walks(lengths: list[int]) -> Transitions:
    """Episodes of counters: the state says which episode and which step it is."""
    s, following, episodes = [], [], []
    for number, length in enumerate(lengths):
        for step in range(length):
            s.append([float(number), float(step)])
            following.append([float(number), float(step + 1)])
            episodes.append(number)
    states = torch.tensor(s)
    return Transitions(
        states, 10 * states[:, 1:], torch.tensor(following), episodes=torch.tensor(episodes)
    )


def test_chunks_stay_in_their_episode_and_follow_in_time() -> None:
    chunks = _walks([7, 3, 5]).chunks(500, length=4, generator=0)
    assert chunks.observations.shape == (500, 5, 2)
    assert (chunks.observations[:, :, 0] == chunks.observations[:, :1, 0]).all()
    assert (chunks.observations[:, :, 1].diff(dim=1) == 1).all()
    assert torch.equal(chunks.actions[..., 0], 10 * chunks.observations[:, :-1, 1])


def test_chunks_are_uniform_over_all_stretches() -> None:
    # four stretches of 4 in 7 rows, two in 5, none in 3: every one comes up equally often
    chunks = _walks([7, 3, 5]).chunks(600, length=4, generator=0)
    found, counts = chunks.observations[:, 0].unique(dim=0, return_counts=True)
    assert found.tolist() == [[0, 0], [0, 1], [0, 2], [0, 3], [2, 0], [2, 1]]
    assert (counts == 100).all()


def test_chunks_repeat_with_a_seed() -> None:
    steps = _walks([50])
    first, again, other = (
        steps.chunks(5, length=3, generator=seed).observations for seed in (1, 1, 2)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_without_episodes_every_stretch_has_one_transition() -> None:
    whole = _walks([6])
    apart = Transitions(whole.observations, whole.actions, whole.next_observations)
    assert apart.chunks(6, length=1, generator=0).actions.shape == (6, 1, 1)
    with pytest.raises(ValueError, match="at most 1"):
        apart.chunks(1, length=2)
    assert whole.rows(torch.tensor([0, 3])).episodes is None
    assert whole.rows(slice(2, 5)).chunks(1, length=3).actions.shape == (1, 3, 1)


def test_save_and_load(tmp_path: Path) -> None:
    steps = _walks([4, 2])
    steps.save(tmp_path / "steps.npz")
    loaded = Transitions.load(tmp_path / "steps.npz")
    for name in ("observations", "actions", "next_observations", "episodes"):
        assert torch.equal(getattr(loaded, name), getattr(steps, name))
    assert loaded.rewards is None
    assert [file.name for file in tmp_path.iterdir()] == ["steps.npz"]


def test_load_knows_other_spellings_and_ends_of_episodes(tmp_path: Path) -> None:
    path = tmp_path / "logged.npz"
    np.savez(
        path,
        obs=np.zeros((5, 2), np.float16),
        act=np.zeros(5),
        next_obs=np.ones((5, 2)),
        reward=np.arange(5.0)[:, None],
        terminals=np.array([0, 1, 0, 0, 0], bool),
        timeouts=np.array([0, 0, 0, 1, 0], bool),
    )
    steps = Transitions.load(path)
    assert steps.episodes is not None
    assert steps.rewards is not None
    assert steps.episodes.tolist() == [0, 0, 1, 1, 2]
    assert steps.rewards.tolist() == [0, 1, 2, 3, 4]
    assert steps.actions.shape == (5, 1)
    assert steps.observations.dtype == torch.float32


def test_errors_say_what_was_expected(tmp_path: Path) -> None:
    s, a = torch.zeros(4, 2), torch.zeros(4, 1)
    with pytest.raises(ValueError, match="next_observations of shape"):
        Transitions(s, a, torch.zeros(4, 3))
    with pytest.raises(ValueError, match="actions of shape"):
        Transitions(s, torch.zeros(3, 1), s)
    with pytest.raises(ValueError, match="rewards of shape"):
        Transitions(s, a, s, rewards=torch.zeros(4, 1))
    with pytest.raises(ValueError, match="finite observations, got 1"):
        Transitions(torch.tensor([[0.0, torch.nan]]), a[:1], s[:1])
    with pytest.raises(TypeError, match="tensor"):
        Transitions(np.zeros((4, 2)), a, s)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="floating-point"):
        Transitions(s.long(), a, s)
    with pytest.raises(ValueError, match="positive"):
        Transitions(s, a, s).chunks(0)
    with pytest.raises(ValueError, match=r"\.npz"):
        Transitions(s, a, s).save(tmp_path / "steps.csv")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, observations=np.zeros((2, 1)), actions=np.zeros((2, 1)))
    with pytest.raises(ValueError, match="expected an array next_observations"):
        Transitions.load(path)
    np.savez(path, observations=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="never unpickled"):
        Transitions.load(path)
    path.write_bytes(b"PK\x03\x04 not an archive")
    with pytest.raises(ValueError, match=r"x\.npz: expected an archive"):
        Transitions.load(path)
