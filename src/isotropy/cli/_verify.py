"""``isotropy verify``: check a certificate, trusting nothing in it."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from isotropy.cli._certified import one_sentence, own_model, sample_of, tensors_in
from isotropy.cli._options import SplitOption, Target, Task
from isotropy.cli._verbs import Answer, CommonOptions, verb

if TYPE_CHECKING:
    from isotropy.certificates import Verdict

_EXIT_CODES = {"verified": 0, "verified given": 3, "rejected": 1}


@verb("verify")
def verify(
    common: CommonOptions,
    cert: Annotated[Path, Argument(metavar="CERT", help="What isotropy certify wrote.")],
    data: Annotated[
        Path, Argument(metavar="DATA", help="The data it speaks of, named as for certify.")
    ],
    arch: Annotated[
        str | None,
        Option(
            metavar="path/to/module.py:factory",
            help="The module, where it is not of the catalogue; its code is run.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        Option(metavar="F.safetensors", help="What the network must have started from."),
    ] = None,
    delta: Annotated[
        float | None, Option(help="The largest delta that you accept, fixed before you saw CERT.")
    ] = None,
    most_memory: Annotated[
        str, Option(metavar="SIZE", help="What checking may take, such as 500MB or 16GB.")
    ] = "4GB",
    most_time: Annotated[
        str, Option(metavar="TIME", help="The same in time of one core, such as 90s or 1h30m.")
    ] = "10m",
    target: Target = None,
    task: Task = None,
    split: Annotated[
        SplitOption | None, Option(help="The part that was certified, by default train.")
    ] = None,
) -> Answer:
    """Check a certificate against its data: decode, rebuild, count and bound anew.

    Exits with 0 where it is verified, 3 where it is verified given what the answer names, 1 where
    it is rejected.
    """
    _require_file(cert)
    from isotropy._run import bytes_of, seconds_of
    from isotropy.bases import solved_anew
    from isotropy.certificates import verify

    memory, seconds = bytes_of(most_memory), seconds_of(most_time)
    with common.progress("loading") as progress:
        sample, _ = sample_of(data, target, task, split, progress)
        with solved_anew():
            module = None if arch is None else own_model(arch, sample.x)[0]
        start = None if checkpoint is None else tensors_in(checkpoint)
    # what fails in a network of the catalogue is a defect of ours
    with common.progress("verifying") as progress, one_sentence() if arch else nullcontext():
        verdict = verify(
            cert,
            sample,
            arch=module,
            checkpoint=start,
            delta=delta,
            most_memory=memory,
            most_time=seconds,
            progress=progress,
        )
    found: dict[str, Any] = {
        "verdict": verdict.verdict,
        "valid": verdict.valid,
        "bound": verdict.bound,
        "reason": verdict.reason,
        "assumes": list(verdict.assumes),
        **(verdict.details or {}),
    }
    return Answer(found, _text(verdict), _EXIT_CODES[verdict.verdict])


def _require_file(cert: Path) -> None:
    if not cert.is_file():
        raise ValueError(f"{cert}: expected a certificate, got a path where no file is")


def _text(verdict: "Verdict") -> str:
    if verdict.verdict == "rejected":
        return f"rejected: {verdict.reason}"
    found = verdict.details
    return "\n".join(
        [
            f"{'verified' if verdict.valid else 'verified, but only given what is named'}: "
            f"{verdict.reason}",
            f"{found['model']}, {found['message_bits']} bits, {found['errors']} errors in "
            f"{found['n']} rows, counted anew",
            *(f"taken on trust: {one}" for one in verdict.assumes),
        ]
    )
