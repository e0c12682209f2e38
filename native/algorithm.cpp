#include "algorithm.hpp"

#include <kompute/Algorithm.hpp>
#include <kompute/Tensor.hpp>

#include "dispatch.hpp"
#include "error.hpp"
#include "loader.hpp"
#include "pipeline.hpp"

namespace nnvk {

namespace {

constexpr uint32_t kSpirvMagic = 0x07230203;

std::vector<std::shared_ptr<Buffer>> checked_buffers(const Device& device, std::vector<std::shared_ptr<Buffer>> buffers) {
    const uint64_t range = device.physical->properties.limits.maxStorageBufferRange;
    if (buffers.empty()) {
        throw std::invalid_argument("an algorithm binds at least one buffer");
    }
    if (buffers.size() > BindingScope::kFirstTexels) {
        throw std::invalid_argument("an algorithm binds at most " + std::to_string(BindingScope::kFirstTexels) +
                                    " buffers, not " + std::to_string(buffers.size()));
    }
    for (size_t i = 0; i < buffers.size(); ++i) {
        if (!buffers[i] || buffers[i]->device.get() != &device) {
            throw std::invalid_argument("binding " + std::to_string(i) + ": the buffer belongs to another device");
        }
        if (buffers[i]->padded_size > range) {
            throw std::invalid_argument("binding " + std::to_string(i) + ": a buffer of " +
                                        std::to_string(buffers[i]->size) + " bytes exceeds maxStorageBufferRange, " +
                                        std::to_string(range));
        }
    }
    return buffers;
}

// Binds every buffer as texels besides.
void write_texels(const Device& device, VkDescriptorSet set, const std::vector<std::shared_ptr<Buffer>>& buffers) {
    std::vector<VkBufferView> views;
    for (const auto& buffer : buffers) {
        views.push_back(buffer->texels());
    }
    std::vector<VkWriteDescriptorSet> writes;
    for (uint32_t i = 0; i < views.size(); ++i) {
        VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
        write.dstSet = set;
        write.dstBinding = BindingScope::kFirstTexels + i;
        write.descriptorCount = 1;
        write.descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
        write.pTexelBufferView = &views[i];
        writes.push_back(write);
    }
    vkUpdateDescriptorSets(device.handle(), static_cast<uint32_t>(writes.size()), writes.data(), 0, nullptr);
}

} // namespace

Algorithm::Algorithm(std::shared_ptr<Device> device_, std::vector<std::shared_ptr<Buffer>> buffers_,
                     const std::vector<uint32_t>& spirv, const std::vector<uint32_t>& specialization,
                     uint32_t push_constant_size_, uint32_t subgroup_size, bool full_subgroups)
  : device(std::move(device_)), buffers(checked_buffers(*device, std::move(buffers_))),
    push_constant_size(push_constant_size_) {
    const uint32_t limit = device->physical->properties.limits.maxPushConstantsSize;
    if (push_constant_size % 4 || push_constant_size > limit) {
        throw std::invalid_argument("push constants of " + std::to_string(push_constant_size) +
                                    " bytes: expected a multiple of 4, at most " + std::to_string(limit));
    }
    if (subgroup_size && !device->may_require_subgroup(subgroup_size)) {
        throw std::invalid_argument("no subgroups of " + std::to_string(subgroup_size) +
                                    " invocations can be required of the device");
    }
    if (spirv.size() < 5 || spirv[0] != kSpirvMagic) {
        throw std::invalid_argument("the shader is not SPIR-V");
    }
    DriverCall call(*device);
    std::vector<std::shared_ptr<kp::Tensor>> tensors;
    for (const auto& buffer : buffers) {
        tensors.push_back(buffer->tensor());
    }
    const PipelineSpec spec{static_cast<uint32_t>(tensors.size()), spirv, specialization, push_constant_size,
                            subgroup_size, full_subgroups};
    pipeline_ = device->pipelines().get(spec, has_new_pipeline_);
    PipelineScope scope(pipeline_->handle);
    BindingScope bindings(push_constant_size);
    auto kompute = build_kompute(*device, tensors, {}); // if anything fails, gone before the scope
    write_texels(*device, bindings.set, buffers);
    kompute_ = std::move(kompute);
    layout_ = bindings.layout;
}

Algorithm::~Algorithm() {
    PipelineScope scope(pipeline_->handle); // which kp::Algorithm would destroy
    kompute_.reset();
}

} // namespace nnvk
