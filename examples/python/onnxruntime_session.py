"""Runs an ONNX model in onnxruntime twice, on the CPU and with nnvk, and compares the outputs and the times.

    .venv/bin/pip install onnxruntime  # after scripts/install.sh
    python onnxruntime_session.py model.onnx --runs 10

Inputs are random numbers; sizes that the file leaves open are ``--size``.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import onnxruntime

import nnvk.onnxruntime


def main() -> None:
    """Make both sessions, run them, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--size", type=int, default=1, help="the size of open dimensions")
    parser.add_argument("--device", help="one that `nnvk devices` shows; default: the preferred one")
    arguments = parser.parse_args()

    nnvk.onnxruntime.register()
    options = onnxruntime.SessionOptions()
    nnvk.onnxruntime.record_assignment(options)
    options.add_provider_for_devices(nnvk.onnxruntime.devices(arguments.device), {"relaxed": "0"})
    ours = onnxruntime.InferenceSession(str(arguments.model), options)
    theirs = onnxruntime.InferenceSession(str(arguments.model), providers=["CPUExecutionProvider"])

    placed = nnvk.onnxruntime.assignment(ours)
    count = sum(one.provider == nnvk.onnxruntime.NAME for one in placed)
    print(f"{count} of {len(placed)} nodes run on nnvk")

    feed = {one.name: random_input(one, arguments.size) for one in theirs.get_inputs()}
    results = {}
    for name, session in (("CPU", theirs), ("nnvk", ours)):
        results[name] = session.run(None, feed)  # the first run compiles
        begun = time.perf_counter()
        for _ in range(arguments.runs):
            session.run(None, feed)
        print(f"{name}: {(time.perf_counter() - begun) / arguments.runs * 1e3:.2f} ms a run")
    for port, cpu, gpu in zip(theirs.get_outputs(), results["CPU"], results["nnvk"], strict=True):
        difference = np.abs(cpu.astype(np.float64) - gpu.astype(np.float64)).max(initial=0)
        print(f"{port.name}: the largest difference is {difference:.2g}")


def random_input(port: onnxruntime.NodeArg, size: int) -> np.ndarray:
    """An array for an input: real numbers from 0 to 1, whole numbers 0 and 1."""
    shape = [known if isinstance(known, int) else size for known in port.shape]
    kind = port.type.removeprefix("tensor(").removesuffix(")")
    dtype = {"float": np.float32, "double": np.float64, "bool": np.bool_}.get(kind) or np.dtype(kind)
    numbers = np.random.default_rng(0).random(shape)
    return (numbers if np.dtype(dtype).kind == "f" else numbers.round()).astype(dtype)


if __name__ == "__main__":
    main()
