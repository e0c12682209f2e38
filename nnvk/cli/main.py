"""The command ``nnvk``: its subcommands, each imported when it is asked for, and how errors are reported."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.exceptions import TyperException

from nnvk.base import log
from nnvk.base.text import did_you_mean
from nnvk.cli.lines import CLOSED, FAILURE, INTERRUPTED, REPORTED_ERRORS, complain, in_style, report
from nnvk.cli.usage import COMMON_OPTIONS, Command, print_version


@dataclass(frozen=True, slots=True)
class Entry:
    """A subcommand: the module whose function ``command`` it is, and its line in the help."""

    module: str
    summary: str


COMMANDS: Mapping[str, Entry] = {
    "quickstart": Entry("nnvk.cli.quickstart", "Run five commands on a small model, and explain them."),
    "devices": Entry("nnvk.cli.devices", "List the devices, and why one is absent."),
    "info": Entry("nnvk.cli.info", "Show what a model consists of, and where each part runs."),
    "graph": Entry("nnvk.cli.graph", "Draw the operations of a model, coloured by device."),
    "run": Entry("nnvk.cli.run", "Run a model on images or arrays, or on random numbers."),
    "map": Entry("nnvk.cli.map", "Run a model on many inputs, and keep the results in a folder."),
    "bench": Entry("nnvk.cli.bench", "Measure how long models take on devices, with random inputs."),
    "compare": Entry("nnvk.cli.compare", "Compare the results of two devices, operation by operation."),
    "evaluate": Entry("nnvk.cli.evaluate", "Measure how often classifiers are right on labelled photos."),
    "report": Entry("nnvk.cli.report", "Write a page on models: latency, memory and accuracy."),
    "tune": Entry("nnvk.cli.tune", "Measure which strategies are fastest, and keep that."),
    "plan": Entry("nnvk.cli.plan", "Show the commands that a Vulkan device gets for a model."),
    "check": Entry("nnvk.cli.check", "Check a device against the reference, shader by shader."),
    "conformance": Entry("nnvk.cli.conformance", "Run conformance vectors on one device."),
    "demo": Entry("nnvk.cli.demo", "Recognise handwritten digits with the models of nnvk."),
    "config": Entry("nnvk.cli.config", "Print where the C libraries and headers are, for compilers."),
    "serve": Entry("nnvk.cli.serve", "Serve one application of the C libraries, until it ends."),
}


def _open_closed_streams() -> None:
    """Discard output to a stream that the caller has closed, so that it does not reach the file that is opened next."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))  # the lowest descriptor: its own


_open_closed_streams()
_SETTINGS = {"help_option_names": ["-h", "--help"]}
EXIT_CODES = {
    "0": "Done.",
    "1": "A check failed: of check, compare, conformance, demo, info --check; rows of map did.",
    "2": "Wrong use or wrong input; one line on standard error says what.",
    "130": "Ctrl-C.",
    "141": "Nobody reads on, as in a pipe to head.",
}


class Commands(TyperGroup):
    """The subcommands of `COMMANDS`. Only the one that runs is imported, so that ``nnvk --help`` is quick."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        """A stand-in that knows the summary, enough for lists and completion."""
        entry = COMMANDS.get(cmd_name)
        return TyperCommand(cmd_name, help=entry.summary, rich_markup_mode=None) if entry else None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command itself. An unknown one is a usage error with the name that is most like it."""
        try:
            name, _, rest = super().resolve_command(ctx, args)
        except TyperException as error:
            error.message = f"{error.message.removesuffix('.')}{did_you_mean(args[0], COMMANDS)}"
            raise
        return name, _load(name), rest

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Commands, options, exit codes."""
        self.format_commands(ctx, formatter)
        options = [one for one in self.get_params(ctx) if isinstance(one, TyperOption)]
        own = {one.opts[0]: one.help or "" for one in options if one.help and "--help" not in one.opts}
        for title, rows in (("Options", {**own, **COMMON_OPTIONS}), ("Exit codes", EXIT_CODES)):
            with formatter.section(title):
                formatter.write_dl(list(rows.items()))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command line and exit; wrong use is one line and exit code 2."""
        try:
            status = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except TyperException as error:
            _report_usage(error)
            status = FAILURE
        try:
            sys.stdout.flush()  # at the interpreter's end, a pipe that nobody reads would be a message of Python's
        except BrokenPipeError:
            _drop_output()
            status = CLOSED
        sys.exit(status or 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the subcommand; an error that the user can mend becomes one line and exit code 2, Ctrl-C one and 130."""
        try:
            return super().invoke(ctx)
        except (typer.Exit, typer.Abort, TyperException):
            raise
        except REPORTED_ERRORS as error:
            if getattr(error, "errno", None) == errno.EPIPE:
                _drop_output()
                raise typer.Exit(CLOSED) from None
            report(error, with_traceback=ctx.params["traceback"])
            raise typer.Exit(FAILURE) from None
        except KeyboardInterrupt:
            complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            report(error, "this is a bug of nnvk, please report it", with_traceback=True)
            raise typer.Exit(FAILURE) from None


def _report_usage(error: TyperException) -> None:
    """Return the error in the command line, and the place of its help."""
    possible = getattr(error, "possibilities", None)  # options that are like an unknown one
    message = error.message if possible else error.format_message()
    if message.startswith("Usage: "):  # the help, where nothing was given at all
        typer.echo(message, err=True)
        return
    context: Any = getattr(error, "ctx", None)
    where = "" if context is None else f" ({context.command_path} -h)"
    hint = f"; did you mean {possible[0]}?" if possible else ""
    complain(f"{in_style(message.replace('Input should', 'it should').partition(', unable to')[0])}{hint}{where}")


def _drop_output() -> None:
    """Discard the output that is still to be printed, so that it is no second error when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _load(name: str | None) -> Any:
    if name is None:  # while a shell completes a command line
        return None
    command = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    function = importlib.import_module(COMMANDS[name].module).command
    command.command(name, cls=Command, context_settings=_SETTINGS)(function)
    return typer.main.get_command(command)


def _version_asked(wanted: bool) -> None:
    if wanted:
        print_version()
        raise typer.Exit


app = typer.Typer(
    name="nnvk",
    cls=Commands,
    context_settings=_SETTINGS,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=_version_asked, is_eager=True)] = False,
    traceback: Annotated[bool, typer.Option("--traceback")] = False,
) -> None:
    """Run neural networks, .tflite and .onnx files, on GPUs with a Vulkan driver."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have characters that its encoding has not
    log.configure()  # an environment variable with a wrong value is an error of every command
