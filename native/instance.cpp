#include "instance.hpp"

#include <algorithm>
#include <cstring>

#include "device.hpp"
#include "error.hpp"
#include "features.hpp"
#include "loader.hpp"
#include "validation.hpp"

namespace nnvk {

namespace {

// A broken program can repeat one message for every submission; the first ones tell enough.
constexpr size_t kMaxMessages = 1000;

// The bytes of the largest device-local heap that the host can write to without flushes; 0: there is none.
uint64_t host_visible_device_memory(const VkPhysicalDeviceMemoryProperties& memory) {
    constexpr VkMemoryPropertyFlags wanted = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                             VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    uint64_t most = 0;
    for (uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
        if ((memory.memoryTypes[i].propertyFlags & wanted) == wanted) {
            most = std::max<uint64_t>(most, memory.memoryHeaps[memory.memoryTypes[i].heapIndex].size);
        }
    }
    return most;
}

} // namespace

std::string version_string(uint32_t version) {
    return std::to_string(VK_API_VERSION_MAJOR(version)) + "." + std::to_string(VK_API_VERSION_MINOR(version)) + "." +
           std::to_string(VK_API_VERSION_PATCH(version));
}

Instance::Instance(bool validation) {
    DriverCall driver;
    load_vulkan();
    uint32_t loader_version = VK_API_VERSION_1_0;
    check(vkEnumerateInstanceVersion(&loader_version), "vkEnumerateInstanceVersion");
    if (loader_version < VK_API_VERSION_1_1) {
        throw LoaderError("the Vulkan loader has Vulkan " + version_string(loader_version) + ", 1.1 is needed");
    }
    // Nothing newer than 1.3 is used, and a layer may warn about a version that it doesn't know.
    api_version_ = std::min<uint32_t>(loader_version, VK_API_VERSION_1_3);

    VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    application.pApplicationName = "nnvk";
    application.pEngineName = "nnvk";
    application.apiVersion = api_version_;

    VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    info.pApplicationInfo = &application;

    VkDebugUtilsMessengerCreateInfoEXT messenger{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
    messenger.messageSeverity =
        VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
    messenger.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
    messenger.pfnUserCallback = &Instance::on_message;
    messenger.pUserData = this;

    std::optional<Validation> layer;
    std::vector<const char*> layers, extensions;
    if (validation) {
        layer.emplace();
        info.pNext = layer->settings(&messenger); // the messenger catches messages about vkCreateInstance itself
        layers = {layer->layer()};
        extensions = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME, layer->extension()};
    }
    info.enabledLayerCount = layers.size();
    info.ppEnabledLayerNames = layers.data();
    info.enabledExtensionCount = extensions.size();
    info.ppEnabledExtensionNames = extensions.data();
    vulkan_has_started();
    check(vkCreateInstance(&info, nullptr, &instance_), "vkCreateInstance");

    if (validation) {
        auto create = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(
            vkGetInstanceProcAddr(instance_, "vkCreateDebugUtilsMessengerEXT"));
        VkResult result = create ? create(instance_, &messenger, nullptr, &messenger_) : VK_ERROR_EXTENSION_NOT_PRESENT;
        if (result != VK_SUCCESS) {
            vkDestroyInstance(instance_, nullptr);
            check(result, "vkCreateDebugUtilsMessengerEXT");
        }
    }
}

Instance::~Instance() {
    if (messenger_) {
        auto destroy = reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
            vkGetInstanceProcAddr(instance_, "vkDestroyDebugUtilsMessengerEXT"));
        destroy(instance_, messenger_, nullptr);
    }
    vkDestroyInstance(instance_, nullptr);
}

VKAPI_ATTR VkBool32 VKAPI_CALL Instance::on_message(VkDebugUtilsMessageSeverityFlagBitsEXT severity,
                                                    VkDebugUtilsMessageTypeFlagsEXT,
                                                    const VkDebugUtilsMessengerCallbackDataEXT* data, void* user) {
    auto* self = static_cast<Instance*>(user);
    const char* level = severity & VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT ? "error: " : "warning: ";
    std::string text = data->pMessage ? data->pMessage : "";
    std::string id = data->pMessageIdName ? data->pMessageIdName : "";
    if (text.find(id) == std::string::npos) { // newer layers leave it out of the text
        text = id + ": " + text;
    }
    std::lock_guard lock(self->messages_mutex_);
    if (self->messages_.size() < kMaxMessages) {
        self->messages_.push_back(level + text);
    }
    return VK_FALSE; // the call that caused it goes on
}

std::vector<std::string> Instance::take_validation_messages() {
    DriverCall call(*this);
    std::lock_guard lock(messages_mutex_);
    return std::exchange(messages_, {});
}

