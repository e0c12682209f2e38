"""``nnvk config``."""

from __future__ import annotations

from typing import Annotated

import typer

from nnvk.cli.lines import print_line
from nnvk.cli.output import check_writable, deliver
from nnvk.cli.usage import JsonFile
from nnvk.serve.installed import LIBRARY, library_paths


def command(
    includes: Annotated[bool, typer.Option("--includes", help="The compiler's flag for the headers.")] = False,
    ldflags: Annotated[bool, typer.Option("--ldflags", help="The linker's flags, with the path for run time.")] = False,
    library: Annotated[bool, typer.Option("--library", help="The path of libneuralnetworks.so.")] = False,
    delegate: Annotated[bool, typer.Option("--delegate", help="The path of the delegate for LiteRT.")] = False,
    accelerator: Annotated[
        bool, typer.Option("--accelerator", help="The folder of the accelerator for LiteRT.")
    ] = False,
    onnxruntime: Annotated[
        bool, typer.Option("--onnxruntime", help="The path of the provider for onnxruntime.")
    ] = False,
    pkg_config: Annotated[bool, typer.Option("--pkg-config", help="The folder for PKG_CONFIG_PATH.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Print where the C libraries and headers are, for compilers.

    It prints the places of the delegate, of the accelerator and of the
    provider, too. All is in one line, for instance:
    cc program.c $(nnvk config --includes --ldflags)
    """
    paths = library_paths()
    check_writable(json_file)
    folder = LIBRARY.parent
    parts = []
    if includes:
        parts.append(f"-I{paths.includes}")
    if ldflags:
        parts.append(f"-L{folder} -Wl,--push-state,--no-as-needed -lneuralnetworks -Wl,--pop-state -Wl,-rpath,{folder}")
    if library:
        parts.append(paths.library)
    if delegate:
        parts.append(paths.delegate)
    if accelerator:
        parts.append(paths.accelerator)
    if onnxruntime:
        parts.append(paths.onnxruntime)
    if pkg_config:
        parts.append(paths.pkg_config)
    if not parts and json_file is None:
        raise ValueError(
            "say what is wanted: --includes, --ldflags, --library, --delegate, --accelerator, --onnxruntime or "
            "--pkg-config"
        )
    deliver(json_file, paths._asdict(), lambda: print_line(" ".join(parts)))
