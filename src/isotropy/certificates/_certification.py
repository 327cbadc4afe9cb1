"""From data to a certificate: train, quantise, code, count, bound."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isotropy._run import Checkpoint, ProgressCallback
from isotropy._run._moved_keywords import moved_keywords
from isotropy.certificates._architectures import Architecture
from isotropy.certificates._certificate import MOST_START, Certificate, claims_of, model_digest
from isotropy.certificates._certification_options import CertificationOptions
from isotropy.certificates._counting import Recount
from isotropy.certificates._examples import Examples, dealt_rows
from isotropy.certificates._hypothesis import MOST_DIMENSIONS, MOST_LEVELS, Hypothesis, StartKind
from isotropy.certificates._initial import (
    initial_parameters,
    pack_start,
    trained_start,
    unpack_start,
)
from isotropy.certificates._problem import problem, require_untrained
from isotropy.certificates._projectors import PROJECTORS
from isotropy.certificates._recipe import Recipe
from isotropy.certificates._search import SubspaceTraining, quantised_weights, used_levels
from isotropy.certificates._subspace import Subspace
from isotropy.groups import Group, parse_group


@moved_keywords(options=CertificationOptions)
def certify(
    model: str | Architecture | nn.Module,
    data: Any,
    *,
    delta: float = 0.05,
    test: Any = None,
    recipe: Recipe | None = None,
    seed: int = 0,
    prior_percent: int | None = None,
    options: CertificationOptions | None = None,
    device: str | torch.device = "cpu",
    progress: ProgressCallback | None = None,
    **settings: Any,
) -> Certificate:
    """Train a network that a short message can say, and bound its risk.

    With probability at least 1 - ``delta`` over the draw of the data, the network's risk (the
    probability that it errs on a new example) is at most the certificate's bound. The bound
    charges the bytes of the message, which say all of the network: nothing that was chosen by
    looking at the data goes unpaid.

    Args:
        model: An architecture of the catalogue (``"lenet5"``), or any module of your own.
        data: The training sample: (x, y), a `Dataset`, or what `isotropy.data.load` reads. All of
            it is certified; no row need be held out.
        delta: The bound may fail with at most this probability.
        test: A test sample, to report the error on it; nothing rests on it.
        recipe: How to look for the network.
        seed: Names θ₀ and the projector; large seeds cost bits.
        prior_percent: Train θ₀ on this share of the rows, and certify on the others.
        options: What few certificates need: the tolerance of a regression, a start of your own,
            the symmetry of a module of your own, a folder for checkpoints, another search.
        device: Where to train; counting is done in float64 on the CPU.
        progress: Called with how far the work is.
        **settings: Changes to the recipe: ``d=500, levels=5, epochs=20``.

    Returns:
        The certificate; `Certificate.save` writes it, `verify` checks it.

    Raises:
        ValueError: If the data are not a sample of the kind asked for, a number is out of range,
            or the model does not fit.

    Example:
        >>> x = torch.randn(2000, 2, generator=torch.Generator().manual_seed(0))
        >>> y = (x[:, 0] > x[:, 1]).long()
        >>> certificate = certify("mlp-16", (x, y), d=10, levels=3, epochs=10)
        >>> certificate.train_error < certificate.bound < 0.2
        True
    """
    if not 0 < delta < 1:
        raise ValueError(f"expected delta between 0 and 1, got {delta}")
    recipe = replace(recipe or Recipe(), **_known(settings))
    options = options or CertificationOptions()
    start = options.start
    given = problem(model, data, test, options)
    sample, module, named = given.sample, given.module, given.architecture
    groups = _groups(options.symmetry, named)
    d = _dimension(recipe, len(sample), given.parameters)
    if start in (None, "zero"):
        require_untrained(module)
    elif 4 * given.parameters > MOST_START:
        most = MOST_START // 4
        raise ValueError(f"expected a start of at most {most} numbers, got {given.parameters}")
    folder = None if options.checkpoints is None else Path(options.checkpoints)
    fingerprint = _fingerprint(
        f"{given.text} {model_digest(module)}",
        sample,
        seed,
        given.input_scale,
        given.goal,
        start,
        prior_percent,
    )
    kind, first = _start(module, start, prior_percent, seed)
    learn = sample
    if prior_percent is not None:
        prior_rows, rest = dealt_rows(len(sample), prior_percent)
        learn, used = sample.rows(rest), sample.rows(prior_rows)
        saved = None
        if folder is not None:
            saved = Checkpoint(folder / "prior.safetensors", f"prior {recipe} {fingerprint}")
        first = trained_start(
            module,
            given.goal,
            given.inputs(used.x, device),
            used.y.to(device),
            epochs=recipe.prior_epochs,
            seed=seed,
            progress=progress,
            checkpoint=saved,
        )
    packed = b""
    if first is not None:
        # what is trained on is what the file holds, to the last bit
        packed = pack_start(module, first)
        first = unpack_start(module, packed, buffers=named is None)
    hypothesis = Hypothesis(
        named,
        given.goal,
        projector=recipe.projector,
        seed=seed,
        start=kind,
        percent=prior_percent,
        input_scale=given.input_scale,
        groups=groups,
    )
    hypothesis.require_work(module, d)
    if d:
        origin = "zero" if kind == "zero" else first
        space = Subspace(module, d, projector=recipe.projector, seed=seed, start=origin).to(device)
        x, y = given.inputs(learn.x, device), learn.y.to(device)
        training = SubspaceTraining(
            space, given.goal, x, y, recipe, seed, progress, folder, fingerprint
        )
        symbols, codebook = used_levels(*(options.search or quantised_weights)(training))
        hypothesis = replace(hypothesis, symbols=symbols, codebook=codebook)
    return certificate_of(
        hypothesis,
        module,
        sample,
        delta=delta,
        model=given.text,
        start=first,
        packed=packed,
        test=given.test,
        notes={"recipe": asdict(recipe), "versions": _versions()},
        progress=progress,
    )


def _dimension(recipe: Recipe, n: int, total: int) -> int:
    """The dimension that a recipe takes on n rows, where it can be had."""
    if recipe.projector not in PROJECTORS:
        raise ValueError(
            f"expected a projector among {', '.join(PROJECTORS)}, got {recipe.projector!r}"
        )
    if not 1 <= recipe.levels <= MOST_LEVELS:
        raise ValueError(f"expected 1 to {MOST_LEVELS} levels, got {recipe.levels}")
    usual = total if recipe.projector == "identity" else min(round(4 * n**0.5), -(-total // 5))
    d = usual if recipe.d is None else recipe.d
    if d > total:
        raise ValueError(f"expected at most {total} dimensions, all the parameters, got {d}")
    if d > MOST_DIMENSIONS:
        raise ValueError(f"expected at most {MOST_DIMENSIONS} dimensions to code, got {d}")
    return d


def certificate_of(
    hypothesis: Hypothesis,
    module: nn.Module,
    sample: Examples,
    *,
    delta: float,
    model: str,
    start: Mapping[str, Tensor] | None = None,
    packed: bytes = b"",
    test: Examples | None = None,
    notes: Mapping[str, Any] | None = None,
    progress: ProgressCallback | None = None,
) -> Certificate:
    """The certificate of a hypothesis that has been found: counted as `verify` will count."""
    message = hypothesis.to_message()
    network = Hypothesis.from_message(message).network(module, start)
    counted = Recount(network, hypothesis, sample)
    bound = counted.bound(delta, progress)
    extra = dict(notes or {})
    if repeats := sample.repeats():
        extra["repeated_rows"] = repeats
    # what is numbered 0, 1, … by its own name needs none
    if sample.classes not in (None, tuple(map(str, range(hypothesis.goal.outputs)))):
        extra["classes"] = list(sample.classes or ())
    if test is not None:
        extra["test_error"] = counted.errors(test, progress) / len(test)
    return Certificate(
        message,
        claims_of(bound, message),
        sample.digest(),
        model,
        None if hypothesis.architecture is not None else model_digest(module),
        packed,
        extra,
    )


def _known(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    names = list(Recipe.__dataclass_fields__)
    for name in settings:
        if name not in names:
            raise ValueError(f"expected a setting of the recipe ({', '.join(names)}), got {name!r}")
    return settings


def _groups(
    symmetry: str | Group | Sequence[str | Group] | None, named: Architecture | None
) -> tuple[Group, ...]:
    given = [symmetry] if isinstance(symmetry, str | Group) else list(symmetry or ())
    for one in given:
        if not isinstance(one, str | Group):
            raise TypeError(f"expected groups or their names as symmetry, got {one!r:.80}")
    if given and named is not None:
        raise ValueError(f"expected no symmetry for {named}, which pays for its own, got {given}")
    return tuple(parse_group(one) if isinstance(one, str) else one for one in given)


def _start(
    module: nn.Module,
    start: Mapping[str, Tensor] | str | None,
    prior_percent: int | None,
    seed: int,
) -> tuple[StartKind, dict[str, Tensor] | None]:
    if prior_percent is not None:
        if start is not None:
            raise ValueError("expected a start or a share of rows to train one on, got both")
        if not isinstance(prior_percent, int) or not 0 < prior_percent < 100:
            raise ValueError(f"expected a share of 1 to 99 percent, got {prior_percent}")
        return "rows", None
    if start is None:
        return "drawn", None
    if start == "zero":
        return "zero", None
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    if isinstance(start, str):
        if start != "given":
            raise ValueError(f"expected start 'given', 'zero' or tensors, got {start!r}")
        return "given", {name: tensor.detach() for name, tensor in own.items()}
    for name, tensor in start.items():
        if name not in own or tensor.shape != own[name].shape:
            wanted = f"{tuple(own[name].shape)}" if name in own else "no such tensor"
            raise ValueError(
                f"expected a start with the names and shapes of the model, got {name} of shape "
                f"{tuple(tensor.shape)} for {wanted}"
            )
    # what is not given, such as a new head, is drawn
    return "given", {**own, **initial_parameters(module, seed), **start}


def _fingerprint(*parts: Any) -> str:
    hasher = hashlib.sha256()
    for part in parts:
        if isinstance(part, Examples):
            part = part.digest()
        elif isinstance(part, Mapping):
            for name, tensor in part.items():
                hasher.update(name.encode())
                hasher.update(np.ascontiguousarray(tensor.detach().cpu().double().numpy()).data)
            continue
        hasher.update(f"{part};".encode())
    return hasher.hexdigest()


def _versions() -> dict[str, str]:
    import isotropy

    return {
        "isotropy": isotropy.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }
