"""``isotropy certify``: train a network that few bytes can say, and bound its risk."""

import logging
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from isotropy.cli._certified import is_own, one_sentence, own_model, sample_of
from isotropy.cli._options import SplitOption, Target, Task, listed_groups
from isotropy.cli._verbs import Answer, CommonOptions, verb

if TYPE_CHECKING:
    from torch import Tensor

    from isotropy.certificates import Certificate
    from isotropy.data import Dataset

_logger = logging.getLogger("isotropy.certify")


@verb("certify")
def certify(
    common: CommonOptions,
    arch: Annotated[
        str,
        Argument(
            metavar="ARCH",
            help="lenet5, resnet20, convnet, mlp-300-100, 'convnet equivariant p4', …; or your "
            "own: path/to/module.py:factory.",
        ),
    ],
    data: Annotated[
        Path,
        Argument(
            metavar="DATA",
            help="An .npz, idx files, a table, a folder of images; or mnist, fashion-mnist, "
            "cifar10. Of data with both, the train split is certified.",
        ),
    ],
    out: Annotated[Path, Option(metavar="CERT", help="Where to write the certificate.")] = Path(
        "cert.iso"
    ),
    delta: Annotated[
        float, Option(help="The bound may fail with at most this probability.")
    ] = 0.05,
    test: Annotated[
        Path | None,
        Option(metavar="DATA", help="Report the error on these too; nothing rests on it."),
    ] = None,
    target: Target = None,
    task: Task = None,
    split: Annotated[
        SplitOption | None, Option(help="Certify this part, where DATA holds both.")
    ] = None,
    classes: Annotated[
        int | None, Option(min=1, help="How many; by default inferred from the labels.")
    ] = None,
    tolerance: Annotated[
        float | None, Option(help="Of a regression: an error is a number missed by more than this.")
    ] = None,
    dimension: Annotated[
        int | None, Option(min=0, help="Of the subspace that is searched.")
    ] = None,
    levels: Annotated[int | None, Option(min=1, help="How many values a weight may take.")] = None,
    projector: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="How the subspace lies among all parameters: kronecker-orthonormal, kronecker, "
            "dense, sparse, fastfood, film, …",
        ),
    ] = None,
    epochs: Annotated[
        int | None, Option(min=0, help="Passes over the data with free weights.")
    ] = None,
    quantised_epochs: Annotated[
        int | None, Option(min=0, help="Passes with quantised weights, after that.")
    ] = None,
    rate: Annotated[float | None, Option(help="The highest learning rate.")] = None,
    quantised_rate: Annotated[float | None, Option(help="The same with quantised weights.")] = None,
    batch: Annotated[int | None, Option(min=1, help="Rows in a step.")] = None,
    minutes: Annotated[
        float | None,
        Option(
            help="Shorten training so that it takes about this long, "
            "down to one pass in each phase."
        ),
    ] = None,
    prior_percent: Annotated[
        int | None,
        Option(help="Train a start on this share of the rows, and certify on the others."),
    ] = None,
    prior_epochs: Annotated[
        int | None, Option(min=0, help="Passes over the rows that train a start.")
    ] = None,
    input_scale: Annotated[
        float | None, Option(help="Divide inputs by this, at the price of 16 bits.")
    ] = None,
    start: Annotated[
        Path | None,
        Option(metavar="F.safetensors", help="Start from weights that never saw DATA (transfer)."),
    ] = None,
    symmetry: Annotated[
        str | None,
        Option(
            metavar='"GROUP, …"', help="What your own module uses, to be paid for in the bound."
        ),
    ] = None,
) -> Answer:
    """Train a network that few bytes can say, and bound its error on new examples."""
    settings: dict[str, Any] = {
        "d": dimension,
        "levels": levels,
        "projector": projector,
        "epochs": epochs,
        "quantised_epochs": quantised_epochs,
        "rate": rate,
        "quantised_rate": quantised_rate,
        "prior_epochs": prior_epochs,
        "batch": batch,
        "minutes": minutes,
    }
    _check_options(minutes, delta, out)
    from isotropy.certificates import CertificationOptions, certify

    began = time.monotonic()
    with common.progress("loading") as progress:
        sample, held_out = sample_of(data, target, task, split, progress)
        if test is not None:
            rows, others = sample_of(test, target, task, None, progress)
            held_out = rows if others is None else others
        model: Any = arch
        if is_own(arch):
            model, width = own_model(arch, sample.x)
            if sample.task == "classification" and classes is None:
                classes = width
    with (
        common.progress("certifying") as progress,
        _resumable(_checkpoints(out)) as folder,
        # what fails in a network of the catalogue is a defect of ours
        one_sentence() if is_own(arch) else nullcontext(),
    ):
        options = CertificationOptions(
            classes=classes,
            tolerance=tolerance,
            input_scale=input_scale,
            start=None if start is None else _weights(model, sample, classes, start),
            symmetry=listed_groups(symmetry),
            checkpoints=folder,
        )
        certificate = certify(
            model,
            sample,
            delta=delta,
            test=held_out,
            seed=0 if common.seed is None else common.seed,
            prior_percent=prior_percent,
            options=options,
            device=common.device,
            progress=progress,
            **{name: value for name, value in settings.items() if value is not None},
        )
        certificate.save(out)
    answer = _answer(certificate, out, time.monotonic() - began)
    named = {"--target": target, "--task": task, "--split": split, "--checkpoint": start}
    named |= {"--arch": arch if is_own(arch) else None, **_limits(certificate, sample, model)}
    check = ["isotropy", "verify", str(out), str(data)]
    for option, value in named.items():
        check += [option, str(value)] if value is not None else []
    lines = [*_text(certificate, answer), *_advice(certificate, sample)]
    return Answer(answer, "\n".join([*lines, f"saved to {out}; check it by: {shlex.join(check)}"]))


