"""The command ``nnvk``: its subcommands, each imported when it is asked for, and how errors are reported."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup

from nnvk import __version__
from nnvk.base import log
from nnvk.cli.lines import FAILURE, INTERRUPTED, REPORTED_ERRORS, print_line, report


@dataclass(frozen=True, slots=True)
class Entry:
    """A subcommand: the module whose function ``command`` it is, and its line in the help."""

    module: str
    summary: str


COMMANDS: Mapping[str, Entry] = {
    "devices": Entry("nnvk.cli.devices", "List the devices, and why one is absent."),
    "info": Entry("nnvk.cli.info", "Show what a model consists of, and where each part would run."),
    "run": Entry("nnvk.cli.run", "Run a model on images or arrays."),
    "bench": Entry("nnvk.cli.bench", "Measure how long models take on devices, with random inputs."),
    "conformance": Entry("nnvk.cli.conformance", "Run conformance vectors on one device."),
    "demo": Entry("nnvk.cli.demo", "Recognise handwritten digits with the models that nnvk ships."),
}


def _open_closed_streams() -> None:
    """What goes to a stream that the caller has closed goes nowhere, and not to the file that is opened next."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))  # the lowest descriptor: its own


_open_closed_streams()
_MARKUP: Literal["rich"] | None = "rich" if sys.stdout.isatty() else None


class Commands(TyperGroup):
    """The subcommands of `COMMANDS`. Only the one that runs is imported, so that ``nnvk --help`` is quick."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        """A stand-in that knows the summary, enough for lists and completion."""
        entry = COMMANDS.get(cmd_name)
        return TyperCommand(cmd_name, help=entry.summary, rich_markup_mode=_MARKUP) if entry else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself."""
        name, _, rest = super().resolve_command(ctx, args)
        return name, _load(name), rest

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand; an error that the user can mend becomes one line and exit code 2, Ctrl-C one and 130."""
        try:
            return super().invoke(ctx)
        except REPORTED_ERRORS as error:
            if ctx.params["traceback"] or getattr(error, "errno", None) == errno.EPIPE:
                raise
            report(error)
            raise typer.Exit(FAILURE) from None
        except KeyboardInterrupt:
            print_line("nnvk: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None


def _load(name: str | None) -> Any:
    if name is None:  # while a shell completes a command line
        return None
    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=_MARKUP)
    command.command(name)(importlib.import_module(COMMANDS[name].module).command)
    return typer.main.get_command(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"nnvk {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="nnvk",
    cls=Commands,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=_MARKUP,
)


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where an error came from.")] = False,
) -> None:
    """Android's Neural Networks API on any Vulkan device."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have characters that its encoding has not
    log.configure()  # an environment variable with a wrong value is an error of every command