std::vector<std::shared_ptr<PhysicalDevice>> Instance::physical_devices() {
    DriverCall call(*this);
    uint32_t count = 0;
    const VkResult result = vkEnumeratePhysicalDevices(instance_, &count, nullptr);
    if (result == VK_ERROR_INITIALIZATION_FAILED) {
        return {}; // the loader's answer where no driver has a device
    }
    check(result, "vkEnumeratePhysicalDevices");
    std::vector<VkPhysicalDevice> handles(count);
    check(vkEnumeratePhysicalDevices(instance_, &count, handles.data()), "vkEnumeratePhysicalDevices");
    std::vector<std::shared_ptr<PhysicalDevice>> devices;
    for (uint32_t i = 0; i < count; ++i) {
        devices.push_back(make_bound<PhysicalDevice>(shared_from_this(), handles[i], i));
    }
    return devices;
}

PhysicalDevice::PhysicalDevice(std::shared_ptr<Instance> instance_, VkPhysicalDevice handle_, uint32_t index_)
  : instance(std::move(instance_)), handle(handle_), index(index_) {
    vkGetPhysicalDeviceProperties(handle, &properties);
    vkGetPhysicalDeviceMemoryProperties(handle, &memory);
    api_version = std::min(properties.apiVersion, instance->api_version());
    static constexpr const char* kTypes[] = {"other", "integrated_gpu", "discrete_gpu", "virtual_gpu", "cpu"};
    type = properties.deviceType <= VK_PHYSICAL_DEVICE_TYPE_CPU ? kTypes[properties.deviceType] : "other";
    read_extensions();
    read_queue_family();
    if (api_version >= VK_API_VERSION_1_1) {
        read_properties();
    }
}

void PhysicalDevice::read_extensions() {
    uint32_t count = 0;
    check(vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, nullptr), "vkEnumerateDeviceExtensionProperties");
    std::vector<VkExtensionProperties> found(count);
    check(vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, found.data()),
          "vkEnumerateDeviceExtensionProperties");
    for (const VkExtensionProperties& extension : found) {
        extensions.emplace_back(extension.extensionName);
    }
}

void PhysicalDevice::read_queue_family() {
    uint32_t count = 0;
    vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, nullptr);
    std::vector<VkQueueFamilyProperties> families(count);
    vkGetPhysicalDeviceQueueFamilyProperties(handle, &count, families.data());
    // A family for compute alone doesn't wait behind the desktop's drawing.
    auto rank = [](const VkQueueFamilyProperties& family) {
        return !(family.queueFlags & VK_QUEUE_COMPUTE_BIT) || !family.queueCount ? 0
               : family.queueFlags & VK_QUEUE_GRAPHICS_BIT                      ? 1
                                                                                : 2;
    };
    int best = 0;
    for (uint32_t i = 0; i < count; ++i) {
        if (rank(families[i]) > best) {
            best = rank(families[i]);
            queue_family = i;
            timestamp_valid_bits = families[i].timestampValidBits;
        }
    }
}

