"""The program that runs models through the C library: its answers, and what becomes of it when it crashes."""

from __future__ import annotations

import signal
import stat
from pathlib import Path

import numpy as np
import pytest
from samples import raises

from nnvk.api import FuseCode, OperandCode, OperandType, OperationCode, ResultCode
from nnvk.conformance import c_program
from nnvk.conformance.c_program import Program, Script, ScriptedModel

CPU = "nnapi-reference"
TENSOR, SCALAR = OperandType(OperandCode.TENSOR_FLOAT32, (2,)), OperandType(OperandCode.INT32)
GUARD = 8


def adding(device: str = CPU, *, has_finished: bool = True) -> ScriptedModel:
    """Output = input 0 + input 1."""
    model = ScriptedModel(Script(device))
    for type_ in (TENSOR, TENSOR, SCALAR, TENSOR):
        model.add_operand(type_)
    model.set_operand_value(2, np.array([FuseCode.NONE], np.int32))
    model.add_operation(OperationCode.ADD, [0, 1, 2], [3])
    model.identify_inputs_and_outputs([0, 1], [3])
    if has_finished:
        model.finish()
    return model


def buffer(size: int = 8) -> np.ndarray:
    return np.full(size + 2 * GUARD, 7, np.uint8)


def test_it_computes_again_and_again() -> None:
    program = Program()
    for value in (1, 2):
        given, output = [np.full(2, value, np.float32)] * 2, buffer()
        ran = program.run(adding().run(given, [output], GUARD), [output])
        assert ran.unsupported is None and ran.dimensions == ((2,),)
        assert output[GUARD:-GUARD].view(np.float32).tolist() == [2 * value] * 2
        assert (output[:GUARD] == 7).all() and (output[-GUARD:] == 7).all()


def test_the_call_that_fails_is_named() -> None:
    program, output = Program(), buffer()
    given = [np.zeros(2, np.float32)] * 2
    with raises(ResultCode.BAD_DATA, match="ANeuralNetworks_getDevice failed"):
        program.run(adding("no such device").run(given, [output], GUARD), [output])
    with raises(ResultCode.BAD_STATE, match="ANeuralNetworksModel_getSupportedOperationsForDevices failed"):
        program.run(adding(has_finished=False).run(given, [output], GUARD), [output])
    with raises(ResultCode.BAD_DATA, match="ANeuralNetworksExecution_setInput failed"):
        program.run(adding().run([np.zeros(3, np.float32)] * 2, [output], GUARD), [output])
    assert (output == 7).all()
    assert program.run(adding().run(given, [output], GUARD), [output]).dimensions == ((2,),)


def test_a_program_that_crashes_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, output = Program(), buffer()
    script = adding().run([np.zeros(2, np.float32)] * 2, [output], GUARD)
    for end, how in (("kill -SEGV $$", f"was killed by {signal.SIGSEGV.name}"), ("exit 3", "ends with exit code 3")):
        command = tmp_path / "program"
        command.write_text(f"#!/bin/sh\n{end}\n")
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
        with monkeypatch.context() as patch:
            patch.setattr(c_program, "VECTORS", command)
            with pytest.raises(ChildProcessError, match=how):
                program.run(script, [output])
    assert program.run(script, [output]).dimensions == ((2,),)
