"""``nnvk plan``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from difflib import unified_diff
from pathlib import Path
from typing import Annotated, Any

import typer

from nnvk.base.errors import NnapiError, bad_data
from nnvk.base.files import read_text
from nnvk.base.settings import settings
from nnvk.base.text import plural, printable
from nnvk.cli.importing import DEFAULT, Importing, takes_options
from nnvk.cli.lines import print_line
from nnvk.cli.modes import has_modes
from nnvk.cli.output import check_writable, deliver, print_table
from nnvk.cli.usage import JsonFile
from nnvk.driver.vulkan import VulkanDevice, outline
from nnvk.driver.vulkan.graph.dump import BUILD, LOWER
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.driver.vulkan.shaders.profile import DeviceProfile, described, parse_profile
from nnvk.loading.devices import find_vulkan_device
from nnvk.runtime.reproducible import check_reproducible
from nnvk.runtime.verification import redundancy_of, verified_setting


@has_modes
@takes_options
def command(
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="A .tflite or .onnx file.")],
    profile_file: Annotated[
        Path | None,
        typer.Option("--profile", metavar="FILE", help="Plan for the device that this JSON file describes."),
    ] = None,
    device: Annotated[
        str | None,
        typer.Option("--device", metavar="NAME", help="Plan for this device; for the first GPU, if left out."),
    ] = None,
    passes: Annotated[
        bool,
        typer.Option("--passes", help="Show what each pass changes: the operations, then the commands."),
    ] = False,
    importing: Importing = DEFAULT,
    json_file: JsonFile = None,
) -> None:
    """Show the commands that a Vulkan device gets for a model.

    The table has the shader, the workgroups and the barrier of each command; the memory is above it. With --profile the
    device need not be there. --json has everything, also the profile of the device planned for: a file to change and to
    give to --profile.
    """
    if profile_file is not None and device is not None:
        raise ValueError("--profile and --device both say what to plan for: give one")
    check_writable(json_file)
    if profile_file is not None:
        profile, autotune_results = _read_profile(profile_file), None
    else:
        driver = _vulkan_device(device)
        profile, autotune_results = driver.profile, driver.planner.autotune_results.known
    imported = importing.load(path)
    stages: list[dict[str, Any]] = []

    def observe(name: str, lines: Iterable[str]) -> None:
        stages.append({"pass": name, "lines": list(lines)})

    model = imported.model.frozen
    if settings().reproducible:
        model = model.as_reproducible()
        check_reproducible(model)
    redundancy = redundancy_of(verified_setting(settings().verified))
    planned = outline(model, profile, ShaderLibrary(), autotune_results, observe if passes else None, redundancy)
    content = {"model": str(path), "profile": described(profile), **planned, **({"stages": stages} if passes else {})}
    deliver(json_file, content, lambda: _print_stages(stages) if passes else _print(path, profile, planned))


def _vulkan_device(name: str | None) -> VulkanDevice:
    try:
        return find_vulkan_device(name)
    except NnapiError as error:
        raise bad_data(f"{error.reason}; --profile FILE plans for one that is not there") from None


def _read_profile(path: Path) -> DeviceProfile:
    """A profile, or the profile in a document that this command wrote."""
    try:
        value = json.loads(read_text(path))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"not a JSON file: {path}: {error}") from None
    return parse_profile(value["profile"] if isinstance(value, dict) and "profile" in value else value)


def _print(path: Path, profile: DeviceProfile, planned: dict[str, Any]) -> None:
    commands = planned["commands"]
    barriers = sum(command["barrier"] for command in commands)
    print_line(f"{path.name} on {profile.name}: {plural(len(commands), 'command')}, {plural(barriers, 'barrier')}")
    print_line(", ".join(f"{name} {sum(pages):,} bytes" for name, pages in planned["memory"].items()))
    rows = [_row(number, command) for number, command in enumerate(commands)]
    print_table(["#", "operation", "shader", "groups", "of", "waits"], rows, title="Commands", right="# groups of")


def _print_stages(stages: list[dict[str, Any]]) -> None:
    """The operations before all passes, and the lines that go and come with each one; the same of commands."""
    before: list[str] = []
    for stage in stages:
        lines = stage["lines"]
        print_line(f"{stage['pass']}:" if lines != before else f"{stage['pass']}: nothing changes")
        if stage["pass"] in (BUILD, LOWER):
            changed = [f"  {line}" for line in lines]
        else:
            changed = [
                f"{line[0]} {line[1:]}" for line in list(unified_diff(before, lines, n=0))[2:] if line[0] in "+-"
            ]
        for line in changed:
            print_line(f"  {printable(line)}")
        before = lines


def _row(number: int, command: dict[str, Any]) -> list[str]:
    waits = "yes" if command["barrier"] else ""
    if command["kind"] != "dispatch":
        return [str(number), "", f"{command['kind']} of {command['bytes']} bytes", "", "", waits]
    groups, local = (_sizes(command[key]) for key in ("groups", "local"))
    return [str(number), printable(command["code"]), command["shader"], groups, local, waits]


def _sizes(sizes: list[int]) -> str:
    """Workgroups or invocations along the axes that have several."""
    return "x".join(map(str, sizes)).removesuffix("x1").removesuffix("x1")
