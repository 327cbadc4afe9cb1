import os
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from isotropy.run import Checkpoint


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "run.safetensors", "model A, seed 0")


def reload(checkpoint: Checkpoint) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
    loaded = checkpoint.load()
    assert loaded is not None
    return loaded


def test_nothing_is_saved_yet(checkpoint: Checkpoint) -> None:
    assert checkpoint.load() is None


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool,
        torch.uint8,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    ],
)
@pytest.mark.parametrize("shape", [(), (0,), (3, 4)])
def test_every_type_and_shape_comes_back(
    checkpoint: Checkpoint, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    widest = torch.complex128 if dtype.is_complex else torch.float64
    tensor = (10 * torch.rand(shape, dtype=widest)).to(dtype)
    checkpoint.save({"x": tensor}, {})
    loaded = reload(checkpoint)[0]["x"]
    assert loaded.dtype == dtype
    assert torch.equal(loaded, tensor)


def test_views_and_shared_memory_come_back(checkpoint: Checkpoint) -> None:
    whole = torch.randn(4, 6)
    phase = torch.randn(3, dtype=torch.complex128)
    tensors = {
        "whole": whole,
        "same": whole,
        "transposed": whole.T,
        "strided": whole[::2, 1::3],
        "expanded": torch.ones(1).expand(5),
        "channels_last": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "conjugate": phase.conj(),
        "negative": phase.conj().imag,
        "parameter": torch.nn.Parameter(torch.randn(2)),
    }
    checkpoint.save(tensors, {})
    loaded, _ = reload(checkpoint)
    assert loaded.keys() == tensors.keys()
    assert all(torch.equal(loaded[name], tensors[name]) for name in tensors)


def test_loaded_tensors_may_be_written_and_outlive_the_file(checkpoint: Checkpoint) -> None:
    checkpoint.save({"x": torch.zeros(1000)}, {})
    loaded = reload(checkpoint)[0]["x"]
    checkpoint.save({"x": torch.ones(1000)}, {})
    Path(checkpoint.path).unlink()
    loaded += 2
    assert torch.equal(loaded, torch.full((1000,), 2.0))


def test_state_comes_back(checkpoint: Checkpoint) -> None:
    state = {"step": 10, "best": float("inf"), "names": ["α", "]["], "nested": {"done": False}}
    checkpoint.save({}, state)
    assert reload(checkpoint) == ({}, state)


def test_saving_again_replaces(checkpoint: Checkpoint) -> None:
    checkpoint.save({"x": torch.zeros(2)}, {"step": 1})
    checkpoint.save({"y": torch.ones(2)}, {"step": 2})
    tensors, state = reload(checkpoint)
    assert list(tensors) == ["y"]
    assert state == {"step": 2}


def test_a_run_goes_on_as_if_never_interrupted(tmp_path: Path) -> None:
    def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
        for step in steps:
            optimizer.zero_grad()
            model(torch.full((1, 3), float(step))).square().sum().backward()
            optimizer.step()

    def fresh() -> tuple[torch.nn.Module, torch.optim.SGD]:
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2)
        return model, torch.optim.SGD(model.parameters(), lr=1e-3)

    straight, optimizer = fresh()
    train(straight, optimizer, range(10))

    checkpoint = Checkpoint(tmp_path / "run.safetensors", "linear")
    model, optimizer = fresh()
    train(model, optimizer, range(5))
    checkpoint.save(model.state_dict(), {"step": 5})

    resumed, optimizer = fresh()
    tensors, state = reload(checkpoint)
    resumed.load_state_dict(tensors)
    train(resumed, optimizer, range(state["step"], 10))  # type: ignore[arg-type, call-overload]
    assert all(map(torch.equal, straight.parameters(), resumed.parameters()))


def test_another_run_cannot_read_it(checkpoint: Checkpoint) -> None:
    checkpoint.save({}, {})
    other = Checkpoint(checkpoint.path, "model B")
    with pytest.raises(ValueError, match=r"expected .* 'model B', got .* 'model A, seed 0'"):
        other.load()


def test_a_newer_format_is_refused(checkpoint: Checkpoint) -> None:
    metadata = {"isotropy_checkpoint": "2", "fingerprint": checkpoint.fingerprint}
    save_file({"x": torch.zeros(1)}, checkpoint.path, metadata)
    with pytest.raises(ValueError, match=r"expected .* format 1 or older, got format 2"):
        checkpoint.load()


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_an_ordinary_safetensors_file_is_refused(
    checkpoint: Checkpoint, metadata: dict[str, str] | None
) -> None:
    save_file({"x": torch.zeros(1)}, checkpoint.path, metadata)
    with pytest.raises(ValueError, match="expected a checkpoint of isotropy"):
        checkpoint.load()


@pytest.mark.parametrize("kept", [0, 4, 8, 60, -1])
def test_a_truncated_file_is_refused(checkpoint: Checkpoint, kept: int) -> None:
    checkpoint.save({"x": torch.arange(100)}, {"step": 1})
    path = Path(checkpoint.path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match="got a damaged file in"):
        checkpoint.load()


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize("dump", [pickle.dump, torch.save])
def test_a_pickle_is_refused_and_never_run(
    checkpoint: Checkpoint,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    dump: object,
) -> None:
    monkeypatch.chdir(tmp_path)
    with open(checkpoint.path, "wb") as file:
        dump({"x": Bomb()}, file)  # type: ignore[operator]
    with pytest.raises(ValueError, match="got a damaged file in"):
        checkpoint.load()
    assert not (tmp_path / "exploded").exists()


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected a checkpoint file, got"):
        Checkpoint(tmp_path, "x").load()


@pytest.mark.parametrize(
    ("tensors", "state", "error"),
    [
        ({}, {"x": object()}, TypeError),
        ({"x": torch.eye(2).to_sparse()}, {}, ValueError),
    ],
)
def test_a_failed_save_keeps_the_previous_one(
    checkpoint: Checkpoint,
    tensors: dict[str, torch.Tensor],
    state: dict[str, object],
    error: type[Exception],
) -> None:
    checkpoint.save({}, {"step": 1})
    with pytest.raises(error):
        checkpoint.save(tensors, state)
    assert reload(checkpoint) == ({}, {"step": 1})
    assert len(list(Path(checkpoint.path).parent.iterdir())) == 1


def test_a_missing_folder_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected an existing folder"):
        Checkpoint(tmp_path / "absent" / "run", "x").save({}, {})


def test_any_safetensors_reader_can_open_it(checkpoint: Checkpoint) -> None:
    checkpoint.save({"x": torch.arange(3)}, {"step": 1})
    assert torch.equal(load_file(checkpoint.path)["x"], torch.arange(3))
