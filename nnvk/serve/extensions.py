"""The table of C functions, continued: those for vendor extensions, in a header of their own."""

from __future__ import annotations

from nnvk.serve.functions import BAD_DATA, FUNCTIONS
from nnvk.serve.table import By, Function

EXTENSIONS: tuple[Function, ...] = (
    Function(
        "int ANeuralNetworksDevice_getExtensionSupport(const ANeuralNetworksDevice* device, const char* extensionName,"
        " bool* isExtensionSupported)",
        3,
        "Says whether a device knows a vendor extension.",
        by=By.LIBRARY,
    ),
    Function(
        "int ANeuralNetworksModel_getExtensionOperandType(ANeuralNetworksModel* model, const char* extensionName,"
        " uint16_t operandCodeWithinExtension, int32_t* type)",
        3,
        "Always fails: extensions have no operand types of their own here.",
        {BAD_DATA: "always"},
        by=By.LIBRARY,
        counterpart="",
    ),
    Function(
        "int ANeuralNetworksModel_getExtensionOperationType(ANeuralNetworksModel* model, const char* extensionName,"
        " uint16_t operationCodeWithinExtension, ANeuralNetworksOperationType* type)",
        3,
        "Gives the number of an extension's operation in this model.",
        {BAD_DATA: "the extension has no name"},
    ),
    Function(
        "int ANeuralNetworksModel_setOperandExtensionData(ANeuralNetworksModel* model, int32_t index, const void* data,"
        " size_t length)",
        3,
        "Always fails: extensions have no operand types of their own here.",
        {BAD_DATA: "always"},
        by=By.LIBRARY,
        nullable=("data",),
        counterpart="",
    ),
)
"""NeuralNetworksExtensions.h."""

ALL_FUNCTIONS = (*FUNCTIONS, *EXTENSIONS)
"""All rows, in the order of their numbers in the protocol."""
