#include "dispatch.hpp"

#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include <vulkan/vulkan.hpp>

#include "loader.hpp"

VULKAN_HPP_DEFAULT_DISPATCH_LOADER_DYNAMIC_STORAGE

namespace nnvk {

namespace {

thread_local Adoption* t_adoption = nullptr;
thread_local PipelineScope* t_pipeline = nullptr;
thread_local BindingScope* t_bindings = nullptr;
thread_local Outcome* t_outcome = nullptr;

VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo* info,
                                             const VkAllocationCallbacks* allocator, VkBuffer* buffer) {
    if (t_adoption && t_adoption->buffer) {
        *buffer = std::exchange(t_adoption->buffer, VkBuffer(VK_NULL_HANDLE));
        return VK_SUCCESS;
    }
    return vkCreateBuffer(device, info, allocator, buffer);
}

VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(VkDevice device, const VkMemoryAllocateInfo* info,
                                               const VkAllocationCallbacks* allocator, VkDeviceMemory* memory) {
    if (t_adoption && t_adoption->memory) {
        *memory = std::exchange(t_adoption->memory, VkDeviceMemory(VK_NULL_HANDLE));
        return VK_SUCCESS;
    }
    return vkAllocateMemory(device, info, allocator, memory);
}

// A given pipeline has its code. Drivers digest a module, which takes longer than all else that kp::Algorithm makes.
VKAPI_ATTR VkResult VKAPI_CALL create_shader_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                                    const VkAllocationCallbacks* allocator, VkShaderModule* module) {
    if (t_pipeline && t_pipeline->given) {
        *module = VK_NULL_HANDLE;
        return VK_SUCCESS;
    }
    return vkCreateShaderModule(device, info, allocator, module);
}

VKAPI_ATTR VkResult VKAPI_CALL create_compute_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                        const VkComputePipelineCreateInfo* infos,
                                                        const VkAllocationCallbacks* allocator, VkPipeline* pipelines) {
    if (!t_pipeline || count != 1) {
        return vkCreateComputePipelines(device, cache, count, infos, allocator, pipelines);
    }
    if (!t_pipeline->given) {
        VkComputePipelineCreateInfo info = *infos;
        const auto& constants = t_pipeline->specialization;
        std::vector<VkSpecializationMapEntry> entries;
        for (uint32_t i = 0; i < constants.size(); ++i) {
            entries.push_back({i, i * uint32_t{sizeof constants[i]}, sizeof constants[i]});
        }
        const VkSpecializationInfo specialization{static_cast<uint32_t>(entries.size()), entries.data(),
                                                  constants.size() * sizeof(uint32_t), constants.data()};
        info.stage.pSpecializationInfo = &specialization;
        VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size{
            VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO};
        if (t_pipeline->subgroup_size) {
            size.pNext = const_cast<void*>(info.stage.pNext);
            size.requiredSubgroupSize = t_pipeline->subgroup_size;
            info.stage.pNext = &size;
            if (t_pipeline->full_subgroups) {
                info.stage.flags |= VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
            }
        }
        const VkResult result =
            vkCreateComputePipelines(device, t_pipeline->cache, count, &info, allocator, &t_pipeline->pipeline);
        if (result != VK_SUCCESS) {
            return result;
        }
    }
    *pipelines = t_pipeline->pipeline;
    return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL destroy_pipeline(VkDevice device, VkPipeline pipeline,
                                            const VkAllocationCallbacks* allocator) {
    if (!t_pipeline || !t_pipeline->given) {
        vkDestroyPipeline(device, pipeline, allocator);
    }
}

VKAPI_ATTR VkResult VKAPI_CALL create_descriptor_set_layout(VkDevice device, const VkDescriptorSetLayoutCreateInfo* info,
                                                            const VkAllocationCallbacks* allocator,
                                                            VkDescriptorSetLayout* layout) {
    if (!t_bindings) {
        return vkCreateDescriptorSetLayout(device, info, allocator, layout);
    }
    std::vector<VkDescriptorSetLayoutBinding> bindings(info->pBindings, info->pBindings + info->bindingCount);
    for (uint32_t i = 0; i < info->bindingCount; ++i) {
        VkDescriptorSetLayoutBinding texels = bindings[i];
        texels.binding += BindingScope::kFirstTexels;
        texels.descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
        bindings.push_back(texels);
    }
    VkDescriptorSetLayoutCreateInfo both = *info;
    both.bindingCount = static_cast<uint32_t>(bindings.size());
    both.pBindings = bindings.data();
    return vkCreateDescriptorSetLayout(device, &both, allocator, layout);
}

VKAPI_ATTR VkResult VKAPI_CALL create_descriptor_pool(VkDevice device, const VkDescriptorPoolCreateInfo* info,
                                                      const VkAllocationCallbacks* allocator, VkDescriptorPool* pool) {
    if (!t_bindings) {
        return vkCreateDescriptorPool(device, info, allocator, pool);
    }
    std::vector<VkDescriptorPoolSize> sizes(info->pPoolSizes, info->pPoolSizes + info->poolSizeCount);
    for (uint32_t i = 0; i < info->poolSizeCount; ++i) {
        sizes.push_back({VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, sizes[i].descriptorCount});
    }
    VkDescriptorPoolCreateInfo both = *info;
    both.poolSizeCount = static_cast<uint32_t>(sizes.size());
    both.pPoolSizes = sizes.data();
    return vkCreateDescriptorPool(device, &both, allocator, pool);
}

VKAPI_ATTR VkResult VKAPI_CALL allocate_descriptor_sets(VkDevice device, const VkDescriptorSetAllocateInfo* info,
                                                        VkDescriptorSet* sets) {
    const VkResult result = vkAllocateDescriptorSets(device, info, sets);
    if (t_bindings && result == VK_SUCCESS) {
        t_bindings->set = sets[0];
    }
    return result;
}

VKAPI_ATTR VkResult VKAPI_CALL create_pipeline_layout(VkDevice device, const VkPipelineLayoutCreateInfo* info,
                                                      const VkAllocationCallbacks* allocator,
                                                      VkPipelineLayout* layout) {
    if (!t_bindings) {
        return vkCreatePipelineLayout(device, info, allocator, layout);
    }
    const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, t_bindings->push_constant_size};
    VkPipelineLayoutCreateInfo pushed = *info;
    pushed.pushConstantRangeCount = range.size ? 1 : 0;
    pushed.pPushConstantRanges = &range;
    const VkResult result = vkCreatePipelineLayout(device, &pushed, allocator, layout);
    if (result == VK_SUCCESS) {
        t_bindings->layout = *layout;
    }
    return result;
}

