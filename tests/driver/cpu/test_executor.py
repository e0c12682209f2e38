"""The reference executor: control flow, omitted inputs, limits of time."""

import time
import tracemalloc

import numpy as np
import pytest

from nnvk.base.errors import NnapiError, ResultCode
from nnvk.driver.cpu.executor import run
from nnvk.ops import flow
from nnvk.ops.flow import Clock
from nnvk.types.codes import OperandCode, OperationCode
from nnvk.types.model import Lifetime, Model, Operand, Operation
from nnvk.types.operand import OperandType

F32 = OperandType(OperandCode.TENSOR_FLOAT32)
BOOL = OperandType(OperandCode.TENSOR_BOOL8, (1,))
AXIS = OperandType(OperandCode.INT32)
IN, OUT, TEMPORARY = Lifetime.SUBGRAPH_INPUT, Lifetime.SUBGRAPH_OUTPUT, Lifetime.TEMPORARY_VARIABLE
UNLIMITED = Clock(None, 60 * 10**9)


def model(operands, *operations):
    """Operands are (type, lifetime), arrays for constants, models for subgraphs."""
    made = []
    for operand in operands:
        if isinstance(operand, Model):
            made.append(Operand(OperandType(OperandCode.MODEL), Lifetime.SUBGRAPH, subgraph=operand))
        elif isinstance(operand, np.ndarray):
            code = {0: OperandCode.INT32, 1: OperandCode.TENSOR_INT32}[operand.ndim]
            made.append(Operand(OperandType(code, operand.shape), Lifetime.CONSTANT, operand))
        else:
            made.append(Operand(*operand))
    inputs = tuple(index for index, operand in enumerate(made) if operand.lifetime is IN)
    outputs = tuple(index for index, operand in enumerate(made) if operand.lifetime is OUT)
    return Model(tuple(made), tuple(Operation(*operation) for operation in operations), inputs, outputs)


def expand(axis_type=AXIS):
    """EXPAND_DIMS along an axis that is an input: a scalar that goes through to the branch."""
    return model([(F32, IN), (axis_type, IN), (F32, OUT)], (OperationCode.EXPAND_DIMS, (0, 1), (2,)))


def choice(taken, other, condition=BOOL, output=F32):
    return model(
        [(condition, IN), taken, other, (F32, IN), (AXIS, IN), (output, OUT)],
        (OperationCode.IF, (0, 1, 2, 3, 4), (5,)),
    )


def dropping():
    """WHILE the first element is above 1: the state loses its first element."""
    element = [np.array([n], np.int32) for n in (0, 1, -1)]
    zero, one, rest = range(3)
    condition = model(
        [*element, (F32, IN), (F32, TEMPORARY), (BOOL, OUT), (F32, IN)],
        (OperationCode.SLICE, (3, zero, one), (4,)),
        (OperationCode.GREATER, (4, 6), (5,)),
    )
    body = model([*element, (F32, IN), (F32, OUT), (F32, IN)], (OperationCode.SLICE, (3, one, rest), (4,)))
    return model([condition, body, (F32, IN), (F32, IN), (F32, OUT)], (OperationCode.WHILE, (0, 1, 2, 3), (4,)))


@pytest.mark.parametrize(("verdict", "shape"), [(True, (1, 3)), (False, (3,))])
def test_if_takes_one_branch_and_hands_scalars_on(verdict, shape):
    keep = model([(F32, IN), (AXIS, IN), np.array([-1], np.int32), (F32, OUT)], (OperationCode.RESHAPE, (0, 2), (3,)))
    inputs = [np.array([verdict]), np.arange(3, dtype=np.float32), np.array(0, np.int32)]
    (result,) = run(choice(expand(), keep), inputs, UNLIMITED)
    assert result.shape == shape


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        pytest.param(
            [np.array([True]), np.zeros(3, np.float32), np.array(0, np.uint32)],
            "input 2 has data of type uint32, the model says INT32",
            id="dtype",
        ),
        pytest.param(
            [np.array([True, True]), np.zeros(3, np.float32), np.array(0, np.int32)],
            r"input 0 has shape \[2\], the model says \[1\]",
            id="shape",
        ),
        pytest.param(
            [None, np.zeros(3, np.float32), np.array(0, np.int32)],
            r"IF: condition \(input 0\) can't be omitted",
            id="omitted_condition",
        ),
        pytest.param(
            [np.array([True]), None, np.array(0, np.int32)], r"IF: inputs\[0\] can't be omitted", id="omitted_state"
        ),
    ],
)
def test_inputs_that_do_not_fit(inputs, message):
    with pytest.raises(NnapiError, match=message) as error:
        run(choice(expand(), expand()), inputs, UNLIMITED)
    assert error.value.code is ResultCode.BAD_DATA


def test_branch_that_takes_another_scalar():
    other = expand()
    wrong = Model(
        tuple(Operand(OperandType(OperandCode.UINT32), IN) if k == 1 else o for k, o in enumerate(other.operands)),
        other.operations,
        other.inputs,
        other.outputs,
    )
    inputs = [np.array([True]), np.zeros(3, np.float32), np.array(0, np.int32)]
    with pytest.raises(NnapiError, match="input 1 has data of type int32, the model says UINT32"):
        run(choice(wrong, other), inputs, UNLIMITED)


