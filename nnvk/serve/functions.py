"""The table of the C interface: a row for every function of NeuralNetworks.h at feature level 8, in its order.

From it come the headers, the library's stubs, what the server does with a request, docs/c-api.md and tests. A
function's position is its number in requests.
"""

from __future__ import annotations

from nnvk.serve.table import By, Function

BAD_DATA = "BAD_DATA"
BAD_STATE = "BAD_STATE"
_FINISHED = {BAD_STATE: "the model is finished"}
_NO_MODEL = {BAD_STATE: "the model is not finished, or invalid"}
_UNFINISHED = "the compilation is not finished, or failed to"
_INDEX = "the index names no operand"
_ROLE = {
    BAD_DATA: "the compilation is not finished; there is no such operand; the role is there already, or contradicts"
    " another in type or dimensions; the frequency is not in (0, 1]",
    BAD_STATE: "the descriptor is finished",
}
_PREFERRED = {BAD_DATA: "there is no such operand", BAD_STATE: _UNFINISHED}
_ARGUMENT = {
    BAD_DATA: "there is no such operand; type, dimensions or length don't fit it",
    BAD_STATE: "the execution is not in preparation, or the operand was set before",
}
_COMPUTATION = {
    BAD_DATA: "an input or output was not set",
    BAD_STATE: "the execution is under way, or completed and not reusable",
    "OUTPUT_INSUFFICIENT_SIZE": "a buffer is too small for an output whose size the model leaves open",
    "MISSED_DEADLINE_TRANSIENT": "a timeout has passed",
    "OP_FAILED": "the data can't be computed, or an input is device memory that holds nothing",
}
_ONE_DEVICE = "the compilation is not for exactly one named device"
_PREPARATION = {BAD_STATE: "the execution is not in preparation"}
_COMPLETED = "the execution is not completed"


def _preferred(what: str, operand: str) -> Function:
    operand_at = f"the {operand.lower()} at a position of identifyInputsAndOutputs"
    does = {
        "Alignment": f"Gives the preferred alignment of {operand_at}, in bytes: a power of 2.",
        "Padding": f"Gives the bytes that the size of {operand_at} should be a multiple of: a power of 2.",
    }
    return Function(
        f"int ANeuralNetworksCompilation_getPreferredMemory{what}For{operand}(const ANeuralNetworksCompilation*"
        f" compilation, uint32_t index, uint32_t* {what.lower()})",
        5,
        does[what],
        _PREFERRED,
    )


