"""The options that all commands share: ``--json [FILE]``, ``--traceback``, and how their help looks.

Typer parses the rest. It has no options with an optional value, none that may stand before and after the command, and
takes the last of repeated options silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

from nnvk import __version__
from nnvk.insight.limits import DEFAULT_RUNS, DEFAULT_SECONDS, LEAST_RUNS

STANDARD_OUTPUT = Path("-")
"""``--json`` without a file."""
COMMON_OPTIONS = {
    "--version": "Print nnvk's version and exit.",
    "--traceback": "Show where an error came from.",
    "-h, --help": "Show this text and exit.",
}
"""Options of every command, and of ``nnvk`` itself."""

JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="[FILE]", help="Print JSON instead, or write it to FILE.json (or --json=FILE)."),
]

Runs = Annotated[
    int | None,
    typer.Option(
        "--runs",
        metavar="N",
        min=1,
        help="How often each model runs.",
        show_default=f"{DEFAULT_RUNS}, or what fits into {DEFAULT_SECONDS:g} s",
    ),
]
Seconds = Annotated[
    float | None,
    typer.Option(
        "--seconds",
        metavar="S",
        min=0.0,
        help=f"How long each model runs, but {LEAST_RUNS} times at least. With --runs, what comes first.",
        show_default=f"{DEFAULT_SECONDS:g} without --runs",
    ),
]


class Command(TyperCommand):
    """A command whose options may stand anywhere, each once unless it says otherwise."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the options that every command has, and parse the others."""
        own = _without_common(ctx, args)
        own = _with_json_joined(own, takes_arguments=any(isinstance(one, TyperArgument) for one in self.params))
        self._refuse_repeated(ctx, own)
        rest: list[str] = super().parse_args(ctx, own)
        return rest

    def _refuse_repeated(self, ctx: Any, args: Sequence[str]) -> None:
        """A second value would silently take the place of the first."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for number, param in enumerate(order):
            takes_one = isinstance(param, TyperOption) and not (param.is_flag or param.multiple)
            if takes_one and param in order[:number]:
                ctx.fail(f"{param.opts[0]} is given twice")

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """``[OPTIONS] MODEL...``."""
        return ["[OPTIONS]", *map(_argument_name, _arguments(self))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments and options, all defaults in brackets, flags without a type."""
        arguments = [(_argument_name(one), one.help or "") for one in _arguments(self)]
        options = [(_option_name(one), _help(one)) for one in self.params if isinstance(one, TyperOption)]
        for title, rows in (("Arguments", arguments), ("Options", [*options, *COMMON_OPTIONS.items()])):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _arguments(command: TyperCommand) -> list[TyperArgument]:
    """The arguments that users may give; hidden ones are there for their error messages."""
    return [one for one in command.params if isinstance(one, TyperArgument) and not one.hidden]


def _argument_name(param: TyperArgument) -> str:
    return f"{param.metavar}{'...' if param.nargs != 1 else ''}"


def _option_name(param: TyperOption) -> str:
    names = ", ".join(param.opts)
    return names if param.is_flag else f"{names} {param.metavar}"


def _help(param: TyperOption) -> str:
    default = param.show_default if isinstance(param.show_default, str) else param.default
    notes = ["repeatable"] if param.multiple else []
    if default not in (None, False, True, "", ()):
        notes.append(f"default: {f'{default:g}' if isinstance(default, float) else default}")
    return f"{param.help}  [{'; '.join(notes)}]" if notes else str(param.help)


def _without_common(ctx: Any, args: Sequence[str]) -> list[str]:
    """The other arguments. ``--version`` ends the program, ``--traceback`` is noted."""
    own, ended = [], False
    for word in args:
        ended = ended or word == "--"
        if word == "--version" and not ended:
            print_version()
            raise typer.Exit
        if word == "--traceback" and not ended:
            ctx.find_root().params["traceback"] = True
        else:
            own.append(word)
    return own


def print_version() -> None:
    """``nnvk 1.2.3``."""
    typer.echo(f"nnvk {__version__}")


def _with_json_joined(args: Sequence[str], *, takes_arguments: bool) -> list[str]:
    """``--json`` and its file as one word.

    The word after it is the file where it ends in .json, is ``-``, or can be nothing else.
    """
    words: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*words, word, *rest]
        if word == "--json":
            following = rest[0] if rest else ""
            is_plain = following and not following.startswith("-")
            is_file = following == "-" or (is_plain and (following.lower().endswith(".json") or not takes_arguments))
            word = f"--json={rest.pop(0) if is_file else STANDARD_OUTPUT}"
        words.append(word)
    return words
