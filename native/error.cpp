#include "error.hpp"

namespace nnvk {

const char* result_name(VkResult result) {
    switch (result) {
#define NNVK_RESULT(name)                                                                                             \
    case name:                                                                                                        \
        return #name;
        NNVK_RESULT(VK_SUCCESS)
        NNVK_RESULT(VK_NOT_READY)
        NNVK_RESULT(VK_TIMEOUT)
        NNVK_RESULT(VK_INCOMPLETE)
        NNVK_RESULT(VK_ERROR_OUT_OF_HOST_MEMORY)
        NNVK_RESULT(VK_ERROR_OUT_OF_DEVICE_MEMORY)
        NNVK_RESULT(VK_ERROR_INITIALIZATION_FAILED)
        NNVK_RESULT(VK_ERROR_DEVICE_LOST)
        NNVK_RESULT(VK_ERROR_MEMORY_MAP_FAILED)
        NNVK_RESULT(VK_ERROR_LAYER_NOT_PRESENT)
        NNVK_RESULT(VK_ERROR_EXTENSION_NOT_PRESENT)
        NNVK_RESULT(VK_ERROR_FEATURE_NOT_PRESENT)
        NNVK_RESULT(VK_ERROR_INCOMPATIBLE_DRIVER)
        NNVK_RESULT(VK_ERROR_TOO_MANY_OBJECTS)
        NNVK_RESULT(VK_ERROR_FRAGMENTED_POOL)
        NNVK_RESULT(VK_ERROR_OUT_OF_POOL_MEMORY)
        NNVK_RESULT(VK_ERROR_INVALID_EXTERNAL_HANDLE)
        NNVK_RESULT(VK_ERROR_INVALID_SHADER_NV)
#undef NNVK_RESULT
    default:
        return "VK_ERROR_UNKNOWN";
    }
}

void check(VkResult result, const char* call) {
    if (result == VK_SUCCESS) {
        return;
    }
    if (result == VK_ERROR_OUT_OF_HOST_MEMORY || result == VK_ERROR_OUT_OF_DEVICE_MEMORY) {
        throw OutOfMemory(std::string(call) + ": " + result_name(result));
    }
    if (result == VK_ERROR_DEVICE_LOST) {
        throw DeviceLost(call);
    }
    throw VulkanError(call, result);
}

} // namespace nnvk
