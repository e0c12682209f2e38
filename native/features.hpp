// The device features the shaders may ask for, under their Vulkan names.
#pragma once

#include <string>
#include <vector>

#include <vulkan/vulkan.h>

#include "cooperative_matrix.hpp"

namespace nnvk {

// The feature structures of one device, chained for vkGetPhysicalDeviceFeatures2 and vkCreateDevice. A structure
// takes part where the device's version contains it or the device has its extension. The chain points into the
// object itself, so it is neither copied nor moved.
class FeatureChain {
  public:
    FeatureChain(uint32_t api_version, const std::vector<std::string>& device_extensions);
    FeatureChain(const FeatureChain&) = delete;
    FeatureChain& operator=(const FeatureChain&) = delete;

    VkPhysicalDeviceFeatures2* head() { return &core_; }

    // Names of the features that are on.
    std::vector<std::string> enabled() const;
    // Leaves on only those features that are on and named here.
    void restrict_to(const std::vector<std::string>& names);
    // Extensions that the chained structures need on a device too old to have them in its core version.
    const std::vector<const char*>& extensions() const { return extensions_; }

  private:
    struct Entry {
        const char* name;
        VkBool32* value;
    };

    VkPhysicalDeviceFeatures2 core_{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
    VkPhysicalDevice16BitStorageFeatures storage16_{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
    VkPhysicalDevice8BitStorageFeatures storage8_{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES};
    VkPhysicalDeviceShaderFloat16Int8Features float16_int8_{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES};
    VkPhysicalDeviceVulkanMemoryModelFeatures memory_model_{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES};
    VkPhysicalDeviceSubgroupSizeControlFeatures subgroup_size_{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
    VkPhysicalDeviceShaderIntegerDotProductFeatures dot_product_{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
    VkPhysicalDeviceCooperativeMatrixFeaturesKHR cooperative_matrix_{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};

    std::vector<Entry> entries_;
    std::vector<const char*> extensions_;
};

// Names of the float controls (properties, which need not be enabled) that a module may declare: shaderRoundingModeRTEFloat16
// by the extension, the others in SPIR-V 1.4, which Vulkan 1.2 takes.
std::vector<const char*> float_features(
    uint32_t api_version, const VkPhysicalDeviceFloatControlsProperties& properties);

// Names ("subgroupBasic", ...) of the subgroup operations that compute shaders may use.
std::vector<std::string> subgroup_features(const VkPhysicalDeviceSubgroupProperties& properties);

} // namespace nnvk
