#include "pipeline.hpp"

#include <algorithm>

#include <kompute/Algorithm.hpp>

#include "buffer.hpp"
#include "device.hpp"
#include "dispatch.hpp"
#include "error.hpp"

namespace nnvk {

namespace {

// Beyond this, pipelines that no algorithm uses are dropped, those unused for the longest time first.
constexpr size_t kMaxPipelines = 512;

std::string key_of(const PipelineSpec& spec) {
    std::string key;
    key.reserve((5 + spec.specialization.size() + spec.spirv.size()) * sizeof(uint32_t));
    auto append = [&key](const void* data, size_t size) { key.append(static_cast<const char*>(data), size); };
    const uint32_t header[] = {spec.bindings, spec.push_constant_size, spec.subgroup_size,
                               static_cast<uint32_t>(spec.full_subgroups),
                               static_cast<uint32_t>(spec.specialization.size())};
    append(header, sizeof header);
    append(spec.specialization.data(), spec.specialization.size() * sizeof(uint32_t));
    append(spec.spirv.data(), spec.spirv.size() * sizeof(uint32_t));
    return key;
}

} // namespace

std::shared_ptr<kp::Algorithm> build_kompute(Device& device, const std::vector<std::shared_ptr<kp::Tensor>>& tensors,
                                             const std::vector<uint32_t>& code) {
    auto algorithm = std::make_shared<kp::Algorithm>(device.kp_device);
    call_kompute(device, [&] {
        algorithm->rebuild(tensors, code, kp::Workgroup{1, 1, 1});
    });
    return algorithm;
}

PipelineStore::PipelineStore(Device& device) : device_(device) {}

PipelineStore::~PipelineStore() = default;

const std::shared_ptr<kp::Tensor>& PipelineStore::dummy() {
    if (!dummy_) {
        // The device owns the store, so the buffer must not hold the device.
        dummy_ = std::make_unique<Buffer>(std::shared_ptr<Device>(std::shared_ptr<Device>(), &device_), 4, false);
    }
    return dummy_->tensor();
}

void PipelineStore::evict() {
    while (pipelines_.size() > kMaxPipelines) {
        auto oldest = pipelines_.end();
        for (auto entry = pipelines_.begin(); entry != pipelines_.end(); ++entry) {
            const bool idle = entry->second.use_count() == 1;
            if (idle && (oldest == pipelines_.end() || entry->second->last_use_ < oldest->second->last_use_)) {
                oldest = entry;
            }
        }
        if (oldest == pipelines_.end()) {
            return;
        }
        pipelines_.erase(oldest);
    }
}

std::shared_ptr<Pipeline> PipelineStore::get(const PipelineSpec& spec, bool& is_new) {
    std::shared_ptr<Pipeline> pipeline;
    std::vector<std::shared_ptr<kp::Tensor>> tensors;
    {
        std::lock_guard lock(mutex_);
        auto& entry = pipelines_[key_of(spec)];
        if (!entry) {
            entry = std::make_shared<Pipeline>();
        }
        entry->last_use_ = ++uses_;
        pipeline = entry;
        tensors.assign(spec.bindings, dummy());
        evict();
    }
    // Different shaders compile at the same time, the same one once. One that fails is tried again by the next caller.
    std::lock_guard lock(pipeline->building_);
    is_new = !pipeline->owner_;
    if (is_new) {
        PipelineScope scope(device_.pipeline_cache(), VK_NULL_HANDLE, spec.specialization, spec.subgroup_size,
                            spec.full_subgroups);
        BindingScope bindings(spec.push_constant_size);
        pipeline->owner_ = build_kompute(device_, tensors, spec.spirv);
        pipeline->handle = scope.pipeline;
        ++compiled_;
    }
    return pipeline;
}

} // namespace nnvk
