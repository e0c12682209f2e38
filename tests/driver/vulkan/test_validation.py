"""The Khronos validation layer, with synchronisation validation, over a sample; ``make validate`` runs all tests so."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from guarded import GuardedRecording, run_guarded, spread
from networks import CLASSES, classifier, images

from nnvk.base.settings import override
from nnvk.check.model_rows import empty_like, execute, parse, reference, request
from nnvk.driver.vulkan import VulkanDevice, find_devices, take_validation_messages
from nnvk.types.request import ExecuteOptions, PrepareOptions

SAMPLE = """
ADD f32[2,3,5] f32[5] RELU6
MUL u8[2,3,5]*0.5+3 u8[2,3,5]*0.5+9 NONE
AVERAGE_POOL_2D i8[2,5,3,4]*0.5+3 SAME 1 1 2 2 NONE nchw
MAX_POOL_2D f32[1,64,64,8] VALID 1 1 64 64 NONE nhwc
SOFTMAX f32[2,40000] 1.0f
LOGISTIC i8[13]*0.05+3 -> i8*0.00390625-128
CONCATENATION u8[2,3]*0.5+3 u8[2,5]*0.25+9 u8[2,1]*0.5+3 1
PAD i8[2,3,5]*0.5+3 (0,1;2,0;1,1)
MEAN u8[40000,5]*0.5+3 (0) 0
QUANTIZE f32[13] -> i8*0.037-5
RESHAPE f32[2,3] (3,2)
CONV_2D u8[1,5,7,3]*0.05+120 #pc0[5,3,3,3] #i32[5] SAME 1 1 RELU -> u8*0.08+100
CONV_2D f32[2,4,5,7] f32[8,1,1,4] f32[8] SAME 1 1 NONE nchw
DEPTHWISE_CONV_2D f32[1,7,6,5] #f32[1,2,3,10] #f32[10] 1 0 2 1 1 2 2 NONE nhwc
FULLY_CONNECTED i8[5,33]*0.05-7 i8[7,33]*0.02+5 i32[7] RELU -> i8*0.08-20
"""


@pytest.fixture(scope="module", params=["", "mobile-min"], ids=["own", "smallest"])
def device(request: pytest.FixtureRequest) -> VulkanDevice:
    with override(validation=True, device_profile=request.param):
        found, reason = find_devices()
    if not found:
        pytest.skip(reason)
    take_validation_messages()
    return found[0]


@pytest.fixture
def silent(device: VulkanDevice) -> Iterator[VulkanDevice]:
    """A validated device; the test fails if the layer complains about anything."""
    yield device
    assert take_validation_messages() == []


@pytest.mark.parametrize("text", SAMPLE.strip().splitlines())
def test_operations(silent: VulkanDevice, text: str) -> None:
    row = parse(text)
    outputs = empty_like(reference(row))
    execute(silent, row, outputs)
    assert run_guarded(silent, row.model, row.inputs, outputs) == []


def test_a_network(silent: VulkanDevice) -> None:
    prepared = silent.prepare_model(classifier().frozen, PrepareOptions())
    for batch in (1, 3):
        output = np.zeros((batch, CLASSES), np.float32)
        for measure in (False, True):
            prepared.execute(request([images(batch)], [output]), ExecuteOptions(measure=measure))
    model = classifier(2).frozen
    assert run_guarded(silent, model, [images(2)], [np.zeros((2, CLASSES), np.float32)]) == []


def test_the_layer_sees_a_missing_barrier(device: VulkanDevice, caplog: pytest.LogCaptureFixture) -> None:
    plan = spread(device.planner.plan(classifier(1).frozen, [(1, 6, 6, 4)], PrepareOptions()))
    assert plan.barriers
    GuardedRecording(device.gpu.native(), replace(plan, barriers=frozenset()))
    with caplog.at_level(logging.WARNING, "nnvk.driver"):
        messages = take_validation_messages()
    assert messages
    assert all("SYNC-HAZARD" in message for message in messages)
    assert [record.getMessage() for record in caplog.records] == messages
    assert take_validation_messages() == []


def test_devices_have_just_the_features_that_shaders_use(device: VulkanDevice) -> None:
    assert set(device.gpu.native().features) <= device.profile.features