FUNCTIONS: tuple[Function, ...] = (
    Function(
        "int ANeuralNetworksBurst_create(ANeuralNetworksCompilation* compilation, ANeuralNetworksBurst** burst)",
        3,
        "Creates a burst for executions of a compilation that follow each other quickly. At most one execution runs in"
        " it at a time.",
        {BAD_STATE: _UNFINISHED},
    ),
    Function.destroying("Burst", 3),
    Function(
        "int ANeuralNetworksCompilation_create(ANeuralNetworksModel* model, ANeuralNetworksCompilation** compilation)",
        1,
        "Begins a compilation for the devices that nnvk chooses. The CPU takes over from devices that fail.",
        _NO_MODEL,
    ),
    Function(
        "int ANeuralNetworksCompilation_createForDevices(ANeuralNetworksModel* model,"
        " const ANeuralNetworksDevice* const* devices, uint32_t numDevices, ANeuralNetworksCompilation** compilation)",
        3,
        "Begins a compilation for exactly these devices. The caller gets their failures.",
        {BAD_DATA: "there is no device, or one twice", **_NO_MODEL},
        arrays={"devices": "numDevices"},
    ),
    Function(
        "int ANeuralNetworksCompilation_finish(ANeuralNetworksCompilation* compilation)",
        1,
        "Compiles the model. It may be called only once, even if it fails.",
        {
            BAD_DATA: "none of the devices runs an operation",
            BAD_STATE: "it was called before",
            "MISSED_DEADLINE_PERSISTENT": "it took longer than setTimeout allows",
        },
    ),
    Function.destroying("Compilation", 1),
    _preferred("Alignment", "Input"),
    _preferred("Alignment", "Output"),
    _preferred("Padding", "Input"),
    _preferred("Padding", "Output"),
    Function(
        "int ANeuralNetworksCompilation_setCaching(ANeuralNetworksCompilation* compilation, const char* cacheDir,"
        " const uint8_t* token)",
        3,
        "Keeps the compiled model in a folder, and reads it from there. The token,"
        " ANEURALNETWORKS_BYTE_SIZE_OF_CACHE_TOKEN bytes, identifies the model: each model needs its own token.",
        {BAD_DATA: "the folder does not exist", BAD_STATE: "the compilation is finished"},
        by=By.LIBRARY,
    ),
    Function(
        "int ANeuralNetworksCompilation_setPreference(ANeuralNetworksCompilation* compilation, int32_t preference)",
        1,
        "Sets the preference for executions, a PreferenceCode. The default is"
        " ANEURALNETWORKS_PREFER_FAST_SINGLE_ANSWER.",
        {BAD_DATA: "it is no PreferenceCode", BAD_STATE: "the compilation is finished"},
    ),
    Function(
        "int ANeuralNetworksCompilation_setPriority(ANeuralNetworksCompilation* compilation, int priority)",
        4,
        "Sets the priority of executions that wait for a device, a PriorityCode. The default is"
        " ANEURALNETWORKS_PRIORITY_DEFAULT.",
        {BAD_DATA: "it is no PriorityCode", BAD_STATE: "the compilation is finished"},
    ),
    Function(
        "int ANeuralNetworksCompilation_setTimeout(ANeuralNetworksCompilation* compilation, uint64_t duration)",
        4,
        "Sets the time limit of finish in nanoseconds; 0: no limit.",
        {BAD_DATA: _ONE_DEVICE, BAD_STATE: "the compilation is finished"},
    ),
    Function(
        "int ANeuralNetworksDevice_getFeatureLevel(const ANeuralNetworksDevice* device, int64_t* featureLevel)",
        3,
        "Gives the highest feature level that a device supports, a FeatureLevelCode.",
        by=By.LIBRARY,
        counterpart="nnvk.Device.feature_level",
    ),
    Function(
        "int ANeuralNetworksDevice_getName(const ANeuralNetworksDevice* device, const char** name)",
        3,
        "Gives a device's name. The pointer is valid as long as the library is loaded.",
        by=By.LIBRARY,
        counterpart="nnvk.Device.name",
    ),
    Function(
        "int ANeuralNetworksDevice_getType(const ANeuralNetworksDevice* device, int32_t* type)",
        3,
        "Gives a device's type, a DeviceTypeCode.",
        by=By.LIBRARY,
        counterpart="nnvk.Device.type",
    ),
    Function(
        "int ANeuralNetworksDevice_getVersion(const ANeuralNetworksDevice* device, const char** version)",
        3,
        "Gives the version of a device's driver. The pointer is valid as long as the library is loaded.",
        by=By.LIBRARY,
        counterpart="nnvk.Device.version",
    ),
    Function(
        "int ANeuralNetworksDevice_wait(const ANeuralNetworksDevice* device)",
        4,
        "Waits until a device is alive again, after ANEURALNETWORKS_DEAD_OBJECT. Objects that were prepared on it stay"
        " dead.",
        {},
    ),
    Function(
        "int ANeuralNetworksEvent_createFromSyncFenceFd(int sync_fence_fd, ANeuralNetworksEvent** event)",
        4,
        "Makes an event that signals when a descriptor becomes readable. The descriptor is duplicated. If it is in"
        " error, or cannot be waited for, the event has failed with ANEURALNETWORKS_OP_FAILED.",
        {BAD_DATA: "it is no descriptor"},
        by=By.LIBRARY,
    ),
    Function.destroying(
        "Event",
        1,
        " The function waits for an execution that is under way, unless that waits for another library's fence.",
    ),
    Function(
        "int ANeuralNetworksEvent_getSyncFenceFd(const ANeuralNetworksEvent* event, int* sync_fence_fd)",
        4,
        "Gives a descriptor that becomes readable when the event signals; the outputs are written then. The caller"
        " closes the descriptor. After a failure it is -1.",
        {BAD_DATA: "the event comes from startCompute, and has no fence"},
        by=By.LIBRARY,
    ),
    Function(
        "int ANeuralNetworksEvent_wait(ANeuralNetworksEvent* event)",
        1,
        "Waits for the end of an execution and returns its result, each time. Any number of threads may wait.",
        {"any": "the result of the execution"},
        by=By.LIBRARY,
    ),
    Function(
        "int ANeuralNetworksExecution_burstCompute(ANeuralNetworksExecution* execution, ANeuralNetworksBurst* burst)",
        3,
        "Computes in a burst and returns when the outputs are written.",
        {
            **_COMPUTATION,
            BAD_DATA: _COMPUTATION[BAD_DATA] + "; the burst is of another compilation",
            BAD_STATE: _COMPUTATION[BAD_STATE] + "; another execution is in the burst",
        },
        by=By.LIBRARY,
    ),
    Function(
        "int ANeuralNetworksExecution_compute(ANeuralNetworksExecution* execution)",
        3,
        "Computes and returns when the outputs are written. It reads the inputs now.",
        _COMPUTATION,
        by=By.LIBRARY,
    ),
    Function(
        "int ANeuralNetworksExecution_create(ANeuralNetworksCompilation* compilation,"
        " ANeuralNetworksExecution** execution)",
        1,
        "Makes an execution of a compilation.",
        {BAD_STATE: _UNFINISHED},
    ),
    Function(
        "int ANeuralNetworksExecution_enableInputAndOutputPadding(ANeuralNetworksExecution* execution, bool enable)",
        5,
        "Allows buffers that are longer than their operands.",
        {BAD_STATE: "an input or output was set, or the execution is not in preparation"},
    ),
    Function.destroying("Execution", 1),
    Function(
        "int ANeuralNetworksExecution_getDuration(const ANeuralNetworksExecution* execution, int32_t durationCode,"
        " uint64_t* duration)",
        3,
        "Gives a duration of the last computation in nanoseconds, selected by a DurationCode. UINT64_MAX: it was not"
        " measured.",
        {BAD_DATA: "it is no DurationCode", BAD_STATE: _COMPLETED},
    ),
    Function(
        "int ANeuralNetworksExecution_getOutputOperandDimensions(ANeuralNetworksExecution* execution, int32_t index,"
        " uint32_t* dimensions)",
        3,
        "Gives the dimensions of an output of the last computation. Their number is the rank that getOutputOperandRank"
        " gives.",
        {
            BAD_DATA: "there is no such output, or it is a scalar",
            BAD_STATE: _COMPLETED + ", or failed",
            "OUTPUT_INSUFFICIENT_SIZE": "its buffer was too small; the dimensions are given all the same",
        },
    ),
    Function(
        "int ANeuralNetworksExecution_getOutputOperandRank(ANeuralNetworksExecution* execution, int32_t index,"
        " uint32_t* rank)",
        3,
        "Gives the rank of an output of the last computation.",
        {
            BAD_DATA: "there is no such output",
            BAD_STATE: _COMPLETED + ", or failed",
            "OUTPUT_INSUFFICIENT_SIZE": "its buffer was too small; the rank is given all the same",
        },
    ),
    Function(
        "int ANeuralNetworksExecution_setInput(ANeuralNetworksExecution* execution, int32_t index,"
        " const ANeuralNetworksOperandType* type, const void* buffer, size_t length)",
        1,
        "Sets an input to a buffer. A computation reads the buffer when it begins; the buffer must stay until the"
        " execution is freed. A type gives dimensions that the model leaves open. A buffer of NULL with the length 0"
        " omits an optional input.",
        {**_ARGUMENT, "UNEXPECTED_NULL": "there is no buffer, but a length"},
        by=By.LIBRARY,
        nullable=("type", "buffer"),
    ),
    Function(
        "int ANeuralNetworksExecution_setInputFromMemory(ANeuralNetworksExecution* execution, int32_t index,"
        " const ANeuralNetworksOperandType* type, const ANeuralNetworksMemory* memory, size_t offset, size_t length)",
        1,
        "Sets an input to a part of a memory. For a memory made from a descriptor, offset and length are 0 and the"
        " whole memory is used.",
        _ARGUMENT,
        by=By.LIBRARY,
        nullable=("type",),
    ),
    Function(
        "int ANeuralNetworksExecution_setLoopTimeout(ANeuralNetworksExecution* execution, uint64_t duration)",
        4,
        "Sets the time limit of a WHILE in nanoseconds, at most ANeuralNetworks_getMaximumLoopTimeout.",
        _PREPARATION,
    ),
    Function(
        "int ANeuralNetworksExecution_setMeasureTiming(ANeuralNetworksExecution* execution, bool measure)",
        3,
        "Sets whether durations are measured.",
        {BAD_DATA: _ONE_DEVICE, **_PREPARATION},
    ),
    Function(
        "int ANeuralNetworksExecution_setOutput(ANeuralNetworksExecution* execution, int32_t index,"
        " const ANeuralNetworksOperandType* type, void* buffer, size_t length)",
        1,
        "Sets the buffer of an output. The buffer must stay until the execution is freed. If the model leaves"
        " dimensions open, it may be larger than the output. A buffer of NULL with the length 0 discards the output.",
        {**_ARGUMENT, "UNEXPECTED_NULL": "there is no buffer, but a length"},
        by=By.LIBRARY,
        nullable=("type", "buffer"),
    ),
    Function(
        "int ANeuralNetworksExecution_setOutputFromMemory(ANeuralNetworksExecution* execution, int32_t index,"
        " const ANeuralNetworksOperandType* type, const ANeuralNetworksMemory* memory, size_t offset, size_t length)",
        1,
        "Sets the part of a memory that an output is written to. For a memory made from a descriptor, offset and length"
        " are 0 and the whole memory is used.",
        _ARGUMENT,
        by=By.LIBRARY,
        nullable=("type",),
    ),
    Function(
        "int ANeuralNetworksExecution_setReusable(ANeuralNetworksExecution* execution, bool reusable)",
        5,
        "Allows several computations, one after the other.",
        _PREPARATION,
    ),
    Function(
        "int ANeuralNetworksExecution_setTimeout(ANeuralNetworksExecution* execution, uint64_t duration)",
        4,
        "Sets the time limit of a computation in nanoseconds; 0: no limit.",
        {BAD_DATA: _ONE_DEVICE, **_PREPARATION},
    ),
    Function(
        "int ANeuralNetworksExecution_startCompute(ANeuralNetworksExecution* execution, ANeuralNetworksEvent** event)",
        1,
        "Starts a computation and returns at once. The event signals when the outputs are written.",
        _COMPUTATION,
        by=By.LIBRARY,
    ),
    Function(
        "int ANeuralNetworksExecution_startComputeWithDependencies(ANeuralNetworksExecution* execution,"
        " const ANeuralNetworksEvent* const* dependencies, uint32_t num_dependencies, uint64_t duration,"
        " ANeuralNetworksEvent** event)",
        4,
        "Starts a computation after all dependencies have signalled, and returns at once. The duration is a time limit"
        " in nanoseconds that counts from then; 0: no limit. The computation reads the inputs when the dependencies"
        " have signalled. The event has a sync fence.",
        {
            **_COMPUTATION,
            BAD_DATA: _COMPUTATION[BAD_DATA]
            + "; an output's dimensions are open; there is a duration, and "
            + _ONE_DEVICE,
            "any": "a dependency has failed already: its error",
        },
        by=By.LIBRARY,
        nullable=("dependencies",),
        arrays={"dependencies": "num_dependencies"},
    ),
    Function(
        "int ANeuralNetworksMemoryDesc_addInputRole(ANeuralNetworksMemoryDesc* desc,"
        " const ANeuralNetworksCompilation* compilation, uint32_t index, float frequency)",
        4,
        "Says that the memory will be an input of executions of a compilation, and how likely that is.",
        _ROLE,
    ),
    Function(
        "int ANeuralNetworksMemoryDesc_addOutputRole(ANeuralNetworksMemoryDesc* desc,"
        " const ANeuralNetworksCompilation* compilation, uint32_t index, float frequency)",
        4,
        "Says that the memory will be an output of executions of a compilation, and how likely that is.",
        _ROLE,
    ),
    Function(
        "int ANeuralNetworksMemoryDesc_create(ANeuralNetworksMemoryDesc** desc)",
        4,
        "Begins the description of a device memory.",
        {},
    ),
    Function(
        "int ANeuralNetworksMemoryDesc_finish(ANeuralNetworksMemoryDesc* desc)",
        4,
        "Ends the description.",
        {BAD_DATA: "it has no role", BAD_STATE: "it was called before"},
    ),
    Function.destroying("MemoryDesc", 4),
    Function(
        "int ANeuralNetworksMemoryDesc_setDimensions(ANeuralNetworksMemoryDesc* desc, uint32_t rank,"
        " const uint32_t* dimensions)",
        4,
        "Sets dimensions that the roles leave open; 0 if unknown. A scalar has the rank 0.",
        {BAD_DATA: "they contradict the roles", BAD_STATE: "the descriptor is finished"},
        nullable=("dimensions",),
        arrays={"dimensions": "rank"},
    ),
    Function(
        "int ANeuralNetworksMemory_copy(const ANeuralNetworksMemory* src, const ANeuralNetworksMemory* dst)",
        4,
        "Copies the content of a memory to another memory of the same size.",
        {BAD_DATA: "sizes or dimensions differ; the source holds nothing; one can't be read, or the other not written"},
    ),
    Function(
        "int ANeuralNetworksMemory_createFromAHardwareBuffer(const AHardwareBuffer* ahwb,"
        " ANeuralNetworksMemory** memory)",
        3,
        "Shares the bytes of a hardware buffer, which must outlive the memory.",
        {BAD_DATA: "its format is not BLOB"},
        by=By.LIBRARY,
        counterpart="nnvk.Memory.create_from_hardware_buffer",
    ),
    Function(
        "int ANeuralNetworksMemory_createFromDesc(const ANeuralNetworksMemoryDesc* desc, ANeuralNetworksMemory**"
        " memory)",
        4,
        "Makes memory for the roles of a descriptor, on the device if all roles are on one device. The memory has no"
        " content at first.",
        {BAD_STATE: "the descriptor is not finished", "OP_FAILED": "not all dimensions are known"},
    ),
    Function(
        "int ANeuralNetworksMemory_createFromFd(size_t size, int protect, int fd, size_t offset,"
        " ANeuralNetworksMemory** memory)",
        1,
        "Maps a part of a file. The descriptor is duplicated. protect combines PROT_READ and PROT_WRITE, and offset is"
        " a multiple of the page size.",
        {BAD_DATA: "size, offset or protect can't be", "UNMAPPABLE": "the descriptor can't be mapped so"},
        by=By.LIBRARY,
    ),
    Function.destroying("Memory", 1),
    Function(
        "int ANeuralNetworksModel_addOperand(ANeuralNetworksModel* model, const ANeuralNetworksOperandType* type)",
        1,
        "Adds an operand; operands are numbered from 0 in the order they are added. The type is read at once.",
        {BAD_DATA: "the parts of the type contradict each other", **_FINISHED},
    ),
    Function(
        "int ANeuralNetworksModel_addOperation(ANeuralNetworksModel* model, ANeuralNetworksOperationType type,"
        " uint32_t inputCount, const uint32_t* inputs, uint32_t outputCount, const uint32_t* outputs)",
        1,
        "Adds an operation on operands that were added before. Operations may be added in any order; finish checks"
        " their inputs and outputs.",
        {BAD_DATA: f"it is no operation, {_INDEX}, or it has no output", **_FINISHED},
        arrays={"inputs": "inputCount", "outputs": "outputCount"},
    ),
    Function(
        "int ANeuralNetworksModel_create(ANeuralNetworksModel** model)",
        1,
        "Begins a model.",
    ),
    Function(
        "int ANeuralNetworksModel_finish(ANeuralNetworksModel* model)",
        1,
        "Checks the model and ends its construction. It may be called only once, even if it fails.",
        {BAD_DATA: "the model breaks a rule; the log says which", BAD_STATE: "it was called before"},
    ),
    Function.destroying("Model", 1),
    Function(
        "int ANeuralNetworksModel_getSupportedOperationsForDevices(const ANeuralNetworksModel* model,"
        " const ANeuralNetworksDevice* const* devices, uint32_t numDevices, bool* supportedOps)",
        3,
        "Says for each operation, in the order of addition, whether one of the devices runs it.",
        {BAD_DATA: "there is no device, or one twice", **_NO_MODEL},
        arrays={"devices": "numDevices"},
    ),
    Function(
        "int ANeuralNetworksModel_identifyInputsAndOutputs(ANeuralNetworksModel* model, uint32_t inputCount,"
        " const uint32_t* inputs, uint32_t outputCount, const uint32_t* outputs)",
        1,
        "Sets the inputs and outputs of the model.",
        {
            BAD_DATA: f"{_INDEX}, or one that has a value; there is no output; an operand is named twice, or was"
            f" before",
            **_FINISHED,
        },
        arrays={"inputs": "inputCount", "outputs": "outputCount"},
    ),
    Function(
        "int ANeuralNetworksModel_relaxComputationFloat32toFloat16(ANeuralNetworksModel* model, bool allow)",
        2,
        "Allows FLOAT32 to be computed with the range and precision of FLOAT16.",
        _FINISHED,
        counterpart="nnvk.Model.relax_computation_float32_to_float16",
    ),
    Function(
        "int ANeuralNetworksModel_setOperandSymmPerChannelQuantParams(ANeuralNetworksModel* model, int32_t index,"
        " const ANeuralNetworksSymmPerChannelQuantParams* channelQuant)",
        3,
        "Sets the scales of an operand of type TENSOR_QUANT8_SYMM_PER_CHANNEL. They are read at once.",
        {BAD_DATA: f"{_INDEX}; the operand is of another type; the scales don't fit it", **_FINISHED},
    ),
    Function(
        "int ANeuralNetworksModel_setOperandValue(ANeuralNetworksModel* model, int32_t index, const void* buffer,"
        " size_t length)",
        1,
        "Makes an operand a constant. Up to ANEURALNETWORKS_MAX_SIZE_OF_IMMEDIATELY_COPIED_VALUES bytes are copied at"
        " once; larger buffers are referred to, and must stay as they are until the model is freed. A buffer of NULL"
        " with the length 0 omits an optional operand.",
        {
            BAD_DATA: f"{_INDEX}, or an input or output of the model; its dimensions are open; the length does not fit",
            "UNEXPECTED_NULL": "there is no buffer, but a length",
            **_FINISHED,
        },
        nullable=("buffer",),
        arrays={"buffer": "length"},
    ),
    Function(
        "int ANeuralNetworksModel_setOperandValueFromMemory(ANeuralNetworksModel* model, int32_t index,"
        " const ANeuralNetworksMemory* memory, size_t offset, size_t length)",
        1,
        "Makes an operand a constant in a memory, without a copy. The memory must stay as it is until the model is"
        " freed.",
        {
            BAD_DATA: f"{_INDEX}; its dimensions are open; the bytes lie outside the memory, or don't fit; the memory"
            " was made from a descriptor",
            **_FINISHED,
        },
    ),
    Function(
        "int ANeuralNetworksModel_setOperandValueFromModel(ANeuralNetworksModel* model, int32_t index,"
        " const ANeuralNetworksModel* value)",
        4,
        "Makes an operand of type MODEL refer to a model.",
        {
            BAD_DATA: f"{_INDEX}, or the operand is of another type",
            BAD_STATE: "the model is finished, or the other is not",
        },
    ),
    Function(
        "uint64_t ANeuralNetworks_getDefaultLoopTimeout(void)",
        4,
        "Gives the default time limit of a WHILE in nanoseconds.",
        by=By.LIBRARY,
    ),
    Function(
        "int ANeuralNetworks_getDevice(uint32_t devIndex, ANeuralNetworksDevice** device)",
        3,
        "Gives a device. The pointer of a device is always the same. Devices are not freed.",
        {BAD_DATA: "there is no such device"},
        by=By.LIBRARY,
        counterpart="nnvk.get_devices",
    ),
    Function(
        "int ANeuralNetworks_getDeviceCount(uint32_t* numDevices)",
        3,
        "Gives the number of devices.",
        by=By.LIBRARY,
        counterpart="nnvk.get_devices",
    ),
    Function(
        "uint64_t ANeuralNetworks_getMaximumLoopTimeout(void)",
        4,
        "Gives the largest time limit of a WHILE in nanoseconds.",
        by=By.LIBRARY,
    ),
    Function(
        "int64_t ANeuralNetworks_getRuntimeFeatureLevel(void)",
        5,
        "Gives the feature level of this library, a FeatureLevelCode.",
        by=By.LIBRARY,
    ),
)
"""NeuralNetworks.h."""
