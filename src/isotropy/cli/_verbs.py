"""What every verb shares: its common options, its answer, errors and exit codes.

A verb is a function that takes its own arguments and `CommonOptions`, and returns an `Answer`;
`verb` gives it the options every verb has and sees to output, errors and exit codes.
"""

import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, get_type_hints

import typer

from isotropy.cli._output import complain, logs_on_stderr, on_one_line, readable, write_answer

if TYPE_CHECKING:
    import torch

    from isotropy._run import ProgressCallback

BAD_INPUT = 2
DEFECT = 70  # as sysexits.h has it: 1 would say that something was rejected
INTERRUPTED = 130

# Every mistake in the arguments is one of these, in whichever module this typer keeps them.
_UsageError: Any = typer.BadParameter.__base__

app = typer.Typer(
    name="isotropy",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Find the symmetry of a learning task, build what uses it, and say what it is worth.",
)

_ISOTROPY = app


@dataclass(frozen=True)
class CommonOptions:
    """The options that every verb has.

    Args:
        json: whether to print one JSON object instead of text.
        seed: the seed of everything random, ``None`` for a new one each time.
        device: where tensors live, as PyTorch spells it.
        quiet: whether to show neither progress nor log messages.

    Example:
        >>> common = CommonOptions(json=False, seed=0, device="cpu", quiet=True)
        >>> common.generator().initial_seed()
        0
    """

    json: bool = False
    seed: int | None = None
    device: str = "cpu"
    quiet: bool = False

    def generator(self) -> "torch.Generator":
        """Make the random number generator that ``--seed`` and ``--device`` ask for."""
        from isotropy._run import generator

        return generator(self.seed, self.device)

    def progress(self, description: str) -> "AbstractContextManager[ProgressCallback]":
        """A progress bar of work so described: a context that yields the library's callback."""
        from isotropy._run import terminal_progress

        return terminal_progress(description, quiet=self.quiet)


@dataclass(frozen=True)
class Answer:
    """What a verb has found.

    Args:
        data: the JSON object.
        text: the same for a person; ``None`` sets ``data`` as a small table.
        exit_code: 0 unless the answer itself is a rejection.

    Example:
        >>> print(Answer({"group": "Z(4)", "rank": 4}))
        group  Z(4)
        rank   4
    """

    data: dict[str, Any]
    text: str | None = None
    exit_code: int = 0

    def __str__(self) -> str:
        if self.text is not None:
            return self.text
        width = max(map(len, self.data), default=0)
        return "\n".join(
            f"{name:<{width}}  {on_one_line(str(value))}" for name, value in self.data.items()
        )


def verb(
    name: str, app: typer.Typer = app, *, context_settings: dict[str, Any] | None = None
) -> Callable[[Callable[..., Answer]], Callable[..., None]]:
    """Register a function as a verb.

    The verb has the options ``--json``, ``--seed``, ``--device`` and ``--quiet``; a parameter of
    the type `CommonOptions` receives them. The function's answer is printed on standard output; a
    `ValueError`, an `OSError` or a missing extra becomes one sentence on standard error and exit
    code 2, an interruption exit code 130. Any other exception is a defect of ours and keeps its
    traceback.

    Args:
        name: the verb.
        app: the command it belongs to.
        context_settings: how its arguments are parsed, where that is not as usual.

    Returns:
        A decorator.

    Example:
        >>> toy = typer.Typer()
        >>> @verb("double", app=toy)
        ... def double(common: CommonOptions, number: int) -> Answer:
        ...     return Answer({"double": 2 * number})
        >>> run(["21", "--json"], toy)
        {"double": 42}
        0
    """

    def register(function: Callable[..., Answer]) -> Callable[..., None]:
        hints = get_type_hints(function, include_extras=True)
        common = {name for name, hint in hints.items() if hint is CommonOptions}

        @wraps(function)
        def command(
            *, json: bool, seed: int | None, device: str, quiet: bool, **arguments: Any
        ) -> None:
            arguments |= dict.fromkeys(common, CommonOptions(json, seed, device, quiet))
            with _exit_codes(), logs_on_stderr(quiet):
                _check_device(device)
                # what the user's own code prints must not come between
                with redirect_stdout(sys.stderr) if json else nullcontext():
                    answer = function(**arguments)
                write_answer(str(answer), answer.data, as_json=json)
            raise typer.Exit(answer.exit_code)

        _set_signature(command, function, hints)
        app.command(name, context_settings=context_settings)(command)
        return command

    return register


