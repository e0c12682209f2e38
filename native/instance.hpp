// VkInstance with validation, and the physical devices it shows.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <vulkan/vulkan.h>

#include "cooperative_matrix.hpp"
#include "process.hpp"

namespace nnvk {

class Device;
class PhysicalDevice;

class Instance : public ProcessBound, public std::enable_shared_from_this<Instance> {
  public:
    // Throws VulkanError where there is no Vulkan driver, or no validation layer though it is asked for.
    explicit Instance(bool validation);
    ~Instance();

    // Every device, in the loader's order: also those that nothing can be computed on.
    std::vector<std::shared_ptr<PhysicalDevice>> physical_devices();

    // Warnings and errors of the validation layer since the last call.
    std::vector<std::string> take_validation_messages();

    VkInstance handle() const { return instance_; }
    uint32_t api_version() const { return api_version_; }

  private:
    static VKAPI_ATTR VkBool32 VKAPI_CALL on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                     VkDebugUtilsMessageTypeFlagsEXT type,
                                                     const VkDebugUtilsMessengerCallbackDataEXT* data, void* user);

    VkInstance instance_ = VK_NULL_HANDLE;
    VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
    uint32_t api_version_ = VK_API_VERSION_1_1;
    std::mutex messages_mutex_;
    std::vector<std::string> messages_;
};

// The properties and features of a device, read once. Public members are constant after construction.
class PhysicalDevice : public ProcessBound, public std::enable_shared_from_this<PhysicalDevice> {
  public:
    PhysicalDevice(std::shared_ptr<Instance> instance, VkPhysicalDevice handle, uint32_t index);

    // A logical device with the named features, or all that are useful to compute shaders.
    // Throws std::invalid_argument for a name that the device doesn't have, and where the device has no Vulkan 1.1 or no
    // compute queue.
    std::shared_ptr<Device> create_device(const std::optional<std::vector<std::string>>& features,
                                          const std::vector<uint8_t>& pipeline_cache);

    bool has_extension(const char* name) const;
    bool has_compute_queue() const { return queue_family != UINT32_MAX; }
    // Whether the driver can export a fence, and import a semaphore, as a Linux sync file.
    bool exports_sync_fd() const;

    std::shared_ptr<Instance> instance;
    VkPhysicalDevice handle;
    uint32_t index;
    VkPhysicalDeviceProperties properties{};
    VkPhysicalDeviceMemoryProperties memory{};
    uint32_t api_version; // the lower version of the device and the instance
    uint32_t queue_family = UINT32_MAX; // UINT32_MAX: the device has no compute queue
    uint32_t timestamp_valid_bits = 0;
    // The sizes that a compute shader may require of its subgroups, all powers of two between them; 0: none.
    uint32_t least_required_subgroup = 0, most_required_subgroup = 0;
    std::string type, driver_name, driver_info;
    std::array<uint8_t, VK_UUID_SIZE> uuid{};
    std::vector<std::string> features, extensions;
    // Empty where a compute shader can't require the size of its subgroups, on which the work with matrices depends.
    std::vector<CooperativeMatrix> cooperative_matrices;
    std::vector<std::pair<std::string, std::variant<uint64_t, double>>> limits;

  private:
    void read_extensions();
    void read_properties();
    void read_queue_family();
};

// "1.3.239" of a packed version.
std::string version_string(uint32_t version);

} // namespace nnvk
