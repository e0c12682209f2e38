#include "dispatch.hpp"

#include <mutex>
#include <utility>
#include <vector>

#include <vulkan/vulkan.hpp>

#include "loader.hpp"

VULKAN_HPP_DEFAULT_DISPATCH_LOADER_DYNAMIC_STORAGE

namespace nnvk {

namespace {

thread_local Adoption* t_adoption = nullptr;
thread_local PipelineScope* t_pipeline = nullptr;
thread_local TexelScope* t_texels = nullptr;

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

VKAPI_ATTR VkResult VKAPI_CALL create_compute_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                        const VkComputePipelineCreateInfo* infos,
                                                        const VkAllocationCallbacks* allocator, VkPipeline* pipelines) {
    if (!t_pipeline || count != 1) {
        return vkCreateComputePipelines(device, cache, count, infos, allocator, pipelines);
    }
    if (!t_pipeline->given) {
        VkComputePipelineCreateInfo info = *infos;
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
    if (!t_texels) {
        return vkCreateDescriptorSetLayout(device, info, allocator, layout);
    }
    std::vector<VkDescriptorSetLayoutBinding> bindings(info->pBindings, info->pBindings + info->bindingCount);
    for (uint32_t i = 0; i < info->bindingCount; ++i) {
        VkDescriptorSetLayoutBinding texels = bindings[i];
        texels.binding += TexelScope::kFirstTexels;
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
    if (!t_texels) {
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
    if (t_texels && result == VK_SUCCESS) {
        t_texels->set = sets[0];
    }
    return result;
}

} // namespace

void install_dispatcher(VkInstance instance) {
    // The loader's entry points dispatch on their first argument, so one table serves every instance and device.
    static std::once_flag once;
    std::call_once(once, [&] {
        auto& table = VULKAN_HPP_DEFAULT_DISPATCHER;
        table.init(vkGetInstanceProcAddr);
        table.init(vk::Instance(instance));
        table.vkCreateBuffer = create_buffer;
        table.vkAllocateMemory = allocate_memory;
        table.vkCreateComputePipelines = create_compute_pipelines;
        table.vkDestroyPipeline = destroy_pipeline;
        table.vkCreateDescriptorSetLayout = create_descriptor_set_layout;
        table.vkCreateDescriptorPool = create_descriptor_pool;
        table.vkAllocateDescriptorSets = allocate_descriptor_sets;
    });
}

Adoption::Adoption(VkBuffer buffer, VkDeviceMemory memory) : buffer(buffer), memory(memory) { t_adoption = this; }

Adoption::~Adoption() { t_adoption = nullptr; }

PipelineScope::PipelineScope(VkPipelineCache cache, VkPipeline pipeline, uint32_t subgroup_size, bool full_subgroups)
  : cache(cache), pipeline(pipeline), given(pipeline != VK_NULL_HANDLE), subgroup_size(subgroup_size),
    full_subgroups(full_subgroups) {
    t_pipeline = this;
}

PipelineScope::~PipelineScope() { t_pipeline = nullptr; }

TexelScope::TexelScope() { t_texels = this; }
TexelScope::~TexelScope() { t_texels = nullptr; }

} // namespace nnvk
