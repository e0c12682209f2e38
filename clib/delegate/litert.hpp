// The structures by which LiteRT, since version 2.2, finds and calls an accelerator. Sizes and order are LiteRT's, which
// only adds members at the end. Unused members are omitted or replaced by padding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tflite.h"

enum LiteRtStatus {
  kLiteRtStatusOk = 0,
  kLiteRtStatusErrorRuntimeFailure = 3,
  kLiteRtStatusErrorWrongVersion = 8,
};

enum { kLiteRtHwAcceleratorGpu = 2 };  // one of a set of bits

// It is the first member of the others. Another major version has another layout.
struct LiteRtAbiHeader {
  uint16_t struct_size, major_version, minor_version, reserved;
};

struct LiteRtApiVersion {
  int major, minor, patch;
};

struct LiteRtRuntimeContext {
  LiteRtAbiHeader abi_header;
  void* others[17];
  LiteRtStatus (*wrap_delegate)(TfLiteDelegate*, void (*deleter)(TfLiteDelegate*), void** wrapper);
};  // only ever pointed to

struct LiteRtCustomTensorBufferHandlersDef {
  LiteRtAbiHeader abi_header;
  void* functions[6];
  int32_t device_tag, queue_tag;
  size_t num_supported_buffer_types;
  int32_t supported_buffer_types[16];
};

struct LiteRtAcceleratorDef {
  LiteRtAbiHeader abi_header;
  LiteRtStatus (*get_name)(const void* accelerator, const char** name);
  LiteRtStatus (*get_version)(const void* accelerator, LiteRtApiVersion* version);
  LiteRtStatus (*get_hardware_support)(const void* accelerator, int* set);
  LiteRtStatus (*is_tflite_delegate_responsible_for_jit_compilation)(const void* accelerator, bool* is_responsible);
  LiteRtStatus (*create_delegate)(const LiteRtRuntimeContext*, void* environment, const void* accelerator,
                                  const void* options, void** wrapper);
  void *start_metrics_collection, *stop_metrics_collection;  // may be NULL
  LiteRtCustomTensorBufferHandlersDef buffer_handlers;
};

static_assert(sizeof(void*) != 8 || sizeof(LiteRtRuntimeContext) == 152, "LiteRT has wrap_delegate at 144");
static_assert(sizeof(void*) != 8 || sizeof(LiteRtCustomTensorBufferHandlersDef) == 136, "LiteRT has 136 bytes");
static_assert(sizeof(void*) != 8 || sizeof(LiteRtAcceleratorDef) == 200, "LiteRT has 200 bytes");
