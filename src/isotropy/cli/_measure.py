"""``isotropy measure``: how equivariant a model is, end to end and layer by layer."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from isotropy.cli._options import check_picture
from isotropy.cli._verbs import Answer, CommonOptions, verb

if TYPE_CHECKING:
    from torch import Tensor

    from isotropy.data import Dataset
    from isotropy.equivariance import Action
    from isotropy.reps import Symmetry


class Boundary(StrEnum):
    """What lies outside an image or a sequence."""

    reflect = "reflect"
    periodic = "periodic"


class LayerMethod(StrEnum):
    """How to find the contributions of layers."""

    forward = "forward"
    reverse = "reverse"
    probes = "probes"


class InputLayout(StrEnum):
    """How inputs are laid out."""

    nchw = "NCHW"
    nhwc = "NHWC"
    ncl = "NCL"
    nlc = "NLC"
    points = "points"


@verb("measure")
def measure(
    common: CommonOptions,
    model: Annotated[
        str,
        Argument(
            metavar="MODEL", help="path/to/module.py:factory, package.module:factory or a .pt2."
        ),
    ],
    data: Annotated[
        Path, Argument(metavar="DATA", help="A folder of images, .npz, .npy, idx files, a table.")
    ],
    actions: Annotated[
        str | None,
        Option(
            metavar="NAME,NAME,…",
            help="On images and sequences; by default translation, and rotation of images.",
        ),
    ] = None,
    symmetry: Annotated[
        str | None, Option(metavar="SYMMETRY", help='On vectors: "SO(3): V >> Scalar".')
    ] = None,
    layerwise: Annotated[
        bool, Option("--layerwise", help="Split the error into contributions of layers.")
    ] = False,
    layer_inputs: Annotated[int, Option(min=1, help="Inputs to measure layer by layer.")] = 20,
    method: Annotated[
        LayerMethod, Option(help="How to find contributions of layers.")
    ] = LayerMethod.forward,
    probes: Annotated[int, Option(min=1, help="Random vectors for --method probes.")] = 100,
    layout: Annotated[
        list[str] | None,
        Option(
            metavar="PATTERN=LAYOUT",
            help="How the output of modules is laid out: 'blocks.*=NLC+1'; may be repeated.",
        ),
    ] = None,
    output: Annotated[
        str | None, Option(metavar="LAYOUT", help="The same of the model: NCHW, NLC, invariant, …")
    ] = None,
    input: Annotated[
        InputLayout | None,
        Option(help="How inputs are laid out; by default NCHW, or NCL for three axes."),
    ] = None,
    softmax: Annotated[
        bool, Option("--softmax", help="Measure probabilities; the model gives logits.")
    ] = False,
    no_sampled: Annotated[
        bool, Option("--no-sampled", help="Leave out the error over sampled elements.")
    ] = False,
    boundary: Annotated[
        Boundary, Option(help="What lies outside an image or a sequence.")
    ] = Boundary.reflect,
    weights: Annotated[
        Path | None, Option(metavar="F.safetensors", help="The model's weights.")
    ] = None,
    size: Annotated[
        str | None, Option(metavar="HxW", help="Resize images: 224 or 224x224.")
    ] = None,
    crop: Annotated[
        bool, Option("--crop", help="Keep their aspect ratio, and take the centre.")
    ] = False,
    mean: Annotated[
        str | None, Option(metavar="M,M,M", help="Subtract this from each channel.")
    ] = None,
    std: Annotated[
        str | None, Option(metavar="S,S,S", help="Then divide each channel by this.")
    ] = None,
    split: Annotated[str | None, Option(help="train or test, where DATA holds both.")] = None,
    target: Annotated[
        str | None, Option(metavar="NAME", help="The column or array of DATA that is no input.")
    ] = None,
    inputs: Annotated[int | None, Option(min=1, help="Use only the first so many.")] = None,
    batch_size: Annotated[int, Option(min=1, help="Inputs at a time.")] = 16,
    plot: Annotated[
        Path | None,
        Option(metavar="OUT.PNG", help="Draw the contributions of layers into this file."),
    ] = None,
) -> Answer:
    """Measure how equivariant a model is, end to end and layer by layer."""
    layouts = _layouts(layout or [])
    scaling = _numbers("--mean", mean), _numbers("--std", std)
    if any(value <= 0 for value in scaling[1]):
        raise ValueError(f"expected positive numbers for --std, got {std!r}")
    if actions is not None and symmetry is not None:
        raise ValueError("expected --actions or --symmetry, got both")
    if plot is not None:
        check_picture(plot)
        if not layerwise:
            raise ValueError("expected --layerwise for --plot, got nothing to draw")
    if layouts and not layerwise:
        raise ValueError("expected --layerwise for --layout, got no layers")
    if crop and size is None:
        raise ValueError("expected --size for --crop, got none")

    from isotropy.data import load_model
    from isotropy.equivariance import MeasureOptions, measure

    with common.progress("loading"), _as_options():
        net = load_model(model, weights=weights, device=common.device)
        loaded = _load(data, target, split, _size(size), crop)
        x = _scaled(loaded.x[:inputs], *scaling)
        asked = _asked(x, input, actions, symmetry, boundary, *scaling)
        if not [*net.parameters(), *net.buffers()]:  # inputs go where these are
            x = x.to(common.device)
    with common.progress("measuring") as progress, _as_options():
        found = measure(
            net,
            x,
            asked,
            layers=layerwise,
            options=MeasureOptions(
                layer_inputs=layer_inputs,
                layouts=layouts,
                method=method.value,
                probes=probes,
                batch_size=batch_size,
                name=model,
            ),
            samples=0 if no_sampled else 10,
            softmax=softmax,
            output=output,
            generator=common.seed,
            progress=progress,
        )
    rest = found.data()
    answer: dict[str, Any] = {
        "model": rest.pop("model"),
        "data": str(data),
        "inputs": rest.pop("inputs"),
        "skipped": list(loaded.skipped),
        **rest,
    }
    text = str(found)
    if loaded.skipped:
        text += f"\n\nleft out, as they could not be read: {', '.join(loaded.skipped)}"
    if plot is not None:
        from isotropy.report import plot_contributions

        answer["plot"] = str(plot_contributions(found, plot))
    return Answer(answer, text)


# --- inputs -----------------------------------------------------------------------------------


def _load(
    path: Path, target: str | None, split: str | None, size: tuple[int, int] | None, crop: bool
) -> "Dataset":
    from isotropy.data import load

    options: dict[str, Any] = {"target": target, "split": split, "size": size, "crop": crop}
    if path.is_dir() and not _holds_idx_files(path):
        options["unreadable"] = "skip"
    return load(path, **options)


def _holds_idx_files(folder: Path) -> bool:
    from isotropy.data._idx import idx_splits

    parts = [folder, *(folder / part for part in ("train", "test") if (folder / part).is_dir())]
    return any(idx_splits(part) for part in parts)


def _scaled(x: "Tensor", mean: tuple[float, ...], std: tuple[float, ...]) -> "Tensor":
    for option, values in (("--mean", mean), ("--std", std)):
        if not values:
            continue
        if x.ndim != 4 or len(values) not in (1, x.shape[1]):
            raise ValueError(
                f"expected images with {len(values)} channels for {option}, got inputs of shape "
                f"{tuple(x.shape)}"
            )
        given = x.new_tensor(values)[:, None, None]
        x = x - given if option == "--mean" else x / given
    return x


def _asked(
    x: "Tensor",
    layout: InputLayout | None,
    names: str | None,
    symmetry: str | None,
    boundary: Boundary,
    mean: tuple[float, ...],
    std: tuple[float, ...],
) -> "list[Action | Symmetry | str]":
    """What to measure: actions by name on images and sequences, a symmetry on vectors."""
    if symmetry is not None:
        from isotropy.reps import Symmetry

        return [Symmetry.parse(symmetry)]
    if x.ndim not in (3, 4):
        got = "none" if names is None else f"--actions {names}"
        raise ValueError(f"expected --symmetry for inputs of shape {tuple(x.shape)}, got {got}")

    from isotropy.equivariance import point_cloud_action, sequence_action

    layout = _input_layout(x, layout)
    default = "translation,rotation" if x.ndim == 4 else "translation"
    if layout == InputLayout.points:
        default = "rotation" if x.shape[-1] == 2 else "rotation_x,rotation_y,rotation_z"
    found: list[Action | Symmetry | str] = []
    for name in (part.strip() for part in (default if names is None else names).split(",")):
        last = layout in (InputLayout.nhwc, InputLayout.nlc)
        if layout == InputLayout.points:
            found.append(point_cloud_action(name, dimension=min(3, x.shape[-1])))
        elif x.ndim == 3:
            found.append(sequence_action(name, boundary=boundary.value, channels_last=last))
        else:
            rules = {"boundary": boundary.value, "mean": mean, "std": std, "channels_last": last}
            found.append(_on_images(name, rules))
    return found


_FEW = 4


def _input_layout(x: "Tensor", given: InputLayout | None) -> InputLayout:
    """The layout asked for, if it fits; else the usual one, unless the shape speaks against it."""
    if given is not None:
        if given != InputLayout.points and len(given.value) != x.ndim:
            raise ValueError(
                f"expected {len(given.value)} axes for --input {given.value}, got {tuple(x.shape)}"
            )
        return given
    if x.shape[-1] <= _FEW and all(size > _FEW for size in x.shape[1:-1]):
        choices = "NCHW or NHWC" if x.ndim == 4 else "NCL, NLC or points"
        raise ValueError(
            f"expected --input {choices} for inputs of shape {tuple(x.shape)}, got none"
        )
    return InputLayout.nchw if x.ndim == 4 else InputLayout.ncl


def _on_images(name: str, rules: dict[str, Any]) -> "Action | str":
    from isotropy.equivariance import image_action
    from isotropy.equivariance._sampled import IMAGE_GROUPS

    if name in IMAGE_GROUPS:
        return name
    try:
        return image_action(name, **rules)
    except ValueError as error:
        raise ValueError(f"{error}; groups are {', '.join(IMAGE_GROUPS)}") from error


# --- options ----------------------------------------------------------------------------------


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    match = re.fullmatch(r"([1-9]\d*)(?:x([1-9]\d*))?", text.strip())
    if match is None:
        raise ValueError(f"expected --size like 224 or 224x224, got {text!r}")
    return int(match[1]), int(match[2] or match[1])


def _numbers(option: str, text: str | None) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"expected {option} like 0.485,0.456,0.406, got {text!r}") from None


def _layouts(given: list[str]) -> dict[str, str]:
    found = {}
    for text in given:
        pattern, _, layout = text.rpartition("=")
        if not pattern or not layout:
            raise ValueError(f"expected --layout like 'blocks.*=NLC+1', got {text!r}")
        found[pattern] = layout
    return found


_SPELLINGS = (
    (r'output="invariant"', "--output invariant"),
    (r"\boutput=", "--output"),
    (r"size=\(height, width\)", "--size HEIGHTxWIDTH"),
    (r"\bsplit='(\w+)'", r"--split \1"),
)


@contextmanager
def _as_options() -> Iterator[None]:
    """Say in one sentence, as options, what the library or the user's own code asks for."""
    try:
        yield
    except (ValueError, RuntimeError, TypeError) as error:
        text = " ".join(str(error).split())
        ours = text.startswith("expected")
        if isinstance(error, TypeError) and not ours:
            raise
        if isinstance(error, RuntimeError) and not ours:
            text = f"expected a model that can be measured, got {type(error).__name__}: {text}"
        for python, option in _SPELLINGS:
            text = re.sub(python, option, text)
        raise ValueError(text[:_LONGEST]) from error


_LONGEST = 600
