"""RANDOM_MULTINOMIAL on the GPU: the reference's very draws, and others each time where the seeds are 0."""

import numpy as np
import pytest
from against_reference import check_like_the_reference
from data_errors import data_error

from nnvk.check.model_rows import Row, empty_like, execute, parse, reference, request
from nnvk.driver.vulkan.kernels import random_multinomial
from nnvk.types.request import ExecuteOptions, PrepareOptions


@pytest.mark.parametrize("type_", ["f32", "f16"])
@pytest.mark.parametrize(
    "shape", ["[1,1] 7", "[3,2] 101", "[1,5] 1", "[7,11] 13", "[2,1023] 31", "[3,1024] 5", "[2,1025] 9", "[3,7001] 17"]
)
@pytest.mark.parametrize("seeds", ["(37,-42)", "(-1,0)", "(0,7)"])
@pytest.mark.crossed
def test_like_the_reference(vulkan, type_, shape, seeds):
    sizes, samples = shape.split()
    check_like_the_reference(vulkan, f"RANDOM_MULTINOMIAL {type_}{sizes} {samples} {seeds} -> i32")


@pytest.mark.parametrize(
    "text",
    [
        "RANDOM_MULTINOMIAL f32[3,7] 11 @(5,6) -> i32",
        "RANDOM_MULTINOMIAL f32[3?,7?] 11 @(5,6) -> i32",
        "RANDOM_MULTINOMIAL #f32[3,7] 11 (5,6) -> i32",
        "RANDOM_MULTINOMIAL f32[1,7] 100003 (5,6) -> i32",
        "RANDOM_MULTINOMIAL f32[0?,7] 11 (5,6) -> i32",
    ],
)
def test_late_values_and_other_sizes(vulkan, text):
    check_like_the_reference(vulkan, text)


def test_batches_one_after_the_other(vulkan, monkeypatch):
    monkeypatch.setattr(random_multinomial, "MOST_SUMS", 500)
    check_like_the_reference(vulkan, "RANDOM_MULTINOMIAL f32[5,1009] 3 (5,6) -> i32")


@pytest.mark.parametrize(
    "logits",
    [
        [0, -np.inf, 1, np.nan, np.inf],
        [-np.inf, -np.inf, -7, -np.inf],
        [3e38, -3e38, 3e38],
        [100, 0, 99.99999],
        [-1e-40, 1e-40, 0],
        [-0.0, 0.0, -0.0],
        [0.0, -0.0, 0.0, 0.0, -0.0],
        [1.5, 1.4999999, 1e-3, -1e-3, 1e-30],
        [-1e10, -1e10 - 1024, 0],
        [16777216, 16777215, 16777214.5],
    ],
)
def test_logits_of_all_sizes(vulkan, logits):
    row = parse(f"RANDOM_MULTINOMIAL f32[1,{len(logits)}] 1009 (5,6) -> i32")
    check_like_the_reference(vulkan, Row(row.model, (np.array([logits], np.float32), *row.inputs[1:])))


def test_batches_without_a_finite_logit_are_refused(vulkan):
    row = parse("RANDOM_MULTINOMIAL f32[3,7] 2 (5,6) -> i32")
    row.inputs[0][1] = [np.nan, np.inf, -np.inf] * 2 + [np.nan]
    refused = data_error(lambda: reference(row))
    assert refused is not None
    assert data_error(lambda: execute(vulkan, row, [np.zeros((3, 2), np.int32)])) == refused


@pytest.mark.parametrize("seeds", ["(0,0)", "@(0,0)"])
def test_seeds_of_zero_are_others_each_time(vulkan, seeds):
    row = parse(f"RANDOM_MULTINOMIAL f32[2,1009] 64 {seeds} -> i32")
    prepared = vulkan.prepare_model(row.model, PrepareOptions())
    (output,) = outputs = empty_like(reference(row))
    execution = prepared.create_reusable_execution(request(row.inputs, outputs))
    drawn = set()
    for _ in range(5):
        execution.execute(ExecuteOptions())
        assert ((output >= 0) & (output < 1009)).all()
        drawn.add(output.tobytes())
    assert len(drawn) == 5


def test_frequencies_are_the_softmax(vulkan):
    row = parse("RANDOM_MULTINOMIAL f32[1,5] 40009 (0,0) -> i32")
    row.inputs[0][:] = [0, 1, 2, -np.inf, -1]
    (output,) = outputs = [np.zeros((1, 40009), np.int32)]
    execute(vulkan, row, outputs)
    weights = np.exp(row.inputs[0][0])
    assert np.abs(np.bincount(output[0], minlength=5) / output.size - weights / weights.sum()).max() < 0.01


def test_random_bytes_are_in_the_cache_too(vulkan, tmp_path):
    row = parse("RANDOM_MULTINOMIAL f32[2,1009] 64 (0,0) -> i32")
    drawn = set()
    for _ in range(3):
        prepared = vulkan.prepare_model(row.model, PrepareOptions(cache=tmp_path / "plan"))
        (output,) = outputs = empty_like(reference(row))
        prepared.execute(request(row.inputs, outputs), ExecuteOptions())
        drawn.add(output.tobytes())
    assert len(drawn) == 3
