// Compiled pipelines of a device, shared by all algorithms of the same shader, constants and layout.
//
// A kp::Algorithm is a pipeline together with the one descriptor set it is dispatched with, so every model and every
// instance of it, with buffers of their own, would compile all its shaders again: milliseconds each. Here a shader is
// compiled once, by a kp::Algorithm over a dummy buffer that is never dispatched; the algorithms with the real buffers
// are handed its pipeline (native/dispatch.hpp) and have just their descriptor sets to make.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <vulkan/vulkan.h>

namespace kp {
class Algorithm;
class Tensor;
} // namespace kp

namespace nnvk {

class Buffer;
class Device;

struct PipelineSpec {
    uint32_t bindings;
    const std::vector<uint32_t>& spirv;
    const std::vector<uint32_t>& specialization;
    uint32_t push_constant_size;
    uint32_t subgroup_size; // of all subgroups; 0: as the driver likes
    bool full_subgroups;    // each has as many invocations
};

// A kp::Algorithm on `tensors`, with a copy of `code`: none if its pipeline is given. It is built in two stages: a constructor
// that throws leaks what it has made, but no destructor does. Throws VulkanError or OutOfMemory if there is no pipeline.
std::shared_ptr<kp::Algorithm> build_kompute(Device& device, const std::vector<std::shared_ptr<kp::Tensor>>& tensors,
                                             const std::vector<uint32_t>& code);

class Pipeline {
  public:
    VkPipeline handle = VK_NULL_HANDLE;

  private:
    friend class PipelineStore;
    std::mutex building_;
    std::shared_ptr<kp::Algorithm> owner_;
    uint64_t last_use_ = 0;
};

class PipelineStore {
  public:
    // Owned by the device, and gone before it.
    explicit PipelineStore(Device& device);
    ~PipelineStore();
    PipelineStore(const PipelineStore&) = delete;
    PipelineStore& operator=(const PipelineStore&) = delete;

    // The pipeline of a shader, compiled on its first use; `is_new` is then true.
    std::shared_ptr<Pipeline> get(const PipelineSpec& spec, bool& is_new);
    // How many it has compiled, those that are gone again too.
    uint64_t compiled() const { return compiled_; }

  private:
    const std::shared_ptr<kp::Tensor>& dummy();
    void evict();

    Device& device_;
    std::mutex mutex_;
    std::unordered_map<std::string, std::shared_ptr<Pipeline>> pipelines_;
    uint64_t uses_ = 0;
    std::atomic<uint64_t> compiled_{0};
    std::unique_ptr<Buffer> dummy_;
};

} // namespace nnvk
