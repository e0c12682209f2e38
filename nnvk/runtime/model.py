"""Model: the builder of a network."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nnvk.base.checks import flag, instance, reals, sequence, shown, text, whole, wholes
from nnvk.base.errors import bad_data, bad_state
from nnvk.base.extents import hint
from nnvk.base.log import logger
from nnvk.base.text import plural
from nnvk.hal import Support
from nnvk.runtime import model_checks
from nnvk.runtime.devices import Device, check_distinct, supported_operations
from nnvk.runtime.memory import Memory, check_aligned
from nnvk.types import model as frozen
from nnvk.types.codes import (
    EXTENSION_LOW_BITS,
    MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES,
    ExtensionCode,
    OperandCode,
    OperationCode,
)
from nnvk.types.constant import Constant, DeferredConstant
from nnvk.types.extension import AnyCode, ExtendedOperationCode, operation_of
from nnvk.types.extract import exposed
from nnvk.types.operand import ChannelQuant, OperandType

_log = logger("model")


class Model:
    """A network under construction (``ANeuralNetworksModel``): add operands and operations, then `finish`.

    A finished model never changes; compilations and other models may refer to it.
    """

    def __init__(self) -> None:
        self._types: list[OperandType] = []
        self._values: dict[int, Constant | None] = {}
        self._subgraphs: dict[int, frozen.Model] = {}
        self._operations: list[frozen.Operation] = []
        self._inputs: tuple[int, ...] | None = None
        self._outputs: tuple[int, ...] = ()
        self._input_names: tuple[str, ...] = ()
        self._relaxed = False
        self._extensions: list[str] = []
        self._finish_called = False
        self._frozen: frozen.Model | None = None

    def __repr__(self) -> str:
        if self._frozen is not None:
            return f"<nnvk.Model{repr(self._frozen).removeprefix('<model')}"
        counts = f"{plural(len(self._types), 'operand')}, {plural(len(self._operations), 'operation')}"
        return f"<nnvk.Model {'that failed' if self._finish_called else 'not finished'}: {counts}>"

    # --- operands ------------------------------------------------------------------------------------------------

    def add_operand(self, type: OperandType) -> int:
        """Add an operand and return its index, counted from 0 (``ANeuralNetworksModel_addOperand``).

        BAD_DATA: dimensions, scale and zero point don't fit the type. BAD_STATE: the model is finished.
        """
        self._check_unfinished("add_operand")
        index = len(self._types)
        instance(f"the type of operand {index}", type, OperandType).check(f"operand {index}")
        self._types.append(type)
        return index

    def set_operand_value(self, index: int, value: Any) -> None:
        """Make an operand a constant (``ANeuralNetworksModel_setOperandValue``).

        ``value`` is an array or buffer of exactly the operand's bytes, or a Python number or nested list; None
        marks an optional operand as omitted. Up to 128 bytes are copied, more are referred to and must stay as
        they are until the model is gone. A `DeferredConstant` is kept as it is.
        BAD_DATA: the value does not fit, or dimensions of the operand are open.
        """
        index = self._settable(index, "set_operand_value")
        if value is None:
            self._values[index] = None
            return
        type_ = self._constant_type(index)
        if isinstance(value, DeferredConstant):
            self._values[index] = model_checks.checked(value, type_, f"operand {index}")
            return
        data = model_checks.as_array(value, type_, f"operand {index}")
        if data.nbytes <= MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES:
            data = data.copy()
        self._values[index] = model_checks.read_only(data)

    def set_operand_value_from_memory(self, index: int, memory: Memory, offset: int, length: int) -> None:
        """Make an operand a constant that lies in a memory (``ANeuralNetworksModel_setOperandValueFromMemory``).

        Nothing is copied; the memory must stay as it is until the model is gone. BAD_DATA: the bytes lie outside the
        memory, don't begin at a multiple of the element's size, or don't fit; it is device memory.
        """
        index = self._settable(index, "set_operand_value_from_memory")
        instance("the memory", memory, Memory)
        offset, length = whole("offset", offset), whole("length", length)
        type_ = self._constant_type(index)
        what = f"operand {index}"
        view = memory.slice(offset, length)
        check_aligned(what, type_, offset)
        self._values[index] = model_checks.read_only(model_checks.as_array(view, type_, what))

    def set_operand_value_from_model(self, index: int, value: Model) -> None:
        """Make an operand refer to a finished model (``ANeuralNetworksModel_setOperandValueFromModel``).

        BAD_DATA: the operand is not of type MODEL. BAD_STATE: the referenced model is not finished.
        """
        index = self._settable(index, "set_operand_value_from_model")
        instance("the value", value, Model)
        if self._types[index].code is not OperandCode.MODEL:
            raise bad_data(f"operand {index} must be of type MODEL to take a model, it is {self._types[index]}")
        self._subgraphs[index] = value.frozen

    def set_operand_symm_per_channel_quant_params(self, index: int, channel_dim: int, scales: Sequence[float]) -> None:
        """Set the scales of a TENSOR_QUANT8_SYMM_PER_CHANNEL operand.

        (``ANeuralNetworksModel_setOperandSymmPerChannelQuantParams``.) One positive scale per index of
        ``channel_dim``.
        """
        self._check_unfinished("set_operand_symm_per_channel_quant_params")
        index = self._index(index)
        type_ = self._types[index]
        if type_.code is not OperandCode.TENSOR_QUANT8_SYMM_PER_CHANNEL:
            raise bad_data(f"operand {index} must be TENSOR_QUANT8_SYMM_PER_CHANNEL to have scales, it is {type_}")
        channels = ChannelQuant(reals("the scales", scales), whole("channel_dim", channel_dim))
        with_channels = OperandType(type_.code, type_.dimensions, channel_quant=channels)
        with_channels.check_channels(f"operand {index}")
        self._types[index] = with_channels

    # --- operations ----------------------------------------------------------------------------------------------

    def add_operation(self, code: AnyCode | int, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Add an operation (``ANeuralNetworksModel_addOperation``), in any order.

        ``code`` may be what `get_extension_operation_type` gave. BAD_DATA: an index names no operand, or the code no
        operation. TypeError: the code is no number.
        """
        self._check_unfinished("add_operation")
        if isinstance(code, ExtensionCode):
            code = operation_of(code.extension, code.code)
        elif not isinstance(code, ExtendedOperationCode):
            code = self._operation_code(code)
        read, written = self._indexes("inputs", inputs, code.name), self._indexes("outputs", outputs, code.name)
        if not written:
            raise bad_data(f"{code.name} must have an output")
        self._operations.append(frozen.Operation(code, read, written))

    def get_extension_operation_type(self, extension: str, code: int) -> int:
        """The number of an extension's operation in this model (``ANeuralNetworksModel_getExtensionOperationType``).

        ``code`` counts within the extension. The number is the extension's prefix, which the model gives, above 16
        bits of it.
        """
        text("the extension", extension)
        code = whole("the code", code)
        if not extension or not 0 <= code < 1 << EXTENSION_LOW_BITS:
            raise bad_data(f"an extension needs a name, and codes from 0 to 65535, got {shown(extension)} and {code}")
        if extension not in self._extensions:
            self._extensions.append(extension)
        return (self._extensions.index(extension) + 1) << EXTENSION_LOW_BITS | code

    def _operation_code(self, code: Any) -> AnyCode:
        try:
            number = whole("the operation's code", code)
        except TypeError:
            expected = "an OperationCode, such as OperationCode.ADD, or its number"
            raise TypeError(f"expected {expected}, got {shown(code)}") from None
        prefix = number >> EXTENSION_LOW_BITS
        if 0 < prefix <= len(self._extensions):
            return operation_of(self._extensions[prefix - 1], number & ((1 << EXTENSION_LOW_BITS) - 1))
        try:
            return OperationCode(number)
        except ValueError:
            raise bad_data(f"{number} is no operation of feature level 8 (0 to 105)") from None

    def identify_inputs_and_outputs(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Say which operands the model takes and gives (``ANeuralNetworksModel_identifyInputsAndOutputs``).

        There may be no inputs, as with Android's runtime, though its text asks for one. BAD_DATA: there are no outputs,
        an operand is named twice, or has a value.
        """
        self._check_unfinished("identify_inputs_and_outputs")
        given, results = self._indexes("inputs", inputs), self._indexes("outputs", outputs)
        if not results:
            raise bad_data("a model needs an output")
        for index in (*given, *results):
            if index in self._values or index in self._subgraphs:
                raise bad_data(f"operand {index} has a value, it can't be an input or output of the model")
        if len({*given, *results}) != len(given) + len(results):
            raise bad_data(f"an operand is named twice: inputs {list(given)}, outputs {list(results)}")
        self._inputs, self._outputs, self._input_names = given, results, ()

    def name_inputs(self, names: Sequence[str]) -> None:
        """Name the inputs, in their order, so that `nnvk.run` takes them by name; NNAPI has no such call.

        BAD_DATA: they are not as many as inputs. BAD_STATE: inputs are not identified, or the model is finished.
        """
        self._check_unfinished("name_inputs")
        given = tuple(text("each of the names", name) for name in sequence("the names", names))
        if self._inputs is None:
            raise bad_state("identify_inputs_and_outputs must be called before name_inputs")
        if len(given) != len(self._inputs):
            raise bad_data(f"expected {len(self._inputs)} names, one for each input, got {len(given)}")
        self._input_names = given

    def relax_computation_float32_to_float16(self, allow: bool) -> None:
        """Allow FLOAT32 to be computed as FLOAT16 (``ANeuralNetworksModel_relaxComputationFloat32toFloat16``).

        The setting of a compilation's main model applies to the models that it refers to.
        """
        self._check_unfinished("relax_computation_float32_to_float16")
        self._relaxed = flag("allow", allow)

    def finish(self) -> None:
        """Check the whole model and freeze it (``ANeuralNetworksModel_finish``).

        BAD_DATA says which operand or operation breaks which rule, or that inputs and outputs are not identified.
        BAD_STATE: called before, even if that failed.
        """
        self._check_unfinished("finish")
        self._finish_called = True
        if self._inputs is None:
            raise bad_data("a model needs an output: identify_inputs_and_outputs was not called")
        checked = model_checks.freeze(
            self._types, self._values, self._subgraphs, self._operations, self._inputs, self._outputs, self._relaxed
        )
        self._frozen = replace(checked, input_names=self._input_names)
        if _log.isEnabledFor(logging.DEBUG):
            constants = sum(hint(value.nbytes) for value in self._values.values() if value is not None)
            _log.debug(
                "finished: operations %d, operands %d, inputs %d, outputs %d, bytes of constants %d",
                len(self._operations),
                len(self._types),
                len(self._inputs),
                len(self._outputs),
                constants,
            )

    # --- a finished model ----------------------------------------------------------------------------------------

    @classmethod
    def of(cls, model: frozen.Model) -> Model:
        """A finished model of a frozen one: of what `nnvk.types.extract` makes of another, say.

        It is not checked again here; drivers do that. TypeError: it is no frozen model.
        """
        if not isinstance(model, frozen.Model):
            raise TypeError(f"model must be a nnvk.types.model.Model, not {type(model).__name__}")
        made = cls()
        made._types = [operand.type for operand in model.operands]
        made._operations = list(model.operations)
        made._inputs, made._outputs, made._input_names = model.inputs, model.outputs, model.input_names
        made._relaxed, made._finish_called, made._frozen = model.relaxed, True, model
        return made

    def with_all_outputs(self) -> Model:
        """The model with the results of all its operations as outputs, in the order of execution, behind its own.

        BAD_STATE before `finish`.
        """
        return Model.of(exposed(self.frozen))

    @property
    def frozen(self) -> frozen.Model:
        """The model that drivers get. BAD_STATE before `finish`."""
        if self._frozen is None:
            raise bad_state("the model is invalid" if self._finish_called else "the model is not finished")
        return self._frozen

    def get_support(self, device: Device) -> list[Support]:
        """For each operation, in the order they were added, whether ``device`` runs it, and why not."""
        model = self.frozen
        check_distinct([device])
        answers = supported_operations(device, model)
        # Operands have one writer each: its outputs name an operation.
        support = {operation.outputs: answer for operation, answer in zip(model.operations, answers, strict=True)}
        return [support[operation.outputs] for operation in self._operations]

    def get_supported_operations_for_devices(self, devices: Sequence[Device]) -> list[bool]:
        """For each operation, in the order they were added, whether one of ``devices`` runs it.

        (``ANeuralNetworksModel_getSupportedOperationsForDevices``.) BAD_DATA: no device, or one named twice. BAD_STATE:
        the model is not finished.
        """
        check_distinct(devices)
        answers = zip(*(self.get_support(device) for device in devices), strict=True)
        return [any(support.supported for support in of_operation) for of_operation in answers]

    # --- checks --------------------------------------------------------------------------------------------------

    def _check_unfinished(self, call: str) -> None:
        if self._finish_called:
            raise bad_state(f"{call} can't be called after finish")

    def _index(self, index: int, what: str = "") -> int:
        number = whole("the operand's index", index)
        if not 0 <= number < len(self._types):
            raise bad_data(
                f"{what + ': ' if what else ''}operand {number} does not exist, there are {len(self._types)}"
            )
        return number

    def _indexes(self, which: str, indexes: Sequence[int], what: str = "") -> tuple[int, ...]:
        return tuple(self._index(index, what) for index in wholes(f"the {which}", indexes))

    def _constant_type(self, index: int) -> OperandType:
        type_ = self._types[index]
        if not type_.is_fully_specified:
            raise bad_data(f"operand {index} is {type_}: a constant needs all its dimensions")
        return type_

    def _settable(self, index: int, call: str) -> int:
        self._check_unfinished(call)
        number = self._index(index)
        if self._inputs is not None and number in (*self._inputs, *self._outputs):
            raise bad_data(f"operand {number} is an input or output of the model, it can't have a value")
        return number
