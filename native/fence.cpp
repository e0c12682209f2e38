#include "fence.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "device.hpp"
#include "error.hpp"
#include "loader.hpp"

namespace nnvk {

namespace {

// How long a wait leaves signals unheard and holds up a fork.
constexpr uint64_t kSliceNs = 10'000'000;

// How long a wait for a GPU asks again and again before it sleeps: a sleeping thread hears of the end some 20 us late.
constexpr uint64_t kPollNs = 500'000;

uint64_t now_ns() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

} // namespace

FencePool::~FencePool() {
    for (VkFence fence : free_) {
        vkDestroyFence(device_.handle(), fence, nullptr);
    }
}

VkFence FencePool::take() {
    {
        std::lock_guard lock(mutex_);
        if (!free_.empty()) {
            VkFence fence = free_.back();
            free_.pop_back();
            return fence;
        }
    }
    VkFenceCreateInfo info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkFence fence = VK_NULL_HANDLE;
    device_.check(vkCreateFence(device_.handle(), &info, nullptr, &fence), "vkCreateFence");
    return fence;
}

void FencePool::give(VkFence fence) {
    if (vkResetFences(device_.handle(), 1, &fence) != VK_SUCCESS) {
        vkDestroyFence(device_.handle(), fence, nullptr);
        return;
    }
    std::lock_guard lock(mutex_);
    free_.push_back(fence);
}

Fence::Fence(std::shared_ptr<Device> device) : device_(std::move(device)), fence_(device_->fences().take()) {}

Fence::~Fence() {
    // A Program holds the fence of its work in flight and waits for it before it goes, so the last owner finds the
    // fence signalled; only one that was never submitted, or that went down with its device, isn't.
    if (done_ || vkGetFenceStatus(device_->handle(), fence_) == VK_SUCCESS) {
        device_->fences().give(fence_);
    } else {
        vkDestroyFence(device_->handle(), fence_, nullptr);
    }
}

bool Fence::finish(VkResult result, const char* call) {
    if (result == VK_TIMEOUT || result == VK_NOT_READY) {
        return false;
    }
    device_->check(result, call);
    done_ = true;
    return true;
}

bool Fence::poll(uint64_t limit_ns) {
    // A device that computes on the CPU needs the core itself.
    if (device_->physical->properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU) {
        return false;
    }
    DriverCall call(*this);
    const uint64_t began = now_ns();
    do {
        if (finish(vkGetFenceStatus(device_->handle(), fence_), "vkGetFenceStatus")) {
            return true;
        }
        std::this_thread::yield();
    } while (now_ns() - began < limit_ns);
    return false;
}

bool Fence::wait(int64_t timeout_ns, const Meanwhile& meanwhile) {
    require_own();
    if (done_) {
        return true;
    }
    uint64_t left = timeout_ns < 0 ? UINT64_MAX : static_cast<uint64_t>(timeout_ns);
    const uint64_t began = left > kSliceNs ? now_ns() : 0;
    const uint64_t give_up = left > UINT64_MAX - began ? UINT64_MAX : began + left;
    if (left >= kPollNs && poll(kPollNs)) {
        return true;
    }
    for (;;) {
        {
            DriverCall call(*this);
            const uint64_t slice = std::min(left, kSliceNs);
            if (finish(vkWaitForFences(device_->handle(), 1, &fence_, VK_TRUE, slice), "vkWaitForFences")) {
                return true;
            }
        }
        if (left <= kSliceNs) {
            return false;
        }
        if (meanwhile) {
            meanwhile();
        }
        const uint64_t now = now_ns();
        left = give_up > now ? give_up - now : 0;
    }
}

bool Fence::signaled() {
    DriverCall call(*this);
    return done_ || finish(vkGetFenceStatus(device_->handle(), fence_), "vkGetFenceStatus");
}

int Fence::export_sync_fd() {
    // Exporting a sync file resets the fence it is taken from (copy transference), so it is taken from a fence that
    // is signalled by an empty submission: it completes when all that was submitted before it has.
    DriverCall call(*this);
    return signaled() ? -1 : device_->export_sync_fd();
}

} // namespace nnvk
