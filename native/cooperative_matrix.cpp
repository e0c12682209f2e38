#include "cooperative_matrix.hpp"

#include <iterator>

#include "error.hpp"
#include "loader.hpp"

namespace nnvk {

namespace {

std::string component_name(uint32_t type) {
    static constexpr const char* kNames[] = {"float16", "float32", "float64", "sint8",  "sint16", "sint32",
                                             "sint64",  "uint8",   "uint16",  "uint32", "uint64"};
    return type < std::size(kNames) ? kNames[type] : std::to_string(type);
}

} // namespace

std::vector<CooperativeMatrix> cooperative_matrices(VkInstance instance, VkPhysicalDevice device) {
    auto list = reinterpret_cast<PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR>(
        vkGetInstanceProcAddr(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
    VkPhysicalDeviceCooperativeMatrixPropertiesKHR stages{};
    stages.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &stages, {}};
    vkGetPhysicalDeviceProperties2(device, &properties);
    if (!list || !(stages.cooperativeMatrixSupportedStages & VK_SHADER_STAGE_COMPUTE_BIT)) {
        return {};
    }
    uint32_t count = 0;
    check(list(device, &count, nullptr), "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    VkCooperativeMatrixPropertiesKHR empty{};
    empty.sType = VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR;
    std::vector<VkCooperativeMatrixPropertiesKHR> rows(count, empty);
    check(list(device, &count, rows.data()), "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
    rows.resize(count);
    std::vector<CooperativeMatrix> matrices;
    for (const auto& row : rows) {
        if (row.scope == VK_SCOPE_SUBGROUP_KHR && !row.saturatingAccumulation) {
            matrices.push_back({row.MSize, row.NSize, row.KSize, component_name(row.AType), component_name(row.BType),
                                component_name(row.CType), component_name(row.ResultType)});
        }
    }
    return matrices;
}

} // namespace nnvk
