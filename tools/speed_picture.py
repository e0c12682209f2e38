"""Draw a picture of the times that ``benchmarks/results`` has of a device.

``python tools/speed_picture.py llvmpipe docs/images/speed-llvmpipe.svg`` draws the medians of nnvk and of the other
engine for each of `MODELS`, with the device and the date in the title.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nnvk.insight.drawing import Bar, Chart, save

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
MODELS = {
    "mobilenet_v1": "MobileNetV1",
    "mobilenet_v2": "MobileNetV2",
    "resnet50": "ResNet-50",
    "minilm_l6": "MiniLM-L6, 128 tokens",
}
"""The models of the picture by their names in the results: those that both engines have, in float32."""
PEER = "ncnn"


def picture(result: dict[str, Any]) -> Chart:
    """The chart of a device's results."""
    models = result["models"]
    table = next(each for each in models["tables"] if each["title"] == "Medians in ms")
    nnvk, peer = table["columns"].index("vulkan-0"), table["columns"].index(PEER)
    rows = {row[0]: row for row in table["rows"]}
    bars = []
    for key, name in MODELS.items():
        for engine, place, is_peer in (("nnvk", nnvk, False), (PEER, peer, True)):
            shown = f"{rows[key][place]} {engine}"
            bars.append(Bar("" if is_peer else name, float(rows[key][place]), shown, is_other=is_peer))
    return Chart(_title(models["environment"]), f"milliseconds, median; less is better ({PEER} with Vulkan)", bars)


def _title(environment: Mapping[str, str]) -> str:
    """The device, the processor and the date, in the width of the picture."""
    device = re.split(r",| \(", environment["device"])[0]
    processor = environment["cpu"].replace("(R)", "").replace(" Processor", "")
    return f"{device}, {processor}, {environment['measured'][:10]}"


def main() -> None:
    """Draw the picture of one device."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", help="a file of benchmarks/results, without .json")
    parser.add_argument("out", type=Path, help="the .svg or .png to write")
    arguments = parser.parse_args()
    result = json.loads((RESULTS / f"{arguments.device}.json").read_text(encoding="utf-8"))
    save(picture(result), arguments.out)


if __name__ == "__main__":
    main()
