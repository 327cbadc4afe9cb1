"""``isotropy verify``: check a certificate, trusting nothing in it."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from isotropy.cli._certified import SplitOption, one_sentence, own_model, sample_of, tensors_in
from isotropy.cli._discover_options import TaskOption
from isotropy.cli._frame import Answer, Frame, verb

if TYPE_CHECKING:
    from isotropy.certificates import Verdict

_REJECTED = 1


@verb("verify")
def verify(
    frame: Frame,
    cert: Annotated[Path, typer.Argument(metavar="CERT", help="What isotropy certify wrote.")],
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="The data it speaks of, named as for certify."),
    ],
    arch: Annotated[
        str | None,
        typer.Option(
            metavar="path/to/module.py:factory",
            help="The module, where it is not of the catalogue; its code is run.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="F.safetensors", help="What the network must have started from."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="NAME,NAME,…", help="The columns of a table to predict."),
    ] = None,
    task: Annotated[
        TaskOption | None, typer.Option(help="What the targets are; by default told from them.")
    ] = None,
    split: Annotated[
        SplitOption | None, typer.Option(help="The part that was certified, by default train.")
    ] = None,
) -> Answer:
    """Check a certificate against its data: decode, rebuild, count and bound anew."""
    if not cert.is_file():
        raise ValueError(f"{cert}: expected a certificate, got a path where no file is")
    from isotropy.certificates import verify

    with frame.progress("loading") as progress:
        sample, _ = sample_of(data, target, task, split, progress)
        module = None if arch is None else own_model(arch, sample.x)[0]
        start = None if checkpoint is None else tensors_in(checkpoint)
    # what fails in a network of the catalogue is a defect of ours
    with frame.progress("verifying") as progress, one_sentence() if arch else nullcontext():
        verdict = verify(cert, sample, arch=module, checkpoint=start, progress=progress)
    found: dict[str, Any] = {
        "valid": verdict.valid,
        "bound": verdict.bound,
        "reason": verdict.reason,
        "assumes": list(verdict.assumes),
        **(verdict.details or {}),
    }
    return Answer(found, _text(verdict), 0 if verdict.valid else _REJECTED)


def _text(verdict: "Verdict") -> str:
    if not verdict.valid:
        return f"rejected: {verdict.reason}"
    told = verdict.details
    return "\n".join(
        [
            f"valid: {verdict.reason}",
            f"{told['model']}, {told['message_bits']} bits, {told['errors']} errors in "
            f"{told['n']} rows, counted anew",
            *(f"taken on trust: {one}" for one in verdict.assumes),
        ]
    )
