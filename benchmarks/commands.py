"""How many commands a GPU gets for each model, and whether a model has more than before.

    PYTHONPATH=.:tests/support:tools python benchmarks/commands.py nnvk/demo/data ../shared/models

Each command costs a GPU some microseconds, however little it computes. The plans are for the GPU of
``tests/support/profiles.py``, so the numbers are the same on every machine. ``--save`` keeps the numbers in
``results/commands.json``, and ``--check`` ends with 1 where a model has more than are kept.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from plan_dump import models
from profiles import GPU

from nnvk.cli.output import print_table
from nnvk.driver.vulkan.planning.outline import outline
from nnvk.driver.vulkan.shaders.library import ShaderLibrary

KEPT = Path(__file__).parent / "results" / "commands.json"


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
    for file, model in models(options.models):
        name = f"{file.parent.name}/{file.name}"
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
