// The Khronos validation layer with synchronisation validation.
#pragma once

#include <vulkan/vulkan.h>

// Headers before 1.3.272 don't have this extension, but the layer that is installed may.
#ifndef VK_EXT_layer_settings
#define VK_EXT_LAYER_SETTINGS_EXTENSION_NAME "VK_EXT_layer_settings"
constexpr auto VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT = static_cast<VkStructureType>(1000496000);

enum VkLayerSettingTypeEXT { VK_LAYER_SETTING_TYPE_BOOL32_EXT = 0 };

struct VkLayerSettingEXT {
    const char* pLayerName;
    const char* pSettingName;
    VkLayerSettingTypeEXT type;
    uint32_t valueCount;
    const void* pValues;
};

struct VkLayerSettingsCreateInfoEXT {
    VkStructureType sType;
    const void* pNext;
    uint32_t settingCount;
    const VkLayerSettingEXT* pSettings;
};
#endif

namespace nnvk {

// The layers and extensions that an instance is created with to run under the validation layer.
class Validation {
  public:
    // Throws VulkanError where the layer is not installed.
    Validation();

    const char* layer() const;
    // The extension of the layer that `settings` needs.
    const char* extension() const;
    // A structure for the chain of VkInstanceCreateInfo. It lives as long as this object.
    const void* settings(const void* next);

  private:
    uint32_t version_ = 0; // of the layer
    VkValidationFeaturesEXT features_{VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT};
    VkLayerSettingsCreateInfoEXT settings_{VK_STRUCTURE_TYPE_LAYER_SETTINGS_CREATE_INFO_EXT, nullptr, 0, nullptr};
};

} // namespace nnvk
