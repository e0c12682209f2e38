#include "buffer.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <optional>

#include <kompute/Tensor.hpp>

#include "dispatch.hpp"
#include "error.hpp"
#include "loader.hpp"

namespace nnvk {

namespace {

// kp::Tensor flushes its whole size before it unmaps, which must be a multiple of nonCoherentAtomSize, 256 at most.
constexpr uint64_t kGranularity = 256;
// kp::Tensor counts its bytes in 32 bits.
constexpr uint64_t kMaxSize = UINT32_MAX - (kGranularity - 1);

// Lavapipe compiles a shader again for texel buffers of a size that is a power of two, and for those of a size whose
// second byte is 0, which it takes for the last level of a texture. So no buffer has such a size, except one that is as
// large as `range`, the most that can be bound.
bool has_special_size(uint64_t bytes) { return (bytes & (bytes - 1)) == 0 || (bytes >> 8 & 0xff) == 0; }

uint64_t padded(uint64_t size, uint64_t range) {
    uint64_t bytes = (size + kGranularity - 1) / kGranularity * kGranularity;
    while (has_special_size(bytes) && bytes + kGranularity <= range) {
        bytes += kGranularity;
    }
    return bytes;
}

std::string describe(uint64_t size, bool host_visible, bool device_local) {
    return std::string(host_visible && device_local ? "host-visible device-local"
                       : host_visible               ? "host-visible"
                                                    : "device-local") +
           " buffer of " + std::to_string(size) + " bytes";
}

uint64_t checked_size(uint64_t size, bool host_visible, bool device_local) {
    if (size == 0) {
        throw std::invalid_argument("a buffer has at least one byte");
    }
    if (size > kMaxSize) {
        throw OutOfMemory(describe(size, host_visible, device_local) + ": one buffer holds at most " + std::to_string(kMaxSize) +
                          " bytes");
    }
    return size;
}

// The best memory types of those allowed: a later one is for when the earlier ones have no room.
std::vector<uint32_t> memory_types(const PhysicalDevice& physical, uint32_t allowed, bool host_visible,
                                   bool device_local) {
    constexpr VkMemoryPropertyFlags host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    constexpr VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
    const auto first_with = [&](VkMemoryPropertyFlags flags) {
        for (uint32_t i = 0; i < physical.memory.memoryTypeCount; ++i) {
            if ((allowed >> i & 1) && (physical.memory.memoryTypes[i].propertyFlags & flags) == flags) {
                return std::optional(i);
            }
        }
        return std::optional<uint32_t>();
    };
    std::vector<uint32_t> types;
    if (device_local) {
        if (const auto type = first_with(host_visible ? host | local : local)) {
            types.push_back(*type);
        }
    }
    if (host_visible) {
        const auto cached = first_with(host | VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
        if (const auto type = cached ? cached : first_with(host); type && std::find(types.begin(), types.end(), *type) == types.end()) {
            types.push_back(*type);
        }
    }
    if (types.empty()) {
        throw OutOfMemory("the device has no memory type for a " +
                          std::string(host_visible ? "host-visible" : "device-local") + " buffer");
    }
    return types;
}

// kp::Tensor copies its first content from somewhere; pages of zeros that are never written cost nothing.
class ZeroPages {
  public:
    explicit ZeroPages(uint64_t size)
      : size_(size), data_(mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
        if (data_ == MAP_FAILED) {
            throw OutOfMemory("no address space for " + std::to_string(size) + " bytes of zeros");
        }
    }
    ~ZeroPages() { munmap(data_, size_); }
    ZeroPages(const ZeroPages&) = delete;
    ZeroPages& operator=(const ZeroPages&) = delete;

    void* data() const { return data_; }

  private:
    uint64_t size_;
    void* data_;
};

} // namespace

Buffer::Buffer(std::shared_ptr<Device> device_, uint64_t size_, bool host_visible_, bool device_local)
  : device(std::move(device_)), size(checked_size(size_, host_visible_, device_local)), host_visible(host_visible_),
    padded_size(padded(size, device->physical->properties.limits.maxStorageBufferRange)) {
    DriverCall call(*device);
    const std::string what = describe(size, host_visible, device_local);
    VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
    info.size = padded_size;
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT |
                 VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT;
    info.sharingMode = VK_SHARING_MODE_EXCLUSIVE;
    device->check(vkCreateBuffer(device->handle(), &info, nullptr, &handle_), ("vkCreateBuffer, " + what).c_str());

    VkDeviceMemory memory = VK_NULL_HANDLE;
    try {
        VkMemoryRequirements requirements;
        vkGetBufferMemoryRequirements(device->handle(), handle_, &requirements);
        allocated_ = requirements.size;
        const auto types = memory_types(*device->physical, requirements.memoryTypeBits, host_visible,
                                        device_local || !host_visible);
        memory = allocate(types, what);

        ZeroPages zeros(host_visible ? padded_size : 1);
        Adoption adoption(handle_, memory);
        call_kompute(*device, [&] {
            tensor_ = std::make_shared<kp::Tensor>(
                device->kp_physical, device->kp_device, zeros.data(), static_cast<uint32_t>(padded_size), 1,
                kp::Tensor::TensorDataTypes::eUnsignedInt,
                host_visible ? kp::Tensor::TensorTypes::eHost : kp::Tensor::TensorTypes::eStorage);
        });
        if (!adoption.complete()) {
            throw VulkanError("kp::Tensor did not take over the buffer made for it");
        }
        data_ = host_visible ? tensor_->data<uint8_t>() : nullptr;

        VkBufferViewCreateInfo view{VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO};
        view.buffer = handle_;
        view.format = VK_FORMAT_R32G32B32A32_UINT; // which every device has texel buffers of
        view.range = std::min(padded_size, uint64_t{device->physical->properties.limits.maxTexelBufferElements} * 16);
        device->check(vkCreateBufferView(device->handle(), &view, nullptr, &texels_),
                      ("vkCreateBufferView, " + what).c_str());
    } catch (...) {
        if (!tensor_) {
            vkDestroyBuffer(device->handle(), handle_, nullptr);
            vkFreeMemory(device->handle(), memory, nullptr);
        }
        tensor_.reset();
        if (memory != VK_NULL_HANDLE) {
            device->release(heap_, allocated_);
        }
        throw;
    }
}

VkDeviceMemory Buffer::allocate(const std::vector<uint32_t>& types, const std::string& what) {
    for (size_t i = 0;; ++i) {
        VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
        info.allocationSize = allocated_;
        info.memoryTypeIndex = types[i];
        heap_ = device->physical->memory.memoryTypes[types[i]].heapIndex;
        try {
            device->reserve(heap_, allocated_, what);
            VkDeviceMemory memory = VK_NULL_HANDLE;
            const VkResult result = vkAllocateMemory(device->handle(), &info, nullptr, &memory);
            if (result != VK_SUCCESS) {
                device->release(heap_, allocated_);
            }
            device->check(result, ("vkAllocateMemory, " + what).c_str());
            return memory;
        } catch (const OutOfMemory&) {
            if (i + 1 == types.size()) {
                throw;
            }
        }
    }
}

Buffer::~Buffer() {
    vkDestroyBufferView(device->handle(), texels_, nullptr);
    tensor_.reset(); // frees the buffer and its memory
    device->release(heap_, allocated_);
}

void Buffer::check_range(const char* what, uint64_t offset, uint64_t bytes) const {
    if (bytes == 0 || offset > size || bytes > size - offset) {
        throw std::invalid_argument(std::string(what) + ": " + std::to_string(bytes) + " bytes at offset " +
                                    std::to_string(offset) + " are not a range of a buffer of " + std::to_string(size) +
                                    " bytes");
    }
}

} // namespace nnvk