def _limits(certificate: "Certificate", sample: "Dataset", model: Any) -> dict[str, str | None]:
    """The options by which ``verify`` accepts a certificate that its usual limits would not."""
    from isotropy.certificates import verification_price
    from isotropy.certificates._price import MOST_MEMORY, MOST_SECONDS
    from isotropy.certificates._verdict import USUAL_DELTA

    delta, own = certificate.delta, None if isinstance(model, str) else model
    price = verification_price(certificate, sample, arch=own)
    minutes, gigabytes = f"{1 + price.seconds // 60:.0f}m", f"{1 + price.memory // 10**9}GB"
    return {
        "--delta": f"{delta:g}" if delta > USUAL_DELTA else None,
        "--most-time": minutes if price.seconds > MOST_SECONDS else None,
        "--most-memory": gigabytes if price.memory > MOST_MEMORY else None,
    }


def _weights(model: Any, sample: "Dataset", classes: int | None, path: Path) -> "dict[str, Tensor]":
    """The start in a file, if it is one of that model."""
    from isotropy.certificates import architecture
    from isotropy.data._models import _load_weights

    if isinstance(model, str):
        assert sample.y is not None
        labels = sample.task == "classification"
        outputs = classes or (int(sample.y.max()) + 1 if labels else sample.y.shape[1])
        model = architecture(model).build(tuple(sample.x.shape[1:]), outputs)
    _load_weights(model, str(path))
    own = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach() for name, tensor in own}


def _check_options(minutes: float | None, delta: float, out: Path) -> None:
    """Training is long: what cannot be used or written to is better known before."""
    if minutes is not None and not minutes > 0:
        raise ValueError(f"expected a positive number of --minutes, got {minutes}")
    if not 0 < delta < 1:
        raise ValueError(f"expected --delta between 0 and 1, got {delta}")
    if out.is_dir():
        raise ValueError(f"expected a file to write the certificate to, got the folder {out}")
    if not out.absolute().parent.is_dir():
        raise ValueError(f"expected --out in a folder that is there, got {out}")


def _checkpoints(out: Path) -> Path:
    return out.with_name(f"{out.name}.checkpoints")


@contextmanager
def _resumable(folder: Path) -> Iterator[Path]:
    """A folder for checkpoints, which stays only where there is a run to go on with."""
    folder.mkdir(exist_ok=True)
    try:
        yield folder
        for checkpoint in folder.glob("*.safetensors"):
            checkpoint.unlink()
    except KeyboardInterrupt:
        if any(folder.iterdir()):
            _logger.warning("the same command goes on from the checkpoints in %s", folder)
        raise
    except ValueError as error:
        if str(error).startswith("expected a checkpoint of the run"):
            raise ValueError(
                f"expected the settings and data of the interrupted run whose checkpoints are in "
                f"{folder}, got others; remove that folder to begin anew"
            ) from error
        raise
    finally:
        if not any(folder.iterdir()):
            folder.rmdir()


def _answer(certificate: "Certificate", out: Path, seconds: float) -> dict[str, Any]:
    hypothesis = certificate.hypothesis()
    return {
        "bound": certificate.bound,
        "train_error": certificate.train_error,
        "test_error": certificate.test_error,
        "message_bits": certificate.message_bits,
        "delta": certificate.delta,
        "n": certificate.n,
        "path": str(out),
        "model": certificate.model,
        "d": hypothesis.d,
        "levels": len(hypothesis.codebook),
        "projector": hypothesis.projector,
        "tolerance": hypothesis.goal.tolerance,
        "repeated_rows": (certificate.notes or {}).get("repeated_rows", 0),
        "seconds": round(seconds, 3),
    }


def _advice(certificate: "Certificate", sample: "Dataset") -> list[str]:
    """What to try where the bound says nothing."""
    if sample.y is None or sample.task != "classification":
        return []
    usual = float(sample.y.bincount().max()) / len(sample)
    if certificate.bound < 1 - usual:
        return []
    return [
        "this is no better than always saying the commonest class, wrong on "
        f"{100 * (1 - usual):.2f} %; "
        "try more rows, a smaller --dimension, or --prior-percent 50 --dimension 0"
    ]


def _text(certificate: "Certificate", answer: dict[str, Any]) -> list[str]:
    from isotropy.certificates._bound_arguments import confidence

    wrong = "wrong"
    if answer["tolerance"] is not None:
        wrong = f"off by more than {answer['tolerance']:g}"
    errors = f"{100 * certificate.train_error:.2f} % of the {certificate.n} certified rows"
    if certificate.test_error is not None:
        errors += f", {100 * certificate.test_error:.2f} % of the test rows"
    repeated = []
    if answer["repeated_rows"]:
        repeated = [
            f"{answer['repeated_rows']} rows repeat an earlier one: the bound holds if they were "
            "drawn so, and not copied"
        ]
    return [
        f"{certificate.model} is {wrong} on at most {100 * certificate.bound:.2f} % of new "
        f"examples, with probability {confidence(certificate.delta)}",
        f"{wrong} on {errors}; the network is a message of {certificate.message_bits} bits",
        *repeated,
    ]