// Kompute calls it in destructors, for memory that is coherent.
VKAPI_ATTR VkResult VKAPI_CALL flush_mapped_memory_ranges(VkDevice, uint32_t, const VkMappedMemoryRange*) {
    return VK_SUCCESS;
}

// Kompute calls it in a destructor, also for a buffer that was not made, and then destroys the pool, which frees buffers.
VKAPI_ATTR void VKAPI_CALL free_command_buffers(VkDevice, VkCommandPool, uint32_t, const VkCommandBuffer*) {}

bool has_failed() { return t_outcome && t_outcome->result != VK_SUCCESS; }

VkResult noted(VkResult result, const char* call) {
    if (t_outcome) {
        t_outcome->result = result;
        t_outcome->call = call;
    }
    return result;
}

} // namespace

void install_dispatcher() {
    static std::once_flag once;
    std::call_once(once, [] {
        auto& table = VULKAN_HPP_DEFAULT_DISPATCHER;
// vulkan.hpp's functions must not throw.
#define NNVK_CHECKED_AS(function, own)                                                                                \
    table.function = [](auto... arguments) {                                                                           \
        if (has_failed()) {                                                                                            \
            return t_outcome->result;                                                                                  \
        }                                                                                                              \
        try {                                                                                                          \
            return noted(own(arguments...), #function);                                                                \
        } catch (const std::bad_alloc&) {                                                                              \
            return noted(VK_ERROR_OUT_OF_HOST_MEMORY, #function);                                                      \
        }                                                                                                              \
    };
#define NNVK_CHECKED(function) NNVK_CHECKED_AS(function, function)
// These have no result, and must not get what was not made.
#define NNVK_UNLESS_FAILED(function)                                                                                  \
    table.function = [](auto... arguments) {                                                                           \
        if (!has_failed()) {                                                                                           \
            function(arguments...);                                                                                    \
        }                                                                                                              \
    };
#define NNVK_ALWAYS(function, own) table.function = own;
        NNVK_CHECKED(vkAllocateCommandBuffers)
        NNVK_CHECKED_AS(vkAllocateDescriptorSets, allocate_descriptor_sets)
        NNVK_CHECKED_AS(vkAllocateMemory, allocate_memory)
        NNVK_CHECKED(vkBeginCommandBuffer)
        NNVK_CHECKED(vkBindBufferMemory)
        NNVK_UNLESS_FAILED(vkCmdBindDescriptorSets)
        NNVK_UNLESS_FAILED(vkCmdBindPipeline)
        NNVK_UNLESS_FAILED(vkCmdDispatch)
        NNVK_CHECKED_AS(vkCreateBuffer, create_buffer)
        NNVK_CHECKED(vkCreateCommandPool)
        NNVK_CHECKED_AS(vkCreateComputePipelines, create_compute_pipelines)
        NNVK_CHECKED_AS(vkCreateDescriptorPool, create_descriptor_pool)
        NNVK_CHECKED_AS(vkCreateDescriptorSetLayout, create_descriptor_set_layout)
        NNVK_CHECKED(vkCreatePipelineCache)
        NNVK_CHECKED_AS(vkCreatePipelineLayout, create_pipeline_layout)
        NNVK_CHECKED_AS(vkCreateShaderModule, create_shader_module)
        NNVK_ALWAYS(vkDestroyBuffer, vkDestroyBuffer)
        NNVK_ALWAYS(vkDestroyCommandPool, vkDestroyCommandPool)
        NNVK_ALWAYS(vkDestroyDescriptorPool, vkDestroyDescriptorPool)
        NNVK_ALWAYS(vkDestroyDescriptorSetLayout, vkDestroyDescriptorSetLayout)
        NNVK_ALWAYS(vkDestroyPipeline, destroy_pipeline)
        NNVK_ALWAYS(vkDestroyPipelineCache, vkDestroyPipelineCache)
        NNVK_ALWAYS(vkDestroyPipelineLayout, vkDestroyPipelineLayout)
        NNVK_ALWAYS(vkDestroyShaderModule, vkDestroyShaderModule)
        NNVK_CHECKED(vkEndCommandBuffer)
        NNVK_ALWAYS(vkFlushMappedMemoryRanges, flush_mapped_memory_ranges)
        NNVK_ALWAYS(vkFreeCommandBuffers, free_command_buffers)
        NNVK_ALWAYS(vkFreeMemory, vkFreeMemory)
        NNVK_UNLESS_FAILED(vkGetBufferMemoryRequirements)
        NNVK_UNLESS_FAILED(vkGetPhysicalDeviceMemoryProperties)
        NNVK_CHECKED(vkMapMemory)
        NNVK_ALWAYS(vkUnmapMemory, vkUnmapMemory)
        NNVK_UNLESS_FAILED(vkUpdateDescriptorSets)
#undef NNVK_CHECKED
#undef NNVK_CHECKED_AS
#undef NNVK_UNLESS_FAILED
#undef NNVK_ALWAYS
    });
}

Outcome::Outcome() { t_outcome = this; }

Outcome::~Outcome() { t_outcome = nullptr; }

Adoption::Adoption(VkBuffer buffer, VkDeviceMemory memory) : buffer(buffer), memory(memory) { t_adoption = this; }

Adoption::~Adoption() { t_adoption = nullptr; }

PipelineScope::PipelineScope(VkPipelineCache cache, VkPipeline pipeline, std::vector<uint32_t> specialization,
                             uint32_t subgroup_size, bool full_subgroups)
  : cache(cache), pipeline(pipeline), given(pipeline != VK_NULL_HANDLE), specialization(std::move(specialization)),
    subgroup_size(subgroup_size), full_subgroups(full_subgroups) {
    t_pipeline = this;
}

PipelineScope::~PipelineScope() { t_pipeline = nullptr; }

BindingScope::BindingScope(uint32_t push_constant_size) : push_constant_size(push_constant_size) { t_bindings = this; }

BindingScope::~BindingScope() { t_bindings = nullptr; }

} // namespace nnvk
