#include "validation.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "error.hpp"
#include "loader.hpp"

namespace nnvk {

namespace {

constexpr const char* kLayer = "VK_LAYER_KHRONOS_validation";
// From this version on the layer leaves out what shaders access, unless a setting says otherwise. VK_EXT_layer_settings
// is older. VK_EXT_validation_features can't name that setting.
constexpr uint32_t kLeavesOutShaders = VK_MAKE_API_VERSION(0, 1, 3, 290);

constexpr VkBool32 kOn = VK_TRUE;
constexpr VkLayerSettingEXT kSettings[] = {
    {kLayer, "validate_sync", VK_LAYER_SETTING_TYPE_BOOL32_EXT, 1, &kOn},
    {kLayer, "syncval_shader_accesses_heuristic", VK_LAYER_SETTING_TYPE_BOOL32_EXT, 1, &kOn},
};
constexpr VkValidationFeatureEnableEXT kFeatures[] = {VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT};

} // namespace

Validation::Validation() {
    uint32_t count = 0;
    check(vkEnumerateInstanceLayerProperties(&count, nullptr), "vkEnumerateInstanceLayerProperties");
    std::vector<VkLayerProperties> layers(count);
    check(vkEnumerateInstanceLayerProperties(&count, layers.data()), "vkEnumerateInstanceLayerProperties");
    auto found = std::find_if(layers.begin(), layers.end(),
                              [](const auto& layer) { return !std::strcmp(layer.layerName, kLayer); });
    if (found == layers.end()) {
        throw VulkanError(std::string(kLayer) + " is not installed (Debian: vulkan-validationlayers)",
                          VK_ERROR_LAYER_NOT_PRESENT);
    }
    version_ = found->specVersion;
    features_.enabledValidationFeatureCount = std::size(kFeatures);
    features_.pEnabledValidationFeatures = kFeatures;
    settings_.settingCount = std::size(kSettings);
    settings_.pSettings = kSettings;
}

const char* Validation::layer() const { return kLayer; }

const char* Validation::extension() const {
    return version_ >= kLeavesOutShaders ? VK_EXT_LAYER_SETTINGS_EXTENSION_NAME
                                         : VK_EXT_VALIDATION_FEATURES_EXTENSION_NAME;
}

const void* Validation::settings(const void* next) {
    features_.pNext = next;
    settings_.pNext = next;
    return version_ >= kLeavesOutShaders ? static_cast<const void*>(&settings_) : &features_;
}

} // namespace nnvk
