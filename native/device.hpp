// VkDevice with its queue, on which Kompute's objects are made directly (a kp::Manager would enable no features).
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <vulkan/vulkan.h>

#include "fence.hpp"
#include "instance.hpp"
#include "process.hpp"

namespace vk {
class Device;
class PhysicalDevice;
class Queue;
} // namespace vk

namespace nnvk {

class Algorithm;
class Buffer;
class PipelineStore;
class Program;

class Device : public ProcessBound, public std::enable_shared_from_this<Device> {
  public:
    // pipeline_cache: what pipeline_cache_data() gave in an earlier process; ignored unless this driver made it.
    Device(std::shared_ptr<PhysicalDevice> physical, const std::vector<std::string>& features,
           const std::vector<uint8_t>& pipeline_cache);
    ~Device();

    void wait_idle();

    // Submits a command buffer, or nothing but the fence where it is null. One mutex guards the queue, as Vulkan asks.
    void submit(VkCommandBuffer commands, VkFence fence);
    // nnvk::check, which also notes the loss of the device.
    void check(VkResult result, const char* call);
    int export_sync_fd();
    // Whether a compute pipeline may require that all of its subgroups have so many invocations.
    bool may_require_subgroup(uint32_t size) const;

    // Accounts for an allocation from a heap before it is made. Throws OutOfMemory where the heap can't hold it
    // beside what this device has allocated already.
    void reserve(uint32_t heap, VkDeviceSize bytes, const std::string& what);
    void release(uint32_t heap, VkDeviceSize bytes);

    // The compiled pipelines, together with those that `others` holds: what this gave in another process, ignored
    // unless this driver made it.
    std::vector<uint8_t> pipeline_cache_data(const std::vector<uint8_t>& others);

    VkDevice handle() const { return device_; }
    VkPipelineCache pipeline_cache() const { return pipeline_cache_; }
    PipelineStore& pipelines() { return *pipelines_; }
    FencePool& fences() { return *fences_; }
    uint64_t allocated_bytes() const;
    bool lost() const { return lost_ || is_foreign(); }

    const std::shared_ptr<PhysicalDevice> physical;
    const std::vector<std::string> features; // those that are enabled
    const bool exports_sync_fd;

    // The arguments of Kompute's constructors.
    std::shared_ptr<vk::PhysicalDevice> kp_physical;
    std::shared_ptr<vk::Device> kp_device;
    std::shared_ptr<vk::Queue> kp_queue;

  private:
    VkPipelineCache create_pipeline_cache(const std::vector<uint8_t>& data);

    VkDevice device_ = VK_NULL_HANDLE;
    VkQueue queue_ = VK_NULL_HANDLE;
    VkPipelineCache pipeline_cache_ = VK_NULL_HANDLE;
    std::unique_ptr<PipelineStore> pipelines_;
    std::mutex queue_mutex_;
    std::unique_ptr<FencePool> fences_;
    PFN_vkGetFenceFdKHR get_fence_fd_ = nullptr;
    std::array<std::atomic<uint64_t>, VK_MAX_MEMORY_HEAPS> used_{};
    std::atomic<bool> lost_{false};
};

} // namespace nnvk
