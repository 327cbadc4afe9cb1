import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from isotropy.data import standardised
from isotropy.evidence import LearningOptions, laplace
from isotropy.layerwise import (
    LayerLearningOptions,
    LayerwiseResult,
    NetworkOptions,
    learn_layers,
)
from isotropy.layerwise._learn_layers import made_network
from isotropy.nn import FactoredLinear, PathSum, SparseConv2d, SparseLinear, lengthscales
from isotropy.run import Step

SIDE = 6


def patterns(n: int, seed: int, *, at_a_place: bool) -> tuple[Tensor, Tensor]:
    """One of two patterns somewhere on a torus: the label is which it is, or in which half."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % 2
    which = torch.randint(2, (n,), generator=draw) if at_a_place else y
    shifts = torch.randint(SIDE, (n, 2), generator=draw)
    if at_a_place:
        shifts[:, 0] = torch.randint(2, (n,), generator=draw) + SIDE // 2 * y
    x = torch.zeros(n, 1, SIDE, SIDE)
    x[:, 0, :2, :2] = torch.tensor([[[1.0, 1.0], [0.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]])[which]
    return torch.stack([i.roll(s, (1, 2)) for i, s in zip(x, shifts.tolist(), strict=True)]), y


def pooled_net(channels: int = 1, outputs: int = 2) -> nn.Sequential:
    """With the mean over places at its end, the convolution alone knows nothing of places."""
    torch.manual_seed(0)
    conv = nn.Conv2d(channels, 4, 3, padding=1, padding_mode="circular")
    layer = PathSum({"fc": FactoredLinear(channels, 4, SIDE), "conv": conv})
    head = [nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, outputs)]
    return nn.Sequential(layer, *head)


def short_run(**more: Any) -> dict[str, Any]:
    """Options of a short run, with more of how it learns."""
    learning = LayerLearningOptions(**{"burn_in": 1, "every": 1, "steps": 3, **more})
    return {"epochs": 4, "batch_size": 8, "learning": learning}


SHORT = short_run()


@pytest.mark.parametrize(
    ("at_a_place", "kind"), [(False, "conv"), (True, "fc")], ids=["anywhere", "at a place"]
)
def test_layers_find_the_type_that_the_task_has(at_a_place: bool, kind: str) -> None:
    x, y = patterns(200, 1, at_a_place=at_a_place)
    found = learn_layers(
        x,
        y,
        model=pooled_net(),
        epochs=80,
        learning_rate=0.1,
        batch_size=50,
        learning=LayerLearningOptions(hyper_learning_rate=0.4),
    )
    assert found.types["0"].kind == kind
    assert found.types["0"].paths[kind] > 0.9
    precisions = found.types["0"].precisions
    off = "fc" if kind == "conv" else "conv"
    assert precisions[off] > 10 * precisions[kind]
    assert found.accuracy(*patterns(500, 2, at_a_place=at_a_place)) > 0.97


@pytest.fixture(scope="module")
def short() -> LayerwiseResult:
    x, y = patterns(24, 0, at_a_place=False)
    return learn_layers(x, y, model=pooled_net(), **SHORT)


def test_the_history_ends_with_the_types(short: LayerwiseResult) -> None:
    assert [shares.epoch for shares in short.history] == [1, 2, 3, 4]
    assert short.history[-1].layers == {n: layer.paths for n, layer in short.types.items()}
    for estimate, shares in zip(short.learned.history, short.history, strict=True):
        gamma = estimate.effective
        fc = (gamma["0.paths.fc.inner"] + gamma["0.paths.fc.outer"]) / (2 * 4 * 36)
        conv = gamma["0.paths.conv.weight"] / (4 * 9)
        assert shares.layers["0"] == pytest.approx(
            {"fc": fc / (fc + conv), "conv": conv / (fc + conv)}
        )


def test_types_are_those_of_an_approximation_at_the_end(short: LayerwiseResult) -> None:
    x, y = patterns(24, 0, at_a_place=False)
    (standard,) = standardised(x)
    approximation = laplace(short.model, "classification", (standard, y))
    effective = approximation.effective_parameters(short.learned.precisions)
    assert short.types["0"].normalised["conv"] == pytest.approx(
        effective.normalised["0.paths.conv.weight"], rel=1e-4
    )


def test_one_precision_for_each_tensor(short: LayerwiseResult) -> None:
    assert set(short.learned.precisions) == set(dict(short.model.named_parameters()))


def test_json_and_text(short: LayerwiseResult) -> None:
    read = json.loads(json.dumps(short.to_json(), allow_nan=False))
    assert read["types"]["0"]["kind"] == short.types["0"].kind
    assert read["types"]["0"]["paths"] == short.types["0"].paths
    assert [shares["epoch"] for shares in read["history"]] == [1, 2, 3, 4]
    assert read["classes"] == [0, 1]
    assert read["learned"]["precisions"] == short.learned.precisions
    lines = str(short).splitlines()
    assert lines[0] == f"log evidence {short.learned.log_marginal_likelihood:.2f}"
    assert lines[1].split()[0] == "layer"
    assert short.types["0"].kind in lines[2] + lines[3]
    assert lines[-1].startswith("not settled: the evidence still asks for")


def test_predictions(short: LayerwiseResult) -> None:
    x, y = patterns(30, 5, at_a_place=False)
    train, _ = patterns(24, 0, at_a_place=False)
    _, test = standardised(train, x)
    with torch.no_grad():
        expected = short.model(test).log_softmax(1)
    assert torch.allclose(short.log_probabilities(x), expected, atol=1e-5)
    assert torch.equal(short.predict(x), expected.argmax(1))
    assert short.accuracy(x, y) == float((expected.argmax(1) == y).double().mean())
    assert short.accuracy(x.numpy(), y.tolist()) == short.accuracy(x, y)


def test_labels_may_be_any_whole_numbers(short: LayerwiseResult) -> None:
    x, y = patterns(24, 0, at_a_place=False)
    found = learn_layers(x.numpy(), (10 * y - 5).numpy(), model=pooled_net(), **SHORT)
    assert found.classes == (-5, 5)
    assert torch.equal(found.predict(x), 10 * short.predict(x) - 5)


@pytest.mark.filterwarnings("ignore:expected samples of all 3 classes")
def test_a_model_with_more_outputs_than_labels() -> None:
    x, y = patterns(24, 0, at_a_place=False)
    found = learn_layers(x, 2 * y, model=pooled_net(outputs=3), **SHORT)
    assert found.classes == (0, 1, 2)


def test_pixels_of_256_levels(short: LayerwiseResult) -> None:
    x, y = patterns(24, 0, at_a_place=False)
    levels = (255 * x).to(torch.uint8)
    found = learn_layers(levels, y, model=pooled_net(), **SHORT)
    assert torch.allclose(found.log_probabilities(levels), short.log_probabilities(x), atol=1e-4)


def test_augmentation_is_for_training_alone() -> None:
    x, y = patterns(24, 0, at_a_place=False)
    (standard,) = standardised(x)
    seen = []

    def augment(images: Tensor) -> Tensor:
        seen.append(images)
        return images.roll(int(torch.randint(SIDE, ())), 2)

    plain = learn_layers(x, y, model=pooled_net(), **short_run(augment=lambda x: x))
    found = learn_layers(x, y, model=pooled_net(), **short_run(augment=augment))
    assert found.learned.losses != plain.learned.losses
    once = torch.cat(seen[-3:])  # three batches of eight: every image, standardised
    assert torch.allclose(once.flatten(1).sort(0)[0], standard.flatten(1).sort(0)[0], atol=1e-6)
    value = laplace(found.model, "classification", (standard, y)).log_marginal_likelihood(
        found.learned.precisions
    )
    assert found.learned.log_marginal_likelihood == pytest.approx(float(value), rel=1e-4)


class Stop(Exception):
    pass


def stop_after(epoch: int) -> Any:
    def progress(step: Step) -> None:
        if step.done == epoch:
            raise Stop

    return progress


@pytest.mark.parametrize("augmented", [False, True], ids=["plain", "augmented"])
def test_a_run_that_stopped_goes_on(tmp_path: Path, augmented: bool) -> None:
    def flipped(images: Tensor) -> Tensor:
        return images.flip(3) if torch.rand(()) < 0.5 else images

    x, y = patterns(24, 0, at_a_place=False)
    augmentation = {"augment": flipped if augmented else None}
    whole = learn_layers(x, y, model=pooled_net(), **short_run(**augmentation))
    file = tmp_path / "state"
    with pytest.raises(Stop):
        learn_layers(
            x,
            y,
            model=pooled_net(),
            progress=stop_after(2),
            **short_run(checkpoint=file, **augmentation),
        )
    found = learn_layers(x, y, model=pooled_net(), **short_run(checkpoint=file, **augmentation))
    assert found.history == whole.history
    assert found.types == whole.types
    # once more with the network that is trained already
    again = learn_layers(x, y, model=found.model, **short_run(checkpoint=file, **augmentation))
    assert again.types == whole.types
    with pytest.raises(ValueError, match=r"expected a checkpoint of the same precisions, got one"):
        learn_layers(
            x, y, model=pooled_net(), **short_run(checkpoint=file, hold_back=None, **augmentation)
        )
    other = nn.Sequential(*pooled_net(), nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"expected a checkpoint of the same model"):
        learn_layers(x, y, model=other, **short_run(checkpoint=file, **augmentation))


def test_divergence_leaves_the_last_epoch() -> None:
    x, y = patterns(24, 0, at_a_place=False)
    model = pooled_net()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError, match=r"expected a finite loss.* as it was after epoch 0"):
        learn_layers(x, y, model=model, learning_rate=1e20, **SHORT)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_the_network_of_the_paper() -> None:
    x, y = torch.rand(8, 2, 9, 7), torch.arange(8) % 2
    found = learn_layers(
        x,
        y,
        epochs=2,
        batch_size=4,
        network=NetworkOptions(alpha=1),
        learning=LayerLearningOptions(burn_in=1),
    )
    assert list(found.types) == [f"layers.{k}" for k in range(8)]
    assert all(list(layer.paths) == ["factored", "conv"] for layer in found.types.values())
    assert [shares.epoch for shares in found.history] == [1, 2]
    assert found.log_probabilities(x[:4]).shape == (4, 2)


def test_the_network_depends_on_the_seed_alone() -> None:
    def weights(seed: int, of_the_user: int) -> Tensor:
        torch.manual_seed(of_the_user)
        state = torch.get_rng_state()
        model = made_network(1, 2, NetworkOptions(alpha=1), seed)
        assert torch.equal(torch.get_rng_state(), state)
        return nn.utils.parameters_to_vector(model.parameters())

    assert torch.equal(weights(0, 1), weights(0, 2))
    assert not torch.equal(weights(0, 1), weights(1, 1))


def test_bad_images_and_labels() -> None:
    x, y = patterns(24, 0, at_a_place=False)
    for bad, kind, text in (
        (x[:, 0], ValueError, r"expected images of shape \(n, channels, height, width\), got"),
        (x.long(), TypeError, r"expected pixels as uint8, float32 or float64, got torch\.int64"),
        (x / 0, ValueError, r"expected finite pixels, got NaN or infinity"),
        ("digits", TypeError, r"expected images as a tensor or an array, got str"),
    ):
        with pytest.raises(kind, match=text):
            learn_layers(bad, y, model=pooled_net(), **SHORT)
    for bad, kind, text in (
        (y[1:], ValueError, r"expected 24 labels in one axis, got \(23,\)"),
        (y.double(), TypeError, r"expected labels as whole numbers, got torch\.float64"),
        (np.array(["a"] * 24), TypeError, r"expected labels as whole numbers, got ndarray"),
        (0 * y, ValueError, r"expected labels of at least two classes, got 1"),
        (torch.arange(24), ValueError, r"labels from 0 to 1, as the model has 2 outputs, got 24 "),
    ):
        with pytest.raises(kind, match=text):
            learn_layers(x, bad, model=pooled_net(), **SHORT)


def test_bad_models_and_options(short: LayerwiseResult) -> None:
    x, y = patterns(24, 0, at_a_place=False)
    plain = nn.Sequential(nn.Flatten(), nn.Linear(36, 2))
    with pytest.raises(ValueError, match=r"expected a model with PathSum layers, .*Sequential"):
        learn_layers(x, y, model=plain, **SHORT)
    with pytest.raises(TypeError, match=r"expected a torch module as the model, got str"):
        learn_layers(x, y, model="net", **SHORT)
    maps = nn.Sequential(*list(pooled_net())[:2])
    with pytest.raises(ValueError, match=r"outputs of shape \(n, classes\), got \(1, 4, 6, 6\)"):
        learn_layers(x, y, model=maps, **SHORT)
    frozen = pooled_net()
    frozen[0].requires_grad_(False)
    with pytest.raises(ValueError, match=r"expected weights in paths of a PathSum .* got none"):
        learn_layers(x, y, model=frozen, **SHORT)
    with pytest.raises(ValueError, match=r"size that can be halved five times .*, got 16"):
        learn_layers(x, y, network=NetworkOptions(size=16), **SHORT)
    with pytest.raises(ValueError, match=r"expected paths of fc, .*, got 'dense'"):
        learn_layers(x, y, network=NetworkOptions(paths=("dense",), alpha=1), **SHORT)
    with pytest.raises(TypeError, match=r"a batch of images as augment, got str"):
        learn_layers(x, y, model=pooled_net(), **short_run(augment="flip"))
    with pytest.raises(ValueError, match=r"augmented images of shape \(8, 1, 6, 6\), got \(8, 1,"):
        learn_layers(x, y, model=pooled_net(), **short_run(augment=lambda x: x[..., :2]))
    with pytest.raises(TypeError, match=r"expected LayerLearningOptions as learning, got Learn"):
        learn_layers(x, y, model=pooled_net(), learning=LearningOptions())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected images of 1 channels, got 2"):
        short.predict(torch.zeros(3, 2, 6, 6))


def test_lengthscales_are_learned_by_a_word() -> None:
    x, y = patterns(24, 0, at_a_place=False)
    sparse = {"fc": SparseLinear(1, 4, SIDE), "conv": SparseConv2d(1, 4)}
    model = nn.Sequential(PathSum(sparse), *list(pooled_net())[1:])
    before = {name: float(model.get_parameter(name).detach()) for name in lengthscales(model)}
    learn_layers(x, y, model=model, **short_run(hyperparameters="lengthscales"))
    after = {name: float(model.get_parameter(name).detach()) for name in lengthscales(model)}
    moved = {name for name in before if before[name] != after[name]}
    assert set(lengthscales(model, SparseLinear)) <= moved
    assert all(model.get_parameter(name).requires_grad for name in before)
    with pytest.raises(ValueError, match=r"expected a model with SparseLinear layers to learn le"):
        learn_layers(x, y, model=pooled_net(), **short_run(hyperparameters=["lengthscales"]))


def test_keywords_that_became_options_still_work(short: LayerwiseResult) -> None:
    x, y = patterns(24, 0, at_a_place=False)
    old: Any = {"epochs": 4, "batch_size": 8, "burn_in": 1, "every": 1, "steps": 3}
    with pytest.warns(DeprecationWarning, match=r"learning=LayerLearningOptions\("):
        found = learn_layers(x, y, model=pooled_net(), **old)
    assert found.history == short.history
