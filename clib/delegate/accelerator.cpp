// The delegate as LiteRT 2 loads it for its compiled models: libLiteRtGpuAccelerator.so, whose name LiteRT looks for first.
#include <android/log.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "kernel.hpp"
#include "litert.hpp"
#include "request.hpp"

namespace nnvk::tflite {

namespace {

LiteRtStatus getName(const void*, const char** name) {
  *name = "nnvk";
  return kLiteRtStatusOk;
}

LiteRtStatus getVersion(const void*, LiteRtApiVersion* version) {
  *version = {1, 0, 0};
  return kLiteRtStatusOk;
}

LiteRtStatus getHardwareSupport(const void*, int* set) {
  *set = kLiteRtHwAcceleratorGpu;
  return kLiteRtStatusOk;
}

// Whether the delegate is for compiled models that ask for this hardware, and for no others.
LiteRtStatus isResponsible(const void*, bool* is_responsible) {
  *is_responsible = true;
  return kLiteRtStatusOk;
}

// LiteRT's logger is out of reach: it exports none, and takes a status from here.
void logError(const char* reason) { __android_log_write(ANDROID_LOG_ERROR, "LiteRT", reason); }

// Throws where nnvk's server can't be asked.
bool hasGpu() {
  Options options;
  options.no_fallback = true;
  try {
    checkDevice(options);
    return true;
  } catch (const Error& error) {
    if (error.code != ANEURALNETWORKS_UNAVAILABLE_DEVICE) {
      throw;
    }
    log(options, "%s", error.reason.c_str());
    return false;
  }
}

TfLiteStatus takeNothing(TfLiteContext*, TfLiteDelegate*) { return kTfLiteOk; }

// The delegate where nnvk has only its CPU device, which is slower than LiteRT's CPU.
TfLiteDelegate* delegateOfNothing() {
  static TfLiteDelegate delegate{nullptr, takeNothing, nullptr, nullptr, nullptr,
                                 kTfLiteDelegateFlagsAllowDynamicTensors, nullptr, {}};
  return &delegate;
}

// The delegate with the options that the environment has, as TensorFlow Lite's tools take them: "key:value;key:value".
TfLiteDelegate* makeDelegate() {
  const char* given = secure_getenv("NNVK_LITERT_OPTIONS");
  std::string text = given == nullptr ? "" : given;
  std::vector<const char*> keys, values;
  bool has_device = false;
  for (size_t at = 0; at < text.size();) {
    const size_t colon = text.find(':', at), end = std::min(text.find(';', at), text.size());
    if (colon >= end) {
      NNVK_BAD_DATA("NNVK_LITERT_OPTIONS must be like device:NAME;relaxed:true, got '%s'", given);
    }
    text[colon] = text[end] = '\0';
    keys.push_back(&text[at]);
    values.push_back(&text[colon + 1]);
    has_device = has_device || keys.back() == std::string("device");
    at = end + 1;
  }
  const bool is_wanted = has_device || hasGpu();
  auto* made = tflite_plugin_create_delegate(keys.data(), values.data(), keys.size(), logError);
  if (made == nullptr || is_wanted) {
    return made;
  }
  tflite_plugin_destroy_delegate(made);
  return delegateOfNothing();
}

LiteRtStatus createDelegate(const LiteRtRuntimeContext* context, void*, const void*, const void*, void** wrapper) {
  const auto& header = context->abi_header;
  if (header.major_version != 1 || header.struct_size < sizeof(LiteRtRuntimeContext)) {
    logError("nnvk: this LiteRT has an interface for accelerators that nnvk does not know");
    return kLiteRtStatusErrorWrongVersion;
  }
  TfLiteDelegate* delegate = nullptr;
  guarded("making an accelerator", [&] { delegate = makeDelegate(); });
  return delegate == nullptr ? kLiteRtStatusErrorRuntimeFailure
                             : context->wrap_delegate(delegate, tflite_plugin_destroy_delegate, wrapper);
}

}  // namespace

}  // namespace nnvk::tflite

using namespace nnvk::tflite;

extern "C" NNVK_EXPORT const LiteRtAcceleratorDef LiteRtAcceleratorImpl = {
    {sizeof(LiteRtAcceleratorDef), 1, 0, 0}, getName, getVersion, getHardwareSupport, isResponsible, createDelegate,
    nullptr, nullptr, {}};
