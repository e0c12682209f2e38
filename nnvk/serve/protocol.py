"""The requests of the C library to its server, beside those that every such process answers (`nnvk.base.lanes`).

A request is the number of a row of `nnvk.serve.functions`, or a `Request`.
"""

from __future__ import annotations

import zlib
from enum import IntEnum

from nnvk.base.lanes import LaneRequest
from nnvk.serve.extensions import ALL_FUNCTIONS


class Request(IntEnum):
    """The requests beside the functions of the table."""

    DEVICES = 1100
    """Name, version, kind, feature level and extensions of each device."""
    MEMORY = 1101
    """A memory of a descriptor: number, size, protection, offset."""
    FENCE = 1102
    """An event of a sync fence of somebody else: its number."""
    TFLITE_OPTIONS = 1103
    """The delegate: how many bytes of the structure of a builtin's options are read."""
    TFLITE_EXAMINE = 1104
    """The delegate: of each operator of a graph, why it can't be taken; empty where it can."""
    TFLITE_MODEL = 1105
    """The delegate: a model of a partition. Its number, whether it is relaxed, whether a token for a cache is wanted,
    the graph. The reply has the variable tensors, the bytes and the shape of all inputs and outputs, and the token."""
    ONNX_EXAMINE = 1106
    """The execution provider: the device, whether it is relaxed, whether parts stay that onnxruntime was measured to
    compute faster, a graph and its weights, whether to take nodes too that cost little, and whether to take those that
    must know values. The reply has, of each node, the reason why it stays, which is empty where it does not, and the
    number of its part, or -1."""
    ONNX_MODEL = 1107
    """The execution provider: a part of a graph. Its number, the device, whether it is relaxed, whether onnxruntime
    computes what it does faster, the part and its weights, the folder for compiled models, which may be empty, and the
    names of the inputs in the order in which runs give them."""
    ONNX_RUN = 1108
    """The execution provider: a run of a part. The number of the part, that of the run, and of each input the element
    type of ONNX, the shape, and the segment and the offset where its elements are. The reply says whether the sizes
    of the outputs depend on these shapes alone; then it has, of each output, the element type, the shape and the
    bytes."""
    ONNX_OUTPUTS = 1109
    """The execution provider: the number of a run, and of each output the segment and the offset for its elements."""
    ONNX_COMPUTE = 1110
    """The execution provider: the number of a run, which reads its inputs again. If the run has no places for its
    outputs, the reply has, of each, the element type, the shape, the bytes and the elements."""

    ONNX_SAVE = 1111
    """The execution provider: the device, whether it is relaxed, a byte, a part and its weights, and the names of its
    inputs in their order. The reply is the saved part."""
    ONNX_LOAD = 1112
    """The execution provider: the number that a part gets, the device, a saved part, and for each input of its runs
    which one of the saved part it is. The reply has the number of the outputs."""

    ONNX_PROFILE = 1113
    """The execution provider: the number of a recording that begins, and the file or folder that it is written to."""
    ONNX_PROFILE_END = 1114
    """The execution provider: the number of a recording, which is written."""


SAVED_PART_FORMAT = 1
"""The number of the format of saved parts. It must increase with every change of `nnvk.importers.onnx.saved_part`."""
REQUESTS: tuple[LaneRequest | Request, ...] = (*LaneRequest, *Request)


def fingerprint() -> int:
    """The fingerprint that library and server must agree on: another table or other numbers give another one."""
    described = [f"{function.prototype} {function.by.value}" for function in ALL_FUNCTIONS]
    described += [repr(request) for request in REQUESTS]
    return zlib.crc32("\n".join(described).encode())
