"""``isotropy reproduce``: tables and figures of the papers."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isotropy.cli import Answer, CommonOptions, check_picture, verb

if TYPE_CHECKING:
    from isotropy_papers import Listed


papers_app = typer.Typer(
    name="isotropy_papers",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Tables and figures of four papers on symmetry in machine learning, run again.",
)


@papers_app.callback()
def _verbs() -> None:
    """Keep the verb's name in the command, though it is the only one."""


def reproduce(
    common: CommonOptions,
    id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="A table or figure, or a paper: its list; without one, all are listed.",
        ),
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
    from isotropy.run import write_json
    from isotropy_papers import PAPERS, Settings, experiment, ids, listing

    if id is None or id in PAPERS:
        found = [one for one in listing() if id is None or one.paper == id]
        return Answer({"experiments": [one.data() for one in found], "ids": ids()}, _list(found))
    chosen = experiment(id)
    if plot is not None:
        check_picture(plot)
        if chosen.plot is None:
            raise ValueError(f"expected a figure for --plot, got {id!r}, which has no picture")
    settings = Settings(
        full=full,
        seed=0 if common.seed is None else common.seed,  # a run that goes on needs a known seed
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
        device=common.device,
        out=out,
    )
    with common.progress(id) as progress:
        result = chosen.run(settings, progress)
    answer = result.data()
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / f"{id.replace('/', '-')}.json", answer)
    if plot is not None and chosen.plot is not None:
        answer["plot"] = str(chosen.plot(result, plot))
    return Answer(answer, str(result))


verb("reproduce")(reproduce)
verb("reproduce", papers_app)(reproduce)


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"expected sizes like 100,1000, got {text!r}") from None


def _list(experiments: "list[Listed]") -> str:
    """The experiments by paper: id, state and costs in columns, the title below."""
    from isotropy_papers import PAPERS

    heads = ("id", "state", "--quick", "--full")
    rows = [
        tuple(one.data()[name] for name in ("id", "state", "quick", "full")) for one in experiments
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]

    def line(cells: tuple[str, ...]) -> str:
        return "  ".join(
            f"{text:<{width}}" for text, width in zip(cells, widths, strict=True)
        ).rstrip()

    lines = ["Costs are CPU times on one core, unless they say otherwise.", ""]
    there = {one.paper for one in experiments}
    for paper, title in PAPERS.items():
        if paper not in there:
            continue
        lines += [title, "", line(heads)]
        for one, row in zip(experiments, rows, strict=True):
            if one.paper == paper:
                lines += [line(row), f"    {one.title}"]
        lines.append("")
    return "\n".join(lines).rstrip()
