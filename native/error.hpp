// Exceptions of the native module and the check that turns a VkResult into one.
#pragma once

#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include <vulkan/vulkan.h>

namespace nnvk {

// The name of a VkResult as the specification spells it, e.g. "VK_ERROR_DEVICE_LOST".
const char* result_name(VkResult result);

// A Vulkan call failed. Becomes nnvk._native.VulkanError.
class VulkanError : public std::runtime_error {
  public:
    VulkanError(const std::string& what, VkResult result)
      : std::runtime_error(what + ": " + result_name(result)), result(result) {}
    explicit VulkanError(const std::string& what) : std::runtime_error(what), result(VK_ERROR_UNKNOWN) {}

    VkResult result;
};

// The Vulkan loader, libvulkan.so.1, is not there or can't be used. Becomes nnvk._native.LoaderError.
class LoaderError : public VulkanError {
  public:
    using VulkanError::VulkanError;
};

// The device is gone, and with it all that was made on it. Becomes nnvk._native.DeviceLostError.
class DeviceLost : public VulkanError {
  public:
    explicit DeviceLost(const std::string& what) : VulkanError(what, VK_ERROR_DEVICE_LOST) {}
};

// An allocation can't be had. Derives from bad_alloc so that Python sees a MemoryError.
class OutOfMemory : public std::bad_alloc {
  public:
    explicit OutOfMemory(std::string what) : what_(std::move(what)) {}
    const char* what() const noexcept override { return what_.c_str(); }

  private:
    std::string what_;
};

// Throws unless the call succeeded; out-of-memory results become OutOfMemory.
void check(VkResult result, const char* call);

} // namespace nnvk
