// Vulkan's functions, as pointers of their usual names: the loader is opened when it is needed, and not linked, so that
// the module can be imported where there is none.
#pragma once

#include <vulkan/vulkan.h>

namespace nnvk {

// Opens the Vulkan loader. Throws LoaderError where it can't be opened, or is older than Vulkan 1.1.
void load_vulkan();

// Those that native/ calls itself, and those of Kompute (native/dispatch.cpp). All are exported by the loader, whose entry
// points dispatch on their first argument: one table serves every instance and device.
#define NNVK_VULKAN_FUNCTIONS(X)                                                                                      \
    X(vkAllocateCommandBuffers)                                                                                       \
    X(vkAllocateDescriptorSets)                                                                                       \
    X(vkAllocateMemory)                                                                                               \
    X(vkBeginCommandBuffer)                                                                                           \
    X(vkBindBufferMemory)                                                                                             \
    X(vkCmdBindDescriptorSets)                                                                                        \
    X(vkCmdBindPipeline)                                                                                              \
    X(vkCmdCopyBuffer)                                                                                                \
    X(vkCmdDispatch)                                                                                                  \
    X(vkCmdFillBuffer)                                                                                                \
    X(vkCmdPipelineBarrier)                                                                                           \
    X(vkCmdPushConstants)                                                                                             \
    X(vkCmdResetQueryPool)                                                                                            \
    X(vkCmdWriteTimestamp)                                                                                            \
    X(vkCreateBuffer)                                                                                                 \
    X(vkCreateBufferView)                                                                                             \
    X(vkCreateCommandPool)                                                                                            \
    X(vkCreateComputePipelines)                                                                                       \
    X(vkCreateDescriptorPool)                                                                                         \
    X(vkCreateDescriptorSetLayout)                                                                                    \
    X(vkCreateDevice)                                                                                                 \
    X(vkCreateFence)                                                                                                  \
    X(vkCreateInstance)                                                                                               \
    X(vkCreatePipelineCache)                                                                                          \
    X(vkCreatePipelineLayout)                                                                                         \
    X(vkCreateQueryPool)                                                                                              \
    X(vkCreateShaderModule)                                                                                           \
    X(vkDestroyBuffer)                                                                                                \
    X(vkDestroyBufferView)                                                                                            \
    X(vkDestroyCommandPool)                                                                                           \
    X(vkDestroyDescriptorPool)                                                                                        \
    X(vkDestroyDescriptorSetLayout)                                                                                   \
    X(vkDestroyDevice)                                                                                                \
    X(vkDestroyFence)                                                                                                 \
    X(vkDestroyInstance)                                                                                              \
    X(vkDestroyPipeline)                                                                                              \
    X(vkDestroyPipelineCache)                                                                                         \
    X(vkDestroyPipelineLayout)                                                                                        \
    X(vkDestroyQueryPool)                                                                                             \
    X(vkDestroyShaderModule)                                                                                          \
    X(vkDeviceWaitIdle)                                                                                               \
    X(vkEndCommandBuffer)                                                                                             \
    X(vkEnumerateDeviceExtensionProperties)                                                                           \
    X(vkEnumerateInstanceLayerProperties)                                                                             \
    X(vkEnumerateInstanceVersion)                                                                                     \
    X(vkEnumeratePhysicalDevices)                                                                                     \
    X(vkFreeCommandBuffers)                                                                                           \
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
    X(vkMapMemory)                                                                                                    \
    X(vkMergePipelineCaches)                                                                                          \
    X(vkQueueSubmit)                                                                                                  \
    X(vkResetFences)                                                                                                  \
    X(vkUnmapMemory)                                                                                                  \
    X(vkUpdateDescriptorSets)                                                                                         \
    X(vkWaitForFences)

#define NNVK_DECLARE(name) extern PFN_##name name;
NNVK_VULKAN_FUNCTIONS(NNVK_DECLARE)
#undef NNVK_DECLARE

} // namespace nnvk
