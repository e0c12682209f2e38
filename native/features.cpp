#include "features.hpp"

#include <algorithm>

namespace nnvk {

FeatureChain::FeatureChain(uint32_t api_version, const std::vector<std::string>& device_extensions) {
    VkPhysicalDeviceFeatures& core = core_.features;
    entries_ = {{"shaderInt16", &core.shaderInt16},
                {"shaderInt64", &core.shaderInt64},
                {"shaderFloat64", &core.shaderFloat64}};

    void** tail = &core_.pNext;
    auto chain = [&](auto& structure, uint32_t core_version, const char* extension, std::vector<Entry> entries) {
        if (api_version < core_version) {
            if (std::find(device_extensions.begin(), device_extensions.end(), extension) == device_extensions.end()) {
                return;
            }
            extensions_.push_back(extension);
        }
        *tail = &structure;
        tail = &structure.pNext;
        entries_.insert(entries_.end(), entries.begin(), entries.end());
    };
    chain(storage16_, VK_API_VERSION_1_1, VK_KHR_16BIT_STORAGE_EXTENSION_NAME,
          {{"storageBuffer16BitAccess", &storage16_.storageBuffer16BitAccess},
           {"uniformAndStorageBuffer16BitAccess", &storage16_.uniformAndStorageBuffer16BitAccess},
           {"storagePushConstant16", &storage16_.storagePushConstant16}});
    chain(storage8_, VK_API_VERSION_1_2, VK_KHR_8BIT_STORAGE_EXTENSION_NAME,
          {{"storageBuffer8BitAccess", &storage8_.storageBuffer8BitAccess},
           {"uniformAndStorageBuffer8BitAccess", &storage8_.uniformAndStorageBuffer8BitAccess},
           {"storagePushConstant8", &storage8_.storagePushConstant8}});
    chain(float16_int8_, VK_API_VERSION_1_2, VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME,
          {{"shaderFloat16", &float16_int8_.shaderFloat16}, {"shaderInt8", &float16_int8_.shaderInt8}});
    chain(memory_model_, VK_API_VERSION_1_2, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME,
          {{"vulkanMemoryModel", &memory_model_.vulkanMemoryModel}});
    chain(subgroup_size_, VK_API_VERSION_1_3, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME,
          {{"subgroupSizeControl", &subgroup_size_.subgroupSizeControl},
           {"computeFullSubgroups", &subgroup_size_.computeFullSubgroups}});
    chain(dot_product_, VK_API_VERSION_1_3, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME,
          {{"shaderIntegerDotProduct", &dot_product_.shaderIntegerDotProduct}});
    chain(cooperative_matrix_, UINT32_MAX, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME,
          {{"cooperativeMatrix", &cooperative_matrix_.cooperativeMatrix}});
}

std::vector<std::string> FeatureChain::enabled() const {
    std::vector<std::string> names;
    for (const Entry& entry : entries_) {
        // Atomic operations of other shaders have the scope of the device, which this model allows by a feature of its own.
        bool lacks_scope = entry.value == &memory_model_.vulkanMemoryModel && !memory_model_.vulkanMemoryModelDeviceScope;
        if (*entry.value && !lacks_scope) {
            names.emplace_back(entry.name);
        }
    }
    return names;
}

void FeatureChain::restrict_to(const std::vector<std::string>& names) {
    std::vector<VkBool32*> keep;
    for (const Entry& entry : entries_) {
        if (*entry.value && std::find(names.begin(), names.end(), entry.name) != names.end()) {
            keep.push_back(entry.value);
        }
    }
    // The query also turned on features outside of the table, such as robustBufferAccess, which slows every access.
    // These go off, too.
    core_.features = {};
    for (const Entry& entry : entries_) {
        *entry.value = VK_FALSE;
    }
    memory_model_.vulkanMemoryModelAvailabilityVisibilityChains = VK_FALSE;
    storage16_.storageInputOutput16 = VK_FALSE;
    cooperative_matrix_.cooperativeMatrixRobustBufferAccess = VK_FALSE;
    for (VkBool32* value : keep) {
        *value = VK_TRUE;
    }
    memory_model_.vulkanMemoryModelDeviceScope = memory_model_.vulkanMemoryModel;
}

std::vector<const char*> float_features(
    uint32_t api_version, const VkPhysicalDeviceFloatControlsProperties& properties) {
    std::vector<const char*> names;
    auto add = [&](bool has, const char* name) {
        if (has) {
            names.push_back(name);
        }
    };
    // Some devices have one mode for numbers of all widths. Then 32-bit floats are rounded to nearest too, wherever they
    // can be, but their subnormal numbers, which may be slow, are left alone.
    add(properties.shaderRoundingModeRTEFloat16 &&
            (properties.shaderRoundingModeRTEFloat32 ||
             properties.roundingModeIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE),
        "shaderRoundingModeRTEFloat16");
    if (api_version < VK_API_VERSION_1_2) {
        return names;
    }
    add(properties.shaderSignedZeroInfNanPreserveFloat32, "shaderSignedZeroInfNanPreserveFloat32");
    add(properties.shaderSignedZeroInfNanPreserveFloat16, "shaderSignedZeroInfNanPreserveFloat16");
    add(properties.shaderRoundingModeRTEFloat32, "shaderRoundingModeRTEFloat32");
    add(properties.shaderDenormPreserveFloat16 &&
            properties.denormBehaviorIndependence != VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE,
        "shaderDenormPreserveFloat16");
    return names;
}

std::vector<std::string> subgroup_features(const VkPhysicalDeviceSubgroupProperties& properties) {
    static constexpr struct {
        VkSubgroupFeatureFlagBits bit;
        const char* name;
    } kTable[] = {
        {VK_SUBGROUP_FEATURE_BASIC_BIT, "subgroupBasic"},
        {VK_SUBGROUP_FEATURE_VOTE_BIT, "subgroupVote"},
        {VK_SUBGROUP_FEATURE_ARITHMETIC_BIT, "subgroupArithmetic"},
        {VK_SUBGROUP_FEATURE_BALLOT_BIT, "subgroupBallot"},
        {VK_SUBGROUP_FEATURE_SHUFFLE_BIT, "subgroupShuffle"},
        {VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT, "subgroupShuffleRelative"},
        {VK_SUBGROUP_FEATURE_CLUSTERED_BIT, "subgroupClustered"},
        {VK_SUBGROUP_FEATURE_QUAD_BIT, "subgroupQuad"},
    };
    std::vector<std::string> names;
    if (properties.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) {
        for (const auto& row : kTable) {
            if (properties.supportedOperations & row.bit) {
                names.emplace_back(row.name);
            }
        }
    }
    return names;
}

} // namespace nnvk
