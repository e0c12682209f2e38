// nnvk's devices.
#pragma once

#include <string>
#include <vector>

namespace nnvk::provider {

struct DeviceRecord {
  std::string name, version;
  bool is_cpu = false;
};

// All devices, the preferred one first. Throws.
std::vector<DeviceRecord> allDevices();
// The device of this name; the preferred one for an empty name. Throws where there is none.
DeviceRecord deviceOf(const std::string& name);

}  // namespace nnvk::provider
