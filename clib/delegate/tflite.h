// The structures that TensorFlow Lite's C interface and this library pass to each other. Sizes and order are TensorFlow
// Lite's, which only adds members at the end. Unused members are omitted or replaced by padding. Structures of this
// library that TensorFlow Lite reads end with empty padding for members that later versions may add.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { kTfLiteOk = 0, kTfLiteError = 1, kTfLiteDelegateError = 2 } TfLiteStatus;

typedef struct TfLiteIntArray {
  int size;
  int data[];
} TfLiteIntArray;

typedef struct TfLiteFloatArray {
  int size;
  float data[];
} TfLiteFloatArray;

enum { kTfLiteInt64 = 4 };      // of TfLiteTensor.type
enum { kTfLiteMmapRo = 1 };     // of TfLiteTensor.allocation_type: a constant of the file
enum { kTfLiteOptionalTensor = -1 };

typedef struct TfLiteAffineQuantization {
  TfLiteFloatArray* scale;
  TfLiteIntArray* zero_point;
  int32_t quantized_dimension;
} TfLiteAffineQuantization;

enum { kTfLiteAffineQuantization = 1 };  // of TfLiteTensor.quantization.type

typedef struct TfLiteTensor {
  int type;
  void* data;
  TfLiteIntArray* dims;
  struct {
    float scale;
    int32_t zero_point;
  } params;
  int allocation_type;
  size_t bytes;
  const void* allocation;
  const char* name;
  struct TfLiteDelegate* delegate;
  int buffer_handle;
  bool data_is_stale;
  bool is_variable;
  struct {
    int type;
    void* params;
  } quantization;
  void* sparsity;
  const TfLiteIntArray* dims_signature;
} TfLiteTensor;

typedef struct TfLiteNode {
  TfLiteIntArray* inputs;
  TfLiteIntArray* outputs;
  TfLiteIntArray* intermediates;
  TfLiteIntArray* temporaries;
  void* user_data;
  void* builtin_data;
  const void* custom_initial_data;
  int custom_initial_data_size;
  struct TfLiteDelegate* delegate;
} TfLiteNode;  // only ever pointed to

typedef struct TfLiteDelegateParams {
  struct TfLiteDelegate* delegate;
  TfLiteIntArray* nodes_to_replace;
  TfLiteIntArray* input_tensors;
  TfLiteIntArray* output_tensors;
} TfLiteDelegateParams;

struct TfLiteContext;

typedef struct TfLiteRegistration {
  void* (*init)(struct TfLiteContext*, const char* buffer, size_t length);
  void (*free)(struct TfLiteContext*, void* buffer);
  TfLiteStatus (*prepare)(struct TfLiteContext*, TfLiteNode*);
  TfLiteStatus (*invoke)(struct TfLiteContext*, TfLiteNode*);
  const char* (*profiling_string)(const struct TfLiteContext*, const TfLiteNode*);
  int32_t builtin_code;
  const char* custom_name;
  int version;
  void* registration_external;
  void* (*async_kernel)(struct TfLiteContext*, TfLiteNode*);
  uint64_t inplace_operator;
  void* later[8];
} TfLiteRegistration;

enum { kTfLiteBuiltinCustom = 32, kTfLiteBuiltinDelegate = 51 };  // of TfLiteRegistration.builtin_code

typedef struct TfLiteContext {
  size_t tensors_size;
  TfLiteStatus (*GetExecutionPlan)(struct TfLiteContext*, TfLiteIntArray** execution_plan);
  TfLiteTensor* tensors;
  void* impl_;
  TfLiteStatus (*ResizeTensor)(struct TfLiteContext*, TfLiteTensor*, TfLiteIntArray* new_size);
  void (*ReportError)(struct TfLiteContext*, const char* message, ...);
  TfLiteStatus (*AddTensors)(struct TfLiteContext*, int, int*);
  TfLiteStatus (*GetNodeAndRegistration)(struct TfLiteContext*, int node_index, TfLiteNode**, TfLiteRegistration**);
  TfLiteStatus (*ReplaceNodeSubsetsWithDelegateKernels)(struct TfLiteContext*, TfLiteRegistration,
                                                        const TfLiteIntArray* nodes, struct TfLiteDelegate*);
  int recommended_num_threads;
  void* (*GetExternalContext)(struct TfLiteContext*, int);
  void (*SetExternalContext)(struct TfLiteContext*, int, void*);
  bool allow_fp32_relax_to_fp16;
  void* profiler;
  void* (*AllocatePersistentBuffer)(struct TfLiteContext*, size_t);
  TfLiteStatus (*AllocateBufferForEval)(struct TfLiteContext*, size_t, void**);
  TfLiteStatus (*RequestScratchBufferInArena)(struct TfLiteContext*, size_t, int*);
  void* (*GetScratchBuffer)(struct TfLiteContext*, int);
  TfLiteStatus (*ResizeTensorExplicit)(struct TfLiteContext*, TfLiteTensor*, int, const int*);  // may be NULL
  TfLiteStatus (*PreviewDelegatePartitioning)(struct TfLiteContext*, const TfLiteIntArray* nodes,
                                              TfLiteDelegateParams** partitions, int* count);
} TfLiteContext;  // only ever pointed to

enum { kTfLiteDelegateFlagsAllowDynamicTensors = 1 };

typedef struct TfLiteDelegate {
  void* data_;
  TfLiteStatus (*Prepare)(TfLiteContext*, struct TfLiteDelegate*);
  TfLiteStatus (*CopyFromBufferHandle)(TfLiteContext*, struct TfLiteDelegate*, int, TfLiteTensor*);
  TfLiteStatus (*CopyToBufferHandle)(TfLiteContext*, struct TfLiteDelegate*, int, TfLiteTensor*);
  void (*FreeBufferHandle)(TfLiteContext*, struct TfLiteDelegate*, int*);
  int64_t flags;
  void* opaque_delegate_builder;
  void* later[8];
} TfLiteDelegate;

// The oldest version whose structures have all that is here and in nnvk/importers/tflite/c_options.py.
enum { kOldestMajor = 2, kOldestMinor = 14 };

// These are the functions of this library. A wrong option goes to `report_error`, and the result is NULL.
TfLiteDelegate* tflite_plugin_create_delegate(const char* const* keys, const char* const* values, size_t count,
                                              void (*report_error)(const char*));
void tflite_plugin_destroy_delegate(TfLiteDelegate* delegate);

#ifdef __cplusplus
}
#endif
