// The part of onnxruntime's C interface that a plug-in execution provider uses: entries of its three tables by their
// number. Tables and structures grow at their ends only. tests/provider/test_abi.py compares this with the header.
#pragma once
#include <cstddef>
#include <cstdint>

namespace nnvk::ort {

// The oldest onnxruntime, 1.24, and the version of the tables that it is asked for.
constexpr uint32_t kOldest = 24;
// Each structure that is filled in here begins with the version whose fields it has, which are those of 1.23. A later
// number promises fields that the structures below don't have.
constexpr uint32_t kVersion = 23;

struct Status; struct Value; struct TypeInfo; struct TensorInfo; struct KernelContext; struct SessionOptions;
struct Logger; struct OpAttr; struct ValueInfo; struct Node; struct Graph; struct HardwareDevice; struct EpDevice;
struct KeyValuePairs; struct SupportInfo; struct ComputeContext; struct MemoryInfo; struct Allocator;
struct MemoryDevice; struct SyncStream; struct DataTransfer; struct RunOptions;
struct Api; struct EpApi; struct ModelEditorApi; struct Factory; struct Ep; struct ComputeInfo; struct FusionOptions;

struct ApiBase {  // OrtApiBase
  const Api* (*GetApi)(uint32_t version);  // NULL where the running one is older
  const char* (*GetVersionString)();
};

struct Allocator {  // OrtAllocator
  uint32_t version;
  void* (*Alloc)(Allocator*, size_t size);
  void (*Free)(Allocator*, void*);
  const MemoryInfo* (*Info)(const Allocator*);
  void* (*Reserve)(Allocator*, size_t size);
  Status* (*GetStats)(const Allocator*, KeyValuePairs**);
  void* (*AllocOnStream)(Allocator*, size_t size, SyncStream*);
};

struct DataTransfer {  // OrtDataTransferImpl
  uint32_t ort_version_supported;
  void (*Release)(DataTransfer*);
  bool (*CanCopy)(const DataTransfer*, const MemoryDevice* source, const MemoryDevice* target);
  Status* (*CopyTensors)(DataTransfer*, const Value** sources, Value** targets, SyncStream**, size_t count);
};

struct FusionOptions {  // OrtNodeFusionOptions
  uint32_t ort_version_supported;
  bool drop_constant_initializers;
};

struct ComputeInfo {  // OrtNodeComputeInfo
  uint32_t ort_version_supported;
  Status* (*CreateState)(ComputeInfo*, ComputeContext*, void** state);
  Status* (*Compute)(ComputeInfo*, void* state, KernelContext*);
  void (*ReleaseState)(ComputeInfo*, void* state);
};

struct Ep {  // OrtEp
  uint32_t ort_version_supported;
  const char* (*GetName)(const Ep*);
  Status* (*GetCapability)(Ep*, const Graph*, SupportInfo*);
  Status* (*Compile)(Ep*, const Graph**, const Node** fused, size_t count, ComputeInfo**, Node** contexts);
  void (*ReleaseNodeComputeInfos)(Ep*, ComputeInfo**, size_t count);
  Status* (*GetPreferredDataLayout)(Ep*, int32_t*);
  Status* (*ShouldConvertDataLayoutForOp)(Ep*, const char* domain, const char* type, int32_t layout, int*);
  Status* (*SetDynamicOptions)(Ep*, const char* const* keys, const char* const* values, size_t count);
  Status* (*OnRunStart)(Ep*, const RunOptions*);
  Status* (*OnRunEnd)(Ep*, const RunOptions*, bool sync_stream);
  Status* (*CreateAllocator)(Ep*, const MemoryInfo*, Allocator**);
  Status* (*CreateSyncStreamForDevice)(Ep*, const MemoryDevice*, SyncStream**);
  const char* (*GetCompiledModelCompatibilityInfo)(Ep*, const Graph*);
};

struct Factory {  // OrtEpFactory
  uint32_t ort_version_supported;
  const char* (*GetName)(const Factory*);
  const char* (*GetVendor)(const Factory*);
  Status* (*GetSupportedDevices)(Factory*, const HardwareDevice* const*, size_t count, EpDevice**, size_t most, size_t*);
  Status* (*CreateEp)(Factory*, const HardwareDevice* const*, const KeyValuePairs* const* metadata, size_t count,
                      const SessionOptions*, const Logger*, Ep**);
  void (*ReleaseEp)(Factory*, Ep*);
  uint32_t (*GetVendorId)(const Factory*);
  const char* (*GetVersion)(const Factory*);
  Status* (*ValidateCompiledModelCompatibilityInfo)(Factory*, const HardwareDevice* const*, size_t, const char*, int32_t*);
  Status* (*CreateAllocator)(Factory*, const MemoryInfo*, const KeyValuePairs*, Allocator**);
  void (*ReleaseAllocator)(Factory*, Allocator*);
  Status* (*CreateDataTransfer)(Factory*, DataTransfer**);
  bool (*IsStreamAware)(const Factory*);
  Status* (*CreateSyncStreamForDevice)(Factory*, const MemoryDevice*, const KeyValuePairs*, SyncStream**);
};

// Table, entry, number, result, arguments.
#define ORT_ENTRIES(X) \
  X(Api, CreateStatus, 0, Status*, (int32_t, const char*)) \
  X(Api, GetErrorMessage, 2, const char*, (const Status*)) \
  X(Api, CreateRunOptions, 39, Status*, (RunOptions**)) \
  X(Api, RunOptionsSetTerminate, 46, Status*, (RunOptions*)) \
  X(Api, RunOptionsUnsetTerminate, 47, Status*, (RunOptions*)) \
  X(Api, GetTensorMutableData, 51, Status*, (Value*, void**)) \
  X(Api, CastTypeInfoToTensorInfo, 55, Status*, (const TypeInfo*, const TensorInfo**)) \
  X(Api, GetTensorElementType, 60, Status*, (const TensorInfo*, int32_t*)) \
  X(Api, GetDimensionsCount, 61, Status*, (const TensorInfo*, size_t*)) \
  X(Api, GetDimensions, 62, Status*, (const TensorInfo*, int64_t*, size_t)) \
  X(Api, GetSymbolicDimensions, 63, Status*, (const TensorInfo*, const char**, size_t)) \
  X(Api, GetTensorTypeAndShape, 65, Status*, (const Value*, TensorInfo**)) \
  X(Api, KernelContext_GetInputCount, 88, Status*, (const KernelContext*, size_t*)) \
  X(Api, KernelContext_GetInput, 90, Status*, (const KernelContext*, size_t, const Value**)) \
  X(Api, KernelContext_GetOutput, 91, Status*, (KernelContext*, size_t, const int64_t*, size_t, Value**)) \
  X(Api, ReleaseStatus, 93, void, (Status*)) \
  X(Api, ReleaseValue, 96, void, (Value*)) \
  X(Api, ReleaseRunOptions, 97, void, (RunOptions*)) \
  X(Api, ReleaseTensorTypeAndShapeInfo, 99, void, (TensorInfo*)) \
  X(Api, CreateOpAttr, 211, Status*, (const char*, const void*, int, int32_t, OpAttr**)) \
  X(Api, ReleaseOpAttr, 212, void, (OpAttr*)) \
  X(Api, HasSessionConfigEntry, 237, Status*, (const SessionOptions*, const char*, int*)) \
  X(Api, GetSessionConfigEntry, 238, Status*, (const SessionOptions*, const char*, char*, size_t*)) \
  X(Api, Logger_LogMessage, 247, Status*, (const Logger*, int32_t, const char*, const char*, int, const char*)) \
  X(Api, ReadOpAttr, 272, Status*, (const OpAttr*, int32_t, void*, size_t, size_t*)) \
  X(Api, GetValueInfoName, 289, Status*, (const ValueInfo*, const char**)) \
  X(Api, GetValueInfoTypeInfo, 290, Status*, (const ValueInfo*, const TypeInfo**)) \
  X(Api, GetModelEditorApi, 291, const ModelEditorApi*, ()) \
  X(Api, CreateKeyValuePairs, 295, void, (KeyValuePairs**)) \
  X(Api, AddKeyValuePair, 296, void, (KeyValuePairs*, const char*, const char*)) \
  X(Api, GetKeyValue, 297, const char*, (const KeyValuePairs*, const char*)) \
  X(Api, ReleaseKeyValuePairs, 300, void, (KeyValuePairs*)) \
  X(Api, HardwareDevice_Type, 307, int32_t, (const HardwareDevice*)) \
  X(Api, GetEpApi, 317, const EpApi*, ()) \
  X(Api, GetTensorSizeInBytes, 318, Status*, (const Value*, size_t*)) \
  X(Api, CreateMemoryInfo_V2, 320, Status*, (const char*, int32_t, uint32_t, int32_t, int32_t, size_t, int32_t, MemoryInfo**)) \
  X(Api, ValueInfo_GetInitializerValue, 326, Status*, (const ValueInfo*, const Value**)) \
  X(Api, ValueInfo_IsConstantInitializer, 331, Status*, (const ValueInfo*, bool*)) \
  X(Api, Graph_GetName, 333, Status*, (const Graph*, const char**)) \
  X(Api, Graph_GetModelPath, 334, Status*, (const Graph*, const char**)) \
  X(Api, Graph_GetOnnxIRVersion, 335, Status*, (const Graph*, int64_t*)) \
  X(Api, Graph_GetNumOperatorSets, 336, Status*, (const Graph*, size_t*)) \
  X(Api, Graph_GetOperatorSets, 337, Status*, (const Graph*, const char**, int64_t*, size_t)) \
  X(Api, Graph_GetNumInputs, 338, Status*, (const Graph*, size_t*)) \
  X(Api, Graph_GetInputs, 339, Status*, (const Graph*, const ValueInfo**, size_t)) \
  X(Api, Graph_GetNumOutputs, 340, Status*, (const Graph*, size_t*)) \
  X(Api, Graph_GetOutputs, 341, Status*, (const Graph*, const ValueInfo**, size_t)) \
  X(Api, Graph_GetNumInitializers, 342, Status*, (const Graph*, size_t*)) \
  X(Api, Graph_GetInitializers, 343, Status*, (const Graph*, const ValueInfo**, size_t)) \
  X(Api, Graph_GetNumNodes, 344, Status*, (const Graph*, size_t*)) \
  X(Api, Graph_GetNodes, 345, Status*, (const Graph*, const Node**, size_t)) \
  X(Api, Graph_GetParentNode, 346, Status*, (const Graph*, const Node**)) \
  X(Api, Node_GetName, 349, Status*, (const Node*, const char**)) \
  X(Api, Node_GetOperatorType, 350, Status*, (const Node*, const char**)) \
  X(Api, Node_GetDomain, 351, Status*, (const Node*, const char**)) \
  X(Api, Node_GetNumInputs, 353, Status*, (const Node*, size_t*)) \
  X(Api, Node_GetInputs, 354, Status*, (const Node*, const ValueInfo**, size_t)) \
  X(Api, Node_GetNumOutputs, 355, Status*, (const Node*, size_t*)) \
  X(Api, Node_GetOutputs, 356, Status*, (const Node*, const ValueInfo**, size_t)) \
  X(Api, Node_GetNumImplicitInputs, 357, Status*, (const Node*, size_t*)) \
  X(Api, Node_GetImplicitInputs, 358, Status*, (const Node*, const ValueInfo**, size_t)) \
  X(Api, Node_GetNumAttributes, 359, Status*, (const Node*, size_t*)) \
  X(Api, Node_GetAttributes, 360, Status*, (const Node*, const OpAttr**, size_t)) \
  X(Api, OpAttr_GetTensorAttributeAsOrtValue, 362, Status*, (const OpAttr*, Value**)) \
  X(Api, OpAttr_GetType, 363, Status*, (const OpAttr*, int32_t*)) \
  X(Api, OpAttr_GetName, 364, Status*, (const OpAttr*, const char**)) \
  X(Api, Node_GetNumSubgraphs, 365, Status*, (const Node*, size_t*)) \
  X(Api, Node_GetSubgraphs, 366, Status*, (const Node*, const Graph**, size_t, const char**)) \
  X(Api, GetTensorData, 378, Status*, (const Value*, const void**)) \
  X(Api, TensorTypeAndShape_HasShape, 390, bool, (const TensorInfo*)) \
  X(EpApi, CreateEpDevice, 0, Status*, (Factory*, const HardwareDevice*, const KeyValuePairs*, const KeyValuePairs*, EpDevice**)) \
  X(EpApi, EpGraphSupportInfo_AddNodesToFuse, 2, Status*, (SupportInfo*, const Node* const*, size_t, const FusionOptions*)) \
  X(EpApi, EpDevice_AddAllocatorInfo, 5, Status*, (EpDevice*, const MemoryInfo*)) \
  X(EpApi, MemoryDevice_GetDeviceType, 9, int32_t, (const MemoryDevice*)) \
  X(EpApi, MemoryDevice_GetMemoryType, 10, int32_t, (const MemoryDevice*)) \
  X(EpApi, CreateHardwareDevice, 16, Status*, (int32_t, uint32_t, uint32_t, const char*, const KeyValuePairs*, HardwareDevice**)) \
  X(ModelEditorApi, CreateNode, 6, Status*, (const char*, const char*, const char*, const char* const*, size_t, const char* const*, size_t, OpAttr**, size_t, Node**))

// Each entry becomes a function that takes the table first: Graph_GetName(api, graph, &name).
#define ORT_CALL(TABLE, NAME, SLOT, RESULT, ARGUMENTS)                                                  \
  template <class... Given>                                                                             \
  inline RESULT NAME(const TABLE* table, Given... given) {                                              \
    return reinterpret_cast<RESULT(*) ARGUMENTS>(reinterpret_cast<void* const*>(table)[SLOT])(given...); \
  }
ORT_ENTRIES(ORT_CALL)
#undef ORT_CALL

}  // namespace nnvk::ort
