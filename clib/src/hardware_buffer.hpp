// The structure behind a pointer to AHardwareBuffer.
#pragma once

#include <android/hardware_buffer.h>
#include <sys/mman.h>

#include <atomic>

#include "wire.hpp"

struct AHardwareBuffer {
  // Maps it. Throws.
  AHardwareBuffer(nnvk::Descriptor memory, const AHardwareBuffer_Desc& desc);
  AHardwareBuffer(const AHardwareBuffer&) = delete;
  ~AHardwareBuffer() { munmap(data, size()); }

  size_t size() const { return desc.width; }

  const nnvk::Descriptor memory;
  const AHardwareBuffer_Desc desc;
  void* const data;
  const uint64_t id;
  std::atomic<unsigned> users{1};
};
