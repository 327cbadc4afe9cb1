"""``isotropy reproduce``: tables and figures of the papers."""

from pathlib import Path
from typing import Annotated

import typer

from isotropy.cli._frame import Answer, Frame, verb
from isotropy.cli._picture_path import check_picture


@verb("reproduce")
def reproduce(
    frame: Frame,
    id: Annotated[
        str | None,
        typer.Argument(metavar="ID", help="A table or figure; without one, all are listed."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="As published, or in a few minutes.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="How many models to train for each cell.")
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(metavar="N,N,…", help="Numbers of training rows, or steps of an agent."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, help="Passes through the training rows.")
    ] = None,
    schedule: Annotated[
        str | None, typer.Option(help="The learning rate: constant or cosine.")
    ] = None,
    channels: Annotated[int | None, typer.Option(min=1, help="Width of hidden layers.")] = None,
    step: Annotated[float | None, typer.Option(help="Step of the integrator in training.")] = None,
    test_rows: Annotated[
        int | None,
        typer.Option(min=1, help="Rows, trajectories or episodes that results are reported on."),
    ] = None,
    models: Annotated[
        str | None, typer.Option(metavar="NAME,NAME,…", help="Only these models.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Photographs, for figures that need some.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Data sets and weights, in folders of their names."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the result and finished cells in this folder."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="OUT.PNG", help="Draw a figure into this file.")
    ] = None,
) -> Answer:
    """Run a table or figure of a paper again, ours beside theirs."""
    from isotropy._run import write_json
    from isotropy.papers import Settings, experiment, ids

    if id is None:
        titles = {name: experiment(name).title for name in ids()}
        return Answer({"ids": list(titles)}, str(Answer(titles)))
    found = experiment(id)
    if plot is not None:
        check_picture(plot)
        if found.plot is None:
            raise ValueError(f"expected a figure for --plot, got {id!r}, which has no picture")
    settings = Settings(
        full=full,
        seed=0 if frame.seed is None else frame.seed,  # a run that goes on needs a known seed
        seeds=seeds,
        sizes=None if sizes is None else tuple(_numbers(sizes)),
        epochs=epochs,
        schedule=schedule,  # type: ignore[arg-type]  # Settings says which there are
        channels=channels,
        test_rows=test_rows,
        step=step,
        models=None if models is None else tuple(name.strip() for name in models.split(",")),
        images=images,
        data=data,
        device=frame.device,
        out=out,
    )
    with frame.progress(id) as progress:
        result = found.run(settings, progress)
    answer = result.data()
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / f"{id.replace('/', '-')}.json", answer)
    if plot is not None and found.plot is not None:
        answer["plot"] = str(found.plot(result, plot))
    return Answer(answer, str(result))


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"expected sizes like 100,1000, got {text!r}") from None
