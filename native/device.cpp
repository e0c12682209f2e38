#include "device.hpp"

#include <algorithm>
#include <cstring>

#include <vulkan/vulkan.hpp>

#include "dispatch.hpp"
#include "error.hpp"
#include "features.hpp"
#include "loader.hpp"
#include "pipeline.hpp"

namespace nnvk {

namespace {

// Whether the driver of this device made the data. Drivers must check that themselves, but not all do it well.
bool is_cache_of(const PhysicalDevice& physical, const std::vector<uint8_t>& data) {
    VkPipelineCacheHeaderVersionOne header;
    if (data.size() < sizeof header) {
        return false;
    }
    std::memcpy(&header, data.data(), sizeof header);
    const VkPhysicalDeviceProperties& own = physical.properties;
    return header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE && header.vendorID == own.vendorID &&
           header.deviceID == own.deviceID &&
           std::memcmp(header.pipelineCacheUUID, own.pipelineCacheUUID, VK_UUID_SIZE) == 0;
}

} // namespace

Device::Device(std::shared_ptr<PhysicalDevice> physical_, const std::vector<std::string>& features_,
               const std::vector<uint8_t>& pipeline_cache)
  : physical(std::move(physical_)), features(features_), exports_sync_fd(physical->exports_sync_fd()) {
    FeatureChain chain(physical->api_version, physical->extensions);
    vkGetPhysicalDeviceFeatures2(physical->handle, chain.head());
    chain.restrict_to(features);

    std::vector<const char*> extensions = chain.extensions();
    if (physical->api_version < VK_API_VERSION_1_2 &&
        physical->has_extension(VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME)) {
        extensions.push_back(VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME); // rounding modes are properties, not features
    }
    if (physical->has_extension(VK_KHR_EXTERNAL_FENCE_FD_EXTENSION_NAME)) {
        extensions.push_back(VK_KHR_EXTERNAL_FENCE_FD_EXTENSION_NAME);
    }
    if (physical->has_extension(VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME)) {
        extensions.push_back(VK_KHR_EXTERNAL_SEMAPHORE_FD_EXTENSION_NAME);
    }

    // One queue: programs run in the order of their submission, each behind the barrier that it begins with.
    const float priority = 1.0f;
    VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    queue.queueFamilyIndex = physical->queue_family;
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;

    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    info.pNext = chain.head();
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    nnvk::check(vkCreateDevice(physical->handle, &info, nullptr, &device_), "vkCreateDevice");
    vkGetDeviceQueue(device_, physical->queue_family, 0, &queue_);
    fences_ = std::make_unique<FencePool>(*this);

    try {
        pipeline_cache_ = create_pipeline_cache(pipeline_cache);
    } catch (const std::exception&) {
        // Pipelines can be made without.
    }
    if (exports_sync_fd) {
        get_fence_fd_ = reinterpret_cast<PFN_vkGetFenceFdKHR>(vkGetDeviceProcAddr(device_, "vkGetFenceFdKHR"));
    }

    install_dispatcher();
    kp_physical = std::make_shared<vk::PhysicalDevice>(physical->handle);
    kp_device = std::make_shared<vk::Device>(device_);
    kp_queue = std::make_shared<vk::Queue>(queue_);
    pipelines_ = std::make_unique<PipelineStore>(*this);
}

Device::~Device() {
    // Buffers, algorithms, programs and fences hold the device, so they are gone by now.
    vkDeviceWaitIdle(device_);
    pipelines_.reset();
    fences_.reset();
    vkDestroyPipelineCache(device_, pipeline_cache_, nullptr);
    vkDestroyDevice(device_, nullptr);
}

void Device::wait_idle() {
    DriverCall call(*this);
    std::lock_guard lock(queue_mutex_); // vkDeviceWaitIdle needs every queue to itself
    check(vkDeviceWaitIdle(device_), "vkDeviceWaitIdle");
}

void Device::submit(VkCommandBuffer commands, VkFence fence) {
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands;
    std::lock_guard lock(queue_mutex_);
    check(vkQueueSubmit(queue_, commands ? 1 : 0, &info, fence), "vkQueueSubmit");
}

void Device::check(VkResult result, const char* call) {
    if (result == VK_ERROR_DEVICE_LOST) {
        lost_ = true;
    }
    nnvk::check(result, call);
}

bool Device::may_require_subgroup(uint32_t size) const {
    const auto has = [this](const char* name) {
        return std::find(features.begin(), features.end(), name) != features.end();
    };
    return has("subgroupSizeControl") && has("computeFullSubgroups") && size && !(size & (size - 1)) &&
           size >= physical->least_required_subgroup && size <= physical->most_required_subgroup;
}

VkPipelineCache Device::create_pipeline_cache(const std::vector<uint8_t>& data) {
    VkPipelineCacheCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    if (is_cache_of(*physical, data)) {
        info.initialDataSize = data.size();
        info.pInitialData = data.data();
    }
    VkPipelineCache cache = VK_NULL_HANDLE;
    check(vkCreatePipelineCache(device_, &info, nullptr, &cache), "vkCreatePipelineCache");
    return cache;
}

std::vector<uint8_t> Device::pipeline_cache_data(const std::vector<uint8_t>& others) {
    DriverCall call(*this);
    std::vector<uint8_t> data;
    if (!pipeline_cache_) {
        return data;
    }
    // Merged in a cache of its own: nobody may use the one that is merged into, and other threads compile.
    struct Merged {
        Device& device;
        VkPipelineCache cache;
        ~Merged() { vkDestroyPipelineCache(device.device_, cache, nullptr); }
    } merged{*this, create_pipeline_cache(others)};
    check(vkMergePipelineCaches(device_, merged.cache, 1, &pipeline_cache_), "vkMergePipelineCaches");
    size_t size = 0;
    check(vkGetPipelineCacheData(device_, merged.cache, &size, nullptr), "vkGetPipelineCacheData");
    data.resize(size);
    check(vkGetPipelineCacheData(device_, merged.cache, &size, data.data()), "vkGetPipelineCacheData");
    data.resize(size);
    return data;
}

int Device::export_sync_fd() {
    if (!exports_sync_fd) {
        throw VulkanError(std::string("device ") + physical->properties.deviceName + " can't export a fence as sync file",
                          VK_ERROR_EXTENSION_NOT_PRESENT);
    }
    VkExportFenceCreateInfo exported{VK_STRUCTURE_TYPE_EXPORT_FENCE_CREATE_INFO};
    exported.handleTypes = VK_EXTERNAL_FENCE_HANDLE_TYPE_SYNC_FD_BIT;
    VkFenceCreateInfo info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO, &exported};
    VkFence fence = VK_NULL_HANDLE;
    check(vkCreateFence(device_, &info, nullptr, &fence), "vkCreateFence");
    int descriptor = -1;
    VkResult result = VK_SUCCESS;
    try {
        submit(VK_NULL_HANDLE, fence);
        VkFenceGetFdInfoKHR get{VK_STRUCTURE_TYPE_FENCE_GET_FD_INFO_KHR};
        get.fence = fence;
        get.handleType = VK_EXTERNAL_FENCE_HANDLE_TYPE_SYNC_FD_BIT;
        result = get_fence_fd_(device_, &get, &descriptor);
        if (result != VK_SUCCESS) {
            vkWaitForFences(device_, 1, &fence, VK_TRUE, UINT64_MAX); // the queue still uses it
        }
    } catch (...) {
        vkDestroyFence(device_, fence, nullptr);
        throw;
    }
    vkDestroyFence(device_, fence, nullptr); // the export has taken the payload out of it
    check(result, "vkGetFenceFdKHR");
    return descriptor;
}

void Device::reserve(uint32_t heap, VkDeviceSize bytes, const std::string& what) {
    const VkDeviceSize capacity = physical->memory.memoryHeaps[heap].size;
    uint64_t used = used_[heap].load();
    do {
        if (bytes > capacity || used > capacity - bytes) {
            throw OutOfMemory(what + ": " + std::to_string(bytes) + " bytes don't fit in memory heap " +
                              std::to_string(heap) + " of " + std::to_string(capacity) + " bytes, of which " +
                              std::to_string(used) + " are in use by this device");
        }
    } while (!used_[heap].compare_exchange_weak(used, used + bytes));
}

void Device::release(uint32_t heap, VkDeviceSize bytes) { used_[heap] -= bytes; }

uint64_t Device::allocated_bytes() const {
    uint64_t sum = 0;
    for (const auto& heap : used_) {
        sum += heap;
    }
    return sum;
}

} // namespace nnvk