def test_result_of_a_branch_must_fit_the_declared_output():
    inputs = [np.array([True]), np.zeros(3, np.float32), np.array(0, np.int32)]
    declared = F32.with_dimensions((3, 0))
    with pytest.raises(NnapiError, match=r"IF: output 0 has shape \[1, 3\], the model says \[3, 0\]"):
        run(choice(expand(), expand(), output=declared), inputs, UNLIMITED)


@pytest.mark.parametrize(
    ("state", "expected"), [([0.5, 7], [0.5, 7]), ([3, 2, 1, 4], [1, 4]), ([9, 8, 7, 6, 5, 0], [0])]
)
def test_while_carries_a_state_whose_size_changes(state, expected):
    """The second input is the same in every round."""
    (result,) = run(dropping(), [np.array(state, np.float32), np.ones(1, np.float32)], UNLIMITED)
    assert result.tolist() == expected


def endless():
    """A WHILE whose state stays as it is."""
    condition = model([(BOOL, IN), (BOOL, OUT)], (OperationCode.LOGICAL_NOT, (0,), (1,)))
    body = model([(BOOL, IN), (BOOL, OUT)], (OperationCode.LOGICAL_AND, (0, 0), (1,)))
    return model([condition, body, (BOOL, IN), (BOOL, OUT)], (OperationCode.WHILE, (0, 1, 2), (3,)))


@pytest.mark.parametrize(
    ("clock", "message"),
    [
        pytest.param(lambda: Clock(None, 10**7), "WHILE: a loop ran longer than 0.01 s", id="loop"),
        pytest.param(
            lambda: Clock(time.monotonic_ns() + 10**7, 60 * 10**9), "the execution's deadline has passed", id="deadline"
        ),
    ],
)
def test_endless_loops_end(clock, message):
    with pytest.raises(NnapiError, match=message) as error:
        run(endless(), [np.array([False])], clock())
    assert error.value.code is ResultCode.MISSED_DEADLINE_TRANSIENT


def test_what_a_loop_s_first_turn_takes_does_not_count():
    """A device may have to prepare for it."""
    turns = iter([0.03, 0.0, 0.0])
    operation = endless().operations[0]

    def evaluate(name, state):
        if name == "condition":
            return [np.array([state[0] < 3])]
        time.sleep(next(turns))
        return [state[0] + 1]

    assert flow.run(operation, ["condition", "body"], [0], evaluate, lambda value: value, Clock(None, 10**7)) == [3]


def test_optional_operand_omitted_at_execution():
    axes = OperandType(OperandCode.TENSOR_INT32, (1,))
    squeeze = model([(F32, IN), (axes, IN), (F32, OUT)], (OperationCode.SQUEEZE, (0, 1), (2,)))
    source = np.zeros((1, 3, 1), np.float32)
    assert run(squeeze, [source, None], UNLIMITED)[0].shape == (3,)
    assert run(squeeze, [source, np.array([0], np.int32)], UNLIMITED)[0].shape == (3, 1)


# --- memory ------------------------------------------------------------------------------------------------------


def peak_of(made, inputs):
    """Bytes that a run allocates, at most at once."""
    tracemalloc.start()
    try:
        outputs = run(made, inputs, UNLIMITED)
        return tracemalloc.get_traced_memory()[1], outputs
    finally:
        tracemalloc.stop()


def test_temporaries_go_when_they_were_read_for_the_last_time():
    """Few of twenty temporaries in a row are in memory at once."""
    source = np.ones(1 << 16, np.float32)
    operations = [(OperationCode.ABS, (number,), (number + 1,)) for number in range(20)]
    operands = [(F32, IN), *[(F32, TEMPORARY)] * 19, (F32, OUT)]
    peak, (result,) = peak_of(model(operands, *operations), [source])
    assert (result == 1).all()
    assert peak < 5 * source.nbytes


def test_temporaries_that_nothing_reads_go_at_once():
    source = np.ones(1 << 16, np.float32)
    operations = [(OperationCode.ABS, (0,), (number + 1,)) for number in range(20)]
    operands = [(F32, IN), *[(F32, TEMPORARY)] * 19, (F32, OUT)]
    peak, (result,) = peak_of(model(operands, *operations), [source])
    assert (result == 1).all()
    assert peak < 5 * source.nbytes


def test_temporaries_stay_while_somebody_will_read_them():
    """The first one is read again by the last operation, and all outputs stay."""
    source = np.ones(1 << 16, np.float32)
    none = np.array(0, np.int32)
    steps = [(OperationCode.NEG, (number,), (number + 1,)) for number in range(9)]
    operands = [(F32, IN), *[(F32, TEMPORARY)] * 8, (F32, OUT), (F32, OUT), none]
    last = (OperationCode.ADD, (1, 9, 11), (10,))
    peak, (first, second) = peak_of(model(operands, *steps, last), [source])
    assert (first == -1).all()
    assert (second == -2).all()
    assert peak < 7 * source.nbytes
