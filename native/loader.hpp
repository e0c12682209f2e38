// Vulkan's functions, as pointers of their usual names: the loader is opened when it is needed, and not linked, so that
// the module can be imported where there is none.
#pragma once

#include <vulkan/vulkan.h>

namespace nnvk {

// Opens the Vulkan loader. Throws LoaderError where it can't be opened, or is older than Vulkan 1.1.
void load_vulkan();

// Those that native/ calls itself. All are exported by the loader, whose entry points dispatch on their first argument:
// one table serves every instance and device.
#define NNVK_VULKAN_FUNCTIONS(X)                                                                                      \
    X(vkAllocateDescriptorSets)                                                                                       \
    X(vkAllocateMemory)                                                                                               \
    X(vkCmdCopyBuffer)                                                                                                \
    X(vkCmdDispatch)                                                                                                  \
    X(vkCmdFillBuffer)                                                                                                \
    X(vkCmdPipelineBarrier)                                                                                           \
    X(vkCmdResetQueryPool)                                                                                            \
    X(vkCmdWriteTimestamp)                                                                                            \
    X(vkCreateBuffer)                                                                                                 \
    X(vkCreateBufferView)                                                                                             \
    X(vkCreateComputePipelines)                                                                                       \
    X(vkCreateDescriptorPool)                                                                                         \
    X(vkCreateDescriptorSetLayout)                                                                                    \
    X(vkCreateDevice)                                                                                                 \
    X(vkCreateFence)                                                                                                  \
    X(vkCreateInstance)                                                                                               \
    X(vkCreatePipelineCache)                                                                                          \
    X(vkCreateQueryPool)                                                                                              \
    X(vkDestroyBuffer)                                                                                                \
    X(vkDestroyBufferView)                                                                                            \
    X(vkDestroyDevice)                                                                                                \
    X(vkDestroyFence)                                                                                                 \
    X(vkDestroyInstance)                                                                                              \
    X(vkDestroyPipeline)                                                                                              \
    X(vkDestroyPipelineCache)                                                                                         \
    X(vkDestroyQueryPool)                                                                                             \
    X(vkDeviceWaitIdle)                                                                                               \
    X(vkEnumerateDeviceExtensionProperties)                                                                           \
    X(vkEnumerateInstanceLayerProperties)                                                                             \
    X(vkEnumerateInstanceVersion)                                                                                     \
    X(vkEnumeratePhysicalDevices)                                                                                     \
    X(vkFreeMemory)                                                                                                   \
    X(vkGetBufferMemoryRequirements)                                                                                  \
    X(vkGetDeviceProcAddr)                                                                                            \
    X(vkGetDeviceQueue)                                                                                               \
    X(vkGetFenceStatus)                                                                                               \
    X(vkGetInstanceProcAddr)                                                                                          \
    X(vkGetPhysicalDeviceExternalFenceProperties)                                                                     \
    X(vkGetPhysicalDeviceFeatures2)                                                                                   \
    X(vkGetPhysicalDeviceMemoryProperties)                                                                            \
    X(vkGetPhysicalDeviceProperties)                                                                                  \
    X(vkGetPhysicalDeviceProperties2)                                                                                 \
    X(vkGetPhysicalDeviceQueueFamilyProperties)                                                                       \
    X(vkGetPipelineCacheData)                                                                                         \
    X(vkGetQueryPoolResults)                                                                                          \
    X(vkMergePipelineCaches)                                                                                          \
    X(vkQueueSubmit)                                                                                                  \
    X(vkResetFences)                                                                                                  \
    X(vkUpdateDescriptorSets)                                                                                         \
    X(vkWaitForFences)

#define NNVK_DECLARE(name) extern PFN_##name name;
NNVK_VULKAN_FUNCTIONS(NNVK_DECLARE)
#undef NNVK_DECLARE

} // namespace nnvk
