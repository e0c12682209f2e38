"""Rows on a Ray cluster of this machine, with two workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import nnvk
from nnvk import NnapiError
from nnvk.batch import map_files, mapping, read_results

ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    ray.init(
        num_cpus=2,
        num_gpus=0,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env=environment,
        object_store_memory=80 << 20,
    )
    yield
    ray.shutdown()


@pytest.mark.parametrize("batch", [1, 4])
def test_results_are_those_of_this_process(task, digits, wanted, tmp_path: Path, batch: int) -> None:
    bad = tmp_path / "bad.png"
    bad.write_bytes(b"no image")
    cpu = [nnvk.get_device("nnapi-reference")]
    arguments = {"engine": "ray", "workers": 2, "devices": cpu}
    task = replace(task, batch=batch)
    assert map_files(task, digits[:5], tmp_path / "out", **arguments).done == 5
    counts: list[int] = []
    outcome = map_files(
        task, [*digits, bad], tmp_path / "out", begin=lambda total: counts.append(total) or counts.append, **arguments
    )
    assert (outcome.done, outcome.before) == (len(digits) - 5, 5)
    assert counts[0] == sum(counts[1:]) == len(digits) - 5 + 1
    assert [failure.name for failure in outcome.failures] == [str(bad)]
    found = dict(read_results(tmp_path / "out"))
    assert found.keys() == wanted.keys()
    for name, (array,) in found.items():
        np.testing.assert_array_equal(array, wanted[name])


def test_a_worker_that_fails_says_why(task, digits, tmp_path: Path) -> None:
    """An error of the model, and no row's."""
    model = tmp_path / "model.tflite"
    model.write_bytes(task.model.read_bytes())

    def begin(total: int):
        model.write_bytes(b"no model any more")
        return lambda count: None

    with pytest.raises(NnapiError, match=r"a worker of Ray has failed: .*not a .tflite file"):
        map_files(replace(task, model=model), digits[:2], tmp_path / "out", engine="ray", workers=1, begin=begin)


def test_nothing_to_do(task, digits, tmp_path: Path) -> None:
    assert map_files(task, [], tmp_path / "out", engine="ray").done == 0


def test_without_ray(task, digits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install nnvk\[ray\]"):
        map_files(task, digits, tmp_path / "out", engine="ray")