void PhysicalDevice::read_properties() {
    VkPhysicalDeviceProperties2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    VkPhysicalDeviceIDProperties id{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
    VkPhysicalDeviceSubgroupProperties subgroup{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
    VkPhysicalDeviceMaintenance3Properties maintenance{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
    VkPhysicalDeviceDriverProperties driver{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
    VkPhysicalDeviceSubgroupSizeControlProperties sizes{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
    all.pNext = &id;
    id.pNext = &subgroup;
    subgroup.pNext = &maintenance;
    void** tail = &maintenance.pNext;
    if (api_version >= VK_API_VERSION_1_2 || has_extension(VK_KHR_DRIVER_PROPERTIES_EXTENSION_NAME)) {
        *tail = &driver;
        tail = &driver.pNext;
    }
    VkPhysicalDeviceFloatControlsProperties floats{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES};
    if (api_version >= VK_API_VERSION_1_2 || has_extension(VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME)) {
        *tail = &floats;
        tail = &floats.pNext;
    }
    if (api_version >= VK_API_VERSION_1_3 || has_extension(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME)) {
        *tail = &sizes;
        tail = &sizes.pNext;
    }
    VkPhysicalDeviceShaderIntegerDotProductProperties dots{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
    if (api_version >= VK_API_VERSION_1_3 || has_extension(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME)) {
        *tail = &dots;
        tail = &dots.pNext;
    }
    // How many compute units (multiprocessors, shader cores) there are: vendors say it, each in a way of its own.
    VkPhysicalDeviceShaderCorePropertiesAMD amd{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD};
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nv{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
    VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM arm{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM};
    auto chain_where = [&](const char* extension, auto& structure) {
        if (has_extension(extension)) {
            *tail = &structure;
            tail = &structure.pNext;
        }
    };
    chain_where(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME, amd);
    chain_where(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME, nv);
    chain_where(VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME, arm);
    vkGetPhysicalDeviceProperties2(handle, &all);

    driver_name = driver.driverName;
    driver_info = driver.driverInfo;
    std::copy(std::begin(id.deviceUUID), std::end(id.deviceUUID), uuid.begin());

    FeatureChain chain(api_version, extensions);
    vkGetPhysicalDeviceFeatures2(handle, chain.head());
    features = chain.enabled();
    for (std::string& name : subgroup_features(subgroup)) {
        features.push_back(std::move(name));
    }
    for (const char* name : float_features(api_version, floats)) {
        features.emplace_back(name);
    }
    if (dots.integerDotProduct4x8BitPackedUnsignedAccelerated) {
        features.emplace_back("integerDotProduct4x8BitPackedUnsignedAccelerated");
    }

    if (sizes.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT) {
        least_required_subgroup = sizes.minSubgroupSize;
        most_required_subgroup = sizes.maxSubgroupSize;
        if (has_extension(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME)) {
            cooperative_matrices = nnvk::cooperative_matrices(instance->handle(), handle);
        }
    }

    const VkPhysicalDeviceLimits& l = properties.limits;
    auto add = [this](const char* name, uint64_t value) { limits.emplace_back(name, value); };
#define NNVK_LIMIT(name) add(#name, l.name);
    NNVK_LIMIT(maxStorageBufferRange)
    NNVK_LIMIT(maxTexelBufferElements)
    NNVK_LIMIT(maxPushConstantsSize)
    NNVK_LIMIT(maxMemoryAllocationCount)
    NNVK_LIMIT(maxBoundDescriptorSets)
    NNVK_LIMIT(maxPerStageDescriptorStorageBuffers)
    NNVK_LIMIT(maxPerStageResources)
    NNVK_LIMIT(maxDescriptorSetStorageBuffers)
    NNVK_LIMIT(maxComputeSharedMemorySize)
    NNVK_LIMIT(maxComputeWorkGroupInvocations)
    NNVK_LIMIT(minMemoryMapAlignment)
    NNVK_LIMIT(minStorageBufferOffsetAlignment)
    NNVK_LIMIT(optimalBufferCopyOffsetAlignment)
    NNVK_LIMIT(nonCoherentAtomSize)
    NNVK_LIMIT(timestampComputeAndGraphics)
#undef NNVK_LIMIT
    for (uint32_t axis = 0; axis < 3; ++axis) {
        add(("maxComputeWorkGroupSize" + std::to_string(axis)).c_str(), l.maxComputeWorkGroupSize[axis]);
        add(("maxComputeWorkGroupCount" + std::to_string(axis)).c_str(), l.maxComputeWorkGroupCount[axis]);
    }
    limits.emplace_back("timestampPeriod", static_cast<double>(l.timestampPeriod));
    add("timestampValidBits", timestamp_valid_bits);
    add("maxMemoryAllocationSize", maintenance.maxMemoryAllocationSize);
    const uint64_t amd_units = uint64_t{amd.shaderEngineCount} * amd.shaderArraysPerEngineCount *
                               amd.computeUnitsPerShaderArray;
    add("shaderUnits", std::max<uint64_t>({amd_units, nv.shaderSMCount, arm.shaderCoreCount}));
    add("hostVisibleDeviceMemory", host_visible_device_memory(memory));
    add("subgroupSize", subgroup.subgroupSize);
    add("leastRequiredSubgroupSize", least_required_subgroup);
    add("maxComputeWorkgroupSubgroups", sizes.maxComputeWorkgroupSubgroups);
    add("minSubgroupSize", sizes.minSubgroupSize ? sizes.minSubgroupSize : subgroup.subgroupSize);
    add("maxSubgroupSize", sizes.maxSubgroupSize ? sizes.maxSubgroupSize : subgroup.subgroupSize);
}

bool PhysicalDevice::has_extension(const char* name) const {
    return std::find(extensions.begin(), extensions.end(), name) != extensions.end();
}

bool PhysicalDevice::exports_sync_fd() const {
    if (!has_extension(VK_KHR_EXTERNAL_FENCE_FD_EXTENSION_NAME)) {
        return false;
    }
    VkPhysicalDeviceExternalFenceInfo info{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_FENCE_INFO};
    info.handleType = VK_EXTERNAL_FENCE_HANDLE_TYPE_SYNC_FD_BIT;
    VkExternalFenceProperties result{VK_STRUCTURE_TYPE_EXTERNAL_FENCE_PROPERTIES};
    vkGetPhysicalDeviceExternalFenceProperties(handle, &info, &result);
    return result.externalFenceFeatures & VK_EXTERNAL_FENCE_FEATURE_EXPORTABLE_BIT;
}

std::shared_ptr<Device> PhysicalDevice::create_device(const std::optional<std::vector<std::string>>& names,
                                                      const std::vector<uint8_t>& pipeline_cache) {
    DriverCall call(*this);
    if (api_version < VK_API_VERSION_1_1 || !has_compute_queue()) {
        throw std::invalid_argument("device " + std::string(properties.deviceName) + " has " +
                                    (has_compute_queue() ? "no Vulkan 1.1" : "no compute queue"));
    }
    if (names) {
        for (const std::string& name : *names) {
            if (std::find(features.begin(), features.end(), name) == features.end()) {
                throw std::invalid_argument("device " + std::string(properties.deviceName) + " has no feature " + name);
            }
        }
    }
    return make_bound<Device>(shared_from_this(), names ? *names : features, pipeline_cache);
}

} // namespace nnvk
