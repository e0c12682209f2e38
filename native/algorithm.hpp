// A compute pipeline with its descriptor set: a kp::Algorithm, shared by every dispatch of a shader variant on the same
// buffers.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "buffer.hpp"

namespace kp {
class Algorithm;
}

namespace nnvk {

class Pipeline;

class Algorithm : public ProcessBound, public std::enable_shared_from_this<Algorithm> {
  public:
    // Binding k is buffers[k]; specialization[i] are the 32 bits of the constant with id i. Where a subgroup size is
    // given, all subgroups have it, and the device has the features subgroupSizeControl and computeFullSubgroups.
    // `full_subgroups`: the invocations along x are a multiple of it.
    Algorithm(std::shared_ptr<Device> device, std::vector<std::shared_ptr<Buffer>> buffers,
              const std::vector<uint32_t>& spirv, const std::vector<uint32_t>& specialization,
              uint32_t push_constant_size, uint32_t subgroup_size = 0, bool full_subgroups = false);
    ~Algorithm();

    const std::shared_ptr<Device> device;
    const std::vector<std::shared_ptr<Buffer>> buffers;
    const uint32_t push_constant_size;

    // Whether its pipeline was compiled for it, and not for an earlier algorithm.
    bool has_new_pipeline() const { return has_new_pipeline_; }
    const std::shared_ptr<kp::Algorithm>& kompute() const { return kompute_; }
    // The pipeline's layout, to push constants through.
    VkPipelineLayout layout() const { return layout_; }
    // A kp::Algorithm carries the workgroups of the dispatch that is being recorded, so recording one excludes any other.
    std::mutex& recording() { return recording_; }

  private:
    std::shared_ptr<Pipeline> pipeline_;
    bool has_new_pipeline_ = false;
    std::shared_ptr<kp::Algorithm> kompute_;
    VkPipelineLayout layout_ = VK_NULL_HANDLE;
    std::mutex recording_;
};

} // namespace nnvk
