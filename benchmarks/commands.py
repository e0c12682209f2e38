"""How many commands a GPU gets for each model, and whether a model has more than before.

    PYTHONPATH=.:tests/support python benchmarks/commands.py nnvk/demo/data ../shared/models

Each command costs a GPU some microseconds, however little it computes. The plans are for the GPU of
``tests/support/profiles.py``, so the numbers are the same on every machine. ``--save`` keeps the numbers in
``results/commands.json``, and ``--check`` ends with 1 where a model has more than are kept.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from profiles import GPU

from nnvk.cli.output import print_table
from nnvk.driver.vulkan.planning.outline import outline
from nnvk.driver.vulkan.shaders.library import ShaderLibrary
from nnvk.importers import formats
from nnvk.types.model import Model

KEPT = Path(__file__).parent / "results" / "commands.json"
_SUFFIXES = (".onnx", ".tflite")


def models(paths: Sequence[Path]) -> Iterator[tuple[str, Model]]:
    """The models of files and folders, by name: a file's path from the folder on."""
    for path in paths:
        files = sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES) if path.is_dir() else [path]
        for file in files:
            name = str(file.relative_to(path)) if path.is_dir() else file.name
            yield name, formats.load(file).model.frozen


def more_than_kept(counts: Mapping[str, int], kept: Mapping[str, int]) -> list[str]:
    """A line for each model that has more commands than are kept."""
    return [
        f"{name} has {count} commands, {kept[name]} are kept"
        for name, count in counts.items()
        if count > kept.get(name, count)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", help="models, or folders that have some")
    parser.add_argument("--save", action="store_true", help=f"keep the numbers in {KEPT.name}")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a model has more commands than are kept")
    options = parser.parse_args(arguments)
    kept: dict[str, int] = json.loads(KEPT.read_text())
    library, counts, rows = ShaderLibrary(), {}, []
    for name, model in models(options.models):
        counts[name] = len(outline(model, GPU, library)["commands"])
        rows.append([name, str(len(model.operations)), str(counts[name]), str(kept.get(name, ""))])
    print_table(["model", "operations", "commands", "kept"], rows, title="Commands", right="operations commands kept")
    if options.save:
        KEPT.write_text(json.dumps(dict(sorted({**kept, **counts}.items())), indent=1) + "\n")
    more = more_than_kept(counts, kept)
    if more and options.check:
        print("\n".join(more))
    return 1 if more and options.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