def _set_signature(
    command: Callable[..., None], function: Callable[..., Answer], hints: dict[str, Any]
) -> None:
    """Give the command the function's parameters, then the options that every verb has."""
    parameters = [
        parameter.replace(annotation=hints[parameter.name], kind=parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(function).parameters.values()
        if hints[parameter.name] is not CommonOptions
    ]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, kind, default in _COMMON_OPTIONS
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del command.__wrapped__  # type: ignore[attr-defined]


_COMMON_OPTIONS: tuple[tuple[str, Any, object], ...] = (
    ("json", Annotated[bool, typer.Option("--json", help="Print one JSON object.")], False),
    ("seed", Annotated[int | None, typer.Option(min=0, help="Seed of everything random.")], None),
    (
        "device",
        Annotated[str, typer.Option(help="Where tensors live: cpu, cuda, cuda:1, mps.")],
        "cpu",
    ),
    (
        "quiet",
        Annotated[bool, typer.Option("--quiet", help="Show neither progress nor messages.")],
        False,
    ),
)


@contextmanager
def _exit_codes() -> Iterator[None]:
    """Turn bad input and interruptions into a sentence and an exit code."""
    try:
        yield
    except BrokenPipeError:
        # Whoever read our output has gone; Python must not try to flush the rest at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except OSError as error:
        path = f"{error.filename}: " if error.filename is not None else ""
        _fail(f"{path}{error.strerror or error}")
    except ValueError as error:
        _fail(str(error))
    except ImportError as error:
        if not str(error).startswith("expected"):
            raise  # not an extra that is missing, which we say in such a sentence
        _fail(str(error))
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)


def _fail(message: str, exit_code: int = BAD_INPUT) -> NoReturn:
    complain(message)
    raise typer.Exit(exit_code)


def _check_device(device: str) -> None:
    import torch

    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        raise ValueError(f"expected a device that PyTorch can use here, got {device!r}") from None


def run(arguments: Sequence[str] | None = None, app: typer.Typer = app) -> int:
    """Run the command line and say how it went.

    Args:
        arguments: what follows the program's name; ``None`` takes those of this process.
        app: the command to run.

    Returns:
        The exit code.

    Example:
        >>> run(["--version"])
        isotropy ...
        0
    """
    if app is _ISOTROPY:
        from isotropy.cli._find_verbs import add_verbs

        add_verbs(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(arguments, prog_name="isotropy", standalone_mode=False)
    except _UsageError as error:
        complain(error.format_message())
        return BAD_INPUT
    return int(code or 0)


def main() -> NoReturn:
    """Run the command line and leave the process with its exit code.

    Raises:
        SystemExit: always.

    Example:
        >>> from unittest.mock import patch
        >>> with patch("sys.argv", ["isotropy", "--version"]):
        ...     main()
        Traceback (most recent call last):
        ...
        SystemExit: 0
    """
    try:
        code = run()
    except Exception:  # a defect of ours keeps its traceback, which may hold a name from a file
        sys.stderr.write(readable(traceback.format_exc()))
        code = DEFECT
    sys.exit(code)


@app.callback(invoke_without_command=True)
def _isotropy(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False,
) -> None:
    if version:
        from isotropy import __version__

        typer.echo(f"isotropy {__version__}")
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    if version or context.invoked_subcommand is None:
        raise typer.Exit
