// Completion of one submission: a VkFence of its own, so that a Program can be submitted again while somebody still
// holds the fence of an earlier submission.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <vulkan/vulkan.h>

#include "process.hpp"

namespace nnvk {

class Device;

// Unsignalled VkFences for reuse: creating one for every submission costs more than resetting.
class FencePool {
  public:
    explicit FencePool(Device& device) : device_(device) {}
    ~FencePool();
    FencePool(const FencePool&) = delete;
    FencePool& operator=(const FencePool&) = delete;

    VkFence take();
    // Takes back a fence that is signalled and that no queue will touch again.
    void give(VkFence fence);

  private:
    Device& device_;
    std::mutex mutex_;
    std::vector<VkFence> free_;
};

// Called every now and then during a wait; what it throws ends the wait.
using Meanwhile = std::function<void()>;

class Fence : public ProcessBound, public std::enable_shared_from_this<Fence> {
  public:
    explicit Fence(std::shared_ptr<Device> device);
    ~Fence();

    // Waits until the work is done or the time is over; says which (true: done). Negative: no limit.
    bool wait(int64_t timeout_ns, const Meanwhile& meanwhile = {});
    bool signaled();
    // A Linux sync file that signals with this fence. The caller owns the descriptor (-1: signalled already).
    int export_sync_fd();

    VkFence handle() const { return fence_; }

  private:
    bool finish(VkResult result, const char* call);
    // Asks for the state until the work is done or the time is over; says which.
    bool poll(uint64_t limit_ns);

    std::shared_ptr<Device> device_;
    VkFence fence_;
    std::atomic<bool> done_{false};
};

} // namespace nnvk
