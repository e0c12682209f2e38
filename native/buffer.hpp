// Device memory: a kp::Tensor of bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <vulkan/vulkan.h>

#include "device.hpp"

namespace kp {
class Tensor;
}

namespace nnvk {

class Buffer : public ProcessBound, public std::enable_shared_from_this<Buffer> {
  public:
    // Host-visible buffers are coherent, mapped for their whole life, zero at first, and cached by the host where the
    // device has such memory. The others are device-local, their bytes undefined at first. All can be bound to
    // shaders and copied to and from. Host-visible and device-local ones are for data that the host writes and does
    // not read; where there is no such memory, or none left, they are in host-visible memory.
    Buffer(std::shared_ptr<Device> device, uint64_t size, bool host_visible, bool device_local = false);
    ~Buffer();

    // Throws std::invalid_argument unless [offset, offset + bytes) lies inside.
    void check_range(const char* what, uint64_t offset, uint64_t bytes) const;

    VkBuffer handle() const { return handle_; }
    // The buffer as texels of four 32-bit words, up to the device's maxTexelBufferElements.
    VkBufferView texels() const { return texels_; }
    uint8_t* data() const { return data_; } // null unless host visible
    const std::shared_ptr<kp::Tensor>& tensor() const { return tensor_; }

    const std::shared_ptr<Device> device;
    const uint64_t size;
    const bool host_visible;
    // The size of the VkBuffer, and so of its descriptor.
    const uint64_t padded_size;

  private:
    // Memory of the first of these types that has room.
    VkDeviceMemory allocate(const std::vector<uint32_t>& types, const std::string& what);

    VkBuffer handle_ = VK_NULL_HANDLE;
    VkBufferView texels_ = VK_NULL_HANDLE;
    uint8_t* data_ = nullptr;
    uint32_t heap_ = 0;
    uint64_t allocated_ = 0;
    std::shared_ptr<kp::Tensor> tensor_;
};

} // namespace nnvk
