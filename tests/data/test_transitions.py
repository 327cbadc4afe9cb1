from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from isotropy.data import Transitions
from isotropy.data._transition_files import holds_transitions


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


def test_rows_keep_episodes_whose_rows_stay_together() -> None:
    steps = _walks([4, 3, 5])
    assert steps.rows(torch.arange(2, 9)).chunks(50, length=3).actions.shape == (50, 3, 1)
    whole = steps.rows(torch.tensor([0, 1, 2, 3, 7, 8, 9, 10, 11]))
    assert whole.episodes is not None
    assert whole.episodes.tolist() == [0] * 4 + [2] * 5
    mask = torch.ones(12, dtype=torch.bool)
    assert steps.rows(mask).episodes is not None
    mask[1] = False
    for broken in (mask, torch.tensor([1, 0]), torch.tensor([3, 3]), slice(0, 4, 2)):
        assert steps.rows(broken).episodes is None
    with pytest.raises(ValueError, match=r"at most 1, as there are no episodes, which rows\(ind"):
        steps.rows(mask).chunks(1, length=2)
    with pytest.raises(ValueError, match=r"at most 5$"):
        steps.chunks(1, length=6)


def test_split_has_whole_episodes_in_order() -> None:
    lengths = [3, 9, 4, 6, 8, 5, 7, 2, 10, 6]
    steps = _walks(lengths)
    for seed in range(5):
        first, second = steps.split(0.7, generator=seed)
        assert abs(len(first) - 42) <= 5  # half of the longest
        numbers = [set(part.observations[:, 0].tolist()) for part in (first, second)]
        assert numbers[0] | numbers[1] == set(range(10))
        for part, there in zip((first, second), numbers, strict=True):
            assert len(part) == sum(lengths[int(number)] for number in there)
            assert part.episodes is not None
            assert torch.equal(part.episodes.float(), part.observations[:, 0])
            assert part.observations[:, 1].tolist() == [
                step for number in sorted(there) for step in range(lengths[int(number)])
            ]
    again, other = (steps.split(0.7, generator=seed)[0] for seed in (4, 0))
    assert torch.equal(again.observations, first.observations)
    assert not torch.equal(other.observations, first.observations)


def test_split_without_episodes_and_with_numbers_that_come_again() -> None:
    s = torch.arange(10.0)[:, None]
    first, second = Transitions(s, s, s + 1).split(0.3, generator=0)
    assert (len(first), first.episodes) == (3, None)
    assert (
        sorted([*first.observations.flatten(), *second.observations.flatten()])
        == s.flatten().tolist()
    )
    twice = Transitions(s[:6], s[:6], s[:6] + 1, episodes=torch.tensor([0, 0, 1, 1, 0, 0]))
    parts = twice.split(0.5, generator=0)
    assert {len(part) for part in parts} == {2, 4}
    for part in parts:
        chunks = part.chunks(20, length=2, generator=0)
        assert (chunks.observations.diff(dim=1) == 1).all()
        with pytest.raises(ValueError, match="at most 2"):
            part.chunks(1, length=3)
    with pytest.raises(ValueError, match="two or more episodes to split, got one"):
        _walks([6]).split()
    for share in (0, 1.0, float("nan")):
        with pytest.raises(ValueError, match="share between 0 and 1"):
            twice.split(share)


def test_next_observations_are_made_within_episodes(tmp_path: Path) -> None:
    path = tmp_path / "d4rl.npz"
    s = np.arange(8.0)[:, None]
    arrays = {"observations": s, "actions": 10 * s, "rewards": s[:, 0]}
    ends = {"terminals": np.arange(8) == 2, "timeouts": np.arange(8) == 3}
    np.savez(path, **arrays, **ends)
    steps = Transitions.load(path)
    # rows 2 and 3 end episodes, of which the second has one row, and row 7 has no next
    assert steps.observations.flatten().tolist() == [0, 1, 4, 5, 6]
    assert steps.next_observations.flatten().tolist() == [1, 2, 5, 6, 7]
    assert steps.actions.flatten().tolist() == [0, 10, 40, 50, 60]
    assert steps.rewards is not None
    assert steps.rewards.tolist() == [0, 1, 4, 5, 6]
    assert steps.chunks(9, length=3, generator=0).observations[:, 0].unique().tolist() == [4]
    assert holds_transitions(path)
    np.savez(path, **arrays, episodes=np.arange(8))
    with pytest.raises(ValueError, match=r"d4rl.npz: expected episodes of two rows or more"):
        Transitions.load(path)
    np.savez(path, **arrays | {"actions": s[:5]}, **ends)
    with pytest.raises(ValueError, match="expected actions for each of 8 observations, got 5"):
        Transitions.load(path)


@pytest.mark.parametrize(
    ("names", "holds", "missing"),
    [
        (("obs", "actions"), True, "next_observations, or one of episodes, terminals, timeouts"),
        (("observations", "next_observations"), True, "array actions, got next_observations, obs"),
        (("actions", "next_observations"), False, "array observations"),
        # letters may stand for anything
        (("s", "a"), False, "next_observations"),
        (("s", "a", "s2"), True, None),
        (("x", "y"), False, "array observations, got none"),
    ],
)
def test_what_a_file_lacks_is_named(
    tmp_path: Path, names: tuple[str, ...], holds: bool, missing: str | None
) -> None:
    path = tmp_path / "log.npz"
    np.savez(path, **dict.fromkeys(names, np.zeros((3, 1))))
    assert holds_transitions(path) is holds
    if missing is None:
        assert len(Transitions.load(path)) == 3
        return
    with pytest.raises(ValueError, match=f"expected an .*{missing}"):
        Transitions.load(path)
