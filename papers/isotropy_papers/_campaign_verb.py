"""``isotropy campaign``: the missing runs of published size, in portions of a few minutes."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isotropy.cli import Answer, CommonOptions, verb
from isotropy_papers._reproduce import papers_app

if TYPE_CHECKING:
    from isotropy_papers._campaign import RunOutcome
    from isotropy_papers._campaign_plan import Planned

_FOLDER = Path("results/campaign")


def campaign(
    common: CommonOptions,
    context: typer.Context,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]…", help="Only these runs, also failed ones and long cells."),
    ] = None,
    show: Annotated[
        bool, typer.Option("--list", help="List the runs in order, with their states.")
    ] = False,
    minutes: Annotated[
        float | None, typer.Option(min=0, help="How long to work, saving included.")
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Keep results and finished cells in this folder.")
    ] = _FOLDER,
    earlier: Annotated[
        Path | None,
        typer.Option("--from", metavar="DIR", help="Go on from this folder, and leave it alone."),
    ] = None,
    collect: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Take over what a campaign wrote to this folder."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Data sets and weights, in folders of their names."),
    ] = None,
    images: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Photographs, for figures that need some.")
    ] = None,
    files: Annotated[
        int | None, typer.Option(help="Write at most so many files, where they must travel.")
    ] = None,
    megabytes: Annotated[float | None, typer.Option(help="Write no file larger than this.")] = None,
    commit: Annotated[
        str | None, typer.Option(help="The commit for results; else $ISOTROPY_COMMIT, or git's.")
    ] = None,
) -> Answer:
    """Run what is missing of the papers at full size, as far as the minutes go."""
    from isotropy_papers import Settings
    from isotropy_papers._campaign import Campaign, commit_of
    from isotropy_papers._campaign_plan import absent_data, planned
    from isotropy_papers._campaign_runs import OUT_OF_REACH, RUNS
    from isotropy_papers._campaign_store import Limits, Store

    if (minutes is not None) + show + (collect is not None) != 1:
        raise ValueError("expected one of --list, --minutes and --collect")
    seed = 0 if common.seed is None else common.seed  # a run that goes on needs a known seed
    runs = [run.seeded(seed) for run in RUNS]
    settings = Settings(data=data, images=images, device=_device(common, context))
    store = Store(out, earlier, Limits(files, megabytes))
    if collect is not None:
        taken = store.collect(collect)
        return Answer({"taken": taken}, "\n".join(taken))
    if minutes is None:
        found = planned(runs, store, settings.device, absent_data(runs, settings))
        listed = {"runs": [one.data() for one in found], "out_of_reach": OUT_OF_REACH}
        return Answer(listed, _listed(found))
    work = Campaign(runs, store, settings, commit_of(commit))
    with common.progress("campaign") as progress:
        outcomes = work.spend(minutes, names or (), progress)
    answer = {
        "minutes": minutes,
        "device": settings.device,
        "out": str(out),
        "runs": [
            {
                "name": one.run,
                "state": one.state,
                "reason": one.reason,
                "finished": one.cells,
                "seconds": one.seconds,
            }
            for one in outcomes
        ],
    }
    return Answer(answer, _outcomes(outcomes))


verb("campaign")(campaign)
verb("campaign", papers_app)(campaign)


def _device(common: CommonOptions, context: typer.Context) -> str:
    """The device that was asked for, or else a GPU where there is one."""
    import torch

    source = context.get_parameter_source("device")
    if source is not None and source.name != "DEFAULT":
        return common.device
    return "cuda" if torch.cuda.is_available() else common.device


def _listed(plans: "list[Planned]") -> str:
    """The runs in columns, what each settles below."""
    heads = ("run", "state", "cells", "minutes left", "next cell")
    rows = [
        (
            one.run.name,
            one.state,
            f"{one.finished}/{one.run.cells}",
            f"{one.minutes:.0f}",
            f"{one.cell_minutes:.1f}",
        )
        for one in plans
    ]
    lines = _columns([heads, *rows])
    found = [
        "Minutes of one H200, corrected by finished cells; first what settles most per minute."
    ]
    found += ["", lines[0]]
    for one, line in zip(plans, lines[1:], strict=True):
        reason = f" ({one.reason})" if one.reason else ""
        found += [line, f"    {one.run.settles}{reason}"]
    return "\n".join(found)


def _outcomes(outcomes: "list[RunOutcome]") -> str:
    if not outcomes:
        return "Nothing fits these minutes; --list says what each run waits for."
    heads = ("run", "state", "new cells", "seconds", "")
    rows = [
        (one.run, one.state, str(one.cells), f"{one.seconds:.0f}", one.reason) for one in outcomes
    ]
    return "\n".join(_columns([heads, *rows]))


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
